// SPDX-License-Identifier: Apache-2.0
// tests/emul/backend.h -- the backend "cuda-emul".
#ifndef TESTS_EMUL_BACKEND_H
#define TESTS_EMUL_BACKEND_H

#include <string.h>

#include "kernels/kern.h"

extern const struct kern_backend cuda_emul;

// Returns true if a kernel is one that only proofs and what follows from them
// use: unit tests run it, and no case of conformance.
static inline bool emul_of_proofs(const char *name)
{
    return strncmp(name, "oracle_", 7) == 0 ||
           strncmp(name, "bias_rows_", 10) == 0;
}

#endif
