// SPDX-License-Identifier: Apache-2.0
// tests/emul/whole.h -- the CUDA module without a GPU and without dlopen.
#ifndef TESTS_EMUL_WHOLE_H
#define TESTS_EMUL_WHOLE_H

#include "kernels/kern.h"

// Its backend, "cuda": our kernels run on the emulator, products on stand-ins.
const struct kern_backend *emul_module(void);

// The same for several threads.
const struct kern_backend *emul_locked(void);

// 0, or how many times the one before a time of tuning is. Not 0: the first
// candidate is the fastest. 0: the last.
extern float emul_slower;

#endif
