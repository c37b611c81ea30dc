// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu_f32.c -- plans of ops of f32: own loops, or products.
#include "kernels/cpu/cpu.h"

#include "common/base/mem.h"

static enum sl_err run_loops(struct cpu_plan *p, void *const *io,
                             void *workspace)
{
    cpu_loop(p->dev, p->loop, &p->desc, io, workspace);
    return SL_OK;
}

static void free_loops(struct cpu_plan *p)
{
    sl_free(p);
}

static enum sl_err plan_loops(struct cpu_plan **out, size_t *workspace_bytes,
                              struct cpu_dev *dev, const struct kern_desc *d,
                              const struct loop_op *loop, const char *impl,
                              struct sl_error *err)
{
    struct cpu_plan *p = sl_calloc(1, sizeof(*p));

    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend cpu: out of memory");
    p->base.impl = impl;
    p->loop = loop;
    p->run = run_loops;
    p->free = free_loops;
    *out = p;
    *workspace_bytes = cpu_loop_bytes(dev, loop, d);
    return SL_OK;
}

int cpu_f32_score(struct cpu_dev *dev, const struct kern_desc *d)
{
    const char *impl;

    if (dev->loops[d->op])
        return cpu_own_loop(dev, d, &impl) ? 100 : 0;
    return cpu_own_product(dev, d, NULL) ? 100 : cpu_product_score(dev, d);
}

enum sl_err cpu_f32_plan(struct cpu_plan **out, size_t *workspace_bytes,
                         struct cpu_dev *dev, const struct kern_desc *d,
                         struct sl_error *err)
{
    const struct loop_op *loop;
    const char *impl = NULL;
    struct cpu_plan *p = NULL;
    enum sl_err rc;

    if (dev->loops[d->op]) {
        loop = cpu_own_loop(dev, d, &impl);
        if (!loop)
            return sl_fail(err, SL_ENOTSUP, "no loop computes this %s",
                           kern_op_name((enum kern_op)d->op));
    } else {
        loop = cpu_own_product(dev, d, &impl);
    }
    rc = loop ? plan_loops(&p, workspace_bytes, dev, d, loop, impl, err)
              : cpu_product_plan(&p, workspace_bytes, dev, d, err);
    if (rc != SL_OK)
        return rc;
    p->dev = dev;
    p->desc = *d;
    *out = p;
    return SL_OK;
}
