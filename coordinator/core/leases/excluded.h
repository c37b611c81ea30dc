// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/excluded.h -- workers that a job gives nothing for a
// while, because of their bad conduct (conduct.h).
//
// Exclusions are not journalled: a coordinator that restarts gives every worker
// another chance.
//
// Threads  the loop.
// Memory   one struct conduct per worker and job, the member's.
// Units    *_ms monotonic.
// Errors   without memory a worker's conduct is not noted, and it is not
//          excluded.
#ifndef COORDINATOR_CORE_LEASES_EXCLUDED_H
#define COORDINATOR_CORE_LEASES_EXCLUDED_H

#include "common/base/buf.h"
#include "coordinator/rules/conduct.h"
#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Returns the worker's record of conduct in the job, and makes it if there is
// none. It is the member's, and valid as long as the member. NULL: no memory.
struct conduct *excluded_conduct(struct member *m, const struct job *job);

// Says whether the worker is excluded from the job now.
bool excluded_now(const struct coord *c, const struct member *m,
                  const struct job *job);

// Says whether another worker than m can go on with the job: it is attached,
// suits, is ready, owes nothing and is not excluded.
bool excluded_replaceable(const struct coord *c, const struct member *m,
                          const struct job *job);

// Excludes the worker from the job for a while (conduct_exclude), and takes its
// leases of the job: pointers to these may be gone then. Whether another worker
// can go on is the caller's to ask.
void excluded_put(struct coord *c, struct member *m, struct job *job,
                  enum conduct_why why);

// Excludes the worker likewise; `said`, which is not kept, is its own word on
// it, for people.
void excluded_told(struct coord *c, struct member *m, struct job *job,
                   enum conduct_why why, const char *said);

// Excludes the worker if its conduct demands it and another worker can go on.
// Does nothing if it is excluded, or the job has ended.
void excluded_judge(struct coord *c, struct member *m, struct job *job);

// Says whether numbers that are not finite are the fault of the worker, not of
// the job: it is excluded now, or alone with them (conduct_alone) while another
// worker can go on. False without memory.
bool excluded_excuses(const struct coord *c, struct member *m,
                      const struct job *job);

// Ends an exclusion that is over, as the worker is given something again.
void excluded_readmit(const struct coord *c, struct member *m,
                      const struct job *job);

// Appends why the worker is given nothing, for people; without memory a part.
void excluded_reason(const struct coord *c, const struct member *m,
                     struct buf *out);

#endif
