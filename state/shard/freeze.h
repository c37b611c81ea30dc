// SPDX-License-Identifier: Apache-2.0
// state/shard/freeze.h -- memory as it was at one instant, while it changes.
//
// Copy on write by block. At the instant every block is PENDING. A push that is
// about to change a pending block copies it first (freeze_touch); the reader of
// the image takes pending blocks from the memory and the others from the side.
//
//   PENDING --freeze_touch--> SAVED        changed since; the side has it
//   PENDING --freeze_take---> TAKEN        was read; not needed again
//
// The reader copies before it takes the lock (freeze_copy), since it may be
// interrupted for long, and checks under the lock that the copy holds: it does
// if the block is still pending, since no push has changed it then.
//
// So pushes go on while a snapshot is written, and pay for one copy of each
// block that the writer has not reached yet.
//
// Threads  freeze_touch and freeze_take: under the lock of the memory;
//          freeze_copy: without. There is one reader. What freeze_take
//          returns from the side never changes.
// Memory   The memory is borrowed until release; the side takes as much, and
//          has its pages from the start: the first push after the instant
//          writes most of it, under the lock, and finding pages takes longer
//          than the copy.
// Units    offsets and lengths in bytes; the memory is whole f32, in arrays of
//          one length (values, slots) that count as one behind the other;
//          blocks count from 0, below f->blocks.
// Errors   SL_ENOMEM, of freeze_init alone.
#ifndef STATE_SHARD_FREEZE_H
#define STATE_SHARD_FREEZE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "state/base/region.h"

#define FREEZE_BLOCK_BYTES ((size_t)256 << 10)
#define FREEZE_ARRAYS 4 // limit of arrays

struct freeze {
    const uint8_t *array[FREEZE_ARRAYS]; // borrowed
    size_t each;                         // bytes of one array
    size_t bytes;                        // bytes of all arrays
    struct region side;
    uint8_t *state; // per block, owned
    size_t blocks, pending;
};

// Allocates a freeze of `count` arrays of `each` bytes. Its instant is the
// moment when the caller, under the memory's lock, shows it to the pushes.
// `count` is at most FREEZE_ARRAYS; their list is read during the call. Returns
// SL_OK; SL_ENOMEM leaves *f as it was.
enum sl_err freeze_init(struct freeze *f, const void *const *arrays,
                        unsigned count, size_t each);
// Frees the side; no push sees *f any more. All zeroes is allowed.
void freeze_release(struct freeze *f);

// Saves the pending blocks of bytes [offset, offset + n) before they change;
// nothing for n 0. Allocates nothing.
void freeze_touch(struct freeze *f, size_t offset, size_t n);

// Begins to read a block of the image, each once: copies it from the memory, if
// it is pending, to `space` (FREEZE_BLOCK_BYTES, the caller's, aligned
// for f32), without the lock. The copy may be torn until freeze_take has
// checked it.
void freeze_copy(const struct freeze *f, size_t block, void *space);
// Ends the read that freeze_copy began, under the lock. The block is *n bytes
// at *at: in `space`, or in the side if a push has changed the memory.
void freeze_take(struct freeze *f, size_t block, void *space, const void **at,
                 size_t *n);

#endif
