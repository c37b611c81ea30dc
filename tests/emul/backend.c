// SPDX-License-Identifier: Apache-2.0
// tests/emul/backend.c -- the backend "cuda-emul": the CUDA module's own
// kernels on the emulator. Products and convolutions it has not.
//
// Options: schedule=0..5 (emul.h).
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "tests/emul/backend.h"
#include "tests/emul/emul.h"

static enum sl_err emul_open(struct kern_dev **out, int ordinal,
                             const char *options, struct sl_error *err)
{
    struct cuda_dev *dev = NULL;
    enum sl_err rc;

    emul_schedule(0);
    if (options && strncmp(options, "schedule=", 9) == 0)
        emul_schedule((unsigned)atoi(options + 9));
    else if (options && *options)
        return sl_fail(err, SL_EINVAL, "cuda-emul: unknown option %s", options);
    rc = cuda_dev_open(&dev, &cuda_emul, ordinal, err);
    if (rc == SL_OK)
        *out = &dev->base;
    return rc;
}

const struct kern_backend cuda_emul = {
    .abi = KERN_ABI,
    .size = sizeof(struct kern_backend),
    .name = "cuda-emul",
    .host = false,
    .probe = cuda_probe,
    .open = emul_open,
    .close = cuda_close,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .stream_sync = cuda_stream_sync,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .score = cuda_own_score,
    .plan = cuda_own_plan,
    .plan_free = cuda_plan_free,
    .run = cuda_run,
    .optim = cuda_optim,
};
