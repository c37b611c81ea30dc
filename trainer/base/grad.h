// SPDX-License-Identifier: Apache-2.0
// trainer/base/grad.h -- the last operations on a gradient before it is sent.
//
// Clipping by a norm needs a whole variable, or the whole gradient, so it is
// the worker's work and not a shard's. Batch norm's statistics travel in the
// same vector and are never clipped. Sums in double and in order: the same
// every time.
//
// Threads  pure.
// Memory   in place; nothing is allocated.
// Units    elements of the flat vector.
// Errors   none; a gradient that is not finite is not clipped soundly.
#ifndef TRAINER_BASE_GRAD_H
#define TRAINER_BASE_GRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/model.h"

// Makes batch norm's statistics in elements [first, first + count) of g fit to
// be sent, after `batches` micro-batches: the sum of momentum^(batches - i) s_i
// (compile.h) becomes their weighted mean. With one micro-batch they stay as
// they are. `g` is the whole vector.
void grad_statistics(float *g, const struct model *model, uint64_t first,
                     uint64_t count, uint32_t batches);

// Scales the statistics in elements [first, first + count) of a share, which
// are of consecutive micro-batches with `after` more behind them: then the
// shares add up to the sum that grad_statistics takes. `g` is the whole vector;
// 0 for `after` does nothing.
void grad_statistics_share(float *g, const struct model *model, uint64_t first,
                           uint64_t count, uint32_t after);

// Returns true if there is no NaN and no infinity among `n` numbers, 0 or more.
bool grad_finite(const float *g, size_t n);

// Returns a digest of the bits of `n` numbers that continues `before`, 0 at
// first. Not 0: two that differ in any bit have another digest, up to a
// collision.
uint64_t grad_digest(uint64_t before, const float *g, size_t n);

// Clips as Keras' clipnorm: scales each trainable variable's gradient down to
// that norm if it is longer. 0 does nothing.
void grad_clipnorm(float *g, const struct model *model, double clipnorm);

// Clips as Keras' global_clipnorm: all trainable variables together. 0 does
// nothing.
void grad_global_clipnorm(float *g, const struct model *model, double clipnorm);

// Computes both clippings from the variables' sums of squares: factor[i] is
// what variable i is to be multiplied by. At most one of the two norms is more
// than 0. Returns false if all factors are 1. A norm of 0 clips nothing.
bool grad_factors(float *factor, const double *squares, uint32_t variables,
                  double clipnorm, double global_clipnorm);

#endif
