// SPDX-License-Identifier: Apache-2.0
// state/shard/pool.h -- buffers for fresh parameters on their way out.
//
// A reply must not change while the transport still sends it, and the shard
// changes with the next push; so an answer carries a copy, taken under the
// shard's lock. Buffers come back when the transport lets go of them, and wait
// on a shelf that all shards of the process share: in the steady state an
// answer maps nothing, and what waits does not grow with the shards.
//
// A copy that is only read from now on may be shown: who wants the parameters
// of the same version in the same form sends it too, and nothing is copied
// twice. That lasts until its memory is wanted for another. A form is a number
// of the caller's, below POOL_FORMS.
//
// Threads  any. The locks of pool and shelf are held for a few instructions,
//          one at a time, and no other lock is taken under them, so pool_give
//          may run under the transport's.
// Memory   The pool lives until it was freed and every buffer came back; at
//          most POOL_MAX buffers of it are out. POOL_KEEP_BYTES at most wait
//          on the shelf.
// Errors   SL_EBUSY: POOL_MAX answers are on their way. SL_ENOMEM.
#ifndef STATE_SHARD_POOL_H
#define STATE_SHARD_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/status.h"
#include "state/shard/region.h"

#define POOL_KEEP_BYTES ((size_t)32 << 20) // of the process
#define POOL_KEEP 64                       // buffers, likewise
#define POOL_MAX 256                       // of one shard
#define POOL_FORMS 3

struct pool;

struct pool_buf {
    struct region memory;  // at least of the size that was asked for
    struct pool *pool;     // keeps it alive while the buffer is out
    unsigned owners;       // under the lock of the pool
    struct list_node node; // on the shelf while it waits there
    uint64_t shown_by;     // while it does: the number of a pool, or 0
    unsigned form;         // what it showed
    uint64_t version;
};

enum sl_err pool_new(struct pool **out);
void pool_free(struct pool *pool); // NULL is allowed

enum sl_err pool_take(struct pool *pool, size_t bytes, struct pool_buf **out);
void pool_give(struct pool_buf *buf); // NULL is allowed

// Nobody writes it any more: it has the parameters of this version.
void pool_show(struct pool_buf *buf, unsigned form, uint64_t version);

// The buffer that has them, with one owner more (pool_give); NULL: there is
// none, or not any more.
struct pool_buf *pool_shown(struct pool *pool, unsigned form, uint64_t version);

// What waits on the shelf. For tests.
size_t pool_kept_bytes(void);

#endif
