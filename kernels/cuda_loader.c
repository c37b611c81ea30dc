// SPDX-License-Identifier: Apache-2.0
// kernels/cuda_loader.c -- the table entry that loads the cuda module when it
// is probed or opened.
#include "kernels/cuda_loader.h"

#include "kernels/module.h"

static int cuda_loader_probe(char *why, size_t n)
{
    const struct kern_backend *cuda;

    if (module_driver(why, n) == 0)
        return 0;
    cuda = module_cuda(why, n);
    return cuda ? cuda->probe(why, n) : 0;
}

static enum sl_err cuda_loader_open(struct kern_dev **out, int ordinal,
                                    const char *options, struct sl_error *err)
{
    char why[200] = "";
    const struct kern_backend *cuda = module_cuda(why, sizeof(why));

    if (!cuda)
        return sl_fail(err, SL_ENOTSUP, "backend cuda: %s", why);
    return cuda->open(out, ordinal, options, err);
}

const struct kern_backend kern_cuda_loader = {
    .abi = KERN_ABI,
    .size = sizeof(struct kern_backend),
    .name = "cuda",
    .probe = cuda_loader_probe,
    .open = cuda_loader_open,
};
