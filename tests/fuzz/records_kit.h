// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/records_kit.h -- what must hold of a file of samples.
//
// Threads  one. Memory: nothing is kept. Errors: aborts.
#ifndef TESTS_FUZZ_RECORDS_KIT_H
#define TESTS_FUZZ_RECORDS_KIT_H

#include "worker/data/data.h"

// Opens a set in `budget` bytes of memory: refused with words and no set; or
// each of its first samples is refused with words or fits the model.
void records_check(const struct data_source *s, const struct data_want *want,
                   size_t budget);

#endif
