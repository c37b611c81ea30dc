// SPDX-License-Identifier: Apache-2.0
// state/shard/copyin.h -- copies numbers that another process may be changing,
// and checks them on the way.
//
// The check is of the bytes that were written: each byte of the source is read
// once. A copy and a check after it would cost half as much again
// (bench/README.md).
//
// Threads  any; a function of its arguments.
// Memory   any address; the two do not overlap.
// Units    elements of a wire_type that is F32, BF16 or F16; n may be 0.
// Errors   none; all elements are copied, finite or not.
#ifndef STATE_SHARD_COPYIN_H
#define STATE_SHARD_COPYIN_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire.h"

// Copies n elements. Returns true if none of the elements as they were copied
// is infinite or NaN.
bool copyin_finite(enum wire_type type, void *to, const void *from, size_t n);

#endif
