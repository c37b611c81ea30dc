// SPDX-License-Identifier: Apache-2.0
// kernels/cast.h -- f32 to 16 bits and back, for what travels.
//
// To f32 is exact. Back rounds to nearest, ties to even, and what is finite
// stays finite: what is too large becomes the largest number that there is
// (65504 in f16). So a cast makes no infinity that was not computed; an op's
// own cast, which is looked at for overflow, is AXPBY. Infinities stay, and
// NaN stays NaN. The bits of a result are the same on every host.
//
// Threads  any; functions of their arguments.
// Memory   any address; in and out do not overlap. n may be 0.
// Units    elements; `type` is KERN_F32 (a copy), KERN_BF16 or KERN_F16.
#ifndef KERNELS_CAST_H
#define KERNELS_CAST_H

#include <stddef.h>

#include "kernels/kern.h"

// Converts n elements of `type` at `in` to f32 at `out`, exactly.
void cast_widen(enum kern_dtype type, size_t n, const void *in, void *out);
// Converts n elements of f32 at `in` to `type` at `out`, rounded and kept
// finite as said above.
void cast_narrow(enum kern_dtype type, size_t n, const void *in, void *out);

// ---- the loops of each instruction set, for tests

// Converts n elements, as cast_widen or cast_narrow for one type.
typedef void (*cast_loop)(size_t n, const void *in, void *out);

struct cast_loops {
    cast_loop widen_bf16, widen_f16, narrow_bf16, narrow_f16;
};

extern const struct cast_loops cast_loops_base;
#ifdef __x86_64__
extern const struct cast_loops cast_loops_avx2;
#endif

#endif
