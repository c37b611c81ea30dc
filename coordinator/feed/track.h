// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/track.h -- the last so many of things of one size, numbered
// from 1 as they came.
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
    size_t item, most, space;
    uint64_t added; // ever: the number of the newest
};

void track_init(struct track *t, size_t item, size_t most);
void track_release(struct track *t);

// The oldest one is overwritten by the next track_add.
bool track_full(const struct track *t);

// One more, of undefined content.
void *track_add(struct track *t);

// The number of the oldest that is kept; added + 1: there is none.
uint64_t track_first(const struct track *t);

// One that is kept.
void *track_at(const struct track *t, uint64_t number);

static inline size_t track_bytes(const struct track *t)
{
    return t->space * t->item;
}

#endif
