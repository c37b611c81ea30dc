// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/nccl_calls.h -- the calls of NCCL that we make, by pointers.
//
// Threads  any.
// Memory   the table and the library stay until the process ends.
// Errors   NULL and the reason in why[n].
#ifndef KERNELS_CUDA_NCCL_CALLS_H
#define KERNELS_CUDA_NCCL_CALLS_H

#include <nccl.h>
#include <stddef.h>

#define NCCL_CALLS(X)                                                          \
    X(GetVersion)                                                              \
    X(GetErrorString)                                                          \
    X(CommInitAll)                                                             \
    X(CommDestroy)                                                             \
    X(CommAbort)                                                               \
    X(GroupStart)                                                              \
    X(GroupEnd)                                                                \
    X(Send)                                                                    \
    X(Recv)

struct nccl_calls {
#define NCCL_CALL(name) __typeof__(&nccl##name) name;
    NCCL_CALLS(NCCL_CALL)
#undef NCCL_CALL
};

// Returns the table, and loads the library with the first call. Returns NULL,
// with the reason in why[n], if there is none; the next call tries again. `why`
// may be NULL if n is 0.
const struct nccl_calls *nccl_calls(char *why, size_t n);

#endif
