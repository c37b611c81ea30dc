// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own_flat.c -- ops element by element: launches of unary.cu and
// flat.cu.
#include "kernels/cuda/own.h"
#include "kernels/dropout.h"

static enum sl_err own_launch_unary(const struct own_call *c,
                                    enum cuda_kernel f32)
{
    const struct kern_desc *d = c->d;
    bool back = d->op == KERN_UNARY_BWD;
    const struct args_unary a = {
        .x = c->io[0],
        .dy = back ? c->io[1] : NULL,
        .y = c->io[d->inputs],
        .n = kern_shape_count(&d->io[0]),
        .a = d->u.unary.a,
        .kind = d->u.unary.kind,
        .wide = own_wide(d->inputs + 1u, c->io),
    };
    uint8_t t = d->io[0].dtype;

    return OWN_LAUNCH(c, own_typed(f32, t), own_blocks(a.n, own_pack(t)), 1,
                      &a);
}

static enum sl_err own_launch_unary_fwd(const struct own_call *c)
{
    return own_launch_unary(c, CUDA_unary_fwd_f32);
}

static enum sl_err own_launch_unary_bwd(const struct own_call *c)
{
    return own_launch_unary(c, CUDA_unary_bwd_f32);
}

const struct own_op own_unary_fwd = {own_launch_unary_fwd, NULL};
const struct own_op own_unary_bwd = {own_launch_unary_bwd, NULL};

static enum sl_err own_launch_binary(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    struct args_binary a = {
        .y = c->io[d->inputs],
        .n = kern_shape_count(&d->io[0]),
        .inputs = d->inputs,
        .kind = d->u.unary.kind,
        .wide = own_wide(d->inputs + 1u, c->io),
    };
    uint8_t t = d->io[0].dtype;

    for (unsigned i = 0; i < d->inputs; i++)
        a.x[i] = c->io[i];
    return OWN_LAUNCH(c, own_typed(CUDA_binary_f32, t),
                      own_blocks(a.n, own_pack(t)), 1, &a);
}

const struct own_op own_binary = {own_launch_binary, NULL};

static enum sl_err own_launch_pick(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    struct args_pick a = {
        .dy = c->io[0],
        .y = c->io[d->inputs],
        .n = kern_shape_count(&d->io[0]),
        .inputs = d->inputs - 1,
        .kind = d->u.pick.kind,
        .which = d->u.pick.which,
        .wide = own_wide(d->inputs + 1u, c->io),
    };
    uint8_t t = d->io[0].dtype;

    for (int i = 0; i < a.inputs; i++)
        a.x[i] = c->io[i + 1];
    return OWN_LAUNCH(c, own_typed(CUDA_pick_f32, t),
                      own_blocks(a.n, own_pack(t)), 1, &a);
}

const struct own_op own_pick = {own_launch_pick, NULL};

// ---- Views ----------------------------------------------------------------

// The dims of a view, those that lie one behind the other in both tensors made
// into one, and those of 1 left out.
static void own_view_merge_dims(struct args_view *v, const struct kern_shape *x,
                                const struct kern_shape *y)
{
    int k = KERN_DIMS; // v's dims fill from the end

    for (unsigned i = y->nd; i-- > 0;) {
        int64_t dim = y->dim[i], xs = x->stride[i], ys = y->stride[i];

        if (dim == 1)
            continue;
        if (k < KERN_DIMS && xs == v->x_stride[k] * v->dim[k] &&
            ys == v->y_stride[k] * v->dim[k] && dim * v->dim[k] <= INT32_MAX) {
            v->dim[k] *= (uint32_t)dim;
            continue;
        }
        k--;
        v->dim[k] = (uint32_t)dim;
        v->x_stride[k] = xs;
        v->y_stride[k] = ys;
    }
    v->nd = KERN_DIMS - k;
    for (int i = 0; i < v->nd; i++) {
        v->dim[i] = v->dim[k + i];
        v->x_stride[i] = v->x_stride[k + i];
        v->y_stride[i] = v->y_stride[k + i];
    }
}

// Whether the last dim lies side by side in whole packs, which is then what a
// thread has; `count` elements are in all.
static void own_view_cut_packs(struct args_view *v, int64_t pack, int64_t count,
                               bool wide)
{
    int last = v->nd - 1;

    v->n = count;
    if (v->nd == 0 || v->x_stride[last] != 1 || v->y_stride[last] != 1 ||
        v->dim[last] % pack != 0)
        return;
    for (int i = 0; i < last; i++)
        if (v->x_stride[i] % pack != 0 || v->y_stride[i] % pack != 0)
            return;
    v->packs = (int32_t)(v->dim[last] / pack);
    v->n = count / pack;
    v->wide = wide;
}

static bool own_view_is_flat(const struct args_view *v)
{
    return v->nd == 0 ||
           (v->nd == 1 && v->x_stride[0] == 1 && v->y_stride[0] == 1);
}

static enum sl_err own_launch_axpby(const struct own_call *c)
{
    static const enum cuda_kernel dense[] = {CUDA_axpby_from_f32_to_f32,
                                             CUDA_axpby_from_f16_to_f32,
                                             CUDA_axpby_from_bf16_to_f32};
    static const enum cuda_kernel any[] = {CUDA_view_from_f32_to_f32,
                                           CUDA_view_from_f16_to_f32,
                                           CUDA_view_from_bf16_to_f32};
    const struct kern_shape *x = &c->d->io[0], *y = &c->d->io[1];
    int from = x->dtype == KERN_F16 ? 1 : x->dtype == KERN_BF16 ? 2 : 0;
    int64_t xp = own_pack(x->dtype), yp = own_pack(y->dtype);
    struct args_view v = {
        .x = c->io[0],
        .y = c->io[1],
        .a = c->d->u.unary.a,
        .b = c->d->u.unary.b,
    };
    int64_t n = kern_shape_count(y), pack = xp < yp ? xp : yp;

    own_view_merge_dims(&v, x, y);
    if (own_view_is_flat(&v)) {
        const struct args_axpby a = {v.x, v.y, n, v.a, v.b, own_wide(2, c->io)};

        return OWN_LAUNCH(c, own_typed(dense[from], y->dtype),
                          own_blocks(n, pack), 1, &a);
    }
    own_view_cut_packs(&v, pack, n, own_wide(2, c->io));
    return OWN_LAUNCH(c, own_typed(any[from], y->dtype), own_blocks(v.n, 1), 1,
                      &v);
}

static enum sl_err own_launch_fill(const struct own_call *c)
{
    const struct kern_shape *y = &c->d->io[0];
    struct args_view v = {
        .y = c->io[0],
        .a = c->d->u.unary.a,
    };

    own_view_merge_dims(&v, y, y);
    own_view_cut_packs(&v, own_pack(y->dtype), kern_shape_count(y),
                       own_wide(1, c->io));
    return OWN_LAUNCH(c, own_typed(CUDA_fill_f32, y->dtype), own_blocks(v.n, 1),
                      1, &v);
}

const struct own_op own_axpby = {own_launch_axpby, NULL};
const struct own_op own_fill = {own_launch_fill, NULL};

// ---- Dropout, images ------------------------------------------------------

static enum sl_err own_launch_dropout(const struct own_call *c)
{
    const struct kern_desc *d = c->d;
    void *const wide[] = {c->io[0], c->io[2]};
    const struct args_dropout a = {
        .x = c->io[0],
        .key = c->io[1],
        .y = c->io[2],
        .n = kern_shape_count(&d->io[0]),
        .below = (uint32_t)dropout_threshold(d->u.dropout.rate),
        .layer = d->u.dropout.layer,
        .keep = (float)(1 / (1 - (double)d->u.dropout.rate)),
        .wide = own_wide(2, wide),
        .first = d->u.dropout.first,
    };
    uint8_t t = d->io[0].dtype;

    return OWN_LAUNCH(c, own_typed(CUDA_dropout_f32, t),
                      own_blocks(a.n, own_pack(t)), 1, &a);
}

static enum sl_err own_launch_image_u8(const struct own_call *c)
{
    const struct kern_shape *x = &c->d->io[0], *y = &c->d->io[1];
    const struct args_image a = {
        .x = c->io[0],
        .y = c->io[1],
        .n = kern_shape_count(y),
        .x_cols = (int32_t)kern_cols(x),
        .y_cols = (int32_t)kern_cols(y),
        .a = c->d->u.unary.a,
        .b = c->d->u.unary.b,
        .wide = own_wide(1, c->io + 1),
    };

    return OWN_LAUNCH(c, own_typed(CUDA_image_u8_f32, y->dtype),
                      own_blocks(a.n, own_pack(y->dtype)), 1, &a);
}

const struct own_op own_dropout = {own_launch_dropout, NULL};
const struct own_op own_image_u8 = {own_launch_image_u8, NULL};
