// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/job_curves.h -- the curves of jobs' numbers, sampled.
//
// Threads  the loop.
// Memory   the feed's. No pointer is NULL.
// Units    as in JobStatus.
// Errors   none: without memory a point is missing.
#ifndef COORDINATOR_CORE_STATUS_JOB_CURVES_H
#define COORDINATOR_CORE_STATUS_JOB_CURVES_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Adds a point to the job's curve in the feed, if the job is RUNNING or
// FINISHING and its last point is a second old. Does nothing without a feed.
void curves_sample(struct coord *c, struct job *job);

// Adds the last point of a job that is about to end, however young the point
// before it is; once, while the job's state and its evidence are there (before
// job_release_work). Does nothing for a job that is PLACING, or without a feed.
void curves_end(struct coord *c, struct job *job);

#endif
