// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/plain.c -- from a descriptor to the loops of oracle.cu.
#include "kernels/cuda/plain.h"

#include "kernels/cuda/own.h"
#include "kernels/cuda/vendor.h"

#define LONG_SUM 4096 // terms from which on a block shares them

// Returns the length of the sum that conformance's bound counts with; fills in
// the terms.
static double args_of_matmul(struct args_oracle *a, const struct kern_desc *d)
{
    struct kern_matmul_dims m;

    kern_matmul_dims(&m, d);
    a->op = ORACLE_MATMUL;
    a->m = m.m;
    a->n = m.n;
    a->k = a->terms = m.k;
    a->trans_a = d->u.matmul.trans_a;
    a->trans_b = d->u.matmul.trans_b;
    return (double)m.k + 2;
}

static double args_of_conv(struct args_oracle *a, const struct kern_desc *d)
{
    struct kern_conv_dims c;
    int64_t taps;

    kern_conv_dims(&c, d);
    taps = (int64_t)c.win.size[0] * c.win.size[1];
    a->h = (int32_t)c.h;
    a->w = (int32_t)c.w;
    a->ci = (int32_t)c.ci;
    a->oh = (int32_t)c.oh;
    a->ow = (int32_t)c.ow;
    a->co = (int32_t)c.co;
    a->kh = c.win.size[0];
    a->kw = c.win.size[1];
    a->groups = (int32_t)c.groups;
    for (int k = 0; k < 2; k++) {
        a->stride[k] = c.win.stride[k];
        a->dilation[k] = c.win.dilation[k];
        a->before[k] = c.win.pad_before[k];
    }
    a->op = d->op == KERN_CONV_FWD     ? ORACLE_FWD
            : d->op == KERN_CONV_DGRAD ? ORACLE_DGRAD
                                       : ORACLE_WGRAD;
    a->terms = d->op == KERN_CONV_FWD     ? c.ci / c.groups * taps
               : d->op == KERN_CONV_DGRAD ? c.co / c.groups * taps
                                          : c.n * c.oh * c.ow;
    return (double)(a->terms + (d->op == KERN_CONV_FWD));
}

// The second output: sums of a matrix' columns, which A and dy are.
static void args_of_sums(struct args_oracle *a, const struct kern_desc *d,
                         void *const *io)
{
    unsigned from = d->op == KERN_MATMUL ? 0 : 1;

    a->op = ORACLE_SUMS;
    a->a = io[from];
    a->n = kern_cols(&d->io[from]);
    a->terms = kern_rows(&d->io[from]);
}

void plain_args(struct args_oracle *a, const struct kern_desc *d, unsigned out,
                void *const *io, bool tf32)
{
    bool sums = out > d->inputs;
    double length;

    *a = (struct args_oracle){
        .a = io[0],
        .b = io[1],
        .bias = !sums && kern_has(d, KERN_BIAS) ? io[2] : NULL,
        .y = io[out],
        .count = kern_shape_count(&d->io[out]),
        .relu = !sums && kern_has(d, KERN_RELU),
        .accum = kern_has(d, KERN_ACCUM),
        .dtype = d->io[0].dtype,
        .y_dtype = d->io[out].dtype,
        .bias_dtype = kern_has(d, KERN_BIAS) ? d->io[2].dtype : 0,
        .groups = 1,
    };
    length = d->op == KERN_MATMUL ? args_of_matmul(a, d) : args_of_conv(a, d);
    if (sums)
        args_of_sums(a, d, io);
    a->warps = a->terms >= LONG_SUM ? CUDA_THREADS / 32 : 1;
    a->allow = allow_of((enum kern_dtype)a->y_dtype, length,
                        tf32 && !sums && a->dtype == KERN_F32);
}

enum sl_err plain_launch(struct cuda_dev *dev, cudaStream_t s,
                         const struct args_oracle *a)
{
    return CUDA_LAUNCH(dev, s, CUDA_oracle_sum,
                       own_ceil(a->count * a->warps, CUDA_THREADS / 32), 1, a);
}

// ---- Plans ------------------------------------------------------------------

static enum sl_err plain_run(struct cuda_plan *plan, cudaStream_t s,
                             void *const *io, void *workspace)
{
    const struct kern_desc *d = &((struct desc_plan *)plan)->desc;
    enum sl_err rc = SL_OK;

    for (unsigned out = d->inputs; out < d->inputs + d->outputs && rc == SL_OK;
         out++) {
        struct args_oracle a;

        plain_args(&a, d, out, io, false);
        rc = plain_launch(plan->dev, s, &a);
    }
    return rc;
}

enum sl_err plain_plan(struct kern_plan **out, size_t *workspace_bytes,
                       struct cuda_dev *dev, const struct kern_desc *d,
                       struct sl_error *err)
{
    return desc_plan_new(out, workspace_bytes, dev, d, "own plain", plain_run,
                         err);
}
