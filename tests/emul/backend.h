// SPDX-License-Identifier: Apache-2.0
// tests/emul/backend.h -- the backend "cuda-emul".
#ifndef TESTS_EMUL_BACKEND_H
#define TESTS_EMUL_BACKEND_H

#include "kernels/kern.h"

extern const struct kern_backend cuda_emul;

#endif
