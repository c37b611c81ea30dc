// SPDX-License-Identifier: Apache-2.0
// kernels/ref/ref.c -- the table of the reference backend.
#include "kernels/ref/ref.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/host_memory.h"

struct ref_plan {
    struct kern_plan base;
    struct kern_desc desc;
    ref_fn fn; // NULL: mixed precision
};

static int ref_probe(char *why, size_t n)
{
    return 1;
}

static enum sl_err ref_open(struct kern_dev **out, int ordinal,
                            const char *options, struct sl_error *err)
{
    struct kern_dev *dev;

    if (options && options[0])
        return sl_fail(err, SL_EINVAL,
                       "backend ref takes no options, but was given \"%s\"",
                       options);
    dev = sl_calloc(1, sizeof(*dev));
    if (!dev)
        return sl_fail(err, SL_ENOMEM, "backend ref: out of memory");
    dev->backend = &kern_ref;
    *out = dev;
    return SL_OK;
}

static void ref_close(struct kern_dev *dev)
{
    sl_free(dev);
}

static void ref_info(struct kern_info *out, struct kern_dev *dev)
{
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "ref: plain C, double sums");
    out->dtypes =
        1u << KERN_F32 | 1u << KERN_F64 | 1u << KERN_F16 | 1u << KERN_BF16;
    out->threads = 1;
}

static int ref_score(struct kern_dev *dev, const struct kern_desc *desc)
{
    return 1;
}

// Doubles anywhere but in the stats mean the f64 twin.
static bool is_f64(const struct kern_desc *d)
{
    unsigned last = d->inputs + d->outputs - 1u;

    return d->io[0].dtype == KERN_F64 ||
           (last > 0 && d->io[d->inputs].dtype == KERN_F64);
}

static enum sl_err ref_plan(struct kern_plan **out, size_t *workspace_bytes,
                            struct kern_dev *dev, const struct kern_desc *desc,
                            size_t workspace_cap_bytes, struct sl_error *err)
{
    size_t bytes = ref_mixed_bytes(desc);
    enum sl_err rc = kern_desc_fits(desc, bytes, workspace_cap_bytes, err);
    struct ref_plan *p;

    if (rc != SL_OK)
        return rc;
    p = sl_calloc(1, sizeof(*p));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "backend ref: out of memory");
    p->base.backend = &kern_ref;
    p->base.impl = "ref";
    p->desc = *desc;
    if (bytes == 0)
        p->fn = (is_f64(desc) ? ref_f64_table : ref_f32_table)[desc->op];
    *out = &p->base;
    *workspace_bytes = bytes;
    return SL_OK;
}

static void ref_plan_free(struct kern_plan *plan)
{
    sl_free(plan);
}

static enum sl_err ref_run(struct kern_plan *plan, struct kern_stream *s,
                           void *const *io, void *workspace)
{
    struct ref_plan *p = (struct ref_plan *)plan;

    if (p->fn)
        p->fn(&p->desc, io);
    else
        ref_mixed_run(&p->desc, io, workspace);
    return SL_OK;
}

const struct kern_backend kern_ref = {
    .abi = KERN_ABI,
    .size = sizeof(struct kern_backend),
    .name = "ref",
    .host = true,
    .probe = ref_probe,
    .open = ref_open,
    .close = ref_close,
    .info = ref_info,
    .alloc = host_alloc,
    .release = host_release,
    .stream_new = host_stream_new,
    .stream_free = host_stream_free,
    .stream_sync = host_stream_sync,
    .copy = host_copy,
    .fill = host_fill,
    .score = ref_score,
    .plan = ref_plan,
    .plan_free = ref_plan_free,
    .run = ref_run,
};
