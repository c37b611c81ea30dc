// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudart.h -- how tests break the stand-in for libcudart.
#ifndef TESTS_EMUL_CUDART_H
#define TESTS_EMUL_CUDART_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

// The nth call from now (1: the next) of `what` fails with `code`: "malloc",
// "host_alloc", "copy", "fill", "launch", "sync", "kernel", ... If sticky, so
// does every call after it.
void emul_fail(const char *what, unsigned nth, cudaError_t code, bool sticky);
// A new device, as it were.
void emul_heal(void);

#endif
