// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted.h -- what the kernels of planted.cu are given.
#ifndef TESTS_EMUL_PLANTED_H
#define TESTS_EMUL_PLANTED_H

#include <stdint.h>

#define PLANTED_THREADS 64

struct args_planted {
    const float *x; // n elements
    float *y;       // n elements
    int64_t n;
};

#endif
