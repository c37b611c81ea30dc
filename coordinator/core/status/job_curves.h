// SPDX-License-Identifier: Apache-2.0
// coordinator/core/status/job_curves.h -- the curves of jobs' numbers, sampled.
//
// Threads  the loop.
// Memory   the feed's.
// Units    as in JobStatus.
// Errors   none: without memory a point is missing.
#ifndef COORDINATOR_CORE_STATUS_JOB_CURVES_H
#define COORDINATOR_CORE_STATUS_JOB_CURVES_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Takes a point of the job's curve, if the job runs or finishes and the last
// point is a second old. Does nothing without a feed.
void curves_sample(struct coord *c, struct job *job);

// Takes the last point, of a job that is about to end: before its state and its
// evidence go. Does nothing for one that is PLACING, or without a feed.
void curves_end(struct coord *c, struct job *job);

#endif
