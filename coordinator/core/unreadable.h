// SPDX-License-Identifier: Apache-2.0
// coordinator/core/unreadable.h -- a job of the journal that this program
// cannot read: put aside, so that all others go on.
//
// Its rows stay as they are, and so does what its psservers keep: a program
// that can read it goes on with it. Here it counts as ended, with what could
// not be read as its reason; all that can be done is to delete it.
//
// Threads  the loop.
// Memory   the job is as any other: job_free.
// Errors   SL_ENOMEM.
#ifndef COORDINATOR_CORE_UNREADABLE_H
#define COORDINATOR_CORE_UNREADABLE_H

#include "coordinator/core/job.h"

enum sl_err unreadable_job(struct job **out, const struct journal_job *row,
                           struct sl_error *why);

#endif
