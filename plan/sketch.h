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

// Returns the seed of the signs of a contribution, the same on every host.
uint64_t sketch_seed(uint64_t job, uint64_t closure, uint64_t step);

// Adds elements [first, first + n) of a gradient.
void sketch_add(struct sketch *s, uint64_t seed, uint64_t first, const float *x,
                size_t n);

// Ends a sketch. One of a gradient that is not finite says that alone; `finite`
// is what the caller knows of it.
void sketch_end(struct sketch *s, bool finite);

// Returns the largest difference of two numbers of two sketches of one seed,
// with norms in place of squares, and sets *norm to the smaller norm. If one of
// them is not finite: infinity, and the norm of the other. If both are not: 0,
// and a norm of 0.
double sketch_apart(double *norm, const struct sketch *a,
                    const struct sketch *b);

#endif
