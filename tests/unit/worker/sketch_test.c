// SPDX-License-Identifier: Apache-2.0
// How far right gradients of hosts of different kinds are apart: nets that
// learn, each gradient computed by several devices from the same parameters.
// SKETCH_STEPS=200 build/bin/unit.worker.sketch makes the figures of
// docs/modes.md; SKETCH_ISA=isa=base caps the instructions of the library, too.
#include "tests/harness/t.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/optim.h"
#include "nets.h"
#include "plan/sketch.h"
#include "trainer/base/grad.h"
#include "worker/compile/compile.h"

enum { BATCH = 32, DEVICES_MOST = 9, OUTPUTS = 10 };

// A short test does with the first.
static const char *const options[] = {
    "isa=base", "threads=1", "threads=2", "isa=avx2", "winograd=0", "direct=0",
};

#define NET_DENSE                                                              \
    "{'input_shape': [200], 'layers': ["                                       \
    "{'type': 'dense', 'units': 300, 'activation': 'relu'},"                   \
    "{'type': 'dense', 'units': 200, 'activation': 'gelu'},"                   \
    "{'type': 'dense', 'units': 10}]}"

#define NET_CONV                                                               \
    "{'input_shape': [16, 16, 8], 'layers': ["                                 \
    "{'type': 'conv2d', 'filters': 32, 'kernel_size': 3, 'padding': 'same',"   \
    " 'activation': 'relu'},"                                                  \
    "{'type': 'max_pooling2d', 'pool_size': 2},"                               \
    "{'type': 'conv2d', 'filters': 48, 'kernel_size': 3, 'padding': 'same',"   \
    " 'activation': 'relu'},"                                                  \
    "{'type': 'flatten'}, {'type': 'dense', 'units': 10}]}"

#define NET_NORM                                                               \
    "{'input_shape': [16, 16, 3], 'layers': ["                                 \
    "{'type': 'conv2d', 'filters': 16, 'kernel_size': 3, 'padding': 'same',"   \
    " 'use_bias': false},"                                                     \
    "{'type': 'batch_normalization'}, {'type': 'relu'},"                       \
    "{'type': 'conv2d', 'filters': 32, 'kernel_size': 3, 'strides': 2},"       \
    "{'type': 'batch_normalization'}, {'type': 'relu'},"                       \
    "{'type': 'global_average_pooling2d'}, {'type': 'dense', 'units': 10}]}"

#define NET_ATTEND                                                             \
    "{'input_shape': [24], 'layers': ["                                        \
    "{'type': 'embedding', 'name': 'e', 'input_dim': 9, 'output_dim': 16,"     \
    " 'inputs': ['input']},"                                                   \
    "{'type': 'layer_normalization', 'name': 'n', 'inputs': ['e']},"           \
    "{'type': 'multi_head_attention', 'name': 'a', 'num_heads': 4,"            \
    " 'key_dim': 8, 'inputs': ['n']},"                                         \
    "{'type': 'add', 'name': 'r', 'inputs': ['e', 'a']},"                      \
    "{'type': 'dense', 'name': 'h', 'units': 32, 'activation': 'gelu',"        \
    " 'inputs': ['r']},"                                                       \
    "{'type': 'flatten', 'name': 'f', 'inputs': ['h']},"                       \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'inputs': ['f']}]}"

#define NET_SMALL                                                              \
    "{'input_shape': [20], 'layers': ["                                        \
    "{'type': 'dense', 'units': 32, 'activation': 'relu'},"                    \
    "{'type': 'dense', 'units': 32, 'activation': 'relu'},"                    \
    "{'type': 'dense', 'units': 10}]}"

static const struct {
    const char *name, *text;
} nets[] = {{"small", NET_SMALL},
            {"dense", NET_DENSE},
            {"convolutions", NET_CONV},
            {"batch norm", NET_NORM},
            {"attention", NET_ATTEND}};

struct device {
    struct kern_dev *dev;
    struct program *p;
    struct program_memory memory;
    float *grads;
};

struct learner {
    struct model *model;
    struct device devices[DEVICES_MOST];
    unsigned count;
    size_t elements, features;
    float *params, *slots[OPTIM_SLOTS_MAX], *x;
    int32_t labels[BATCH];
    struct optim optim;
    struct rng rng;
};

static double uniform(struct learner *l)
{
    return (double)(rng_u64(&l->rng) >> 11) * 0x1p-53;
}

static void device_open(struct learner *l, const char *backend,
                        const char *with, enum kern_dtype compute)
{
    struct device *d = &l->devices[l->count];
    struct compile_options o = {.loss =
                                    SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                .from_logits = true,
                                .train = true,
                                .batch = BATCH,
                                .seed = 5,
                                .compute = compute};

    if (kern_open(&d->dev, backend, with, NULL) != SL_OK)
        return; // the host has not that many instructions
    T_OK(compile(&d->p, d->dev, l->model, &o, &d->memory, t_err()));
    d->grads = sl_calloc(l->elements, sizeof(float));
    l->count++;
}

static void learner_open(struct learner *l, const char *text,
                         enum kern_dtype compute)
{
    memset(l, 0, sizeof(*l));
    rng_init(&l->rng, t_seed(), 1);
    l->model = t_model(text);
    l->elements = (size_t)l->model->elements;
    l->features = (size_t)model_shape_elements(&l->model->nodes[0].out);
    l->params = sl_calloc(l->elements, sizeof(float));
    l->x = sl_calloc(BATCH * l->features, sizeof(float));
    optim_defaults(&l->optim, OPTIM_ADAM);
    for (unsigned i = 0; i < optim_slots(&l->optim); i++)
        l->slots[i] = sl_calloc(l->elements, sizeof(float));
    for (uint32_t i = 0; i < l->model->variables_count; i++) {
        const struct model_variable *v = &l->model->variables[i];

        for (size_t k = 0; k < v->elements; k++)
            l->params[v->first + k] = v->init.kind == MODEL_INIT_CONSTANT
                                          ? (float)v->init.a
                                          : (float)(0.2 * uniform(l) - 0.1);
    }
    device_open(l, "ref", NULL, compute);
    if (getenv("SKETCH_ISA") != NULL)
        device_open(l, "cpu", getenv("SKETCH_ISA"), compute);
    for (unsigned i = 0; i < SL_COUNT(options); i++)
        if (i < 2 || getenv("SKETCH_STEPS") != NULL)
            device_open(l, "cpu", options[i], compute);
    if (compute != KERN_F32) // as a host without such instructions computes
        device_open(l, "cpu", NULL, KERN_F32);
}

static void learner_close(struct learner *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        program_free(l->devices[i].p);
        program_memory_release(&l->devices[i].memory);
        kern_close(l->devices[i].dev);
        sl_free(l->devices[i].grads);
    }
    model_free(l->model);
    sl_free(l->params);
    sl_free(l->x);
    for (unsigned i = 0; i < OPTIM_SLOTS_MAX; i++)
        sl_free(l->slots[i]);
}

// A sample's class shows in a tenth of its features.
static void draw(struct learner *l)
{
    bool ids = l->model->nodes[0].ids;

    for (size_t i = 0; i < BATCH; i++) {
        l->labels[i] = (int32_t)(uniform(l) * OUTPUTS);
        for (size_t k = 0; k < l->features; k++) {
            bool shows = k % OUTPUTS == (size_t)l->labels[i];

            l->x[i * l->features + k] =
                ids ? (float)(int)(shows ? 8 * uniform(l) + 1 : 9 * uniform(l))
                    : (float)(2 * uniform(l) - 1 + (shows ? 0.5 : 0));
        }
    }
}

static void compute_all(struct learner *l, uint64_t step)
{
    for (unsigned i = 0; i < l->count; i++) {
        struct device *d = &l->devices[i];
        struct program_io io = {.params = l->params,
                                .grads = d->grads,
                                .x = l->x,
                                .labels = l->labels};

        program_set_step(d->p, step);
        T_OK(program_run(d->p, &io, 0, d->p->count, t_err()));
    }
}

// How far each two devices are apart, in norms of the gradient; and in scales,
// which are norms at which the two were near last, or that of now if that is
// longer (coordinator/rules/kinds.h).
struct apart {
    double norms, scales;
    unsigned beyond; // gradients of which two devices' differ by the bound
    double near_norm[DEVICES_MOST][DEVICES_MOST];
};

static void compare(const struct learner *l, uint64_t step, double bound,
                    struct apart *all)
{
    struct sketch s[DEVICES_MOST];
    bool beyond = false;

    for (unsigned i = 0; i < l->count; i++) {
        s[i] = (struct sketch){{0}};
        sketch_add(&s[i], sketch_seed(1, step, 0), 0, l->devices[i].grads,
                   l->elements);
        for (unsigned k = 0; k < i; k++) {
            double norm, apart = sketch_apart(&norm, &s[i], &s[k]);
            double *near = &all->near_norm[i][k];

            all->norms = fmax(all->norms, apart / norm);
            all->scales = fmax(all->scales, apart / fmax(norm, *near));
            beyond |= apart > bound * fmax(norm, *near);
            if (apart <= bound / 4 * norm)
                *near = norm;
        }
    }
    all->beyond += beyond;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

// Lets a net learn, other samples in each step or the same ones for ever, so
// that nothing is left to learn.
static void learn(unsigned n, enum kern_dtype compute, bool same)
{
    static const char *const names[] = {
        [KERN_F32] = "f32", [KERN_F16] = "f16", [KERN_BF16] = "bf16"};
    uint64_t steps = setting("SKETCH_STEPS", 3);
    double bound = compute == KERN_F32 ? 0.02 : 1; // as in votes.c
    struct learner l;
    struct apart all = {.beyond = 0};

    learner_open(&l, nets[n].text, compute);
    for (uint64_t step = 0; step < steps; step++) {
        if (!same || step == 0)
            draw(&l);
        compute_all(&l, step);
        compare(&l, step, bound, &all);
        optim_apply(&l.optim, step + 1, 0.003, l.elements, l.devices[0].grads,
                    l.params, l.slots);
    }
    printf("    %s, %s, %s: %.2g of the norm, %.2g of the scale, %u of %u "
           "beyond; loss %.2g\n",
           nets[n].name, names[compute],
           same ? "the same samples" : "other samples", all.norms, all.scales,
           all.beyond, (unsigned)steps,
           program_loss_sum(l.devices[0].p) / (double)l.devices[0].p->samples);
    fflush(stdout);
    T_LE(all.beyond * 1000, steps); // a kink, now and then
    learner_close(&l);
}

TEST(sketch, right_gradients_of_all_kinds_are_near)
{
    for (unsigned n = 0; n < SL_COUNT(nets); n++) {
        for (int same = 0; same < (getenv("SKETCH_STEPS") ? 2 : 1); same++) {
            learn(n, KERN_F32, same);
            learn(n, KERN_BF16, same);
            if (getenv("SKETCH_STEPS") != NULL)
                learn(n, KERN_F16, same);
        }
    }
}
