// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/track.h -- the last `most` items of one size, numbered from
// 1 as they came.
//
// Threads  one at a time.
// Memory   grows to `most` items as they come; then the oldest is overwritten.
//          A pointer holds until the next track_add.
// Errors   NULL: no memory, and nothing was added.
#ifndef COORDINATOR_FEED_TRACK_H
#define COORDINATOR_FEED_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct track {
    uint8_t *data; // owned
    // bytes of an item; items that are kept at most; items that are allocated
    size_t item, most, space;
    uint64_t added; // items ever added: the number of the newest
};

// Sets *t to a track without items, of `most` items of `item` bytes at most,
// neither of them 0; allocates nothing.
void track_init(struct track *t, size_t item, size_t most);

// Frees the items and leaves *t as track_init does, to be filled again.
// Pointers to items are invalid then.
void track_release(struct track *t);

// Returns true if t has `most` items, so that the next track_add overwrites the
// oldest.
bool track_full(const struct track *t);

// Adds an item and returns it, with undefined content, for the caller to fill;
// it overwrites the oldest of a full track. NULL: no memory.
void *track_add(struct track *t);

// Returns the number of the oldest item that is kept; t->added + 1 if there is
// none.
uint64_t track_first(const struct track *t);

// Returns the item of this number, which must be kept: track_first(t) to
// t->added. Not checked.
void *track_at(const struct track *t, uint64_t number);

// Returns how many bytes are allocated for items.
static inline size_t track_bytes(const struct track *t)
{
    return t->space * t->item;
}

#endif
