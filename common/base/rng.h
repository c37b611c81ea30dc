// SPDX-License-Identifier: Apache-2.0
// common/base/rng.h -- randomness that is a function of its arguments.
//
// Philox4x32-10 (Salmon et al., SC 2011): a block of four words is computed
// from (seed, stream, block number), so element i of a variable has the same
// value whatever the number of shards and on any host. Element i of a
// fill lies in block i / 4, lane i % 4.
//
// Threads  all functions: any; struct rng: one at a time.
// Memory   none; arrays are the caller's and not NULL, but for count = 0.
// Units    first and count are elements; first + count < 2^48 - 8 (it asserts).
#ifndef COMMON_BASE_RNG_H
#define COMMON_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

// Computes to `out` the block of the generator that `counter` and `key` (the
// seed) determine; `out` may be `counter`.
void philox4x32(uint32_t out[4], const uint32_t counter[4],
                const uint32_t key[2]);

// These write elements [first, first + count) of a stream to out[count].

// Draws from [0, 1), multiples of 2^-24.
void rng_fill_uniform(float *out, uint64_t seed, uint64_t stream,
                      uint64_t first, size_t count);

// Draws from the normal distribution of mean 0 and deviation 1 (Box-Muller in
// double).
void rng_fill_normal(float *out, uint64_t seed, uint64_t stream, uint64_t first,
                     size_t count);

// Draws from the same, redrawn until |x| < 2 (as a double: rounding may give a
// 2), as Keras' initializers do.
void rng_fill_truncated(float *out, uint64_t seed, uint64_t stream,
                        uint64_t first, size_t count);

// A generator that draws the numbers of a stream one after another.
struct rng {
    uint64_t seed, stream;
    uint64_t block;    // number of the next block to compute
    uint32_t words[4]; // block that is in use
    unsigned used;     // words used so far; 4: all
};

// Begins at the first block of a stream; before the first draw from `r`.
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);

// Returns the next word of the stream.
uint32_t rng_u32(struct rng *r);

// Returns the next two words of the stream, the first in the low half.
uint64_t rng_u64(struct rng *r);

// Returns a number below n (not 0: it asserts), each with the same probability.
// Draws two words, rarely more.
uint64_t rng_below(struct rng *r, uint64_t n);

// Returns x with all bits mixed (the finalizer of splitmix64); different
// numbers give different results.
static inline uint64_t sl_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Returns a hash of `len` bytes for tables and streams (FNV-1a, then mixed);
// not for bytes that an adversary could choose. `bytes` may be NULL if `len` is
// 0.
uint64_t sl_hash64(const void *bytes, size_t len);

#endif
