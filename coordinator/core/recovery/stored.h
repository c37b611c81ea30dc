// SPDX-License-Identifier: Apache-2.0
// coordinator/core/recovery/stored.h -- the store's answers to a recovery's
// questions, collected before it begins.
//
// A store may not answer for a while, and a recovery that has begun has taken a
// term and counted restarts. So the store is asked first: the journal is not
// changed, no loop waits, and while there is no answer it is asked again. The
// recovery then finds all answers here.
//
//   stored_new      the loop: which jobs, which cuts (from the journal)
//   stored_look     a thread that may wait: all of that, of the store
//   coord_new       the loop, with options.stored: stored_highest, ...
//
// Between stored_new and coord_new no other code may write to the journal, or a
// manifest (coord_writes). A manifest that turns up later is too late in any
// case (K6).
//
// Threads  stored_look: any, one. All else: the loop's, not at the same time.
// Memory   the fs is borrowed until stored_free; the journal is only for the
//          call; paths are copied. No pointer is NULL but `err`, which may be.
// Errors   stored_look fails for a store that does not answer or refuses
//          access; an error of one file is returned by the function that asks
//          for it, with its outputs undefined.
#ifndef COORDINATOR_CORE_RECOVERY_STORED_H
#define COORDINATOR_CORE_RECOVERY_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "coordinator/journal/journal.h"

struct stored;

// Collects the questions; reads the journal alone. `seed` makes the cluster's
// id, if neither the journal nor the store has one. For stored_free. A failure,
// SL_ENOMEM or one of the journal, leaves *out as it was.
enum sl_err stored_new(struct stored **out, struct journal *journal,
                       struct fs *fs, const char *store, uint64_t seed,
                       struct sl_error *err);
// Frees s. NULL is allowed.
void stored_free(struct stored *s);

// Asks the store all questions, and marks a store that is new. Fails only where
// S3 does not answer or refuses access (SL_EUNAVAIL, SL_ETIMEDOUT, SL_EAUTH,
// SL_EDENIED), and may be called again then, from the beginning: the answer may
// come later, or with other keys. Other errors are for the functions below.
enum sl_err stored_look(struct stored *s, struct sl_error *err);

// Sets *id to the id of the store's cluster, and *store to the hash of its
// path. SL_ESTATE: it is not the journal's; else the error with which the mark
// of the store was read or written (storemark.h). For this function and the
// next ones stored_look must have succeeded.
enum sl_err stored_cluster(const struct stored *s, uint64_t *id,
                           uint64_t *store, struct sl_error *err);

// Sets *job to the highest number of a job that has a folder in the store; 0:
// none has. Returns what manifest_highest_job returned as the store was asked.
enum sl_err stored_highest_job(const struct stored *s, uint64_t *job,
                               struct sl_error *err);

// Sets *cut to the highest number of a cut with a manifest in a job's folder;
// 0: there is none. Returns what manifest_highest returned for it;
// SL_EINTERNAL: the store was not asked about this folder, as it is about those
// of jobs that have not ended.
enum sl_err stored_highest(struct stored *s, const char *folder, uint64_t *cut,
                           struct sl_error *err);

// Sets *there to whether the manifest at `path` is in the store, durably.
// Returns what manifest_settle returned for it; SL_EINTERNAL: the store was not
// asked about this path, as it is about those of cuts without an outcome.
enum sl_err stored_settle(struct stored *s, const char *path, bool *there,
                          struct sl_error *err);

#endif
