// SPDX-License-Identifier: Apache-2.0
// trainer/push/distinct.h -- the distinct ids of a list, in the order in which
// messages have them, and by shard.
//
// A step of a program looks ids up by the sample: popular ones stand many times
// in its list. Messages have each once (T3), so their rows are copied to each
// place in the list, and their gradients are added up.
//
// Threads  one at a time.
// Memory   grows to the longest list, and stays; distinct_release frees it.
//          distinct_make replaces what an earlier one has made.
// Units    positions in the list; ids, shards.
// Errors   SL_ENOMEM; `err` may be NULL.
#ifndef TRAINER_PUSH_DISTINCT_H
#define TRAINER_PUSH_DISTINCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct distinct_one {
    uint64_t hash;
    uint32_t at; // position in the list
};

// Zeroes before the first distinct_make.
struct distinct {
    // The list by rising hash; those of one id in the order of the list.
    struct distinct_one *sorted;
    uint64_t *ids;   // each once, by rising hash, little-endian
    uint32_t *from;  // sorted[from[k]] to sorted[from[k + 1] - 1] have ids[k]
    uint32_t *first; // shard s has ids[first[s]] to ids[first[s + 1] - 1]
    uint32_t count;  // of ids

    struct distinct_one *spare; // what sorting needs beside `sorted`
    size_t capacity;            // of the list
    uint32_t shards;            // that `first` has space for
};

// Fills *d for a list of n ids (at most UINT32_MAX) of a table with `buckets`
// buckets, on `shards` shards; neither is 0. The list is not kept. On SL_ENOMEM
// *d is only released, or filled anew.
enum sl_err distinct_make(struct distinct *d, size_t n, const uint64_t *ids,
                          uint32_t buckets, uint32_t shards,
                          struct sl_error *err);

// Returns true if *d was made of a list of these n ids, in this order; false
// before the first distinct_make.
bool distinct_is_of(const struct distinct *d, size_t n, const uint64_t *ids);

// Copies n rows of `dim` numbers, those of ids[k] to ids[k + n - 1], from `of`
// to each place of rows[list][dim] where their ids stand in the list.
void distinct_spread(const struct distinct *d, uint32_t k, uint32_t n,
                     uint32_t dim, const float *of, float *rows);

// Frees what *d has, and makes it zeroes.
void distinct_release(struct distinct *d);

#endif
