// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_rows.c -- layer norm, rows of a table: launches of rows.cu.
#include "kernels/cuda/own.h"

#define ROWS_PER_BLOCK (CUDA_THREADS / 32) // a warp each
#define TABLE_COLS 128                     // rows.cu

static enum sl_err own_launch_ln(const struct own_call *c, enum cuda_kernel f32)
{
    const struct kern_desc *d = c->d;
    bool back = d->op == KERN_LN_BWD;
    const struct args_ln a = {
        .x = c->io[0],
        .dy = back ? c->io[1] : NULL,
        .gamma = back ? c->io[2] : c->io[1],
        .beta = back ? NULL : c->io[2],
        .y = c->io[3],
        .t = back ? c->io[4] : NULL,
        .rows = kern_rows(&d->io[0]),
        .cols = (int32_t)kern_cols(&d->io[0]),
        .epsilon = d->u.norm.epsilon,
    };

    return OWN_LAUNCH(c, own_typed(f32, d->io[0].dtype),
                      own_ceil(a.rows, ROWS_PER_BLOCK), 1, &a);
}

static enum sl_err own_launch_ln_fwd(const struct own_call *c)
{
    return own_launch_ln(c, CUDA_ln_fwd_f32);
}

static enum sl_err own_launch_ln_bwd(const struct own_call *c)
{
    return own_launch_ln(c, CUDA_ln_bwd_f32);
}

const struct own_op own_ln_fwd = {own_launch_ln_fwd, NULL};
const struct own_op own_ln_bwd = {own_launch_ln_bwd, NULL};

static struct args_gather own_gather_args(const struct own_call *c,
                                          const struct kern_shape *table)
{
    return (struct args_gather){
        .ids = c->io[0],
        .from = c->io[1],
        .to = c->io[2],
        .n = c->d->io[0].dim[0],
        .rows = table->dim[0],
        .cols = (int32_t)table->dim[1],
    };
}

static enum sl_err own_launch_gather(const struct own_call *c)
{
    const struct args_gather a = own_gather_args(c, &c->d->io[1]);

    return OWN_LAUNCH(c, own_typed(CUDA_gather_f32, c->d->io[2].dtype),
                      own_ceil(a.n, ROWS_PER_BLOCK), 1, &a);
}

static enum sl_err own_launch_gather_bwd(const struct own_call *c)
{
    const struct args_gather a = own_gather_args(c, &c->d->io[2]);

    return OWN_LAUNCH(c, own_typed(CUDA_gather_bwd_f32, c->d->io[1].dtype),
                      own_ceil(a.rows, ROWS_PER_BLOCK),
                      own_ceil(a.cols, TABLE_COLS), &a);
}

const struct own_op own_gather = {own_launch_gather, NULL};
const struct own_op own_gather_bwd = {own_launch_gather_bwd, NULL};
