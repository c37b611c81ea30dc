// SPDX-License-Identifier: Apache-2.0
// worker/compile/arena.h -- one block of memory for all tensors of a step.
//
// A tensor lives from the first op that touches it to the last. Two tensors
// that never live at the same time may lie at the same place. The plan is made
// once per program; a step then allocates nothing.
//
// Threads  pure.
// Memory   items are the caller's; nothing is kept.
// Units    bytes; ops are counted from 0.
#ifndef WORKER_COMPILE_ARENA_H
#define WORKER_COMPILE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define ARENA_ALIGN 64

struct arena_item {
    size_t bytes;
    uint32_t first, last; // ops, both included
    size_t offset;        // set by arena_plan
};

// Sets the offset of each of the `count` items, a multiple of ARENA_ALIGN, so
// that no two that live at the same time overlap, and *bytes to the size of the
// block. The largest go first, each to the lowest place that is free for its
// life: near the best in practice, and the same every time. An item of 0 bytes
// gets the offset 0. Returns SL_OK, or SL_ENOMEM with nothing changed.
enum sl_err arena_plan(struct arena_item *items, size_t count, size_t *bytes);

#endif
