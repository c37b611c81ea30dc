// SPDX-License-Identifier: Apache-2.0
// worker/device/test_vector.c -- see test_vector.h.
#include "worker/device/test_vector.h"

#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/optim.h"
#include "kernels/prove/trial.h"
#include "worker/device/kind.h"

#define TEST_VECTOR_SEED 20261128
#define UPDATED 4096 // elements that the optimizer updates

enum { OPS = 3 };

// The ops of a dense layer and of a convolution, with tiles that are not full.
static void test_vector_op(struct kern_desc *d, unsigned i)
{
    static const int64_t x[4] = {2, 9, 9, 24};
    struct kern_window w = kern_window(3, 3, 1, 1);

    for (unsigned k = 0; k < SL_COUNT(w.pad_before); k++)
        w.pad_before[k] = w.pad_after[k] = 1;
    if (i == 0)
        kern_desc_matmul(d, 61, 130, 190, false, true, KERN_BIAS | KERN_RELU);
    else
        kern_desc_conv(d, i == 1 ? KERN_CONV_FWD : KERN_CONV_WGRAD, x, 40, &w,
                       1, i == 1 ? KERN_BIAS : KERN_BGRAD);
}

static uint64_t test_vector_mix(uint64_t digest, const void *bytes, size_t n)
{
    return sl_mix64(digest ^ sl_hash64(bytes, n));
}

// ---- one op

struct test_vector_run {
    struct kern_dev *dev;
    struct kern_stream *stream;
    struct kern_plan *plan;
    struct kern_mem mem[KERN_IO], workspace;
    struct trial t;
};

static void test_vector_free(struct test_vector_run *r)
{
    const struct kern_backend *b = r->dev->backend;

    b->stream_free(r->stream);
    kern_plan_free(r->plan);
    for (unsigned i = 0; i < KERN_IO; i++)
        b->release(r->dev, &r->mem[i]);
    b->release(r->dev, &r->workspace);
    trial_free(&r->t);
}

static enum sl_err test_vector_plan(struct test_vector_run *r,
                                    const struct kern_desc *d, unsigned i,
                                    struct sl_error *err)
{
    const struct kern_backend *b = r->dev->backend;
    size_t workspace_bytes = 0;
    struct rng rng;
    enum sl_err rc = trial_new(&r->t, d, 0);

    rng_init(&rng, TEST_VECTOR_SEED, i);
    if (rc == SL_OK)
        rc = trial_fill(&r->t, &rng);
    if (rc == SL_OK)
        rc = kern_plan_new(&r->plan, &workspace_bytes, r->dev, d, 0, err);
    if (rc == SL_OK)
        rc = b->stream_new(&r->stream, r->dev, 0);
    if (rc == SL_OK)
        rc = b->alloc(&r->workspace, r->dev, workspace_bytes, KERN_DEVICE);
    for (unsigned k = 0; k < d->inputs + d->outputs && rc == SL_OK; k++)
        rc = b->alloc(&r->mem[k], r->dev, r->t.bytes[k], KERN_DEVICE);
    return rc;
}

// Copies the tensors in, runs, and copies what comes out back.
static enum sl_err test_vector_go(struct test_vector_run *r,
                                  const struct kern_desc *d)
{
    const struct kern_backend *b = r->dev->backend;
    void *io[KERN_IO] = {NULL};
    enum sl_err rc = SL_OK;

    for (unsigned k = 0; k < d->inputs + d->outputs && rc == SL_OK; k++) {
        io[k] = r->mem[k].at;
        rc = b->copy(r->stream, io[k], r->t.io[k], r->t.bytes[k],
                     KERN_TO_DEVICE);
    }
    if (rc == SL_OK)
        rc = kern_run(r->plan, r->stream, io, r->workspace.at);
    for (unsigned k = d->inputs; k < d->inputs + d->outputs && rc == SL_OK; k++)
        rc = b->copy(r->stream, r->t.io[k], io[k], r->t.bytes[k], KERN_TO_HOST);
    return rc == SL_OK ? b->stream_sync(r->stream) : rc;
}

// Runs op `i`; adds its kernel to *kernels and its outputs to *digest.
static enum sl_err test_vector_add(struct kern_dev *dev, unsigned i,
                                   uint64_t *kernels, uint64_t *digest,
                                   struct sl_error *err)
{
    struct test_vector_run r = {.dev = dev};
    struct kern_desc d;
    enum sl_err rc;

    test_vector_op(&d, i);
    rc = test_vector_plan(&r, &d, i, err);
    if (rc == SL_OK)
        rc = test_vector_go(&r, &d);
    if (rc == SL_OK) {
        *kernels = kind_with(*kernels, r.plan->impl);
        for (unsigned k = d.inputs; k < d.inputs + d.outputs; k++)
            *digest = test_vector_mix(*digest, r.t.io[k], r.t.bytes[k]);
    }
    test_vector_free(&r);
    return rc;
}

// ---- the optimizer's step

// Updates random parameters once, as Adam does, and adds them to *digest. (The
// first update takes no power that C libraries might round in two ways.)
static enum sl_err test_vector_update(uint64_t *digest)
{
    float *of = sl_calloc(4 * UPDATED, sizeof(*of)), *w = of, *g = of + UPDATED;
    float *slots[OPTIM_SLOTS_MAX] = {of + 2 * UPDATED, of + 3 * UPDATED};
    struct optim o;

    if (of == NULL)
        return SL_ENOMEM;
    rng_fill_uniform(of, TEST_VECTOR_SEED, OPS, 0, 2 * UPDATED);
    optim_defaults(&o, OPTIM_ADAM);
    optim_apply(&o, 1, 0.01, UPDATED, g, w, slots);
    *digest = test_vector_mix(*digest, of, 4 * UPDATED * sizeof(*of));
    sl_free(of);
    return SL_OK;
}

// ---- all of it

static enum sl_err test_vector_on(struct test_vector *out, struct kern_dev *dev,
                                  struct sl_error *err)
{
    uint64_t kernels = 0, digest = 0;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < OPS && rc == SL_OK; i++)
        rc = test_vector_add(dev, i, &kernels, &digest, err);
    if (rc == SL_OK)
        rc = test_vector_update(&digest);
    if (rc == SL_OK)
        *out = (struct test_vector){kind_of(dev, kernels), digest};
    return rc;
}

// Runs on a mate's thread.
static enum sl_err test_vector_on_mate(struct kern_dev *dev, const void *args,
                                       struct sl_error *err)
{
    struct test_vector *const *out = args;

    return test_vector_on(*out, dev, err);
}

enum sl_err test_vector_compute(struct test_vector *out, struct kern_dev *dev,
                                struct team *team, struct sl_error *err)
{
    unsigned mates = team_mates(team);
    struct test_vector all[TEAM_MOST], *at[TEAM_MOST];
    enum sl_err rc, rc_mates = SL_OK;

    for (unsigned i = 0; i < mates; i++) {
        at[i] = &all[1 + i];
        team_post(team, i, test_vector_on_mate, &at[i], sizeof(at[i]));
    }
    rc = test_vector_on(&all[0], dev, err);
    if (mates > 0)
        rc_mates = team_wait_all(team, rc == SL_OK ? err : NULL);
    if (rc != SL_OK || rc_mates != SL_OK)
        return rc != SL_OK ? rc : rc_mates;
    for (unsigned i = 1; i <= mates; i++) {
        all[0].kind = sl_mix64(sl_mix64(all[0].kind) ^ all[i].kind) | 1;
        all[0].output = sl_mix64(sl_mix64(all[0].output) ^ all[i].output);
    }
    *out = all[0];
    return SL_OK;
}
