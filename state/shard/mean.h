// SPDX-License-Identifier: Apache-2.0
// state/shard/mean.h -- the mean of a round's contributions, which exists only
// for some thousand elements at a time.
//
// An update is bound by memory. So the sum of a round is no array: each element
// of it is made where the optimizer wants it, of the parts that are held, and
// of the payload that ends the round, which is decoded then and there.
//
// Threads  the shard's lock.
// Memory   everything is borrowed.
// Units    elements of the shard.
// Errors   none.
#ifndef STATE_SHARD_MEAN_H
#define STATE_SHARD_MEAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/shard/coded.h"

struct mean_part {
    const float *values; // NULL: they come from the payload
    float weight;
    float most; // at least the largest magnitude of its values
};

struct mean {
    const struct mean_part *parts; // added in this order; at least 1
    size_t count;
    size_t elements;
    float by; // times their sum
    // What the part without values is made of, if there is one.
    const struct coded *coded;
    enum wire_type type;
    struct sl_slices payload;
    // Where it is.
    size_t at;
    struct coded_reader reader;
};

// Returns true if every element of the mean is finite. It is looked at only if
// the parts are so large that their sum may not be.
bool mean_finite(struct mean *m);

// Goes to the first element.
void mean_begin(struct mean *m);
// Writes the next n elements of the mean to `out`.
void mean_take(struct mean *m, size_t n, float *out);

#endif
