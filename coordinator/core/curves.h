// SPDX-License-Identifier: Apache-2.0
// coordinator/core/curves.h -- how the numbers of jobs go, sampled.
//
// Threads  the loop.
// Memory   the feed's.
// Units    as in JobStatus.
// Errors   none: without memory a point is missing.
#ifndef COORDINATOR_CORE_CURVES_H
#define COORDINATOR_CORE_CURVES_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Takes a point, if the job moves and the last one is a second old.
void curves_sample(struct coord *c, struct job *job);

// Takes the last one, of a job that is about to end.
void curves_end(struct coord *c, struct job *job);

#endif
