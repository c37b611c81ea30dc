// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/offers.h -- the work that a job has for a worker.
//
// Offers are derived from evidence (C3), within the window (C5). In one pass
// over the workers evidence stands still and leases only come: an exhausted job
// stays so. A job that is not placed yet has its probe alone, the first look at
// its data.
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

// Begins a new pass over the job's closures: the next offers_next starts at the
// first closure again if one became free (job->leases.freed) or a shard was
// admitted since the last pass; else where that pass found nothing before.
void offers_begin(struct job *job);

// Returns the work that the job has for worker m now; kind WORK_NONE: none, as
// where the job rests, waits in its queue or excludes m, or m has a place in a
// ring or group of another job. The job has not ended. Does not check whether m
// is free and suits the job.
struct offer offers_for(struct coord *c, struct job *job,
                        const struct member *m);

// Returns how many leases of the job a worker may hold at most:
// DISPATCH_LEASES_MOST or, if they are more and leave whole, those of a
// contribution of several closures and of the next one.
uint32_t offers_leases_most(const struct job *job);
// Returns how many milliseconds the job's leases that wait at worker m, behind
// the one that it computes, may last together: ahead_ms of dispatch_most.
// INFINITY where a contribution or a stream takes as many as it wants.
double offers_ahead_ms(struct coord *c, struct job *job,
                       const struct member *m);

// ---- parts of offers, for the rows of modes (mode.h)

// Returns the first closure that some shard lacks a step of, that is neither
// leased nor held by an open round, that may be issued now (C5,
// evaluations_limit), and that worker m, or some worker if m is NULL, may try;
// evidence.closures if there is none. Closures found useless are skipped by the
// next call as well, until a lease ends undone or a shard is admitted
// (offers_begin).
uint64_t offers_next(struct coord *c, struct job *job, const struct member *m);

// Returns an offer of the next closure for worker m or, if there is none, of a
// copy of a slot that should have one (copies_next); kind WORK_NONE: neither,
// or m is to avoid that.
struct offer offers_slot(struct coord *c, struct job *job,
                         const struct member *m);

// Returns an offer of a range of the running evaluation to worker m; kind
// WORK_NONE: no evaluation runs, or it has no range for m.
struct offer offers_range(struct coord *c, struct job *job,
                          const struct member *m);

// Returns an offer, of kind WORK_RING, of the place w in a ring or a group. w
// NULL: kind WORK_NONE.
struct offer offers_place(struct work *w);

// Returns true if workers are not to be given places of the job now, since a
// job of a higher priority, external if this one is, is still PLACING (neither
// queued nor paused by I7) and a psserver is attached. A place holds its worker
// for long.
bool offers_yields(const struct coord *c, const struct job *job);

// Returns an offer to worker m of a range or, while the job is RUNNING, of what
// the mode's `slot` has. Kind WORK_NONE: nothing, or a shard is not served.
struct offer offers_work(struct coord *c, struct job *job,
                         const struct member *m);

// Returns true if the running evaluation has a range for some worker.
bool offers_has_range(const struct job *job);

// Returns true if some worker may be offered a range or, while the job is
// RUNNING, what offers_slot has, whatever the mode's `slot` is; false while a
// shard is not served. Skips closures as offers_next does. `newcomer` is
// ignored. For `offers` of mode.h: the job has not ended, and does not rest.
bool offers_work_any(struct coord *c, struct job *job, bool newcomer);

// ---- offers

// Returns true if the job, which has not ended, has something for some worker:
// for one that holds none of its leases if `newcomer`, else for one that does.
// A job that is not placed: whether its probe can be leased. False for a job
// that rests. Does not check whether it waits in a queue.
bool offers_any(struct coord *c, struct job *job, bool newcomer);

#endif
