// SPDX-License-Identifier: Apache-2.0
// state/shard/buffer_pool.h -- buffers for fresh parameters on their way out.
//
// A reply must not change while the transport still sends it, and the shard
// changes with the next push; so an answer carries a copy, taken under the
// shard's lock. Buffers come back when the transport lets go of them, and wait
// on a shelf that all shards of the process share: in the steady state an
// answer maps nothing, and what waits does not grow with the shards.
//
// A copy that is only read from now on may be shown: a later answer with the
// parameters of the same version in the same form sends it too, without a
// second copy. That lasts until its memory is used for another copy. A form is
// a number that the caller chooses, below POOL_FORMS.
//
// Threads  any. The locks of pool and shelf are held for a few instructions,
//          one at a time, and no other lock is taken under them, so pool_give
//          may run under the transport's.
// Memory   A pool lives until pool_free was called and every buffer came back;
//          at most POOL_MAX buffers of it are lent. At most POOL_KEEP_BYTES
//          wait on the shelf.
// Errors   SL_EBUSY: POOL_MAX buffers are lent. SL_ENOMEM. *out is untouched.
#ifndef STATE_SHARD_BUFFER_POOL_H
#define STATE_SHARD_BUFFER_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/status.h"
#include "state/base/region.h"

#define POOL_KEEP_BYTES ((size_t)32 << 20) // on the shelf of the process
#define POOL_KEEP 64                       // buffers on that shelf
#define POOL_MAX 256                       // buffers that one shard has lent
#define POOL_FORMS 3

struct pool;

struct pool_buf {
    struct region memory;  // memory of at least the size asked for
    struct pool *pool;     // pool of a lent buffer, which keeps the pool alive
    unsigned owners;       // answers that send it; under the pool's lock
    struct list_node node; // on the shelf, while the buffer waits there
    uint64_t shown_by;     // on the shelf: number of the pool it showed, or 0
    unsigned form;         // on the shelf: form that it showed
    uint64_t version;      // on the shelf: version that it showed
};

// Makes a pool, which has lent no buffer. Returns SL_OK or SL_ENOMEM.
enum sl_err pool_new(struct pool **out);
// Frees the pool, now or when the last buffer that it has lent comes back;
// nothing more may be asked of it. NULL is allowed.
void pool_free(struct pool *pool);

// Lends a buffer of at least `bytes` (buf->memory), with one owner, the caller,
// for pool_give; its contents are undefined, and what it showed is shown no
// more. Maps memory if the shelf has none that fits: not larger than twice
// `bytes`. Returns SL_OK or the errors above.
enum sl_err pool_take(struct pool *pool, size_t bytes, struct pool_buf **out);

// Takes one owner off a buffer; the last one sends it to the shelf, and unmaps
// what is beyond the limits of that. NULL is allowed.
void pool_give(struct pool_buf *buf);

// Shows a lent buffer, which the caller has filled, as the parameters of
// `version` in `form`; no thread may write it any more. A buffer that was shown
// in that form before is shown no more.
void pool_show(struct pool_buf *buf, unsigned form, uint64_t version);

// Returns the buffer with the parameters of `version` in `form`, with one more
// owner (pool_give); NULL: no buffer has them, or one on the shelf has and
// POOL_MAX are lent.
struct pool_buf *pool_shown(struct pool *pool, unsigned form, uint64_t version);

// Returns the bytes on the shelf; for tests.
size_t pool_kept_bytes(void);

#endif
