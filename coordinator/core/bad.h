// SPDX-License-Identifier: Apache-2.0
// coordinator/core/bad.h -- samples of a job that workers cannot read and pass
// over (data.skip_bad), each counted once, whoever finds it and how often.
//
// Nothing of this is journalled while a job runs: workers tell it again, and
// its last status keeps it.
//
// Threads  the loop.
// Memory   the job's.
// Units    samples by number, of either set.
// Errors   without memory a sample is counted when it is told again.
#ifndef COORDINATOR_CORE_BAD_H
#define COORDINATOR_CORE_BAD_H

#include "common/base/buf.h"
#include "coordinator/core/job.h"

// Says whether the job allows so many.
bool bad_fits(const struct job *job, const Sluice__V1__StepMetrics *m);

// Takes what a worker says. False: they are more than the job allows.
bool bad_take(struct job *job, const Sluice__V1__StepMetrics *m);

// Appends how many they are and the names of the first, for people; without
// memory a part.
void bad_names(const struct job *job, struct buf *out);

// Writes number and names into a status; false without memory.
bool bad_status(const struct job *job, Sluice__V1__JobStatus *m);

#endif
