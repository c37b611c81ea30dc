// SPDX-License-Identifier: Apache-2.0
// tests/emul/whole_conform.c -- kernels-conformance on the whole CUDA module.
#include <string.h>

#include "tests/conform/kc.h"
#include "tests/emul/whole.h"

// That no kernel goes unused is conform.c's to say.
const struct kern_backend *kc_extra_backend(const char *name)
{
    return strcmp(name, "cuda") == 0 ? emul_module() : NULL;
}
