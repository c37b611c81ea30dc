// SPDX-License-Identifier: Apache-2.0
// state/shard/moments.h -- the moments of a worker's own optimizer, kept beside
// the shard (train.inner.moments store).
//
// A worker that takes steps by itself has moments that no other one has, and
// they die with it. So a push may bring those that its contribution left. They
// are the shard's when the contribution is counted, and not before (L9): a
// worker that begins anew is given them with the parameters that they belong
// to. They count nothing. One set is kept, of the contribution that brought
// some last, whatever worker it is from.
//
//   offer      of the push under way
//     hold       its contribution is held, or will be counted at once
//   round      what is held was counted
//
// A round is computed again from before it where another shard lacks it; so the
// set from before the last round is kept until the next one is held.
//
// Threads  the shard's lock; moments_take, and what a set has: any.
// Memory   counted references: a set never changes.
// Units    elements of the shard, vector behind vector.
// Errors   a call that fails has changed nothing. `err` may be NULL.
#ifndef STATE_SHARD_MOMENTS_H
#define STATE_SHARD_MOMENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/plan.h"

struct moments_set {
    _Atomic unsigned refs;
    uint64_t closure; // first one of the contribution that left them
    uint64_t t;       // updates that they have seen; at least 1
    size_t bytes;
    uint8_t data[]; // plan.moments vectors, of plan.moments_wire
};

struct moments {
    struct moments_set *kept;    // a reference; NULL: none
    struct moments_set *before;  // if `changed`: kept before the last round
    struct moments_set *held;    // of a contribution that is not counted
    struct moments_set *offered; // borrowed: of the push under way
    bool changed;
};

// Returns the bytes of a set; 0: the shard keeps none.
static inline size_t moments_bytes(const struct plan *p)
{
    return p->moments * plan_wire_bytes(p, p->moments_wire);
}

// Makes a set of a shard that keeps some, with one reference, and counts its
// bytes (row_memory_add_dense); its data is not initialized. Returns NULL
// without memory.
struct moments_set *moments_new(const struct plan *p, uint64_t closure,
                                uint64_t t);
// Takes one more reference and returns `m`; NULL is allowed, here and below.
struct moments_set *moments_ref(struct moments_set *m);
// Drops a reference; the last one frees the set, and takes its bytes off
// (row_memory_drop_dense).
void moments_unref(struct moments_set *m);

// Makes a set of what a push brings behind its rows (push->rows), with one
// reference, and leaves *out if it brings none (push->moments_t is 0). Returns
// SL_OK in both cases; SL_EINVAL: the shard keeps none, or its size is wrong;
// SL_ENUMERIC: an element is not finite; SL_ENOMEM.
enum sl_err moments_take(struct moments_set **out, const struct plan *p,
                         const struct wire_push *push, struct sl_error *err);

// Names the set of the push under way, which is borrowed until the next offer;
// NULL: it brings none.
void moments_offer(struct moments *m, struct moments_set *set);
// Holds what was offered, if anything was, in place of what is held, with a
// reference, and drops the set from before the last round.
void moments_hold(struct moments *m);
// Ends a round, or an update, of closures [first, first + count): what is held
// of one of them is kept now. What is held of others is dropped, and so is the
// set from before the round before.
void moments_round(struct moments *m, uint64_t first, uint64_t count);
// Returns what is kept now, or with `past` what was before the last round, if
// that round has changed it and none is held since; NULL: none. Borrowed until
// the next change.
struct moments_set *moments_of(const struct moments *m, bool past);
// Drops all references but that of the offer. All zeroes is allowed.
void moments_release(struct moments *m);

#endif
