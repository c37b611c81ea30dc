// SPDX-License-Identifier: Apache-2.0
// kernels/dropout.h -- which elements a dropout keeps: the same everywhere.
//
// Element i of a layer's dropout in one step has word i % 4 of the Philox
// block (seed; i / 4, layer, step). It is dropped if the word is below
// rate * 2^32. So the mask needs no memory, is the same on every attempt of a
// step, and the backward pass draws it again.
//
// Threads  any. Memory  values only. Errors  none.
// Units    elements; i < 2^50.
#ifndef KERNELS_DROPOUT_H
#define KERNELS_DROPOUT_H

#include <stdint.h>

#include "common/base/rng.h"

struct dropout_key {
    uint64_t seed, step;
    uint32_t layer; // below 65536
};

// Returns the bound below which an element's word means that it is dropped;
// `rate` is in [0, 1).
static inline uint64_t dropout_threshold(float rate)
{
    return (uint64_t)((double)rate * 4294967296.0);
}

// Draws the words of elements 4 block, 4 block + 1, 4 block + 2 and 4 block + 3
// into out[0..3].
static inline void dropout_words(uint32_t out[4], const struct dropout_key *k,
                                 uint64_t block)
{
    const uint32_t key[2] = {(uint32_t)k->seed, (uint32_t)(k->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block,
                                 (uint32_t)(block >> 32) | k->layer << 16,
                                 (uint32_t)k->step, (uint32_t)(k->step >> 32)};

    philox4x32(out, counter, key);
}

#endif
