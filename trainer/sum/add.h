// SPDX-License-Identifier: Apache-2.0
// trainer/sum/add.h -- the sums of an all-reduce, in f32.
//
// Threads  any; functions of their arguments.
// Memory   out may be an input; else nothing overlaps.
// Units    elements; n may be 0, `count` inputs are at least 1.
// Errors   none.
#ifndef TRAINER_SUM_ADD_H
#define TRAINER_SUM_ADD_H

#include "common/base/slices.h"
#include "proto/wire.h"

// Sets out = a + b, and writes the same to `also` (NULL: nowhere else).
void add_two(size_t n, const float *a, const float *b, float *out, float *also);

// Sets out = in[0] + in[1] + ... over `count` inputs, added in this order, and
// writes the same to `also` (NULL: nowhere else).
void add_many(size_t n, const float *const *in, unsigned count, float *out,
              float *also);

// Adds the elements of a payload, which have `type` (WIRE_F32, WIRE_BF16 or
// WIRE_F16, in all functions of this header), to `to`, as many as it holds. Its
// slices may be cut anywhere. The caller has checked that its bytes are those
// of whole elements: one of other bytes adds nothing, here and in add_copy.
void add_payload(float *to, enum wire_type type,
                 const struct sl_slices *payload);
// Copies the elements of a payload, which have `type`, to `to`, as f32.
void add_copy(float *to, enum wire_type type, const struct sl_slices *payload);

// Rounds `values` to `type` and back to f32, in place: to the values that other
// ranks get. Does nothing for WIRE_F32.
void add_round(enum wire_type type, size_t n, float *values);

// Writes the `n` elements of `from`, rounded to `type`, to `to`, for sending:
// n * wire_type_bytes(type) bytes.
void add_narrow(enum wire_type type, size_t n, const float *from, void *to);

#endif
