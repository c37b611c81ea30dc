// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/bad.h -- samples of a job that workers cannot read
// and pass over (data.skip_bad), each counted once, however many workers find
// it.
//
// None of them is journalled while a job runs: workers report them again, and
// the job's last status keeps them.
//
// Threads  the loop.
// Memory   the job's; messages are borrowed for the call.
// Units    samples by number, of either set.
// Errors   without memory a sample is counted when it is reported again.
#ifndef COORDINATOR_CORE_LEASES_BAD_H
#define COORDINATOR_CORE_LEASES_BAD_H

#include "common/base/buf.h"
#include "common/base/map.h"
#include "proto/wire.h"

struct job;

#define JOB_BAD_NAMES 100

// Samples of a job that cannot be read.
struct job_bad {
    struct map by_key;                // sample -> its error, owned
    const char *names[JOB_BAD_NAMES]; // errors of the first samples, in by_key
    size_t names_count;
};

// Says whether the job allows the samples that `m` reports, beside those known.
bool bad_fits(const struct job *job, const Sluice__V1__StepMetrics *m);

// Counts the unreadable samples that a worker reports, and warns of them.
// Returns false if, with new ones, they are more than the job allows; those up
// to one more are counted all the same. True if none was new, whatever is
// counted: ask bad_fits first.
bool bad_take(struct job *job, const Sluice__V1__StepMetrics *m);

// Appends the number of samples and the names of the first, for people; without
// memory a part of that.
void bad_names(const struct job *job, struct buf *out);

// Writes number and names of the samples into a status that has none, as
// copies; returns false without memory, with a part of them there, which
// wire_free frees.
bool bad_status(const struct job *job, Sluice__V1__JobStatus *m);

#endif
