// SPDX-License-Identifier: Apache-2.0
// tests/emul/usual.c -- in place of kernels/module.c: the module "cuda" is the
// emulated one, and there is a driver with EMUL_DEVICES devices (1). Streams
// are as lazy as EMUL_LAZY says (a seed; 0: not). EMUL_LOST=graph:400 loses the
// device that makes the 400th call of that kind, for good.
#include <stdio.h>
#include <stdlib.h>

#include "kernels/module.h"
#include "tests/emul/cudart.h"
#include "tests/emul/whole.h"

const struct kern_backend *module_usual(const char *name, char *why, size_t n)
{
    return emul_locked();
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
