// SPDX-License-Identifier: Apache-2.0
// kernels/prove/bound.h -- how far an element of an op's output may be off.
//
// Threads  any.
// Memory   what is returned is the caller's.
// Units    those of the output.
// Errors   NULL: no memory.
#ifndef KERNELS_PROVE_BOUND_H
#define KERNELS_PROVE_BOUND_H

#include <math.h>
#include <stdbool.h>

#include "kernels/prove/trial.h"

// Returns an array of doubles, one for each element of output `out` (an index
// of io[]), as it lies in memory (kern_shape_extent of them): how far it may be
// off. The tensors of the op were *before, and are *ref after ref ran. NULL: no
// memory. The caller frees it (sl_free). The bound is 4 (u sqrt(K) + u) S + v
// |y| with u = 2^-24, K the length of the sum and S the same op on absolute
// values (kernels/README.md); v is u, and for a 16-bit output twice its
// rounding, as both sides round. 0: the values must be equal. A product that
// may read f32 as TF32 gets what cutting off 13 bits costs on top.
double *trial_bound(const struct trial *before, const struct trial *ref,
                    unsigned out);

// Returns true if `got` is no further off `want` than `bound`, or both are NaN;
// false if only one of them is.
static inline bool trial_agrees(double got, double want, double bound)
{
    return got == want || fabs(got - want) <= bound ||
           (isnan(got) && isnan(want));
}

#endif
