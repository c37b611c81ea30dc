// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/blame.h -- attempts that ended badly.
//
// A closure becomes poison by the blame of enough witnesses: workers that are
// independent, as they have different certificates and hosts (rules/witness.h).
//
// Threads  the loop.
// Memory   the closure's story of the workers that it took down, for people;
//          texts are copied. No pointer is NULL.
// Errors   A journal that cannot be written is fatal (c->dead).
#ifndef COORDINATOR_CORE_LEASES_BLAME_H
#define COORDINATOR_CORE_LEASES_BLAME_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Sets the number of independent witnesses of w's closure (closure_witnesses):
// workers that could take it, and those that are blamed for it. To be called
// before an attempt at it ends badly.
void blame_weigh(const struct coord *c, struct work *w);

// Journals that the worker with the name `who` and the witness number `witness`
// is blamed for w, after closure_lost, closure_killed or a failure; `how` says
// for people how its attempt ended, "lost" if the worker went without a word
// (work.vanished). The lease has ended (leases_end). A closure that has become
// FAILED by it is poison and ends the job as FAILED, or for a range its
// evaluation alone (evaluations_fail), unless shards are asked first how far it
// got (recount.h). Of a copy the original takes the blame, and the copy is
// freed. w may be gone then. Only blame for training is journalled.
void blame_work(struct coord *c, struct work *w, uint64_t witness,
                const char *who, const char *how);

#endif
