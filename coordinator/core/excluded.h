// SPDX-License-Identifier: Apache-2.0
// coordinator/core/excluded.h -- workers that a job gives nothing for a while,
// as they did it no good (conduct.h).
//
// Nothing of this is journalled: a coordinator that restarts gives everybody
// another chance.
//
// Threads  the loop.
// Memory   one struct conduct per worker and job, the member's.
// Units    *_ms monotonic.
// Errors   without memory a worker's conduct is not noted.
#ifndef COORDINATOR_CORE_EXCLUDED_H
#define COORDINATOR_CORE_EXCLUDED_H

#include "common/base/buf.h"
#include "coordinator/rules/conduct.h"
#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// How the worker does with the job; NULL: no memory.
struct conduct *excluded_conduct(struct member *m, const struct job *job);

// Is it excluded from the job now?
bool excluded_now(const struct coord *c, const struct member *m,
                  const struct job *job);

// Gives it nothing of the job for a while, and takes what it has of it.
void excluded_put(struct coord *c, struct member *m, struct job *job,
                  enum conduct_why why);

// Excludes it if that is due, and somebody else can go on.
void excluded_judge(struct coord *c, struct member *m, struct job *job);

// That its numbers are not finite is its own fault, not the job's.
bool excluded_excuses(const struct coord *c, struct member *m,
                      const struct job *job);

// It is given something of the job: is it the first time after a while?
void excluded_readmit(const struct coord *c, struct member *m,
                      const struct job *job);

// Why it is given nothing, for people; without memory a part of it.
void excluded_reason(const struct coord *c, const struct member *m,
                     struct buf *out);

#endif
