// SPDX-License-Identifier: Apache-2.0
// state/shard/shard_store.h -- the shards that this server holds, by (job,
// shard).
//
// A call that found a shard keeps it by a reference, so that the loop can
// remove or replace it at any moment.
//
// Threads  store_find, store_knows_term: any. The rest: the loop.
// Memory   the store has a reference to each shard in it.
// Errors   SL_ENOMEM.
#ifndef STATE_SHARD_SHARD_STORE_H
#define STATE_SHARD_SHARD_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "state/shard/shard.h"

struct shard_table;

// Makes an empty store, of term 0. Returns SL_OK; SL_ENOMEM leaves *out as it
// was.
enum sl_err store_new(struct shard_table **out);
// Closes all shards, drops the references to them and frees the store; no other
// thread uses it. NULL is allowed.
void store_free(struct shard_table *s);

// Returns a reference (shard_unref) to a shard; NULL: the store lacks it.
struct shard *store_find(struct shard_table *s, uint64_t job, uint32_t shard);

// Adds a shard under the numbers of its plan, with a reference of the store's
// own; closes the shard it replaces, and drops the reference to it. Returns
// SL_OK; SL_ENOMEM changes nothing. The caller keeps its own reference. The
// same shard is not put twice.
enum sl_err store_put(struct shard_table *s, struct shard *shard);

// Removes and closes a shard, if the store has it, and drops the store's
// reference.
void store_remove(struct shard_table *s, uint64_t job, uint32_t shard);

// Sets the term of the coordinator that this server listens to. Shards are
// admitted in a term before it gives leases, so an attempt of a later term is
// false and must be refused: it would fence all true ones.
void store_note_term(struct shard_table *s, uint64_t term);

// Returns true if `term` is not above the one that store_note_term was given
// last. Any thread.
bool store_knows_term(const struct shard_table *s, uint64_t term);

#endif
