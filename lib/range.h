// SPDX-License-Identifier: Apache-2.0
// lib/range.h -- a closure that holds parameters and gradient in memory a few
// shards at a time.
//
// The vectors are there, as address space (space.h): what was pulled is given
// back when it was copied, what was pushed when its answer is there.
//
// Threads  the user's.
// Memory   range_release.
// Units    shards; bytes.
// Errors   of sync.h. `err` may be NULL.
#ifndef LIB_RANGE_H
#define LIB_RANGE_H

#include "lib/inner.h"

#define RANGE_ROOM_BYTES ((uint64_t)64 << 20) // on their way at one time
#define RANGE_NO_SHARD UINT32_MAX

// Prepares closure `c`, with its job and ranges set, for pulls and pushes by
// range. SL_ENOTSUP: its job clips by a norm, which needs the whole gradient
// (jobs_take refuses one with tables); SL_ENOMEM. Call range_release in any
// case.
enum sl_err range_init(struct sluice_closure *c, struct sl_error *err);
// Frees what range_init made, once; a closure that was not prepared is allowed.
void range_release(struct sluice_closure *c);

// Empties both vectors for a new step: parameters are pulled anew, and the
// gradient is zeros. No pull or push of the closure is under way.
void range_begin(struct sluice_closure *c);

// Returns the size of the parameters of `shard` in bytes.
uint64_t range_bytes(const struct sluice_closure *c, uint32_t shard);

// Gives the memory of the parameters of `shard` back; they read as zeros until
// a pull fetches them anew.
void range_drop_params(struct sluice_closure *c, uint32_t shard);

// Notes that the gradient of `shard` was sent, once for each step. While more
// than RANGE_ROOM_BYTES, of more than two shards, have no answer yet, waits for
// the oldest answers and gives the memory of those gradients back. Returns
// SYNC_OK, or why a wait failed (SYNC_STOPPED, SYNC_FENCED, SYNC_EARLY, or
// SYNC_FAILED with the reason in c->steps.err; never SYNC_BUSY or SYNC_AGAIN).
// After a failure the closure can only be closed.
enum sync_result range_sent(struct sluice_closure *c, uint32_t shard);

#endif
