// SPDX-License-Identifier: Apache-2.0
// coordinator/core/doubts.h -- what a worker says against a job: that its data
// is not there, or is other data than was seen first, that it cannot be
// trained, that more samples cannot be read than may be passed over.
//
// One worker's word puts that worker aside for this job, and it is asked again
// after CONDUCT_AGAIN_MS: a folder that is half copied, or not mounted, costs
// one worker. The job fails when all who are there say so, and none was lost a
// moment ago that had got on with it; or when more independent witnesses
// (witness.h) found the same other data than stand for what was found first: a
// job's samples keep their numbers, so it cannot go on with theirs.
//
// Nothing of this is journalled.
//
// Threads  the loop.
// Memory   what others found is the job's, JOB_DOUBTS at most.
// Errors   without memory nobody is put aside, and the job fails.
#ifndef COORDINATOR_CORE_DOUBTS_H
#define COORDINATOR_CORE_DOUBTS_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Takes an AttemptFailed with job_error. False: the job has failed by it. True:
// doubts_put_aside is due, once the attempt has ended.
bool doubts_heard(struct coord *c, struct member *m, struct job *job,
                  const Sluice__V1__AttemptFailed *message);

// It says something of the data alone: no closure is to blame for that.
bool doubts_data(const Sluice__V1__AttemptFailed *message);

// Puts the worker aside, with what it said. Its leases of the job end.
void doubts_put_aside(struct coord *c, struct member *m, struct job *job,
                      const Sluice__V1__AttemptFailed *message);

// Takes samples that a worker cannot read. False: they are too many, and it was
// put aside, or the job has failed.
bool doubts_samples(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__StepMetrics *metrics);

// The worker has looked at the data first, and what it found is believed.
void doubts_first(struct job *job, const struct member *m);

// The worker gets on with the job: it says nothing against it any more.
void doubts_over(struct coord *c, struct member *m, struct job *job);

#endif
