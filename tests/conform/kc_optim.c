// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_optim.c -- the optimizers of a backend that has them, which
// are no op: the bits of optim_apply().
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/optim.h"
#include "tests/conform/kc.h"
#include "tests/harness/draw.h"

#define ARRAYS (2 + OPTIM_SLOTS_MAX) // grad, w, slots
#define COUNT 1037
#define STEPS 3

// The same n elements on the host and on the device.
struct twin {
    struct kern_dev *dev;
    const struct kern_backend *b;
    struct kern_stream *s;
    size_t n;
    float host[ARRAYS][COUNT];
    struct kern_mem mem[ARRAYS];
    float *at[ARRAYS];
    struct kern_mem consts;
};

static enum sl_err up(struct twin *t, void *to, const void *from, size_t bytes)
{
    enum sl_err rc = t->b->copy(t->s, to, from, bytes, KERN_TO_DEVICE);

    return rc == SL_OK ? t->b->stream_sync(t->s) : rc;
}

static enum sl_err send(struct twin *t, size_t shift)
{
    size_t bytes = t->n * sizeof(float);
    enum sl_err rc = t->b->stream_new(&t->s, t->dev, 0);

    for (int i = 0; i < ARRAYS && rc == SL_OK; i++) {
        rc = t->b->alloc(&t->mem[i], t->dev, bytes + shift * sizeof(float),
                         KERN_DEVICE);
        t->at[i] = (float *)t->mem[i].at + shift;
        if (rc == SL_OK)
            rc = up(t, t->at[i], t->host[i], bytes);
    }
    return rc == SL_OK ? t->b->alloc(&t->consts, t->dev,
                                     sizeof(struct optim_consts), KERN_DEVICE)
                       : rc;
}

static void fill_twin(struct twin *t, const struct optim *o, struct rng *rng)
{
    for (int i = 0; i < ARRAYS; i++)
        for (int k = 0; k < COUNT; k++)
            t->host[i][k] = i < 2 ? draw_float(rng) * 4 - 2
                                  : optim_slot_init(o, (unsigned)i - 2);
}

// Which NaN it is may differ.
static bool same_array(struct twin *t, unsigned i)
{
    static float got[COUNT];
    size_t k = 0;

    if (t->b->copy(t->s, got, t->at[i], t->n * sizeof(float), KERN_TO_HOST) !=
            SL_OK ||
        t->b->stream_sync(t->s) != SL_OK)
        return false;
    while (k < t->n && (memcmp(&got[k], &t->host[i][k], sizeof(float)) == 0 ||
                        (isnan(got[k]) && isnan(t->host[i][k]))))
        k++;
    return k == t->n;
}

// A step there and here: equal bits.
static bool same_step(struct twin *t, const struct optim *o, uint64_t step)
{
    float *here[OPTIM_SLOTS_MAX] = {t->host[2], t->host[3], t->host[4]};
    struct optim_consts k;
    bool same;

    optim_consts(&k, o, step, 0.02);
    same = up(t, t->consts.at, &k, sizeof(k)) == SL_OK &&
           t->b->optim(t->s, o, t->n, t->at[0], t->at[1], t->at + 2,
                       t->consts.at) == SL_OK;
    optim_apply(o, step, 0.02, t->n, t->host[0], t->host[1], here);
    for (unsigned i = 1; same && i < 2 + optim_slots(o); i++)
        same = same_array(t, i);
    return same;
}

// A moving statistic, as state/shard/apply.c moves it.
static bool same_move(struct twin *t)
{
    const struct optim_consts k = {
        .clip = INFINITY, .a = 0.97f, .b = 1.0f - 0.97f};
    float *w = t->host[1];

    if (up(t, t->consts.at, &k, sizeof(k)) != SL_OK ||
        t->b->optim(t->s, NULL, t->n, t->at[0], t->at[1], NULL, t->consts.at) !=
            SL_OK)
        return false;
    for (size_t i = 0; i < t->n; i++) {
        float kept = k.a * w[i], taken = k.b * t->host[0][i];

        w[i] = kept + taken;
    }
    return same_array(t, 1);
}

static bool same_updates(struct kern_dev *dev, const struct optim *o, size_t n,
                         size_t shift)
{
    struct twin *t = calloc(1, sizeof(*t));
    struct rng rng;
    bool same;

    rng_init(&rng, 5, o->kind);
    t->dev = dev;
    t->b = dev->backend;
    t->n = n;
    fill_twin(t, o, &rng);
    same = send(t, shift) == SL_OK;
    for (uint64_t step = 1; step <= STEPS && same; step++)
        same = same_step(t, o, step) && same_move(t);
    for (int i = 0; i < ARRAYS; i++)
        t->b->release(dev, &t->mem[i]);
    t->b->release(dev, &t->consts);
    t->b->stream_free(t->s);
    free(t);
    return same;
}

unsigned kc_optim(struct kern_dev *dev)
{
    static const size_t counts[] = {1, 3, 4, 1024, COUNT};
    unsigned failed = 0;

    // Every kind, with and without what gives it another kernel.
    for (int kind = OPTIM_SGD; kind < OPTIM_KIND_COUNT; kind++)
        for (unsigned variant = 0; variant < 5; variant++) {
            struct optim o;

            optim_defaults(&o, (enum optim_kind)kind);
            o.momentum = variant & 1 ? 0.9 : 0;
            o.nesterov = o.amsgrad = o.centered = variant & 2;
            if (variant == 4) {
                o.momentum = 0.9;
                o.nesterov = true;
                o.delay = 2;
            }
            o.clipvalue = variant & 1 ? 1.5 : 0;
            o.weight_decay = variant & 2 ? 0.01 : 0;
            o.torch_epsilon = variant == 1 || variant == 2;
            o.torch_momentum = variant == 3;
            if (optim_is_whole(&o)) // of psservers alone
                continue;
            for (size_t i = 0; i < SL_COUNT(counts); i++)
                if (!same_updates(dev, &o, counts[i], i % 2)) {
                    printf("FAILED optimizer %s, variant %u, %zu elements: "
                           "other bits than optim_apply\n",
                           optim_kind_name(o.kind), variant, counts[i]);
                    failed++;
                }
        }
    return failed;
}
