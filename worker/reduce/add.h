// SPDX-License-Identifier: Apache-2.0
// worker/reduce/add.h -- the sums of an all-reduce, in f32.
//
// Threads  any; functions of their arguments.
// Memory   out may be an input; else nothing overlaps.
// Units    elements.
#ifndef WORKER_REDUCE_ADD_H
#define WORKER_REDUCE_ADD_H

#include "common/base/slices.h"
#include "proto/wire.h"

// out = a + b, and the same to `also` (NULL: nowhere else).
void add_two(size_t n, const float *a, const float *b, float *out, float *also);

// out = in[0] + in[1] + ... in this order, and the same to `also`.
void add_many(size_t n, const float *const *in, unsigned count, float *out,
              float *also);

// to = payload + to, or = payload; the payload holds the elements in `type`,
// cut anywhere.
void add_payload(float *to, enum wire_type type,
                 const struct sl_slices *payload);
void add_copy(float *to, enum wire_type type, const struct sl_slices *payload);

// Rounded to `type` and back, in place: what others get of it.
void add_round(enum wire_type type, size_t n, float *values);

// To what is sent: n elements of `type`.
void add_narrow(enum wire_type type, size_t n, const float *from, void *to);

#endif
