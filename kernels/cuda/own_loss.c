// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_loss.c -- softmax, losses, penalties, unscale: launches of
// loss.cu.
#include "kernels/cuda/own.h"

#define ROWS_PER_BLOCK (CUDA_THREADS / 32) // a warp each

static enum sl_err own_launch_softmax(const struct own_call *c,
                                      enum cuda_kernel f32)
{
    const struct kern_desc *d = c->d;
    const struct args_softmax a = {
        .x = c->io[0],
        .dy = d->inputs > 1 ? c->io[1] : NULL,
        .y = c->io[d->inputs],
        .rows = kern_rows(&d->io[0]),
        .cols = (int32_t)kern_cols(&d->io[0]),
    };

    return OWN_LAUNCH(c, own_typed(f32, d->io[0].dtype),
                      own_ceil(a.rows, ROWS_PER_BLOCK), 1, &a);
}

static enum sl_err own_launch_softmax_fwd(const struct own_call *c)
{
    return own_launch_softmax(c, CUDA_softmax_fwd_f32);
}

static enum sl_err own_launch_softmax_bwd(const struct own_call *c)
{
    return own_launch_softmax(c, CUDA_softmax_bwd_f32);
}

const struct own_op own_softmax_fwd = {own_launch_softmax_fwd, NULL};
const struct own_op own_softmax_bwd = {own_launch_softmax_bwd, NULL};

// ---- Losses ---------------------------------------------------------------

static int64_t xent_blocks(const struct kern_desc *d)
{
    return own_ceil(kern_rows(&d->io[0]), ROWS_PER_BLOCK);
}

static size_t xent_bytes(const struct kern_desc *d)
{
    return own_stats_bytes(xent_blocks(d));
}

static enum sl_err own_launch_xent(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    bool sparse = d->io[1].dtype == KERN_I32;
    int64_t blocks = xent_blocks(d);
    const struct args_xent a = {
        .x = c->io[0],
        .label = sparse ? c->io[1] : NULL,
        .target = sparse ? NULL : c->io[1],
        .scale = c->io[2],
        .weight = kern_has(d, KERN_WEIGHT) ? c->io[3] : NULL,
        .dx = c->io[d->inputs],
        .partial = (double *)c->workspace,
        .rows = kern_rows(&d->io[0]),
        .cols = (int32_t)kern_cols(&d->io[0]),
        .label_each = (int32_t)kern_each(&d->io[1]),
        .top = d->u.loss.top > 1 ? d->u.loss.top : 1,
        .smoothing = d->u.loss.smoothing,
    };
    enum sl_err rc =
        OWN_LAUNCH(c, own_typed(CUDA_xent_f32, d->io[0].dtype), blocks, 1, &a);

    return rc == SL_OK ? own_stats_end(c, blocks, c->io[d->inputs + 1u], 1)
                       : rc;
}

static size_t stats_bytes(const struct kern_desc *d)
{
    return own_stats_bytes(own_stats_blocks(&d->io[0]));
}

static enum sl_err own_launch_loss(const struct own_call *c,
                                   enum cuda_kernel f32)
{
    const struct kern_desc *d = c->d;
    int64_t blocks = own_stats_blocks(&d->io[0]);
    double cols = (double)kern_cols(&d->io[0]);
    const struct args_loss a = {
        .x = c->io[0],
        .target = c->io[1],
        .scale = c->io[2],
        .weight = kern_has(d, KERN_WEIGHT) ? c->io[3] : NULL,
        .dx = c->io[d->inputs],
        .partial = (double *)c->workspace,
        .n = kern_shape_count(&d->io[0]),
        .each = kern_each(&d->io[0]),
        .over = (float)(1 / cols),
        .smoothing = d->u.loss.smoothing,
        .logits = d->op == KERN_BCE && d->u.loss.kind == KERN_BCE_LOGITS,
        .absolute = d->op == KERN_MSE && d->u.loss.kind == KERN_MSE_ABSOLUTE,
        .wide = own_wide(3, (void *[]){c->io[0], c->io[1], c->io[d->inputs]}),
    };
    enum sl_err rc =
        OWN_LAUNCH(c, own_typed(f32, d->io[0].dtype), blocks, 1, &a);

    return rc == SL_OK ? own_stats_end(c, blocks, c->io[d->inputs + 1u], cols)
                       : rc;
}

static enum sl_err own_launch_bce(const struct own_call *c)
{
    return own_launch_loss(c, CUDA_bce_f32);
}

static enum sl_err own_launch_mse(const struct own_call *c)
{
    return own_launch_loss(c, CUDA_mse_f32);
}

static enum sl_err own_launch_unscale_check(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    int64_t blocks = own_stats_blocks(&d->io[0]);
    const struct args_unscale a = {
        .g = c->io[0],
        .scale = c->io[1],
        .h = c->io[2],
        .partial = (double *)c->workspace,
        .n = kern_shape_count(&d->io[0]),
        .wide = own_wide(2, (void *[]){c->io[0], c->io[2]}),
    };
    enum sl_err rc = OWN_LAUNCH(
        c, own_typed(CUDA_unscale_check_f32, d->io[0].dtype), blocks, 1, &a);

    return rc == SL_OK ? own_stats_end(c, blocks, c->io[3], 1) : rc;
}

static enum sl_err own_launch_penalty(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    int64_t blocks = own_stats_blocks(&d->io[0]);
    const struct args_penalty a = {
        .w = c->io[0],
        .scale = c->io[1],
        .unscale = c->io[2],
        .h = c->io[3],
        .partial = (double *)c->workspace,
        .n = kern_shape_count(&d->io[0]),
        .l1 = d->u.penalty.l1,
        .l2 = d->u.penalty.l2,
        .rows = d->u.penalty.rows,
        .wide = own_wide(2, (void *[]){c->io[0], c->io[3]}),
    };
    enum sl_err rc = OWN_LAUNCH(c, own_typed(CUDA_penalty_f32, d->io[0].dtype),
                                blocks, 1, &a);

    return rc == SL_OK ? own_stats_end(c, blocks, c->io[4], 1) : rc;
}

const struct own_op own_penalty = {own_launch_penalty, stats_bytes};
const struct own_op own_xent = {own_launch_xent, xent_bytes};
const struct own_op own_bce = {own_launch_bce, stats_bytes};
const struct own_op own_mse = {own_launch_mse, stats_bytes};
const struct own_op own_unscale_check = {own_launch_unscale_check, stats_bytes};
