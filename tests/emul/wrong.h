// SPDX-License-Identifier: Apache-2.0
// tests/emul/wrong.h -- stand-ins for NVIDIA's libraries that compute wrong
// numbers.
//
// Units    elements of the output.
#ifndef TESTS_EMUL_WRONG_H
#define TESTS_EMUL_WRONG_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"

// In what an engine or algorithm is wrong.
enum emul_wrong_how {
    WRONG_NOWHERE,
    WRONG_FIRST,     // the first element
    WRONG_LAST_TILE, // the last 8 rows and columns, or fewer, are 0
    WRONG_ADDING,    // the last element, where it adds to what is there
    WRONG_ASTRAY,    // the last element, unless the output begins at a
                     // multiple of 256 bytes
    WRONG_AGAIN,     // the last element, from its second run on
    WRONG_BEYOND,    // an element behind the output
    WRONG_ROUNDING,  // rounds to the output's dtype before it adds the bias
    WRONG_BIAS,      // adds 1 more than the bias
    WRONG_HOWS,
    WRONG_ONCE // the last element, in its first run only
};

// From now on implementation number `which` (0: none; EMUL_WRONG_ALL: every
// one) is wrong in this way; it has not run yet.
#define EMUL_WRONG_ALL UINT64_MAX
void emul_wrong(uint64_t which, enum emul_wrong_how how);

// Spoils what implementation `which` has just computed: rows x cols at `at`,
// one of them every `apart` elements, where `adds` says that it was added to
// what was there.
void emul_wrong_spoil(uint64_t which, enum kern_dtype t, void *at, int64_t rows,
                      int64_t cols, int64_t apart, bool adds);

// Returns what implementation `which` of a product adds the bias to: the sum,
// or what is wrong of it.
double emul_wrong_sum(uint64_t which, enum kern_dtype t, double sum);

#endif
