// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/cpu_mixed.c -- ops on 16-bit tensors by way of f32.
//
// Every 16-bit tensor gets an f32 twin in the workspace; the op runs on the
// twins, and its outputs are rounded. That is what mixed precision means, and
// no host has faster instructions for what is bound by memory anyway. Products
// go this way too where oneDNN has nothing better (cpu.c asks it first).
//
// A cast (AXPBY with a = 1, b = 0, one side f32) needs no twin.
#include <string.h>

#include "common/base/mem.h"
#include "kernels/cpu/cpu.h"

#define CHUNK 8192 // elements that one thread converts at a time

struct mixed {
    struct cpu_plan base;
    struct cpu_plan *inner; // of f32; NULL: a cast
    size_t at[KERN_IO];     // of the twins in the workspace
    size_t inner_at;
};

static void twin_of(struct kern_desc *out, const struct kern_desc *d)
{
    *out = *d;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        if (kern_is_half(&d->io[i]))
            out->io[i].dtype = KERN_F32;
    }
}

static bool is_cast(const struct kern_desc *d)
{
    const struct kern_shape *x = &d->io[0], *y = &d->io[1];

    return d->op == KERN_AXPBY && d->u.unary.a >= 1 && d->u.unary.a <= 1 &&
           !(d->u.unary.b < 0 || d->u.unary.b > 0) &&
           kern_is_half(x) != kern_is_half(y) && kern_shape_dense(x) &&
           kern_shape_dense(y);
}

// ---- converting

struct convert {
    const struct cpu_dev *dev;
    const struct kern_shape *s; // of the 16-bit tensor
    int64_t cols, run;          // a row's elements, those of one chunk
    float *wide;
    uint16_t *half;
    bool narrow;
};

// A strided tensor is rows of its last axis; a dense one is a single row.
static int64_t row_offset(const struct kern_shape *s, int64_t row)
{
    int64_t at = 0;

    for (unsigned i = s->nd - 1; i-- > 0;) {
        at += row % s->dim[i] * s->stride[i];
        row /= s->dim[i];
    }
    return at;
}

static void convert_some(const struct convert *c, int64_t at, int64_t n)
{
    bool f16 = c->s->dtype == KERN_F16;

    if (c->narrow)
        c->dev->half->narrow(c->half + at, c->wide + at, n, f16);
    else
        c->dev->half->widen(c->wide + at, c->half + at, n, f16);
}

static void convert_chunk(void *arg, int64_t chunk)
{
    const struct convert *c = arg;
    const struct kern_shape *s = c->s;
    int64_t step = s->stride[s->nd - 1];
    int64_t first = chunk * c->run, end = first + c->run;

    if (kern_shape_dense(s)) {
        int64_t all = kern_shape_count(s);

        convert_some(c, first, (end < all ? end : all) - first);
        return;
    }
    for (int64_t i = 0; i < c->cols && step != 1; i++)
        convert_some(c, row_offset(s, chunk) + i * step, 1);
    if (step == 1)
        convert_some(c, row_offset(s, chunk), c->cols);
}

static void convert(const struct cpu_dev *dev, const struct kern_shape *s,
                    float *wide, uint16_t *half, bool narrow)
{
    int64_t count = kern_shape_count(s), cols = kern_cols(s);
    bool dense = kern_shape_dense(s);
    struct convert c = {dev, s, cols, dense ? CHUNK : cols, wide, half, narrow};

    if (count > 0)
        cpu_for(dev->threads, (count + c.run - 1) / c.run, convert_chunk, &c);
}

// ---- plans

static enum sl_err run_cast(struct cpu_plan *base, void *const *io,
                            void *workspace)
{
    const struct kern_shape *x = &base->desc.io[0], *y = &base->desc.io[1];

    if (kern_is_half(y))
        convert(base->dev, y, io[0], io[1], true);
    else
        convert(base->dev, x, io[1], io[0], false);
    return SL_OK;
}

// Outputs that are added to are read.
static bool cpu_mixed_is_read(const struct kern_desc *d, unsigned i)
{
    return i < d->inputs ||
           (d->op == KERN_AXPBY && (d->u.unary.b < 0 || d->u.unary.b > 0));
}

static enum sl_err run_mixed(struct cpu_plan *base, void *const *io,
                             void *workspace)
{
    const struct mixed *m = (struct mixed *)base;
    const struct kern_desc *d = &base->desc;
    unsigned all = d->inputs + d->outputs;
    char *space = workspace;
    void *own[KERN_IO] = {NULL};
    enum sl_err rc;

    for (unsigned i = 0; i < all; i++) {
        own[i] = io[i];
        if (!kern_is_half(&d->io[i]))
            continue;
        own[i] = space + m->at[i];
        if (cpu_mixed_is_read(d, i))
            convert(base->dev, &d->io[i], own[i], io[i], false);
    }
    rc = m->inner->run(m->inner, own, space + m->inner_at);
    for (unsigned i = d->inputs; i < all && rc == SL_OK; i++) {
        if (kern_is_half(&d->io[i]))
            convert(base->dev, &d->io[i], own[i], io[i], true);
    }
    return rc;
}

static void free_mixed(struct cpu_plan *base)
{
    struct mixed *m = (struct mixed *)base;

    if (m->inner)
        m->inner->free(m->inner);
    sl_free(m);
}

// Elements from the first to the last that a (strided) shape touches.
static size_t cpu_mixed_twin_bytes(const struct kern_shape *s)
{
    int64_t last = 0;

    for (unsigned i = 0; i < s->nd; i++) {
        if (s->dim[i] == 0)
            return 0;
        last += (s->dim[i] - 1) * s->stride[i];
    }
    return ((size_t)(last + 1) * sizeof(float) + 63) & ~(size_t)63;
}

static size_t place_twins(struct mixed *m, const struct kern_desc *d)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        m->at[i] = bytes;
        if (kern_is_half(&d->io[i]))
            bytes += cpu_mixed_twin_bytes(&d->io[i]);
    }
    return bytes;
}

enum sl_err cpu_mixed_plan(struct cpu_plan **out, size_t *workspace_bytes,
                           struct cpu_dev *dev, const struct kern_desc *d,
                           struct sl_error *err)
{
    struct mixed *m = sl_calloc(1, sizeof(*m));
    struct kern_desc twin;
    size_t inner = 0;
    enum sl_err rc;

    if (!m)
        return sl_fail(err, SL_ENOMEM, "backend cpu: out of memory");
    m->base.free = free_mixed;
    m->base.run = run_mixed;
    if (is_cast(d)) {
        m->base.run = run_cast;
        m->base.base.impl = dev->isa;
        *out = &m->base;
        *workspace_bytes = 0;
        return SL_OK;
    }
    twin_of(&twin, d);
    rc = cpu_f32_plan(&m->inner, &inner, dev, &twin, err);
    if (rc != SL_OK) {
        free_mixed(&m->base);
        return rc;
    }
    m->base.base.impl = m->inner->base.impl;
    m->inner_at = place_twins(m, d);
    *out = &m->base;
    *workspace_bytes = m->inner_at + inner;
    return SL_OK;
}

bool cpu_mixed_is_own(struct cpu_dev *dev, const struct kern_desc *d)
{
    struct kern_desc twin;
    const char *impl;

    twin_of(&twin, d);
    return cpu_own_product(dev, &twin, &impl) != NULL &&
           !prover_avoids(dev->base.prover, d, impl);
}

int cpu_mixed_score(struct cpu_dev *dev, const struct kern_desc *d)
{
    struct kern_desc twin;

    if (is_cast(d))
        return 100;
    twin_of(&twin, d);
    return cpu_f32_score(dev, &twin) > 0 ? CPU_MIXED_SCORE : 0;
}
