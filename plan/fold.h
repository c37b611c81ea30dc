// SPDX-License-Identifier: Apache-2.0
// plan/fold.h -- a vector folded into a few sums, which tell its angle to
// another one.
//
// An element is added to one of the sums with a sign, both drawn from its
// number alone. So the product of two vectors' sums is on average that of the
// vectors, and the cosine of the angle between long vectors is off by about a
// 16th, the root of the number of sums. Folds of vectors add up as the vectors
// do.
//
// Threads  pure.
// Memory   folds are values; vectors are borrowed for the call.
// Units    elements of the flat vector.
// Errors   none.
#ifndef PLAN_FOLD_H
#define PLAN_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLD_SUMS 256

// All zeroes: the vector of zeroes.
struct fold {
    double squares; // sum of the elements' squares
    float sums[FOLD_SUMS];
};

// Adds the n elements x[0..n), which are elements [first, first + n) of a
// vector, to its fold.
void fold_add(struct fold *f, uint64_t first, const float *x, size_t n);

// Returns the fold of a vector that is not finite.
struct fold fold_not_finite(void);

// Returns the vector's length; -1 if it is not finite.
double fold_norm(const struct fold *f);

// Returns true if the vector and all its sums are finite; sums may be out of
// range where no element is.
bool fold_is_finite(const struct fold *f);

// Returns the angle between the vectors of two lists of FOLD_SUMS sums, in
// degrees from 0 to 180; NAN if one of them is zero. All sums must be finite
// (fold_is_finite); else the result means nothing.
double fold_angle(const float *a, const float *b);

#endif
