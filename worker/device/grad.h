// SPDX-License-Identifier: Apache-2.0
// worker/device/grad.h -- what is done to a gradient before it is sent.
//
// Clipping by a norm needs a whole variable, or the whole gradient, so it is
// the worker's work and not a shard's. Batch norm's statistics travel in the
// same vector and are never clipped. Sums in double and in order: the same
// every time.
//
// Threads  pure.
// Units    elements of the flat vector.
#ifndef WORKER_DEVICE_GRAD_H
#define WORKER_DEVICE_GRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/model.h"

// What is sent of batch norm's statistics in elements [first, first + count)
// of g, after `batches` micro-batches: the sum of momentum^(batches - i) s_i
// (compile.h) becomes their weighted mean. One: as it is.
void grad_statistics(float *g, const struct model *model, uint64_t first,
                     uint64_t count, uint32_t batches);

// The share of one that computed a run of a step's micro-batches, with `after`
// more behind it: becomes what adds up with the others' shares to the sum that
// grad_statistics takes. Of elements [first, first + count).
void grad_statistics_share(float *g, const struct model *model, uint64_t first,
                           uint64_t count, uint32_t after);

// No NaN and no infinity among n numbers.
bool grad_finite(const float *g, size_t n);

// Keras' clipnorm: each trainable variable's gradient scaled down to that norm
// if it is longer. 0 does nothing.
void grad_clipnorm(float *g, const struct model *model, double clipnorm);

// Keras' global_clipnorm: all of them together.
void grad_global_clipnorm(float *g, const struct model *model, double clipnorm);

// Both of these from the squares that variables' norms are made of: what each
// is to be multiplied by. At most one of the two norms is more than 0. False
// if all stay as they are.
bool grad_factors(float *factor, const double *squares, uint32_t variables,
                  double clipnorm, double global_clipnorm);

#endif
