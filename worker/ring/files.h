// SPDX-License-Identifier: Apache-2.0
// worker/ring/files.h -- the removal of a rank's files of cuts.
//
// Threads  the loop; the work is done on the pool.
// Memory   arguments are copied; the env outlives the work.
// Errors   none: a file that stays only takes space, and is logged.
#ifndef WORKER_RING_FILES_H
#define WORKER_RING_FILES_H

#include "worker/ring/seat.h"

// What a job's folder is called by.
struct files_job {
    const char *name;
    uint64_t job, uid;
};

// Deletes what a Keep does not name: our files of a part below the newest tag
// (K3).
void files_keep(const struct ring_env *env, struct files_job j,
                const Sluice__V1__Keep *m);

// Deletes all of a job's files.
void files_delete(const struct ring_env *env, uint64_t job, uint64_t uid);

#endif
