// SPDX-License-Identifier: Apache-2.0
// coordinator/service/notes.h -- from the thread of tasks to the audit log:
// queues that were made and deleted, and the callers that did it.
//
// Threads  notes_take: that of tasks; the line is written on the loop, soon.
// Memory   the struct is the caller's, and holds until the loop has run the
//          posted tasks; changes are copied.
// Errors   without memory the line is missing, and the daemon's log says so.
#ifndef COORDINATOR_SERVICE_NOTES_H
#define COORDINATOR_SERVICE_NOTES_H

#include "common/run/loop.h"
#include "coordinator/service/api.h"
#include "coordinator/tasks/tasks.h"

struct notes {
    struct loop *loop; // borrowed, both
    struct api *api;
};

// Posts a copy of *change to the loop, where it becomes a line of the audit log
// (api_note). `notes` is a struct notes. For tasks_options.changed.
// change->call must live as long as the process.
void notes_take(void *notes, const struct tasks_change *change);

#endif
