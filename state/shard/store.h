// SPDX-License-Identifier: Apache-2.0
// state/shard/store.h -- finds the shard.
//
// The shards that this server holds, by (job, shard). A call that found one
// keeps it by a reference, so that it can be taken out, or replaced by what
// was loaded anew, at any moment.
//
// Threads  store_find, store_knows_term: any. The rest: the loop.
// Memory   the store has a reference to each shard in it.
#ifndef STATE_SHARD_STORE_H
#define STATE_SHARD_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "state/shard/shard.h"

struct store;

enum sl_err store_new(struct store **out);
void store_free(struct store *s); // closes all shards; NULL is allowed

// A reference (shard_unref), or NULL.
struct shard *store_find(struct store *s, uint64_t job, uint32_t shard);

// Puts it in, under the numbers of its plan; what was there is closed.
enum sl_err store_put(struct store *s, struct shard *shard);

// Takes it out and closes it, if it is there.
void store_remove(struct store *s, uint64_t job, uint32_t shard);

// The newest term of a coordinator that was heard of. A lease is of a term that
// its shards have heard of: they were admitted in it before. So nobody has an
// attempt of a later one, and one that were believed would fence all others.
void store_note_term(struct store *s, uint64_t term);
bool store_knows_term(const struct store *s, uint64_t term); // any thread

#endif
