// SPDX-License-Identifier: Apache-2.0
// tests/harness/draw.h -- numbers drawn from a struct rng, as the fills of
// common/base/rng.h have them.
//
// Threads  as struct rng.
#ifndef TESTS_HARNESS_DRAW_H
#define TESTS_HARNESS_DRAW_H

#include <math.h>

#include "common/base/rng.h"

// Returns a number from [0, 1), a multiple of 2^-24.
static inline float draw_float(struct rng *r)
{
    return (float)(rng_u32(r) >> 8) * 0x1p-24f;
}

// Returns a number of the normal distribution with mean 0 and deviation 1.
static inline double draw_normal(struct rng *r)
{
    double radius = sqrt(-2.0 * log(((double)rng_u32(r) + 0.5) * 0x1p-32));

    return radius * cos(2.0 * M_PI * ((double)rng_u32(r) * 0x1p-32));
}

#endif
