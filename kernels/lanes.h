// SPDX-License-Identifier: Apache-2.0
// kernels/lanes.h -- eight f32 at a time, for loops that are compiled for each
// instruction set (quant.c, pack.c).
//
// Threads  any.
// Memory   the caller's.
// Units    elements.
// Errors   none.
#ifndef KERNELS_LANES_H
#define KERNELS_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define LANES_INF_BITS 0x7f800000
#define LANES_NAN_BITS 0x7fc00000u
#define LANES_MAGNITUDE 0x7fffffff // of the bits of an f32

#define ALWAYS static inline __attribute__((always_inline))

typedef float lanes_f8 __attribute__((vector_size(32)));
typedef int32_t lanes_w8 __attribute__((vector_size(32)));

// Takes a where the mask is set, and b elsewhere. A macro: a vector that a
// function returns differs between instruction sets.
#define LANES_SELECT(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

// Copies n of eight elements of `bytes` each, all of them if n is larger; those
// behind them are left alone.
ALWAYS void lanes_some(void *to, const void *from, size_t n, size_t bytes)
{
    if (n >= LANES)
        memcpy(to, from, LANES * bytes);
    else
        memcpy(to, from, n * bytes);
}

// Returns the bits of the largest magnitude of n f32, which need not be
// aligned. As whole numbers NaN is above the infinities, which are above all
// else. Returns 0 if n is 0.
ALWAYS int32_t lanes_largest(size_t n, const void *in)
{
    const uint8_t *from = in;
    lanes_w8 most = {0}, bits = {0};
    int32_t top = 0;

    for (size_t i = 0; i < n; i += LANES) {
        bits = (lanes_w8){0};
        lanes_some(&bits, from + sizeof(float) * i, n - i, sizeof(float));
        bits &= LANES_MAGNITUDE;
        most = LANES_SELECT(bits > most, bits, most);
    }
    for (int k = 0; k < LANES; k++)
        top = most[k] > top ? most[k] : top;
    return top;
}

#endif
