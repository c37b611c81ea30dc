// SPDX-License-Identifier: Apache-2.0
// tests/emul/conform.c -- kernels-conformance on the emulator: the backend
// "cuda-emul", the optimizers (which are no op), and that no kernel of
// kernels.def went unused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "tests/conform/kc.h"
#include "tests/emul/backend.h"
#include "tests/emul/emul.h"
#include "tests/harness/draw.h"

const struct kern_backend *kc_extra_backend(const char *name)
{
    return strcmp(name, cuda_emul.name) == 0 ? &cuda_emul : NULL;
}

// ---- Optimizers -----------------------------------------------------------

#define ARRAYS (2 + OPTIM_SLOTS_MAX) // grad, w, slots
#define COUNT 1037
#define STEPS 3

// The same n elements on the host and on the device.
struct twin {
    float host[ARRAYS][COUNT];
    struct kern_mem mem[ARRAYS];
    float *at[ARRAYS];
    struct kern_mem consts;
};

static enum sl_err send(struct kern_stream *s, struct twin *t, size_t n,
                        size_t shift)
{
    enum sl_err rc = SL_OK;

    for (int i = 0; i < ARRAYS && rc == SL_OK; i++) {
        rc = cuda_alloc(&t->mem[i], s->dev, (n + shift) * sizeof(float),
                        KERN_DEVICE);
        t->at[i] = (float *)t->mem[i].at + shift;
        if (rc == SL_OK)
            rc = cuda_copy(s, t->at[i], t->host[i], n * sizeof(float),
                           KERN_TO_DEVICE);
    }
    return rc == SL_OK ? cuda_alloc(&t->consts, s->dev,
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

// A step there and here: equal bits.
static bool same_step(struct kern_stream *s, struct twin *t,
                      const struct optim *o, uint64_t step, size_t n)
{
    static float got[COUNT];
    struct optim_consts k;
    float *here[OPTIM_SLOTS_MAX] = {t->host[2], t->host[3], t->host[4]};

    optim_consts(&k, o, step, 0.02);
    if (cuda_copy(s, t->consts.at, &k, sizeof(k), KERN_TO_DEVICE) != SL_OK ||
        cuda_optim(s, o, n, t->at[0], t->at[1], t->at + 2, t->consts.at) !=
            SL_OK)
        return false;
    optim_apply(o, step, 0.02, n, t->host[0], t->host[1], here);
    for (unsigned i = 1; i < 2 + optim_slots(o); i++)
        if (cuda_copy(s, got, t->at[i], n * sizeof(float), KERN_TO_HOST) !=
                SL_OK ||
            memcmp(got, t->host[i], n * sizeof(float)) != 0)
            return false;
    return true;
}

// A moving statistic, as state/shard/apply.c moves it.
static bool same_move(struct kern_stream *s, struct twin *t, size_t n)
{
    static float got[COUNT];
    const struct optim_consts k = {
        .clip = INFINITY, .a = 0.97f, .b = 1.0f - 0.97f};
    float *w = t->host[1];

    if (cuda_copy(s, t->consts.at, &k, sizeof(k), KERN_TO_DEVICE) != SL_OK ||
        cuda_optim(s, NULL, n, t->at[0], t->at[1], NULL, t->consts.at) !=
            SL_OK ||
        cuda_copy(s, got, t->at[1], n * sizeof(float), KERN_TO_HOST) != SL_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        w[i] = k.a * w[i] + k.b * t->host[0][i];
    return memcmp(got, w, n * sizeof(float)) == 0;
}

static bool same_updates(struct kern_dev *dev, const struct optim *o, size_t n,
                         size_t shift)
{
    struct twin *t = calloc(1, sizeof(*t));
    struct kern_stream *s = NULL;
    struct rng rng;
    bool same = cuda_stream_new(&s, dev, 0) == SL_OK;

    rng_init(&rng, 5, o->kind);
    fill_twin(t, o, &rng);
    same = same && send(s, t, n, shift) == SL_OK;
    for (uint64_t step = 1; step <= STEPS && same; step++)
        same = same_step(s, t, o, step, n) && same_move(s, t, n);
    for (int i = 0; i < ARRAYS; i++)
        cuda_release(dev, &t->mem[i]);
    cuda_release(dev, &t->consts);
    cuda_stream_free(s);
    free(t);
    return same;
}

static unsigned check_optimizers(struct kern_dev *dev)
{
    static const size_t counts[] = {1, 3, 4, 1024, COUNT};
    unsigned failed = 0;

    // Every kind, with and without what gives it another kernel.
    for (int kind = OPTIM_SGD; kind < OPTIM_KIND_COUNT; kind++)
        for (unsigned variant = 0; variant < 4; variant++) {
            struct optim o;

            optim_defaults(&o, (enum optim_kind)kind);
            o.momentum = variant & 1 ? 0.9 : 0;
            o.nesterov = o.amsgrad = o.centered = variant & 2;
            o.clipvalue = variant & 1 ? 1.5 : 0;
            o.weight_decay = variant & 2 ? 0.01 : 0;
            o.torch_epsilon = variant == 1 || variant == 2;
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

// ---- Coverage -------------------------------------------------------------

unsigned kc_extra_finish(struct kern_dev *dev, bool everything)
{
    unsigned failed = check_optimizers(dev);

    for (struct emul_kernel *k = emul_table; everything && k->name; k++)
        if (k->launches == 0) {
            printf("FAILED no case runs the kernel %s: add one to "
                   "tests/conform/kc_cases.c\n",
                   k->name);
            failed++;
        }
    return failed;
}
