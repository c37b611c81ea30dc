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

// Marks in needed[i] that the job's cut i is yet to be evaluated.
void evaluations_need(const struct job *job, bool *needed);

#endif
