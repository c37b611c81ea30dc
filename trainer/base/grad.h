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
// they are, and all else in the range always does. `g` is the whole vector.
void grad_statistics(float *g, const struct model *model, uint64_t first,
                     uint64_t count, uint32_t batches);

// Multiplies the statistics in elements [first, first + count) of a share,
// which has consecutive micro-batches of a step and `after` more behind them,
// so that all shares add up to the sum that grad_statistics takes. `g` is the
// whole vector. `after` 0: does nothing.
void grad_statistics_share(float *g, const struct model *model, uint64_t first,
                           uint64_t count, uint32_t after);

// Returns true if none of the `n` numbers is NaN or infinite; also if n is 0.
bool grad_finite(const float *g, size_t n);

// Returns a digest of the bits of `n` numbers, which continues `before`, the
// digest of those before them (0: none). Never 0. Vectors that differ in any
// bit have different digests, up to a collision; so have two that are the same,
// but were divided into calls in another way.
uint64_t grad_digest(uint64_t before, const float *g, size_t n);

// Clips as Keras' clipnorm: scales each trainable variable's gradient down to
// that norm if it is longer. 0 does nothing. `g` is the whole vector, here and
// below.
void grad_clipnorm(float *g, const struct model *model, double clipnorm);

// Clips as Keras' global_clipnorm: scales all trainable variables' gradients
// down together, if their common norm is longer. 0 does nothing.
void grad_global_clipnorm(float *g, const struct model *model, double clipnorm);

// Sets factor[i], for each variable i, to what its gradient is to be multiplied
// by to be clipped; squares[i] is the sum of its squares, 0 for a variable that
// is not trainable, whose factor is not to be used: a global norm gives it that
// of all others. At most one of the two norms is more than 0; 0 clips nothing.
// Returns true if some factor is not 1.
bool grad_factors(float *factor, const double *squares, uint32_t variables,
                  double clipnorm, double global_clipnorm);

#endif
