// SPDX-License-Identifier: Apache-2.0
// coordinator/core/evaluations.h -- evaluations of a job: begun when a cut
// holds the epoch, journalled when every range is in.
//
// Threads  the loop.
// Memory   job->evaluation, while one runs.
// Errors   without memory one is begun later.
#ifndef COORDINATOR_CORE_EVALUATIONS_H
#define COORDINATOR_CORE_EVALUATIONS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Ends the one that is complete, begins the next one that is due.
void evaluations_check(struct coord *c, struct job *job);

// A range of the one that runs cannot be evaluated: it has no result, and the
// job goes on.
void evaluations_fail(struct coord *c, struct job *job, const char *why);

// Says whether one runs or is due.
bool evaluations_pending(const struct job *job);

// Marks in needed[i] that the job's cut i is yet to be evaluated, or is the
// best of a callback.
void evaluations_need(const struct job *job, bool *needed);

// Marks of evaluate.every_steps that so many steps reach; 0: it is by epochs.
uint32_t evaluations_marks(const struct job *job, uint64_t steps);

// Nothing at or above this closure may be issued: before it the next evaluation
// is, and callbacks may change how training goes on (D2). And nothing above
// evaluations_limit: not every shard knows the rate of it (D1).
uint64_t evaluations_hold(const struct job *job);
uint64_t evaluations_limit(const struct job *job);

// All below the hold is counted: training waits.
bool evaluations_hold_it(const struct job *job);

// The rates, and how far it may go: before its generation begins.
void evaluations_tell_rank(struct coord *c, const struct job *job,
                           uint64_t member);

#endif
