// SPDX-License-Identifier: Apache-2.0
// coordinator/core/offers.h -- the work that a job has for a worker.
//
// Offers are derived from evidence (C3), within the window (C5). In one pass
// over the workers evidence stands still and leases only come: an exhausted job
// stays so.
//
// Threads  the loop.
// Memory   an offer's work is the job's.
// Errors   without memory there is no offer.
#ifndef COORDINATOR_CORE_OFFERS_H
#define COORDINATOR_CORE_OFFERS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "coordinator/rules/dispatch.h"

struct offer {
    enum work_kind kind;  // WORK_NONE: nothing
    struct work *work;    // set for all kinds but WORK_TRAIN
    uint64_t closure;     // WORK_TRAIN
    struct work *copy_of; // WORK_TRAIN: the lease to copy, or NULL
};

// Begins a new pass: an exhausted job is looked at again.
void offers_begin(struct job *job);

// Returns what the job has for worker m now; kind WORK_NONE: nothing.
struct offer offers_for(struct coord *c, struct job *job,
                        const struct member *m);

// Returns for how many ms leases of the job may wait at this worker behind the
// one that it computes (dispatch_most).
double offers_ahead_ms(const struct coord *c, const struct job *job,
                       const struct member *m);

// Says whether the job has something for any worker: for one that holds none of
// its leases (`newcomer`), or for one that does.
bool offers_any(struct coord *c, struct job *job, bool newcomer);

#endif
