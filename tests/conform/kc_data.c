// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_data.c -- tensors between canaries, and what is in them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "kernels/half.h"
#include "kernels/ref/ref.h"
#include "tests/conform/kc.h"
#include "tests/harness/draw.h"

#define CANARY 0xA5

double kc_get(const struct kern_shape *s, const void *at, int64_t i)
{
    switch (s->dtype) {
    case KERN_F64:
        return ((const double *)at)[i];
    case KERN_U8:
        return ((const uint8_t *)at)[i];
    case KERN_I32:
        return ((const int32_t *)at)[i];
    case KERN_I64:
        return (double)((const int64_t *)at)[i];
    case KERN_F16:
        return half_from_f16(((const uint16_t *)at)[i]);
    case KERN_BF16:
        return half_from_bf16(((const uint16_t *)at)[i]);
    default:
        return ((const float *)at)[i];
    }
}

// Of the float dtypes; rounded once.
static void put(const struct kern_shape *s, void *at, int64_t i, double x)
{
    if (s->dtype == KERN_F64)
        ((double *)at)[i] = x;
    else if (s->dtype == KERN_F16)
        ((uint16_t *)at)[i] = half_to_f16((float)x);
    else if (s->dtype == KERN_BF16)
        ((uint16_t *)at)[i] = half_to_bf16((float)x);
    else
        ((float *)at)[i] = (float)x;
}

static bool is_real(const struct kern_shape *s)
{
    return s->dtype == KERN_F32 || s->dtype == KERN_F64 ||
           s->dtype == KERN_F16 || s->dtype == KERN_BF16;
}

void kc_bufs_new(struct kc_bufs *b, const struct kern_desc *d, size_t shift)
{
    memset(b, 0, sizeof(*b));
    b->d = *d;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        size_t each = kern_dtype_bytes((enum kern_dtype)d->io[i].dtype);

        b->bytes[i] = (size_t)kern_shape_extent(&d->io[i]) * each;
        b->whole[i] = b->bytes[i] + 3 * KC_GUARD;
        b->base[i] = aligned_alloc(64, (b->whole[i] + 63) & ~(size_t)63);
        memset(b->base[i], CANARY, b->whole[i]);
        // Small elements take the shift as it is, f64 at least its own size.
        b->io[i] = b->base[i] + KC_GUARD + (each == 8 && shift % 8 ? 8 : shift);
    }
}

void kc_bufs_free(struct kc_bufs *b)
{
    for (unsigned i = 0; i < b->d.inputs + b->d.outputs; i++)
        free(b->base[i]);
    memset(b, 0, sizeof(*b));
}

bool kc_canaries_hold(const struct kc_bufs *b)
{
    for (unsigned i = 0; i < b->d.inputs + b->d.outputs; i++) {
        const unsigned char *from = (unsigned char *)b->base[i];
        const unsigned char *io = b->io[i];
        const unsigned char *end = from + b->whole[i];

        if (io < from || io >= end)
            continue; // in place of another tensor, which is looked at
        for (const unsigned char *p = from; p < io; p++)
            if (*p != CANARY)
                return false;
        for (const unsigned char *p = io + b->bytes[i]; p < end; p++)
            if (*p != CANARY)
                return false;
    }
    return true;
}

void kc_bufs_copy(struct kc_bufs *to, const struct kc_bufs *from)
{
    for (unsigned i = 0; i < to->d.inputs + to->d.outputs; i++)
        memcpy(to->io[i], from->io[i], from->bytes[i]);
}

void kc_run_ref(const struct kern_desc *d, void *const *io)
{
    bool wide =
        d->io[0].dtype == KERN_F64 || d->io[d->inputs].dtype == KERN_F64;
    size_t bytes = ref_mixed_bytes(d);

    if (bytes > 0) {
        void *workspace = sl_aligned(64, bytes);

        ref_mixed_run(d, io, workspace);
        sl_free(workspace);
        return;
    }
    (wide ? ref_f64_table : ref_f32_table)[d->op](d, io);
}

// ---- Contents -------------------------------------------------------------

static float uniform(struct rng *r, float low, float high)
{
    return low + (high - low) * draw_float(r);
}

// Float tensors in [low, high), every 16th element 0 where that is in
// range: exact zeros are where masks and ties live.
static void fill_real(const struct kc_bufs *b, unsigned i, struct rng *r,
                      float low, float high)
{
    const struct kern_shape *s = &b->d.io[i];

    for (int64_t k = 0; k < kern_shape_extent(s); k++) {
        float x = uniform(r, low, high);

        if (low < 0 && rng_u32(r) % 16 == 0)
            x = 0;
        put(s, b->io[i], k, x);
    }
}

static void fill_whole(const struct kc_bufs *b, unsigned i, struct rng *r,
                       int64_t below)
{
    const struct kern_shape *s = &b->d.io[i];

    for (int64_t k = 0; k < kern_shape_extent(s); k++) {
        uint64_t x = rng_u64(r);

        if (s->dtype == KERN_U8)
            ((uint8_t *)b->io[i])[k] = (uint8_t)x;
        else if (s->dtype == KERN_I32)
            ((int32_t *)b->io[i])[k] = (int32_t)(x % (uint64_t)below);
        else
            ((int64_t *)b->io[i])[k] = (int64_t)x;
    }
}

// What a forward pass would have left for POOL_BWD.
static void fill_aux(const struct kc_bufs *b, struct rng *r)
{
    const struct kern_shape *x = &b->d.io[b->d.inputs];
    struct kern_desc d;
    struct kc_bufs f;

    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_MAX, x->dim, &b->d.u.pool.win,
                   KERN_AUX | KERN_DRELU);
    kc_bufs_new(&f, &d, 0);
    fill_real(&f, 0, r, -0.5f, 1);
    kc_run_ref(&d, f.io);
    memcpy(b->io[1], f.io[2], b->bytes[1]);
    kc_bufs_free(&f);
}

// What a forward pass would have left for UNARY_BWD.
static void fill_saved(const struct kc_bufs *b, struct rng *r)
{
    enum kern_unary_kind kind = (enum kern_unary_kind)b->d.u.unary.kind;
    struct kern_desc d;
    struct kc_bufs f;

    if (kern_unary_saves_input(kind)) {
        fill_real(b, 0, r, -6, 6);
        return;
    }
    kern_desc_unary(&d, KERN_UNARY_FWD, kind, b->d.u.unary.a, b->d.io[0].nd,
                    b->d.io[0].dim);
    kc_bufs_new(&f, &d, 0);
    fill_real(&f, 0, r, -6, 8);
    kc_run_ref(&d, f.io);
    for (int64_t i = 0; i < kern_shape_extent(&d.io[0]); i++)
        put(&b->d.io[0], b->io[0], i, ((float *)f.io[1])[i]);
    kc_bufs_free(&f);
}

// Rows that sum to 1, of f32 [n,c].
static void fill_distribution(const struct kc_bufs *b, unsigned i,
                              struct rng *r)
{
    int64_t rows = kern_rows(&b->d.io[i]), cols = kern_cols(&b->d.io[i]);

    fill_real(b, i, r, 0, 1);
    for (int64_t k = 0; k < rows; k++) {
        double sum = 1e-9;

        for (int64_t c = 0; c < cols; c++)
            sum += kc_get(&b->d.io[i], b->io[i], k * cols + c);
        for (int64_t c = k * cols; c < (k + 1) * cols; c++)
            put(&b->d.io[i], b->io[i], c,
                kc_get(&b->d.io[i], b->io[i], c) / sum);
    }
}

// Probabilities, with the ends that are clipped.
static void fill_probabilities(const struct kc_bufs *b, struct rng *r)
{
    fill_real(b, 0, r, 0.01f, 0.99f);
    for (int64_t i = 0;
         b->d.io[0].dtype != KERN_F64 && i < kern_shape_extent(&b->d.io[0]);
         i += 13)
        put(&b->d.io[0], b->io[0], i, i % 26 ? 0 : 1);
}

static void fill_loss(const struct kc_bufs *b, struct rng *r)
{
    bool probabilities =
        b->d.op == KERN_BCE && b->d.u.loss.kind == KERN_BCE_PROBABILITIES;

    if (probabilities)
        fill_probabilities(b, r);
    else
        fill_real(b, 0, r, -8, 8);
    if (b->d.io[1].dtype == KERN_I32)
        fill_whole(b, 1, r, kern_cols(&b->d.io[0]));
    else if (b->d.op == KERN_XENT)
        fill_distribution(b, 1, r);
    else
        fill_real(b, 1, r, 0, 1);
    fill_real(b, 2, r, 0.1f, 2);
}

// Whole numbers below the table's rows, some with a part behind the point; a
// few are none of its rows where that is not looked at in differences.
static void fill_ids(const struct kc_bufs *b, struct rng *r)
{
    const struct kern_shape *table =
        &b->d.io[b->d.op == KERN_GATHER ? 1 : b->d.inputs];

    for (int64_t i = 0; i < b->d.io[0].dim[0]; i++) {
        double id = (double)rng_below(r, (uint64_t)table->dim[0]);

        id += rng_u32(r) % 4 == 0 ? 0.5 : 0;
        if (b->d.op == KERN_GATHER_BWD && rng_u32(r) % 8 == 0)
            id = rng_u32(r) % 2 == 0 ? -1 : (double)table->dim[0];
        put(&b->d.io[0], b->io[0], i, id);
    }
}

static void fill_inputs(const struct kc_bufs *b, struct rng *r)
{
    uint32_t op = b->d.op;

    for (unsigned i = 0; i < b->d.inputs; i++) {
        if (is_real(&b->d.io[i]))
            fill_real(b, i, r, -1, 1);
        else
            fill_whole(b, i, r, 1000);
    }
    if (op == KERN_POOL_BWD && b->d.inputs == 2)
        fill_aux(b, r);
    else if (op == KERN_UNARY_FWD)
        fill_real(b, 0, r, -6, 6);
    else if (op == KERN_UNARY_BWD)
        fill_saved(b, r);
    else if (op == KERN_SOFTMAX_FWD)
        fill_real(b, 0, r, -10, 10);
    else if (op == KERN_SOFTMAX_BWD)
        fill_distribution(b, 0, r);
    else if (op == KERN_BN_INFER || op == KERN_BN_BWD)
        fill_real(b, 4, r, 0.05f, 2); // var
    else if (op == KERN_XENT || op == KERN_BCE || op == KERN_MSE)
        fill_loss(b, r);
    else if (op == KERN_GATHER || op == KERN_GATHER_BWD)
        fill_ids(b, r);
}

bool kc_adds(const struct kern_desc *d)
{
    return kern_has(d, KERN_ACCUM) ||
           (d->op == KERN_AXPBY && d->u.unary.b != 0);
}

void kc_fill(struct kc_bufs *b, struct rng *r)
{
    bool adds = kc_adds(&b->d);

    fill_inputs(b, r);
    for (unsigned i = b->d.inputs; i < b->d.inputs + b->d.outputs; i++) {
        // Of a convolution or BN only the gradients of parameters are added
        // to; elsewhere ACCUM means every output but an element-wise one.
        memset(b->io[i], 0xFF, b->bytes[i]); // NaN in every float
        if (adds && is_real(&b->d.io[i]))
            fill_real(b, i, r, -1, 1);
    }
}
