// SPDX-License-Identifier: Apache-2.0
// coordinator/core/stored.h -- what the store holds that a recovery has to
// know, asked for before it.
//
// A store may not answer for a while, and a recovery that has begun has taken a
// term and counted restarts. So the store is asked first: nothing of the
// journal changes, nobody's loop waits, and while there is no answer it is
// asked again. The recovery then finds all answers here.
//
//   stored_new      the loop: which jobs, which cuts (from the journal)
//   stored_look     a thread that may wait: all of that, of the store
//   coord_new       the loop, with options.stored: stored_highest, ...
//
// Between stored_new and coord_new nobody writes to the journal, or a manifest
// (coord_writes). One that turns up later is too late in any case (K6).
//
// Threads  stored_look: any, one. All else: the loop's, not at the same time.
// Memory   the fs is borrowed; the journal is only for the call. stored_free.
// Errors   a store that does not answer, or does not let us in, is said by
//          stored_look; all that is wrong with something in it by who asks for
//          that.
#ifndef COORDINATOR_CORE_STORED_H
#define COORDINATOR_CORE_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "coordinator/journal/journal.h"

struct stored;

// `seed`: of the cluster's id, if neither the journal nor the store has one.
enum sl_err stored_new(struct stored **out, struct journal *journal,
                       struct fs *fs, const char *store, uint64_t seed,
                       struct sl_error *err);
void stored_free(struct stored *s); // NULL is allowed

// Asks for all of it, and marks a store that is new. Fails only for want of an
// answer, and may be called again then, from the beginning: it comes later, or
// with other keys.
enum sl_err stored_look(struct stored *s, struct sl_error *err);

// Which cluster the store is of, and the hash of its path. SL_ESTATE: not of
// the journal's.
enum sl_err stored_cluster(const struct stored *s, uint64_t *id,
                           uint64_t *store, struct sl_error *err);

// The answers of manifest_highest_job, manifest_highest and manifest_settle.
enum sl_err stored_highest_job(const struct stored *s, uint64_t *job,
                               struct sl_error *err);
enum sl_err stored_highest(struct stored *s, const char *folder, uint64_t *cut,
                           struct sl_error *err);
enum sl_err stored_settle(struct stored *s, const char *path, bool *there,
                          struct sl_error *err);

#endif
