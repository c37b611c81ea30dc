// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/blame.h -- attempts that ended badly.
//
// Threads  the loop.
// Memory   the closure's story of the workers that it took down, for people;
//          texts are copied.
// Errors   A journal that cannot be written is fatal.
#ifndef COORDINATOR_CORE_LEASES_BLAME_H
#define COORDINATOR_CORE_LEASES_BLAME_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Counts the independent witnesses for the work, before an attempt at it ends
// badly: workers that could take it, and those that are blamed for it.
void blame_weigh(const struct coord *c, struct work *w);

// Journals the blame after closure_lost, closure_killed or a failure, of the
// worker with the name `who` and the number `witness`; `how` it ended. Its
// lease has ended (leases_end). A closure that FAILED by it is poison, and ends
// the job, unless shards say that it got on (recount.h). A copy is freed: the
// original has the blame. w may be gone then.
void blame_work(struct coord *c, struct work *w, uint64_t witness,
                const char *who, const char *how);

#endif
