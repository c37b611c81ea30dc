// SPDX-License-Identifier: Apache-2.0
// coordinator/service/notes.h -- from the thread of tasks to the audit log:
// which queues were made and deleted, by whom.
//
// Threads  notes_take: that of tasks; the line is written on the loop, soon.
// Memory   the struct is the caller's, and holds until the loop has run what
// was
//          posted; what is passed in is copied.
// Errors   without memory the line is missing, and the daemon's log says so.
#ifndef COORDINATOR_SERVICE_NOTES_H
#define COORDINATOR_SERVICE_NOTES_H

#include "common/run/loop.h"
#include "coordinator/service/api.h"
#include "coordinator/tasks/tasks.h"

struct notes {
    struct loop *loop;
    struct api *api;
};

// For tasks_options.changed.
void notes_take(void *notes, const struct tasks_change *change);

#endif
