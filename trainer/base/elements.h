// SPDX-License-Identifier: Apache-2.0
// trainer/base/elements.h -- a range of elements of the flat vectors: a shard,
// or a bucket of a sum.
//
// Threads  any.
// Memory   a value.
// Units    elements.
// Errors   none.
#ifndef TRAINER_BASE_ELEMENTS_H
#define TRAINER_BASE_ELEMENTS_H

#include <stdint.h>

struct elements {
    uint64_t first, count;
};

#endif
