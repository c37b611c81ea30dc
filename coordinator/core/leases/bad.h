// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/bad.h -- samples of a job that workers cannot read
// and pass over (data.skip_bad), each counted once, however many workers find
// it.
//
// None of them is journalled while a job runs: workers report them again, and
// the job's last status keeps them.
//
// Threads  the loop.
// Memory   the job's; messages are borrowed for the call. No pointer is NULL.
// Units    samples by number, of the training or the test set.
// Errors   without memory a sample is counted when it is reported again.
#ifndef COORDINATOR_CORE_LEASES_BAD_H
#define COORDINATOR_CORE_LEASES_BAD_H

#include "common/base/buf.h"
#include "common/base/map.h"
#include "proto/wire.h"

struct job;

#define JOB_BAD_NAMES 100 // most samples that are named

// Samples of a job that cannot be read.
struct job_bad {
    struct map by_key;                // sample -> its error, owned
    const char *names[JOB_BAD_NAMES]; // errors of the first samples, in by_key
    size_t names_count;
};

// Returns true if the job allows the samples that the report `m` names: with
// those known they are no more than data.skip_bad, or none is new. Numbers that
// the job's data does not have are passed over, here and in bad_take.
bool bad_fits(const struct job *job, const Sluice__V1__StepMetrics *m);

// Counts the unreadable samples of the report `m` that are new, and sets the
// job's warning. Returns false if there are new ones and all together are more
// than the job allows (at most one more than that is counted); else true. True
// also if none was new: ask bad_fits first.
bool bad_take(struct job *job, const Sluice__V1__StepMetrics *m);

// Appends the number of unreadable samples and the names of the first ones, 10
// at most, for people; without memory a part of that.
void bad_names(const struct job *job, struct buf *out);

// Sets the number and the names of the unreadable samples in the status `m`,
// which has none yet, as copies. Returns true; or false without memory, with a
// part of them there, which wire_free frees.
bool bad_status(const struct job *job, Sluice__V1__JobStatus *m);

#endif
