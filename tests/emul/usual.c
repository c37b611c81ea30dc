// SPDX-License-Identifier: Apache-2.0
// tests/emul/usual.c -- in place of kernels/module.c: the module "cuda" is the
// emulated one, and there is a driver with one device. Streams are as lazy as
// EMUL_LAZY says (a seed; 0: not).
#include <stdlib.h>

#include "kernels/module.h"
#include "tests/emul/cudart.h"
#include "tests/emul/whole.h"

const struct kern_backend *module_usual(const char *name, char *why, size_t n)
{
    return emul_module();
}

int module_driver(char *why, size_t n)
{
    const char *seed = getenv("EMUL_LAZY");

    if (seed != NULL)
        emul_lazy((unsigned)atoi(seed));
    return 1;
}
