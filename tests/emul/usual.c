// SPDX-License-Identifier: Apache-2.0
// tests/emul/usual.c -- in place of kernels/module.c: the module "cuda" is the
// emulated one, and there is a driver with EMUL_DEVICES devices (1). Streams
// are as lazy as EMUL_LAZY says (a seed; 0: not). EMUL_LOST=graph:400 loses the
// device that makes the 400th call of that kind, for good. EMUL_OPTIM=0: a
// module without optimizers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/module.h"
#include "tests/emul/cudart.h"
#include "tests/emul/whole.h"

static struct kern_backend without;

static enum sl_err open_without(struct kern_dev **out, int ordinal,
                                const char *options, struct sl_error *err)
{
    enum sl_err rc = emul_locked()->open(out, ordinal, options, err);

    if (rc == SL_OK)
        (*out)->backend = &without;
    return rc;
}

const struct kern_backend *module_cuda(char *why, size_t n)
{
    const char *optim = getenv("EMUL_OPTIM");

    if (optim == NULL || strcmp(optim, "0") != 0)
        return emul_locked();
    without = *emul_locked();
    without.open = open_without;
    without.optim = NULL;
    return &without;
}

static void lose_it(const char *at)
{
    static char call[32]; // emul_fail keeps it
    unsigned nth;

    if (sscanf(at, "%31[a-z_]:%u", call, &nth) == 2)
        emul_fail(call, nth, cudaErrorIllegalAddress, true);
}

int module_driver(char *why, size_t n)
{
    const char *seed = getenv("EMUL_LAZY"), *lost = getenv("EMUL_LOST");
    const char *devices = getenv("EMUL_DEVICES");
    int count = devices != NULL ? atoi(devices) : 1;

    if (lost != NULL)
        lose_it(lost);
    if (seed != NULL)
        emul_lazy((unsigned)atoi(seed));
    emul_devices(count);
    return count;
}
