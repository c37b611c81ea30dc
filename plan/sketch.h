// SPDX-License-Identifier: Apache-2.0
// plan/sketch.h -- a few numbers of a gradient, by which results of hosts of
// different kinds can be compared (A2).
//
// Right results of two kinds of host differ in their last bits, so digests say
// nothing of them. A sketch has the sum of the gradient's squares, and sums of
// its elements with random signs. The signs follow from a seed alone. If two
// gradients differ by a vector d, each pair of sums differs by a number of mean
// square |d|^2: d need not be sent to learn how long it is. Sums are added up
// in double, in any order of pieces; the order changes their last bits.
//
// Threads  pure.
// Memory   sketches are values; vectors are borrowed for the call.
// Units    elements of the flat vector.
// Errors   none.
#ifndef PLAN_SKETCH_H
#define PLAN_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKETCH_NUMBERS 9 // the sum of squares (-1: not finite), then 8 sums

struct sketch {
    double of[SKETCH_NUMBERS]; // zeroes before the first piece; then finite
};

// Returns the seed of the signs for the gradient of a step, the same on every
// host.
uint64_t sketch_seed(uint64_t job, uint64_t closure, uint64_t step);

// Adds the n elements x[0..n), which are elements [first, first + n) of a
// gradient, to the sketch. All pieces of a gradient, and all sketches that are
// compared, have the same seed.
void sketch_add(struct sketch *s, uint64_t seed, uint64_t first, const float *x,
                size_t n);

// Ends a sketch after its last piece. If the gradient is not finite, which the
// caller says by `finite` or the sum of squares shows, its first number becomes
// -1 and the others 0.
void sketch_end(struct sketch *s, bool finite);

// Returns how far two ended sketches of one seed lie apart: the largest
// difference of their sums, and of their norms (roots of the sums of squares).
// Sets *norm to the smaller norm. If one of the gradients was not finite:
// returns infinity, and *norm is that of the other. If both were not: returns
// 0, and *norm is 0.
double sketch_apart(double *norm, const struct sketch *a,
                    const struct sketch *b);

#endif
