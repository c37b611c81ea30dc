// SPDX-License-Identifier: Apache-2.0
// tests/emul/rig.c -- see rig.h.
#include "tests/emul/rig.h"

#include <math.h>

#include "common/base/mem.h"
#include "tests/unit/worker/nets.h"
#include "trainer/base/grad.h"

const char *rig_net;
enum kern_dtype rig_compute;
bool rig_proves, rig_bytes, rig_pinned;
double rig_clipnorm, rig_global_clipnorm;

static const char even[] =
    "{'input_shape': [8, 8, 4], 'layers': ["
    "{'type': 'conv2d', 'filters': 8, 'kernel_size': 3,"
    " 'activation': 'relu'},"
    "{'type': 'batch_normalization'},"
    "{'type': 'max_pooling2d', 'pool_size': 2},"
    "{'type': 'dropout', 'rate': 0.3},"
    "{'type': 'flatten'},"
    "{'type': 'dense', 'units': 16, 'activation': 'relu'},"
    "{'type': 'dense', 'units': 10}]}";

#define CONV(filters, size)                                                    \
    "{'type': 'conv2d', 'filters': " filters ", 'kernel_size': " size ","      \
    " 'strides': 2, 'padding': 'same', 'activation': 'relu'},"                 \
    "{'type': 'batch_normalization'},"
const char rig_imagenette[] =
    "{'input_shape': [8, 8, 3], 'layers': [" CONV("32", "5") CONV("64", "7")
        CONV("128", "11") "{'type': 'global_average_pooling2d'},"
                          "{'type': 'dense', 'units': 10}]}";

// The same for every device.
static float number(uint64_t i)
{
    uint64_t h = (i + 1) * 0x9E3779B97F4A7C15u;

    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return (float)(h >> 40) / (float)(1 << 24) - 0.5f;
}

static void cut(struct rig *r, uint32_t count)
{
    uint64_t all = r->model->elements, first = 0;

    r->ranges_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end = i + 1 == count ? all : (all * (i + 1)) / (count + 1);

        r->ranges[i] = (struct elements){first, end - first};
        first = end;
    }
}

static void init(struct rig *r)
{
    float *w = r->step.params;

    for (uint32_t i = 0; i < r->model->variables_count; i++) {
        const struct model_variable *v = &r->model->variables[i];

        for (uint64_t k = 0; k < v->elements; k++)
            w[v->first + k] = v->init.kind == MODEL_INIT_CONSTANT
                                  ? (float)v->init.a
                                  : 0.3f * number(v->first + k);
    }
}

static enum sl_err make_batches(struct rig *r)
{
    size_t bytes[2] = {LARGEST * r->features * sizeof(float),
                       LARGEST * sizeof(int32_t)};
    bool pinned = rig_pinned && !r->dev->backend->host;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < 4 && rc == SL_OK; i++) {
        void *at = pinned ? NULL : sl_calloc(1, bytes[i % 2]);

        if (pinned) {
            rc = r->dev->backend->alloc(&r->pinned[i], r->dev, bytes[i % 2],
                                        KERN_HOST);
            at = r->pinned[i].at;
        }
        if (i % 2 == 0)
            r->x[i / 2] = at;
        else
            r->labels[i / 2] = at;
    }
    return rc;
}

static void free_batches(struct rig *r)
{
    for (unsigned i = 0; i < 4; i++) {
        if (r->pinned[i].at != NULL)
            r->dev->backend->release(r->dev, &r->pinned[i]);
        else
            sl_free(i % 2 == 0 ? (void *)r->x[i / 2]
                               : (void *)r->labels[i / 2]);
    }
}

static enum sl_err open_devices(struct rig *r, const char *list)
{
    const char *options =
        rig_proves ? "cuda.tf32=0" : "cuda.tf32=0,cuda.prove=0";
    struct team_names names;
    enum sl_err rc = team_names_read(&names, list, &r->err);

    if (rc == SL_OK)
        rc = kern_open(&r->dev, names.name[0], options, &r->err);
    if (rc == SL_OK && !r->dev->backend->host)
        rc = device_new(&r->step.device, r->dev, r->model->elements, &r->err);
    if (rc == SL_OK)
        rc = team_new(&r->team, r->dev, &names, options, &r->err);
    if (rc == SL_OK)
        rc = team_job_new(&r->step.team, r->team, r->model, r->step.device,
                          &r->err);
    return rc;
}

enum sl_err rig_open(struct rig *r, const char *device, uint32_t ranges)
{
    enum sl_err rc;

    memset(r, 0, sizeof(*r));
    r->model = t_model(rig_net != NULL ? rig_net : even);
    cut(r, ranges);
    r->features = (size_t)model_shape_elements(&r->model->nodes[0].out);
    r->own = sl_calloc(2 * r->model->elements, sizeof(float));
    r->step.params = r->own;
    r->step.grads = r->own + r->model->elements;
    rc = open_devices(r, device);
    if (rc == SL_OK)
        rc = make_batches(r);
    if (rc != SL_OK)
        return rc;
    if (r->step.device != NULL) {
        r->step.params = device_params(r->step.device);
        r->step.grads = device_grads(r->step.device);
    }
    init(r);
    return SL_OK;
}

void rig_close(struct rig *r)
{
    if (r->step.device != NULL)
        (void)device_settle(r->step.device, NULL);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        team_program_free(r->placed[i].mates);
        device_program_free(r->placed[i].at);
        overlap_release(&r->placed[i].overlap);
        program_free(r->placed[i].program);
    }
    program_memory_release(&r->memory);
    team_job_free(r->step.team);
    device_free(r->step.device);
    free_batches(r);
    team_free(r->team);
    kern_close(r->dev);
    model_free(r->model);
    sl_free(r->own);
}

static bool clips(void)
{
    return rig_clipnorm > 0 || rig_global_clipnorm > 0;
}

// As job_program does it.
static enum sl_err make(struct rig *r, struct placed *p, bool train,
                        uint32_t batch)
{
    struct compile_options o = {.loss =
                                    SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                .from_logits = true,
                                .train = train,
                                .batch = batch,
                                .seed = 5,
                                .input = rig_bytes ? KERN_U8 : KERN_F32,
                                .input_scale = 1.0 / 255,
                                .compute = rig_compute};
    struct compile_options own = o;
    struct device *d = r->step.device;
    enum sl_err rc = d == NULL ? SL_OK : device_settle(d, &r->err);

    p->batch = batch;
    team_cut(r->step.team, 0, &own);
    if (rc == SL_OK)
        rc = compile(&p->program, r->dev, r->model, &own, &r->memory, &r->err);
    if (rc == SL_OK && train)
        rc = overlap_make(&p->overlap, p->program, r->ranges, r->ranges_count,
                          &r->err);
    if (rc == SL_OK && d != NULL)
        rc = device_place(&p->at, d, p->program, train ? &p->overlap : NULL,
                          r->ranges, clips() ? r->model : NULL, &r->err);
    if (rc == SL_OK && r->step.team != NULL)
        rc = team_program_new(&p->mates, r->step.team, &o,
                              train ? r->ranges : NULL,
                              train ? r->ranges_count : 0, NULL, &r->err);
    if (rc == SL_OK)
        program_set_samples(p->program, batch);
    return rc;
}

enum sl_err rig_place(struct rig *r, bool train, uint32_t batch,
                      struct placed **out)
{
    struct placed *p = r->placed;

    while (p->program != NULL &&
           (p->batch != batch || p->program->train != train))
        p++;
    *out = p;
    return p->program != NULL ? SL_OK : make(r, p, train, batch);
}

struct batch rig_batch(struct rig *r, uint32_t step, uint32_t n)
{
    float *x = r->x[step % 2];
    int32_t *labels = r->labels[step % 2];
    struct batch b = {.x = x,
                      .y = labels,
                      .pinned = r->pinned[0].at != NULL,
                      .n = n,
                      .step = step};

    for (size_t i = 0; i < n * r->features; i++) {
        x[i] = number(1000000 + step * 10000 + i);
        if (r->model->nodes[0].ids)
            x[i] = floorf((x[i] + 0.5f) * 9);
    }
    for (uint32_t i = 0; i < n; i++)
        labels[i] = (int32_t)((step * 7 + i * 3) % 10);
    return b;
}

static void spoil(struct rig *r, uint32_t step)
{
    memset(r->x[step % 2], 0xff, LARGEST * r->features * sizeof(float));
    memset(r->labels[step % 2], 0xff, LARGEST * sizeof(int32_t));
}

// Plain gradient descent; moving statistics take the batch's place. The
// gradient is spoilt: what the next step does not write would be seen.
static void apply(struct rig *r, uint32_t range)
{
    const struct elements *s = &r->ranges[range];

    for (uint32_t i = 0; i < r->model->variables_count; i++) {
        const struct model_variable *v = &r->model->variables[i];

        for (uint64_t k = 0; k < v->elements; k++) {
            uint64_t at = v->first + k;

            if (at < s->first || at >= s->first + s->count)
                continue;
            if (v->kind == MODEL_MOVING && v->momentum < 1)
                r->step.params[at] = r->step.grads[at];
            else
                r->step.params[at] -= 0.2f * r->step.grads[at];
            r->step.grads[at] = NAN;
        }
    }
}

struct step_program rig_step_program(const struct placed *p)
{
    return (struct step_program){p->program, p->at, p->mates};
}

enum sl_err rig_run_all(struct rig *r, const struct placed *p)
{
    const struct overlap *o = &p->overlap;
    uint32_t op = 0, waited = 0, end = p->program->count;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && op < end) {
        uint32_t stop = end;

        for (; rc == SL_OK && waited < o->shards &&
               o->wait_before[o->by_wait[waited]] <= op;
             waited++)
            rc = step_fresh(&r->step, o->by_wait[waited], &r->err);
        if (waited < o->shards && o->wait_before[o->by_wait[waited]] < stop)
            stop = o->wait_before[o->by_wait[waited]];
        if (rc == SL_OK)
            rc = step_run(&r->step, op, stop, &r->err);
        op = stop;
    }
    return rc;
}

static enum sl_err stage(struct rig *r, uint32_t next, uint32_t n)
{
    struct batch b;
    enum sl_err rc;

    if (n == 0)
        return SL_OK;
    b = rig_batch(r, next, n);
    rc = step_stage(&r->step, &r->run, NULL, &b, &r->err);
    if (!b.pinned)
        spoil(r, next);
    return rc;
}

// What the step says of a range is what there is in the vector.
static void look(struct rig *r, uint32_t range)
{
    const struct elements *at = &r->ranges[range];
    bool finite = step_finite(&r->step, range, at);

    T_EQ(finite, grad_finite(r->step.grads + at->first, (size_t)at->count));
    r->bad += !finite;
}

static enum sl_err take_all(struct rig *r, const struct placed *p,
                            uint32_t next, uint32_t next_n)
{
    enum sl_err rc = SL_OK;

    if (next % 2 == 0)
        rc = stage(r, next, next_n); // sooner or later
    if (rc == SL_OK)
        rc = step_stats(&r->step, &r->err);
    r->loss = program_loss_sum(p->program);
    r->bad = 0;
    if (rc == SL_OK && r->step.kept)
        rc = step_clip(&r->step, r->model, rig_clipnorm, rig_global_clipnorm,
                       &r->err);
    for (uint32_t i = 0; rc == SL_OK && i < r->ranges_count; i++) {
        if (i + 1 == r->ranges_count && next % 2 == 1)
            rc = stage(r, next, next_n);
        if (rc == SL_OK)
            rc = step_take(&r->step, p->overlap.by_send[i], &r->err);
        if (rc == SL_OK)
            look(r, p->overlap.by_send[i]);
        if (rc == SL_OK)
            apply(r, p->overlap.by_send[i]);
    }
    return rc;
}

// next_n: samples of the step after it, if that is to be staged.
enum sl_err rig_train(struct rig *r, uint32_t step, uint32_t n, uint32_t next_n)
{
    struct placed *p = NULL;
    struct step_program run;
    struct batch b;
    enum sl_err rc;

    if (!step_staged(&r->step, &r->run, step, &b))
        b = rig_batch(r, step, n);
    rc = rig_place(r, true, n, &p);
    if (rc != SL_OK)
        return rc;
    program_set_step(p->program, step);
    if (rig_compute == KERN_F16) // another scale in every step
        program_set_loss_scale(p->program, 1 << (step % 5 + 4));
    r->step.kept = clips();
    run = rig_step_program(p);
    rc = step_begin(&r->step, &run, &b, &r->err);
    if (r->step.device != NULL && !b.pinned)
        spoil(r, step);
    if (rc == SL_OK)
        rc = rig_run_all(r, p);
    if (rc == SL_OK)
        rc = take_all(r, p, step + 1, next_n);
    if (rc == SL_OK && b.pinned)
        rc = device_free_batch(r->step.device, &b);
    if (r->step.team != NULL)
        team_free_batch(r->step.team, &b);
    if (b.pinned)
        spoil(r, step);
    return rc;
}

// Arena and slots grow, together and alone, after steps have been recorded.

enum sl_err rig_evaluate(struct rig *r, const float *w, uint64_t name)
{
    struct step s = {.device = r->step.device,
                     .team = r->step.team,
                     .params = (float *)(uintptr_t)w};
    struct step_program run;
    struct placed *p = NULL;
    struct batch b = rig_batch(r, 77, 5);
    enum sl_err rc = rig_place(r, false, 5, &p);

    run = rig_step_program(p);
    if (rc == SL_OK)
        rc = step_begin(&s, &run, &b, &r->err);
    if (rc == SL_OK)
        rc = step_vector(&s, name, &r->err);
    if (rc == SL_OK)
        rc = step_run(&s, 0, p->program->count, &r->err);
    if (rc == SL_OK)
        rc = step_stats(&s, &r->err);
    if (rc == SL_OK)
        r->loss = program_loss_sum(p->program);
    return rc;
}
