// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/offers.h -- the work that a job has for a worker.
//
// Offers are derived from evidence (C3), within the window (C5). In one pass
// over the workers evidence stands still and leases only come: an exhausted job
// stays so.
//
// Threads  the loop.
// Memory   an offer's work is the job's, or its evaluation's; it is not leased
//          before leases_give.
// Errors   without memory there is no offer. No pointer is NULL but where it is
//          said. Parts of offers are of a placed job.
#ifndef COORDINATOR_CORE_LEASES_OFFERS_H
#define COORDINATOR_CORE_LEASES_OFFERS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/dispatch.h"

struct work;

// Where a job's next offer is looked for.
struct job_offers {
    uint64_t scan_from; // no closure to issue lies below
    uint64_t scanned;   // job.leases.freed and admissions at the last scan
};

struct offer {
    enum work_kind kind;  // WORK_NONE: nothing
    struct work *work;    // set for all kinds but WORK_TRAIN
    uint64_t closure;     // WORK_TRAIN
    struct work *copy_of; // WORK_TRAIN: the lease to copy, or NULL
};

// Begins a new pass over the job's closures. Those that the last pass found
// nothing in are looked at again only if a closure became free since
// (job->leases.freed), or a shard was admitted.
void offers_begin(struct job *job);

// Returns what the job, which has not ended, has for worker m now; kind
// WORK_NONE: nothing. Whether m is free and suits the job is not looked at.
struct offer offers_for(struct coord *c, struct job *job,
                        const struct member *m);

// Returns for how many ms leases of the job may wait at this worker behind the
// one that it computes (dispatch_most).
double offers_ahead_ms(const struct coord *c, const struct job *job,
                       const struct member *m);

// ---- parts of offers, for the rows of modes (mode.h)

// Returns the first closure that some shard lacks a step of, that is not leased
// and that this worker, or any (NULL), may try; evidence.closures if there is
// none. Closures that were passed over for good are not looked at again until a
// lease ends undone, a shard is admitted, or a tick later
// (job.offers.scan_from).
uint64_t offers_next(struct coord *c, struct job *job, const struct member *m);

// Returns the next closure for the worker as an offer, or a copy of a late one.
struct offer offers_slot(struct coord *c, struct job *job,
                         const struct member *m);

// Returns a range of the running evaluation as an offer.
struct offer offers_range(struct coord *c, struct job *job,
                          const struct member *m);

// Returns the place w of a worker in a ring or a group as an offer, of kind
// WORK_RING; NULL gives one of kind WORK_NONE.
struct offer offers_place(struct work *w);

// Returns true if the job's places must wait. A place holds its worker for
// long: it is not given while a job of a higher priority has nothing to offer
// only because it is still being placed.
bool offers_yields(const struct coord *c, const struct job *job);

// Returns a range, or else the mode's slot, of a job whose shards are served.
struct offer offers_work(struct coord *c, struct job *job,
                         const struct member *m);

// Returns true if the running evaluation has a range for some worker.
bool offers_has_range(const struct job *job);

// Returns true if offers_work has something for some worker; `newcomer` makes
// no difference.
bool offers_work_any(struct coord *c, struct job *job, bool newcomer);

// ---- offers

// Says whether the job, which has not ended, has something for any worker: for
// one that holds none of its leases (`newcomer`), or for one that does. Whether
// it waits in a queue is not looked at.
bool offers_any(struct coord *c, struct job *job, bool newcomer);

#endif
