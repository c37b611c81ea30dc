// SPDX-License-Identifier: Apache-2.0
// plan/fragments.h -- which shards leave together: the parts in which a worker
// in mode local pushes its parameters (train.fragments).
//
// Shards are taken in order, and each goes to the fragment that has the fewest
// elements by then, ties to the lower number. So shards of about one size are
// dealt out in turn, and a fragment has some of all depths (arXiv 2501.18512).
// The fragment of a shard depends on the number of fragments and on the sizes
// of the shards up to it: every member finds the same.
//
// Threads  pure values.
// Memory   none is allocated.
// Units    elements.
// Errors   none.
#ifndef PLAN_FRAGMENTS_H
#define PLAN_FRAGMENTS_H

#include <stdint.h>

#define FRAGMENTS_MOST 8

struct fragments {
    uint32_t count;
    uint64_t elements[FRAGMENTS_MOST]; // of each fragment's shards so far
};

// Begins with no shards; `count` is 1 to FRAGMENTS_MOST.
static inline struct fragments fragments_begin(uint32_t count)
{
    return (struct fragments){.count = count};
}

// Returns the number (from 0) of the fragment that the next shard, of
// `elements` elements, goes to, and adds them to that fragment.
uint32_t fragments_add(struct fragments *f, uint64_t elements);

#endif
