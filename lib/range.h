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

// Prepares closure `c` for pulls and pushes by range. SL_ENOTSUP: its job clips
// by a norm or has tables, which needs the whole gradient. SL_ENOMEM.
// range_release in any case.
enum sl_err range_init(struct sluice_closure *c, struct sl_error *err);
// Frees what range_init made; a closure that was not prepared is allowed.
void range_release(struct sluice_closure *c);

// Empties both vectors for a new step, while no call is under way: parameters
// are pulled anew, and gradients are zero.
void range_begin(struct sluice_closure *c);

// Returns the bytes of the parameters of `shard`.
uint64_t range_bytes(const struct sluice_closure *c, uint32_t shard);

// Gives back the memory of the parameters of `shard`; a pull fetches them anew.
void range_drop_params(struct sluice_closure *c, uint32_t shard);

// Notes that the gradient of `shard` was sent, once for each step. While more
// than RANGE_ROOM_BYTES, of more than two shards, are on their way it waits for
// the oldest answers, and gives the memory of those gradients back. Returns
// SYNC_OK, or how a wait failed; with SYNC_FAILED the reason is in
// c->steps.err. It never returns SYNC_BUSY or SYNC_AGAIN. After a failure the
// closure is only closed.
enum sync_result range_sent(struct sluice_closure *c, uint32_t shard);

#endif
