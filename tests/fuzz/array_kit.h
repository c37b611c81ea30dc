// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/array_kit.h -- what must hold of an array that a file gave.
//
// Threads  one. Memory: array_check releases. Errors: aborts.
#ifndef TESTS_FUZZ_ARRAY_KIT_H
#define TESTS_FUZZ_ARRAY_KIT_H

#include "worker/data/data_array.h"

// The result of opening a file of `size` bytes into *a, which was all zeroes:
// refused with words and empty; or consistent, and every row can be read.
void array_check(enum sl_err rc, struct array *a, const struct sl_error *err);

#endif
