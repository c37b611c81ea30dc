// SPDX-License-Identifier: Apache-2.0
// worker/compile/overlap.h -- when a shard must be fresh, and when it may be
// sent.
//
// A shard is a range of elements of the flat vectors. Before the first op that
// reads its parameters or writes its gradient, its last answer must have come.
// After the last op that writes its gradient it may be sent, while earlier
// layers are still computing, and the layer itself: a dense layer's gradient of
// its input takes as long as that of its weights. After the last op that reads
// its parameters the answer may overwrite them. No shard is sent before the
// loss is known to be finite.
//
// Threads  pure; read-only after overlap_make.
// Memory   overlap_release frees; the program is not kept.
// Units    elements; ops are counted from 0.
// Errors   SL_ENOMEM; `err` may be NULL.
#ifndef WORKER_COMPILE_OVERLAP_H
#define WORKER_COMPILE_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "trainer/base/elements.h"
#include "worker/compile/program.h"

struct overlap {
    uint32_t shards;
    uint32_t *wait_before; // per shard: first op; the program's count: none
    uint32_t *send_after;  // per shard: last op of its gradient, or the loss
    // Per shard: op behind the last that reads its parameters; 0: none does.
    uint32_t *read_until;
    uint32_t *by_wait; // shards by wait_before, then by number
    uint32_t *by_send; // shards by send_after, then by number
};

// Sets *out to when each of the `count` shards, ranges in ascending order that
// do not overlap, is read and written by the ops of `p`. Neither is kept.
// SL_ENOMEM leaves *out as it was.
enum sl_err overlap_make(struct overlap *out, const struct program *p,
                         const struct elements *shards, uint32_t count,
                         struct sl_error *err);
void overlap_release(struct overlap *o); // all zeroes is allowed

// Returns the first op of the forward pass that reads or writes an element of
// the flat vectors at or beyond `elements`; p->forward if none does. (A batch
// norm writes its statistics to the gradient's vector in the forward pass.) The
// ops before it can run while later elements are still on their way.
uint32_t overlap_reach(const struct program *p, uint64_t elements);

#endif
