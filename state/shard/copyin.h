// SPDX-License-Identifier: Apache-2.0
// state/shard/copyin.h -- copies numbers that somebody else may be changing,
// and looks at them on the way.
//
// What is looked at is what was written: each byte of the source is read once.
// A copy and a look after it would cost half as much again (bench/README.md).
//
// Threads  any; a function of its arguments.
// Memory   any address; the two do not overlap.
// Units    elements of a wire_type.
#ifndef STATE_SHARD_COPYIN_H
#define STATE_SHARD_COPYIN_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire.h"

// True if none of the n elements at `to` is infinite or not a number now.
bool copyin_finite(enum wire_type type, void *to, const void *from, size_t n);

#endif
