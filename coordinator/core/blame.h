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

// After closure_lost or a failure: the blame is journalled; poison ends the
// job.
void blame_work(struct coord *c, struct work *w, const char *who,
                const char *how);

#endif
