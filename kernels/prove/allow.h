// SPDX-License-Identifier: Apache-2.0
// kernels/prove/allow.h -- the formula of the bound of a sum, for host code and
// for device code.
//
// Threads  any. Memory  values only. Errors  none.
#ifndef KERNELS_PROVE_ALLOW_H
#define KERNELS_PROVE_ALLOW_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ALLOW_CALL static __device__ __forceinline__
#else
#define ALLOW_CALL static inline
#endif

#define ALLOW_UNIT 0x1p-24 // half a unit in the last place of an f32 below 1

// What the bounds of one output have in common.
struct allow {
    double root;        // square root of the length of the sum
    double unit, least; // rounding to the output's dtype: unit |y| + least
    int32_t tf32;       // the factors may be cut to TF32
};

// Returns how far rounding alone may move the output `y`.
ALLOW_CALL double allow_rounding(const struct allow *a, double y)
{
    return a->unit * fabs(y) + a->least;
}

// Returns how far an output may be off, if its right value is `y` and the same
// sum on absolute values is `s`. TF32 cuts 13 bits off either factor: each
// product shrinks by up to 2^-9, the sum's own size by as much, and what
// differs between products adds up as a random walk does.
ALLOW_CALL double allow_sum(const struct allow *a, double s, double y)
{
    double cut = a->tf32 ? 0x1p-9 * fabs(y) + 6 * 0x1p-10 * s / a->root : 0;

    return 4 * (ALLOW_UNIT * a->root + ALLOW_UNIT) * s + cut +
           allow_rounding(a, y);
}

#ifndef __cplusplus

#include <float.h>
#include <stdbool.h>

#include "kernels/kern.h"

// Returns what the bounds of all elements of an output have in common: `dtype`
// is the output's, `k` the number of products in a sum, `tf32`: their factors
// may be cut to TF32.
static inline struct allow allow_of(enum kern_dtype dtype, double k, bool tf32)
{
    struct allow a = {.root = sqrt(k), .tf32 = tf32};

    if (dtype == KERN_F16) {
        a.unit = 2 * 0x1p-11; // both sides round
        a.least = 0x1p-24;
    } else {
        // Below the smallest normal number a unit is no longer relative.
        a.unit = dtype == KERN_BF16 ? 2 * 0x1p-8 : ALLOW_UNIT;
        a.least = FLT_MIN;
    }
    return a;
}

#endif

#endif
