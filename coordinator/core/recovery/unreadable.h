// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/unreadable.h -- a job of the journal that this
// program cannot read: put aside, so that all others go on.
//
// Its rows stay as they are, and so do the memory and files of its psservers: a
// program that can read the rows goes on with the job. Here it counts as ended,
// with the unreadable part as its reason; it can only be deleted.
//
// Threads  the loop.
// Memory   the job is freed like any other: job_free. No pointer is NULL.
// Errors   SL_ENOMEM.
#ifndef COORDINATOR_CORE_RECOVERY_UNREADABLE_H
#define COORDINATOR_CORE_RECOVERY_UNREADABLE_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Makes *out the stand-in of a job from its row, which is borrowed for the
// call: JOB_FAILED, whatever the row says, with a last status and an empty
// spec. *why says what could not be read, as the call begins, and is copied as
// the reason; on failure it is SL_ENOMEM, and *out is as it was.
enum sl_err unreadable_job(const struct coord *c, struct job **out,
                           const struct journal_job *row, struct sl_error *why);

#endif
