// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/excluded.h -- workers that a job gives nothing for a
// while, because of their bad conduct (conduct.h).
//
// Exclusions are not journalled: a coordinator that restarts gives every worker
// another chance.
//
// Threads  the loop.
// Memory   one struct conduct per worker and job, the member's. No pointer is
//          NULL.
// Units    *_ms monotonic.
// Errors   without memory a worker's conduct is not noted, and it is not
//          excluded. Functions that take leases back may write the journal, and
//          a failure is fatal (c->dead).
#ifndef COORDINATOR_CORE_LEASES_EXCLUDED_H
#define COORDINATOR_CORE_LEASES_EXCLUDED_H

#include "common/base/buf.h"
#include "coordinator/rules/conduct.h"
#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Returns the worker's record of conduct in the job, made if there is none; it
// belongs to the member and is valid until that is gone or the job ends. NULL:
// no memory.
struct conduct *excluded_conduct(struct member *m, const struct job *job);

// Returns true if the worker is excluded from the job now.
bool excluded_now(const struct coord *c, const struct member *m,
                  const struct job *job);

// Returns true if another worker than m can go on with the job: it is attached,
// suits the job (job_suits), is READY, owes no revoked attempt, and is not
// excluded from the job.
bool excluded_replaceable(const struct coord *c, const struct member *m,
                          const struct job *job);

// Excludes worker m from the job for reason `why`, from now on and in place of
// an exclusion that runs, for as long as conduct_exclude says (CONDUCT_AGAIN_MS
// for CONDUCT_DATA and CONDUCT_SAYS, else longer each time); takes back its
// leases of the job: pointers to these works may be gone then. Adds an event.
// Does not check whether another worker can go on.
void excluded_put(struct coord *c, struct member *m, struct job *job,
                  enum conduct_why why);

// Excludes the worker as excluded_put does; the log and the event also show
// `said`, borrowed, what the worker itself said about it.
void excluded_told(struct coord *c, struct member *m, struct job *job,
                   enum conduct_why why, const char *said);

// Excludes the worker if its conduct demands it and another worker can go on.
// Does nothing if it is excluded, or the job has ended.
void excluded_judge(struct coord *c, struct member *m, struct job *job);

// Returns true if numbers that are not finite are the fault of worker m, not of
// the job: m is excluded now, or it alone has them (conduct_alone) while
// another worker can go on. False without memory. Makes m's record of conduct
// if there is none, as excluded_readmit does.
bool excluded_excuses(const struct coord *c, struct member *m,
                      const struct job *job);

// Ends m's exclusion from the job if its time is over, and logs that; to be
// called as the worker is given a lease again. Does nothing otherwise.
void excluded_readmit(const struct coord *c, struct member *m,
                      const struct job *job);

// Appends, for people, why worker m is given nothing: a revoked attempt that it
// still computes, its reason for draining or how it was lost, and the jobs that
// exclude it. `out` is empty before. Appends nothing if there is no reason;
// without memory a part.
void excluded_reason(const struct coord *c, const struct member *m,
                     struct buf *out);

#endif
