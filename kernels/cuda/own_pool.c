// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_pool.c -- pools and column sums: launches of pool.cu and
// reduce.cu.
#include "kernels/cuda/own.h"

static void pool_args(struct args_pool *a, const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    bool back = d->op == KERN_POOL_BWD, max = d->u.pool.kind == KERN_POOL_MAX;
    struct kern_conv_dims p;
    int64_t pack = own_pack(d->io[0].dtype);
    unsigned out = d->inputs, aux = back ? 1 : out + 1;

    kern_conv_dims(&p, d);
    *a = (struct args_pool){
        .x = c->io[0],
        .y = c->io[out],
        .aux = max && (back || kern_has(d, KERN_AUX)) ? c->io[aux] : NULL,
        .h = (int32_t)p.h,
        .w = (int32_t)p.w,
        .c = (int32_t)p.ci,
        .oh = (int32_t)p.oh,
        .ow = (int32_t)p.ow,
        .kh = p.win.size[0],
        .kw = p.win.size[1],
        .sh = p.win.stride[0],
        .sw = p.win.stride[1],
        .ph = p.win.pad_before[0],
        .pw = p.win.pad_before[1],
        .packs = (int32_t)own_ceil(p.ci, pack),
        .drelu = kern_has(d, KERN_DRELU),
    };
    a->aux_i32 = a->aux && d->io[aux].dtype == KERN_I32;
    a->n = p.n * (back ? p.h * p.w : p.oh * p.ow) * a->packs;
    a->wide = p.ci % pack == 0 &&
              own_wide(3, (void *[]){c->io[0], c->io[out], a->aux});
}

static enum sl_err own_launch_pool(const struct own_call *c,
                                   enum cuda_kernel max, enum cuda_kernel avg)
{
    bool is_max = c->d->u.pool.kind == KERN_POOL_MAX;
    struct args_pool a;

    pool_args(&a, c);
    return OWN_LAUNCH(c, own_typed(is_max ? max : avg, c->d->io[0].dtype),
                      own_blocks(a.n, 1), 1, &a);
}

// ---- The mean of whole images ---------------------------------------------

#define ALL_LEAST 32 // pixels; a thread per output walks fewer in no time

// True if every window is its whole image, and how the images are cut.
static bool is_all(struct own_table *t, const struct kern_desc *d, bool wide)
{
    struct kern_conv_dims p;

    kern_conv_dims(&p, d);
    if (d->u.pool.kind == KERN_POOL_MAX || p.n * p.ci == 0 ||
        p.oh * p.ow != 1 || p.win.size[0] - p.win.pad_before[0] < p.h ||
        p.win.size[1] - p.win.pad_before[1] < p.w || p.h * p.w < ALL_LEAST)
        return false;
    own_tables(t, p.n, p.h * p.w, p.ci, d->io[0].dtype, wide);
    return true;
}

static size_t all_bytes(const struct kern_desc *d)
{
    struct own_table t;

    return is_all(&t, d, true)
               ? (size_t)d->io[0].dim[0] * own_table_bytes(&t, 1)
               : 0;
}

static enum sl_err own_launch_pool_all(const struct own_call *c,
                                       const struct own_table *t)
{
    const struct kern_shape *x = &c->d->io[0];
    const struct args_pool_all a = {
        .t = t->t,
        .x = c->io[0],
        .partial = (float *)c->workspace,
        .across = (int32_t)t->across,
    };
    const struct args_pool_all_end end = {
        .partial = a.partial,
        .y = c->io[1],
        .n = x->dim[0] * t->t.cols,
        .cols = (int32_t)t->t.cols,
        .blocks = (int32_t)t->down,
        .over = (float)t->t.rows,
    };
    enum sl_err rc = OWN_LAUNCH(c, own_typed(CUDA_pool_all_fwd_f32, x->dtype),
                                t->across * x->dim[0], t->down, &a);

    return rc == SL_OK
               ? OWN_LAUNCH(c, own_typed(CUDA_pool_all_end_f32, x->dtype),
                            own_blocks(end.n, 1), 1, &end)
               : rc;
}

// ---- Pools ----------------------------------------------------------------

static enum sl_err own_launch_pool_fwd(const struct own_call *c)
{
    struct own_table t;

    // A thread per output would walk all pixels of its image: at batch 32 of
    // 32x32x128 that is 4 blocks on the whole GPU, and 1,024 in parts.
    if (is_all(&t, c->d, own_wide(1, c->io)))
        return own_launch_pool_all(c, &t);
    return own_launch_pool(c, CUDA_pool_max_fwd_f32, CUDA_pool_avg_fwd_f32);
}

static enum sl_err own_launch_pool_bwd(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    enum sl_err rc =
        own_launch_pool(c, CUDA_pool_max_bwd_f32, CUDA_pool_avg_bwd_f32);

    if (rc != SL_OK || !kern_has(d, KERN_BGRAD))
        return rc;
    // The sum of dx is that of the dy that reached a pixel.
    return own_column_sum(c, &d->io[0], c->io[0], &d->io[1], c->io[1],
                          c->io[3]);
}

static size_t column_bytes(const struct kern_desc *d)
{
    struct own_table t;

    if (d->op == KERN_POOL_BWD && !kern_has(d, KERN_BGRAD))
        return 0;
    own_table(&t, &d->io[0], true);
    return own_table_bytes(&t, 1);
}

enum sl_err own_column_end(const struct own_call *c, const struct own_table *t,
                           float *y)
{
    const struct args_reduce_end a = {
        .partial = (const float *)c->workspace,
        .y = y,
        .cols = t->t.cols,
        .blocks = (int32_t)t->down,
        .accum = kern_has(c->d, KERN_ACCUM),
    };

    return OWN_LAUNCH(c, CUDA_reduce_end, own_end_blocks(t->t.cols), 1, &a);
}

enum sl_err own_column_sum(const struct own_call *c, const struct kern_shape *s,
                           const void *x, const struct kern_shape *aux_shape,
                           const void *aux, float *y)
{
    void *const at[] = {(void *)(uintptr_t)x, (void *)(uintptr_t)aux};
    struct own_table t;
    enum sl_err rc;

    own_table(&t, s, own_wide(2, at));
    {
        const struct args_reduce a = {
            .t = t.t,
            .x = x,
            .aux = aux,
            .aux_i32 = aux && aux_shape->dtype == KERN_I32,
            .partial = (float *)c->workspace,
        };

        rc = OWN_LAUNCH(c, own_typed(CUDA_reduce_f32, s->dtype), t.across,
                        t.down, &a);
    }
    return rc == SL_OK ? own_column_end(c, &t, y) : rc;
}

static enum sl_err own_launch_reduce(const struct own_call *c)
{
    return own_column_sum(c, &c->d->io[0], c->io[0], NULL, NULL, c->io[1]);
}

const struct own_op own_pool_fwd = {own_launch_pool_fwd, all_bytes};
const struct own_op own_pool_bwd = {own_launch_pool_bwd, column_bytes};
const struct own_op own_reduce = {own_launch_reduce, column_bytes};
