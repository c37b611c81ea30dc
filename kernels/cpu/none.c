// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/none.c -- in place of onednn_*.c, in a build without oneDNN: own
// loops only, and ref for the products.
#include "kernels/cpu/cpu.h"

const char *cpu_onednn_name(void)
{
    return "without oneDNN";
}

enum sl_err cpu_onednn_open(struct cpu_onednn **out, int threads,
                            const char *isa, struct sl_error *err)
{
    *out = NULL;
    return SL_OK;
}

void cpu_onednn_close(struct cpu_onednn *o)
{
}

bool cpu_product_knows(enum kern_dtype t)
{
    return t == KERN_F32;
}

int cpu_product_score(struct cpu_dev *dev, const struct kern_desc *d)
{
    return 0;
}

enum sl_err cpu_product_plan(struct cpu_plan **out, size_t *workspace_bytes,
                             struct cpu_dev *dev, const struct kern_desc *d,
                             struct sl_error *err)
{
    return sl_fail(err, SL_ENOTSUP, "this build has no oneDNN");
}
