// SPDX-License-Identifier: Apache-2.0
// state/base/initial.h -- first values, as a function of a seed.
//
// Threads  a function of its arguments; any.
// Memory   `out` is the caller's.
// Units    elements, counted in their stream of the generator (rng.h).
// Errors   as each function says.
#ifndef STATE_BASE_INITIAL_H
#define STATE_BASE_INITIAL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

struct initial {
    Sluice__V1__InitKind kind;
    // constant: a; uniform: [a, b); normal, also truncated: mean a, deviation
    // b; orthogonal: a rows, b columns; ones within: elements [a, b) are 1, the
    // others 0
    double a, b;
};

// Writes elements [first, first + n) of a stream of initial values to `out`, as
// `initial` says, which is not orthogonal; the same for the same seed, stream
// and element. n may be 0. Does not fail.
void initial_fill(float *out, const struct initial *initial, uint64_t seed,
                  uint64_t stream, uint64_t first, size_t n);

// Does the same for an orthogonal matrix, row by row: its rows, or its columns
// if those are fewer, are orthonormal, drawn as Keras does. Takes a b min(a, b)
// multiplications, twice, whatever `n` is. The elements lie below a b. Returns
// SL_OK; SL_ENOMEM leaves `out` as it was.
enum sl_err initial_orthogonal(float *out, const struct initial *initial,
                               uint64_t seed, uint64_t stream, uint64_t first,
                               size_t n);

#endif
