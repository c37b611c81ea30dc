// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/load.h -- one job, made from its rows in the
// journal.
//
// Threads  the loop.
// Memory   the job is the caller's: job_free. It is in no table and no list. No
//          pointer is NULL.
// Errors   SL_ECORRUPT: its rows cannot be read; those of journal.h; SL_ENOMEM;
//          for LOAD_START those of stored_settle. None is fatal here.
#ifndef COORDINATOR_CORE_RECOVERY_LOAD_H
#define COORDINATOR_CORE_RECOVERY_LOAD_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

enum load_part {
    // an ended job's spec, its status without shards, and the paths of its cuts
    LOAD_LINE,
    LOAD_STATUS, // LOAD_LINE, and the shards' part of the status
    LOAD_WHOLE,  // the same, with its layout, and the cuts themselves
    LOAD_START,  // all of any job; cuts without an outcome get one (K6)
};

// Makes *out from `row`, borrowed for the call, and from the job's other rows,
// as far as `part` says; for job_free. A job that has not ended is PLACING; an
// ended one has its state, and only parts that job_release_work leaves. A
// failure leaves *out untouched. LOAD_START also writes to the journal, which
// stays after a failure, and asks c->stored; it is for recover.c alone, the
// other parts are for ended jobs.
enum sl_err load_job(struct coord *c, const struct journal_job *row,
                     enum load_part part, struct job **out,
                     struct sl_error *err);

#endif
