// SPDX-License-Identifier: Apache-2.0
// kernels/quant.h -- rows of f32 as whole numbers of 8 bits with a scale, for
// what travels.
//
// A row of n elements is n + 4 bytes: the scale, an f32, and n numbers q from
// -127 to 127. Element i stands for q[i] * scale, computed in f32. The scale is
// the largest magnitude of the row divided by 127, and q[i] is the element
// divided by the scale, rounded to nearest, ties to even.
//
//   - A row whose scale would be below QUANT_LEAST is one of zeros, scale 0:
//     so no result depends on how a processor treats subnormal numbers.
//   - A scale is at most QUANT_MOST, and so what is finite stays finite.
//   - A row with an element that is not finite has a scale of NaN, and is NaN
//     throughout.
//
// The bits of a result are the same on every host, but for those of a NaN.
//
// Threads  any; functions of their arguments.
// Memory   any address; in and out do not overlap.
// Units    n in elements of one row, at least 1.
#ifndef KERNELS_QUANT_H
#define KERNELS_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUANT_HEAD 4          // bytes of the scale
#define QUANT_LEAST 0x1p-124f // of a scale that is not 0
#define QUANT_MOST 0x1.fffffep120f

// Returns the bytes of a row of n elements.
static inline size_t quant_row_bytes(size_t n)
{
    return QUANT_HEAD + n;
}

// Writes a row of n elements at `in` as bytes at `out`.
void quant_narrow(size_t n, const void *in, void *out);
// Writes the n elements that the bytes at `in` stand for as f32 at `out`.
void quant_widen(size_t n, const void *in, void *out);
// Returns true if the row that begins at `row` has a scale from 0 to
// QUANT_MOST: then its elements are finite, whatever bytes follow. False for a
// negative scale as well.
bool quant_finite(const void *row);

// ---- the loops of each instruction set, for tests

struct quant_loops {
    void (*narrow)(size_t n, const void *in, void *out);
    void (*widen)(size_t n, const void *in, void *out);
};

extern const struct quant_loops quant_loops_base;
#ifdef __x86_64__
extern const struct quant_loops quant_loops_avx2;
#endif

#endif
