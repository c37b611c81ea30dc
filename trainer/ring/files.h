// SPDX-License-Identifier: Apache-2.0
// trainer/ring/files.h -- the removal of files of cuts from a rank's
// store.
//
// Threads  the loop; the work is done on the pool.
// Memory   arguments are copied; the env outlives the work.
// Errors   none: a file that stays only takes space, and is logged. Without
//          memory nothing is deleted, or logged.
#ifndef TRAINER_RING_FILES_H
#define TRAINER_RING_FILES_H

#include "trainer/ring/seat.h"

// The parts of the name of a job's folder.
struct files_job {
    const char *name;
    uint64_t job, uid;
};

// Deletes our files of a part that are older than the newest tag of the Keep
// and not named by it (K3). Does nothing for a Keep without tags or, here and
// below, if the env has no store.
void files_keep(const struct ring_env *env, struct files_job j,
                const Sluice__V1__Keep *m);

// Deletes all snapshots of a job in the env's store, of every part: where ranks
// share a store, also those of the others. No rank writes one any more, and the
// job is not to be resumed from them.
void files_delete(const struct ring_env *env, uint64_t job, uint64_t uid);

#endif
