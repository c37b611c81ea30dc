// SPDX-License-Identifier: Apache-2.0
// common/base/num.h -- arithmetic on counts.
//
// Threads  pure.
// Units    any count.
// Errors   none: neither can overflow.
#ifndef COMMON_BASE_NUM_H
#define COMMON_BASE_NUM_H

#include <stdint.h>

// Returns the number of pieces of `each` (not 0) that hold n.
static inline uint64_t sl_ceil_div(uint64_t n, uint64_t each)
{
    return n / each + (n % each != 0);
}

// Returns the smaller of two.
static inline uint64_t sl_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
