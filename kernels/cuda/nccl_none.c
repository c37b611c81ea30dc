// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/nccl_none.c -- in place of nccl.c where its header was missing
// when this was built.
#include "kernels/cuda/nccl.h"

enum sl_err nccl_join(struct kern_dev *const *devs, unsigned n, char *how,
                      size_t size, struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP, "built without NCCL's header");
}

enum sl_err nccl_exchange(struct kern_stream *s, const struct kern_exchange *x)
{
    return SL_ENOTSUP; // no dev has joined
}

void nccl_part(struct kern_dev *const *devs, unsigned n)
{
}

void nccl_leave(struct cuda_dev *dev)
{
}
