// SPDX-License-Identifier: Apache-2.0
// worker/lease/reading.h -- the batches of a lease, which are read while others
// are computed.
//
// Threads  the compute thread.
// Memory   what is read belongs to the lease until task_unprepare.
// Errors   of opening the data; see task_prepare.
#ifndef WORKER_LEASE_READING_H
#define WORKER_LEASE_READING_H

#include "common/base/status.h"
#include "trainer/lease/lease.h"
#include "worker/data/input.h"
#include "worker/lease/job.h"

// Starts reading the batches of a training lease or an evaluation, if that was
// not done yet; does not wait for them, but may open the data. Beats of reading
// go to the lease's own pulse, those of opening to job->pulse. SL_OK also when
// there is nothing to read. On failure nothing is read. `err` may be NULL.
enum sl_err task_prepare(struct input *input, struct worker_job *job,
                         struct lease *l, struct sl_error *err);

// Closes the lease's reading, before its job is freed, and waits for a read
// that is under way; does nothing if none is open. No input_get of it may be
// under way; batches on loan are to be put back as before.
void task_unprepare(struct input *input, struct lease *l);

#endif
