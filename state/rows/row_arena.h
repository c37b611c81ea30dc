// SPDX-License-Identifier: Apache-2.0
// state/rows/row_arena.h -- within state/rows only: the groups of a large
// table's buckets, close together in huge pages.
//
// Chunks of whole huge pages are filled from their beginning to their end. A
// bucket that grows leaves a hole. Where the holes are more than a fifth of
// what is in use, and a chunk, groups that are left in the oldest chunk go to
// the end of the newest one: then it is empty, and free.
//
// Threads  one at a time.
// Memory   row_arena_release frees all. What is taken stays at its place until
//          row_arena_tidy moves it, or row_arena_give.
// Units    bytes.
// Errors   NULL: no memory.
#ifndef STATE_ROWS_ROW_ARENA_H
#define STATE_ROWS_ROW_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"

struct row_chunk;

struct row_arena {
    struct list chunks;       // oldest first
    struct row_chunk *newest; // NULL: none
    uint64_t bytes, used;     // of chunks; of pieces in use, with their heads
};

// Makes an empty arena. *a must not move afterwards.
void row_arena_init(struct row_arena *a);
// Frees all chunks, and with them all that was taken. All zeroes is allowed.
void row_arena_release(struct row_arena *a);

// Returns `bytes` bytes, a multiple of 64, at an address that is one, of
// unknown content. `owner` is a number of the caller's, the bucket that has
// them, by which row_arena_tidy names them.
void *row_arena_take(struct row_arena *a, size_t bytes, uint32_t owner);
// Takes back what row_arena_take or row_arena_tidy returned, not NULL; frees
// its chunk if nothing else there is in use.
void row_arena_give(struct row_arena *a, void *at);

// Moves one piece to another place, if there are too many holes: copies it
// there, gives its old place back, sets *owner to the number that it was taken
// for and returns its new address, which the caller notes. NULL: there is
// nothing to move, or no memory; nothing has changed.
void *row_arena_tidy(struct row_arena *a, uint32_t *owner);

#endif
