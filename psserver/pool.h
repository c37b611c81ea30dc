// SPDX-License-Identifier: Apache-2.0
// psserver/pool.h -- buffers for fresh parameters on their way out.
//
// A reply must not change while the transport still sends it, and the shard
// changes with the next push; so an answer carries a copy, taken under the
// shard's lock. Buffers come back when the transport lets go of them and are
// used again: in the steady state an answer allocates nothing.
//
// Threads  any. The pool's lock is held for a few instructions and no other
//          lock is taken under it, so pool_give may run under the transport's.
// Memory   The pool lives until it was freed and every buffer came back; at
//          most POOL_KEEP buffers wait in it, at most POOL_MAX exist.
// Errors   SL_EBUSY: POOL_MAX answers are on their way. SL_ENOMEM.
#ifndef PSSERVER_POOL_H
#define PSSERVER_POOL_H

#include <stddef.h>

#include "common/list.h"
#include "common/status.h"
#include "psserver/region.h"

#define POOL_KEEP 8
#define POOL_MAX 256

struct pool;

struct pool_buf {
    struct region memory;  // of the size that pool_new was told
    struct pool *pool;     // keeps it alive while the buffer is out
    struct list_node node; // in the pool while it waits there
};

enum sl_err pool_new(struct pool **out, size_t bytes);
void pool_free(struct pool *pool); // NULL is allowed

enum sl_err pool_take(struct pool *pool, struct pool_buf **out);
void pool_give(struct pool_buf *buf); // NULL is allowed

#endif
