// SPDX-License-Identifier: Apache-2.0
// coordinator/core/blame.h -- attempts that ended badly.
//
// Threads  the loop.
// Memory   the closure's story of whom it took down, for people.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_BLAME_H
#define COORDINATOR_CORE_BLAME_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Journals the blame after closure_lost or a failure; ends the job if the
// closure is poison. A copy is freed: what it is a copy of has the blame.
void blame_work(struct coord *c, struct work *w, const char *who,
                const char *how);

enum blame_why {
    BLAME_LOST,   // gone or silent: what it computed is suspect
    BLAME_REDIAL, // the same process came back on a new stream: nobody's fault
};

// Takes the leases of a worker that is gone or silent. The oldest is what it
// computed, and is blamed; the others waited behind it.
void blame_gone(struct coord *c, struct member *m, enum blame_why why);

#endif
