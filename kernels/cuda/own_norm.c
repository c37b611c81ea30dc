// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_norm.c -- batch norm: launches of norm.cu.
//
// Workspace: the partial sums of all blocks, then (backward) the sums.
#include "kernels/cuda/own.h"

static size_t bn_bytes(const struct kern_desc *d)
{
    struct own_table t;

    own_table(&t, &d->io[0], true);
    return own_table_bytes(&t, 2) +
           (d->op == KERN_BN_BWD ? 2 * (size_t)t.t.cols * sizeof(float) : 0);
}

static enum sl_err bn_fwd(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    uint8_t dtype = d->io[0].dtype;
    struct own_table t;
    enum sl_err rc;

    own_table(&t, &d->io[0], own_wide(2, (void *[]){c->io[0], c->io[3]}));
    const struct args_bn a = {
        .t = t.t,
        .x = c->io[0],
        .y = c->io[3],
        .gamma = c->io[1],
        .beta = c->io[2],
        .mean = c->io[4],
        .var = c->io[5],
        .partial = (float *)c->workspace,
        .epsilon = d->u.norm.epsilon,
    };
    const struct args_bn_end end = {
        .x = a.x,
        .partial = a.partial,
        .mean = c->io[4],
        .var = c->io[5],
        .rows = t.t.rows,
        .cols = t.t.cols,
        .blocks = (int32_t)t.down,
    };

    rc = OWN_LAUNCH(c, own_typed(CUDA_bn_stats_f32, dtype), t.across, t.down,
                    &a);
    if (rc == SL_OK)
        rc = OWN_LAUNCH(c, own_typed(CUDA_bn_stats_end_f32, dtype),
                        own_end_blocks(t.t.cols), 1, &end);
    if (rc == SL_OK)
        rc = OWN_LAUNCH(c, own_typed(CUDA_bn_apply_f32, dtype), t.across,
                        t.down, &a);
    return rc;
}

static enum sl_err bn_infer(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    struct own_table t;

    own_table(&t, &d->io[0], own_wide(2, (void *[]){c->io[0], c->io[5]}));
    const struct args_bn a = {
        .t = t.t,
        .x = c->io[0],
        .y = c->io[5],
        .gamma = c->io[1],
        .beta = c->io[2],
        .mean = c->io[3],
        .var = c->io[4],
        .epsilon = d->u.norm.epsilon,
    };

    return OWN_LAUNCH(c, own_typed(CUDA_bn_apply_f32, d->io[0].dtype), t.across,
                      t.down, &a);
}

// dx, and with BGRAD its column sums; the partials of dy's are done with.
static enum sl_err bn_dx(const struct own_call *c, const struct own_table *t,
                         const struct args_bn *a)
{
    bool sum = kern_has(c->d, KERN_BGRAD);
    enum cuda_kernel kernel = sum ? CUDA_bn_bwd_sum_f32 : CUDA_bn_bwd_f32;
    enum sl_err rc = OWN_LAUNCH(c, own_typed(kernel, c->d->io[0].dtype),
                                t->across, t->down, a);

    return rc == SL_OK && sum ? own_column_end(c, t, c->io[8]) : rc;
}

static enum sl_err bn_bwd(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    uint8_t dtype = d->io[0].dtype;
    struct own_table t;
    float *sums;
    enum sl_err rc;

    own_table(&t, &d->io[0],
              own_wide(3, (void *[]){c->io[0], c->io[1], c->io[5]}));
    sums = (float *)(c->workspace + own_table_bytes(&t, 2));
    const struct args_bn a = {
        .t = t.t,
        .x = c->io[0],
        .dy = c->io[1],
        .y = c->io[5],
        .gamma = c->io[2],
        .mean = c->io[3],
        .var = c->io[4],
        .sums = sums,
        .partial = (float *)c->workspace,
        .epsilon = d->u.norm.epsilon,
        .drelu = kern_has(d, KERN_DRELU),
    };
    const struct args_bn_end end = {
        .partial = a.partial,
        .dgamma = c->io[6],
        .dbeta = c->io[7],
        .sums = sums,
        .rows = t.t.rows,
        .cols = t.t.cols,
        .blocks = (int32_t)t.down,
        .accum = kern_has(d, KERN_ACCUM),
    };

    rc =
        OWN_LAUNCH(c, own_typed(CUDA_bn_sums_f32, dtype), t.across, t.down, &a);
    if (rc == SL_OK)
        rc = OWN_LAUNCH(c, CUDA_bn_sums_end, own_end_blocks(t.t.cols), 1, &end);
    return rc == SL_OK ? bn_dx(c, &t, &a) : rc;
}

const struct own_op own_bn_fwd = {bn_fwd, bn_bytes};
const struct own_op own_bn_infer = {bn_infer, NULL};
const struct own_op own_bn_bwd = {bn_bwd, bn_bytes};
