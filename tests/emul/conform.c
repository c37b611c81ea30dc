// SPDX-License-Identifier: Apache-2.0
// tests/emul/conform.c -- kernels-conformance on the emulator: the backend
// "cuda-emul", and that no kernel of kernels.def went unused.
#include <stdio.h>
#include <string.h>

#include "tests/conform/kc.h"
#include "tests/emul/backend.h"
#include "tests/emul/emul.h"

const struct kern_backend *kc_extra_backend(const char *name)
{
    return strcmp(name, cuda_emul.name) == 0 ? &cuda_emul : NULL;
}

// ---- Coverage -------------------------------------------------------------

unsigned kc_extra_finish(struct kern_dev *dev, bool everything)
{
    unsigned failed = 0;

    for (struct emul_kernel *k = emul_table; everything && k->name; k++)
        if (k->launches == 0 && !emul_of_proofs(k->name)) {
            printf("FAILED no case runs the kernel %s: add one to "
                   "tests/conform/kc_cases.c\n",
                   k->name);
            failed++;
        }
    return failed;
}
