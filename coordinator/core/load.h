// SPDX-License-Identifier: Apache-2.0
// coordinator/core/load.h -- one job, made from its rows in the journal.
//
// Threads  the loop.
// Memory   the job is the caller's: job_free. It is in no table and no list.
// Errors   SL_ECORRUPT: its rows cannot be read; those of journal.h; SL_ENOMEM.
#ifndef COORDINATOR_CORE_LOAD_H
#define COORDINATOR_CORE_LOAD_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

enum load_part {
    LOAD_LINE,   // of an ended job: its spec, what is said of it without its
                 // shards, where its cuts lie
    LOAD_STATUS, // and with its shards
    LOAD_WHOLE,  // and its layout, and the cuts themselves
    LOAD_START,  // of any job: all; K6: cuts without an outcome are given one
};

enum sl_err load_job(struct coord *c, const struct journal_job *row,
                     enum load_part part, struct job **out,
                     struct sl_error *err);

#endif
