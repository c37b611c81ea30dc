// SPDX-License-Identifier: Apache-2.0
// kernels/prove/prove_device.c -- a device's own kernel, compared with ref on
// an op of the same kind that is small enough to be copied.
#include <string.h>

#include "common/base/mem.h"
#include "kernels/prove/bound.h"
#include "kernels/prove/prove.h"

#define ELEMENTS_MOST ((int64_t)1 << 18) // of all tensors
#define SHIFT 36 // bytes off an allocation's beginning, of the second run

// ---- A smaller op -----------------------------------------------------------

static int64_t elements_of(const struct kern_desc *d)
{
    int64_t n = 0;

    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        n += kern_shape_extent(&d->io[i]);
    return n;
}

// Gives `rows` rows to all tensors that have as many as the first one.
static void with_rows(struct kern_desc *part, const struct kern_desc *d,
                      int64_t rows)
{
    bool flat = d->io[0].nd == 1; // vectors of equal length are cut, too
    bool labels = d->op == KERN_XENT && d->io[1].dtype == KERN_I32;
    bool weights = kern_has(d, KERN_WEIGHT);

    *part = *d;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++) {
        const struct kern_shape *s = &d->io[i];
        int64_t dim[KERN_DIMS];

        memcpy(dim, s->dim, sizeof(dim));
        if (s->nd == 0 || dim[0] != d->io[0].dim[0] ||
            (s->nd == 1 && !flat && !(labels && i == 1) &&
             !(weights && i == 3)))
            continue;
        dim[0] = rows;
        part->io[i] = kern_shape((enum kern_dtype)s->dtype, s->nd, dim);
    }
}

// Describes an op as *d, of fewer rows if that makes one; else *d itself.
static void make_small(struct kern_desc *part, const struct kern_desc *d)
{
    int64_t all = elements_of(d), rows = d->io[0].dim[0];
    bool dense = d->io[0].nd > 0;

    *part = *d;
    for (unsigned i = 0; i < d->inputs + d->outputs; i++)
        dense = dense && kern_shape_dense(&d->io[i]);
    if (all <= ELEMENTS_MOST || !dense)
        return;
    rows = (int64_t)((double)rows * (double)ELEMENTS_MOST / (double)all);
    with_rows(part, d, rows > 1 ? rows : 1);
    if (kern_desc_check(part, NULL) != SL_OK)
        *part = *d;
}

// ---- A run ------------------------------------------------------------------

struct device_proof {
    struct kern_dev *dev;
    struct kern_plan *plan;
    struct kern_stream *stream;
    struct kern_mem mem[KERN_IO], workspace;
    size_t workspace_bytes;
    struct trial before, got, ref;
    double *bound[KERN_IO]; // of the outputs; owned
};

static void device_proof_free(struct device_proof *p)
{
    const struct kern_backend *b = p->dev->backend;

    for (unsigned i = 0; i < KERN_IO; i++) {
        b->release(p->dev, &p->mem[i]);
        sl_free(p->bound[i]);
    }
    b->release(p->dev, &p->workspace);
    b->stream_free(p->stream);
    b->plan_free(p->plan);
    trial_free(&p->before);
    trial_free(&p->got);
    trial_free(&p->ref);
}

// Makes the tensors, and what ref computes.
static enum sl_err device_proof_make(struct device_proof *p,
                                     const struct kern_desc *d)
{
    struct rng rng;
    enum sl_err rc = trial_new(&p->before, d, 0);

    rng_init(&rng, PROVE_SEED, kern_desc_hash(d));
    if (rc == SL_OK)
        rc = trial_new(&p->got, d, 0);
    if (rc == SL_OK)
        rc = trial_new(&p->ref, d, 0);
    if (rc == SL_OK)
        rc = trial_fill(&p->before, &rng);
    if (rc != SL_OK)
        return rc;
    trial_copy(&p->ref, &p->before);
    rc = trial_run_ref(d, p->ref.io);
    for (unsigned i = d->inputs; i < d->inputs + d->outputs && rc == SL_OK;
         i++) {
        p->bound[i] = trial_bound(&p->before, &p->ref, i);
        rc = p->bound[i] ? SL_OK : SL_ENOMEM;
    }
    return rc;
}

static enum sl_err device_proof_plan(struct device_proof *p,
                                     const struct kern_desc *d,
                                     struct sl_error *err)
{
    const struct kern_backend *b = p->dev->backend;
    enum sl_err rc =
        b->plan(&p->plan, &p->workspace_bytes, p->dev, d, SIZE_MAX, err);

    if (rc == SL_OK)
        rc = b->stream_new(&p->stream, p->dev, 0);
    if (rc == SL_OK)
        rc = b->alloc(&p->workspace, p->dev, p->workspace_bytes, KERN_DEVICE);
    if (rc == SL_OK)
        rc = b->fill(p->stream, p->workspace.at, 0xFF, p->workspace_bytes);
    for (unsigned i = 0; i < d->inputs + d->outputs && rc == SL_OK; i++)
        rc = b->alloc(&p->mem[i], p->dev, p->before.bytes[i] + 64, KERN_DEVICE);
    return rc;
}

// Runs the plan on tensors that lie `shift` bytes off; what comes out goes to
// p->got.
static enum sl_err device_proof_run(struct device_proof *p, size_t shift)
{
    const struct kern_backend *b = p->dev->backend;
    const struct kern_desc *d = &p->before.d;
    void *io[KERN_IO];
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < d->inputs + d->outputs && rc == SL_OK; i++) {
        bool wide = kern_dtype_bytes((enum kern_dtype)d->io[i].dtype) == 8;

        io[i] = (char *)p->mem[i].at + (wide && shift ? 8 : shift);
        rc = b->copy(p->stream, io[i], p->before.io[i], p->before.bytes[i],
                     KERN_TO_DEVICE);
    }
    if (rc == SL_OK)
        rc = b->run(p->plan, p->stream, io, p->workspace.at);
    for (unsigned i = d->inputs; i < d->inputs + d->outputs && rc == SL_OK; i++)
        rc = b->copy(p->stream, p->got.io[i], io[i], p->got.bytes[i],
                     KERN_TO_HOST);
    return rc == SL_OK ? b->stream_sync(p->stream) : rc;
}

static bool device_proof_agrees(const struct device_proof *p, unsigned out,
                                struct proof_fault *fault)
{
    const struct kern_shape *s = &p->ref.d.io[out];

    for (int64_t k = 0; k < kern_shape_extent(s); k++) {
        double is = trial_get(s, p->got.io[out], k);
        double want = trial_get(s, p->ref.io[out], k);

        if (trial_agrees(is, want, p->bound[out][k]))
            continue;
        *fault = (struct proof_fault){.out = (int)out,
                                      .element = k,
                                      .got = is,
                                      .want = want,
                                      .bound = p->bound[out][k]};
        return false;
    }
    return true;
}

enum sl_err prove_on_device(struct kern_dev *dev, const struct kern_desc *d,
                            struct proof_fault *fault, struct sl_error *err)
{
    static const char *const when[][2] = {
        {"the first time", "the second time"},
        {"the first time, of fewer rows", "the second time, of fewer rows"}};
    struct device_proof p = {.dev = dev};
    struct kern_desc small;
    enum sl_err rc;

    fault->when = NULL;
    make_small(&small, d);
    rc = device_proof_make(&p, &small);
    if (rc == SL_OK)
        rc = device_proof_plan(&p, &small, err);
    for (unsigned k = 0; k < 2 && rc == SL_OK; k++) {
        rc = device_proof_run(&p, k ? SHIFT : 0);
        for (unsigned i = small.inputs;
             i < small.inputs + small.outputs && rc == SL_OK; i++)
            if (!device_proof_agrees(&p, i, fault)) {
                fault->when = when[!kern_desc_equal(&small, d)][k];
                rc = SL_EINTERNAL;
            }
    }
    device_proof_free(&p);
    return rc;
}
