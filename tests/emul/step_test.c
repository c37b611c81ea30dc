// SPDX-License-Identifier: Apache-2.0
// tests/emul/step_test.c -- steps on the emulated device: the numbers of ref,
// whatever the order in which streams get on; what a step asks of the device;
// and what remains when a call fails.
//
// What is here in place of the sync applies gradients as they are taken and
// spoils everything that the step must not read any more.
#include <math.h>

#include "common/mem.h"
#include "tests/emul/cudart.h"
#include "tests/harness/t.h"
#include "tests/unit/worker/nets.h"
#include "worker/compile.h"
#include "worker/step.h"

#define RANGES 3
#define PROGRAMS 3
#define LARGEST 6

// Of the tests that follow; put back by those that change them.
static const char *net;
static enum kern_dtype compute;

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

// Variables that begin and end anywhere.
static const char odd[] =
    "{'input_shape': [7, 6, 3], 'layers': ["
    "{'type': 'conv2d', 'filters': 5, 'kernel_size': [3, 2],"
    " 'padding': 'same', 'activation': 'relu'},"
    "{'type': 'batch_normalization'},"
    "{'type': 'average_pooling2d', 'pool_size': 2},"
    "{'type': 'flatten'},"
    "{'type': 'dense', 'units': 7, 'activation': 'tanh'},"
    "{'type': 'dropout', 'rate': 0.2},"
    "{'type': 'dense', 'units': 10}]}";

struct placed {
    struct program *program;
    struct overlap overlap;
    struct device_program *at;
};

struct rig {
    struct kern_dev *dev;
    struct model *model;
    struct program_memory memory;
    struct overlap_range ranges[RANGES];
    uint32_t ranges_count;
    struct placed placed[PROGRAMS];
    struct step step;
    float *own; // both vectors, in host memory
    float *x;   // of a batch; spoilt when it is not needed any more
    int32_t labels[LARGEST];
    size_t features;
    struct input_run run; // only its address counts
    double loss;          // of the last step
    struct sl_error err;
};

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

        r->ranges[i] = (struct overlap_range){first, end - first};
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

static enum sl_err rig_open(struct rig *r, const char *device, uint32_t ranges)
{
    enum sl_err rc;

    memset(r, 0, sizeof(*r));
    r->model = t_model(net != NULL ? net : even);
    cut(r, ranges);
    r->features = (size_t)model_shape_elements(&r->model->nodes[0].out);
    r->x = sl_calloc(LARGEST * r->features, sizeof(float));
    r->own = sl_calloc(2 * r->model->elements, sizeof(float));
    r->step.params = r->own;
    r->step.grads = r->own + r->model->elements;
    rc = kern_open(&r->dev, device, "cuda.tf32=0", &r->err);
    if (rc == SL_OK && !r->dev->backend->host)
        rc = device_new(&r->step.device, r->dev, r->model->elements, &r->err);
    if (rc != SL_OK)
        return rc;
    if (r->step.device != NULL) {
        r->step.params = device_params(r->step.device);
        r->step.grads = device_grads(r->step.device);
    }
    init(r);
    return SL_OK;
}

static void rig_close(struct rig *r)
{
    if (r->step.device != NULL)
        (void)device_settle(r->step.device, NULL);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        device_program_free(r->placed[i].at);
        overlap_release(&r->placed[i].overlap);
        program_free(r->placed[i].program);
    }
    program_memory_release(&r->memory);
    device_free(r->step.device);
    kern_close(r->dev);
    model_free(r->model);
    sl_free(r->own);
    sl_free(r->x);
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
                                .compute = compute};
    struct device *d = r->step.device;
    enum sl_err rc = d == NULL ? SL_OK : device_settle(d, &r->err);

    if (rc == SL_OK)
        rc = compile(&p->program, r->dev, r->model, &o, &r->memory, &r->err);
    if (rc == SL_OK && train)
        rc = overlap_make(&p->overlap, p->program, r->ranges, r->ranges_count,
                          &r->err);
    if (rc == SL_OK && d != NULL)
        rc = device_place(&p->at, d, p->program, train ? &p->overlap : NULL,
                          r->ranges, &r->err);
    return rc;
}

static enum sl_err place(struct rig *r, bool train, uint32_t batch,
                         struct placed **out)
{
    struct placed *p = r->placed;

    while (p->program != NULL &&
           (p->program->batch != batch || p->program->train != train))
        p++;
    *out = p;
    return p->program != NULL ? SL_OK : make(r, p, train, batch);
}

static struct batch batch_of(struct rig *r, uint32_t step, uint32_t n)
{
    struct batch b = {.x = r->x, .y = r->labels, .n = n, .step = step};

    for (size_t i = 0; i < n * r->features; i++)
        r->x[i] = number(1000000 + step * 10000 + i);
    for (uint32_t i = 0; i < n; i++)
        r->labels[i] = (int32_t)((step * 7 + i * 3) % 10);
    return b;
}

static void spoil(struct rig *r)
{
    memset(r->x, 0xff, LARGEST * r->features * sizeof(float));
    memset(r->labels, 0xff, sizeof(r->labels));
}

// Plain gradient descent; moving statistics take the batch's place. The
// gradient is spoilt: what the next step does not write would be seen.
static void apply(struct rig *r, uint32_t range)
{
    const struct overlap_range *s = &r->ranges[range];

    for (uint32_t i = 0; i < r->model->variables_count; i++) {
        const struct model_variable *v = &r->model->variables[i];

        for (uint64_t k = 0; k < v->elements; k++) {
            uint64_t at = v->first + k;

            if (at < s->first || at >= s->first + s->count)
                continue;
            if (v->kind == MODEL_MOVING)
                r->step.params[at] = r->step.grads[at];
            else
                r->step.params[at] -= 0.2f * r->step.grads[at];
            r->step.grads[at] = NAN;
        }
    }
}

static enum sl_err run_all(struct rig *r, const struct placed *p)
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

static enum sl_err take_all(struct rig *r, const struct placed *p,
                            uint32_t next, uint32_t next_n)
{
    enum sl_err rc = step_stats(&r->step, &r->err);

    r->loss = program_loss_sum(p->program);
    for (uint32_t i = 0; rc == SL_OK && i < r->ranges_count; i++) {
        if (i == 1 && next_n > 0) {
            struct batch b = batch_of(r, next, next_n);

            rc = step_stage(&r->step, &r->run, &b, &r->err);
            spoil(r);
        }
        if (rc == SL_OK)
            rc = step_take(&r->step, p->overlap.by_send[i], &r->err);
        if (rc == SL_OK)
            apply(r, p->overlap.by_send[i]);
    }
    return rc;
}

// next_n: samples of the step after it, if that is to be staged.
static enum sl_err train(struct rig *r, uint32_t step, uint32_t n,
                         uint32_t next_n)
{
    struct placed *p = NULL;
    struct batch b;
    enum sl_err rc;

    if (!step_staged(&r->step, &r->run, step, &b))
        b = batch_of(r, step, n);
    rc = place(r, true, n, &p);
    if (rc != SL_OK)
        return rc;
    program_set_step(p->program, step);
    if (compute == KERN_F16) // another scale in every step
        program_set_loss_scale(p->program, 1 << (step % 5 + 4));
    rc = step_begin(&r->step, p->program, p->at, &b, &r->err);
    if (step_runs_ahead(&r->step))
        spoil(r);
    if (rc == SL_OK)
        rc = run_all(r, p);
    return rc == SL_OK ? take_all(r, p, step + 1, next_n) : rc;
}

// Arena and slots grow, together and alone, after steps have been recorded.
static const uint32_t sizes[] = {4, 4, 4, 6, 4, 4, 4, 4, 6, 4, 4, 6, 6, 4};
#define STEPS SL_COUNT(sizes)

static void train_some(struct rig *r, double *losses, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t next = i + 1 < steps && i % 5 != 3 ? sizes[i + 1] : 0;

        if (train(r, i, sizes[i], next) != SL_OK)
            T_FAIL("step %u: %s", i, r->err.text);
        losses[i] = r->loss;
    }
}

static void train_all(struct rig *r, double *losses)
{
    train_some(r, losses, STEPS);
}

static enum sl_err evaluate(struct rig *r, const float *w, uint64_t name)
{
    struct step s = {.device = r->step.device, .params = (float *)(uintptr_t)w};
    struct placed *p = NULL;
    struct batch b = batch_of(r, 77, 5);
    enum sl_err rc = place(r, false, 5, &p);

    if (rc == SL_OK)
        rc = step_begin(&s, p->program, p->at, &b, &r->err);
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

static void near(const struct rig *a, const struct rig *b, double most)
{
    for (uint64_t i = 0; i < a->model->elements; i++)
        T_NEAR(a->step.params[i], b->step.params[i], most);
}

static void same_bits(const struct rig *a, const struct rig *b)
{
    T_MEM(a->step.params, b->step.params, a->model->elements * sizeof(float));
}

static void as_ref(uint32_t steps, double loss_apart, double apart)
{
    double here[STEPS], there[STEPS];
    struct rig ref, gpu;

    T_OK(rig_open(&ref, "ref", RANGES));
    T_OK(rig_open(&gpu, "cuda", RANGES));
    train_some(&ref, here, steps);
    train_some(&gpu, there, steps);
    for (uint32_t i = 0; i < steps; i++)
        T_NEAR(here[i], there[i], loss_apart);
    near(&ref, &gpu, apart);
    rig_close(&ref);
    rig_close(&gpu);
}

TEST(step, trains_as_ref_does)
{
    unsigned before = emul_alive();

    emul_lazy(0);
    as_ref(STEPS, 1e-3, 1e-4);
    net = odd;
    as_ref(STEPS, 1e-3, 1e-4);
    net = NULL;
    T_EQ(emul_alive(), before);
}

// The scale of the loss changes with every step, and recordings do not.
TEST(step, trains_as_ref_does_in_16_bits)
{
    static const struct {
        enum kern_dtype compute;
        double apart; // of a parameter
    } cases[] = {{KERN_F16, 0.01}, {KERN_BF16, 0.05}};

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        compute = cases[i].compute;
        emul_lazy(3);
        as_ref(7, 20 * cases[i].apart, cases[i].apart);
        net = odd;
        as_ref(7, 20 * cases[i].apart, cases[i].apart);
        net = NULL;
        compute = KERN_F32;
    }
    emul_lazy(0);
}

TEST(step, recorded_and_directly_run_give_equal_bits)
{
    unsigned before = emul_alive();
    double here[STEPS], there[STEPS];
    struct rig recorded, direct;
    unsigned graphs, launches;

    emul_lazy(0);
    T_OK(rig_open(&recorded, "cuda", RANGES));
    T_OK(rig_open(&direct, "cuda", RANGES));
    graphs = emul_calls("graph");
    train_all(&recorded, here);
    T_GT(emul_calls("graph"), graphs);
    // Once refused, it is not tried again: two programs.
    graphs = emul_calls("graph");
    launches = emul_calls("launch");
    for (uint32_t i = 0; i < STEPS; i++) {
        emul_fail("capture", 1, cudaErrorNotSupported, false);
        T_OK(train(&direct, i, sizes[i], 0));
        there[i] = direct.loss;
    }
    emul_heal();
    T_EQ(emul_calls("graph"), graphs);
    T_GT(emul_calls("launch"), launches);
    T_MEM(here, there, sizeof(here));
    same_bits(&recorded, &direct);
    rig_close(&recorded);
    rig_close(&direct);
    T_EQ(emul_alive(), before);
}

// Streams get on in another order with every seed, and some only when somebody
// waits for them.
TEST(step, any_order_of_streams_gives_equal_bits)
{
    unsigned before = emul_alive();
    double here[STEPS], there[STEPS];
    struct rig plain, lazy;

    emul_lazy(0);
    T_OK(rig_open(&plain, "cuda", RANGES));
    train_all(&plain, here);
    for (unsigned seed = 1; seed <= 24; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&lazy, "cuda", RANGES));
        train_all(&lazy, there);
        T_MEM(here, there, sizeof(here));
        same_bits(&plain, &lazy);
        rig_close(&lazy);
    }
    emul_lazy(0);
    rig_close(&plain);
    T_EQ(emul_alive(), before);
}

TEST(step, evaluates_between_steps)
{
    unsigned before = emul_alive();
    struct rig ref, gpu;
    float *other;

    for (unsigned seed = 0; seed < 6; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&ref, "ref", RANGES));
        T_OK(rig_open(&gpu, "cuda", RANGES));
        other = sl_calloc(ref.model->elements, sizeof(float));
        memcpy(other, ref.step.params, ref.model->elements * sizeof(float));
        for (uint32_t i = 0; i < 3; i++) {
            T_OK(train(&ref, i, 4, 0));
            T_OK(train(&gpu, i, 4, 0));
            T_OK(evaluate(&ref, other, 1 + i / 2));
            T_OK(evaluate(&gpu, other, 1 + i / 2));
            T_NEAR(ref.loss, gpu.loss, 1e-3);
            T_OK(evaluate(&gpu, other, 1 + i / 2));
            T_NEAR(ref.loss, gpu.loss, 1e-3);
            if (i == 1) // the next cut
                memcpy(other, ref.step.params,
                       ref.model->elements * sizeof(float));
        }
        near(&ref, &gpu, 1e-4);
        sl_free(other);
        rig_close(&ref);
        rig_close(&gpu);
    }
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

// A step is given up in the middle; the next one begins anew.
TEST(step, one_that_is_given_up_leaves_nothing)
{
    unsigned before = emul_alive();
    struct rig plain, broken;
    struct placed *p = NULL;
    struct batch b;

    for (unsigned seed = 0; seed < 6; seed++) {
        emul_lazy(seed);
        T_OK(rig_open(&plain, "cuda", RANGES));
        T_OK(rig_open(&broken, "cuda", RANGES));
        for (uint32_t i = 0; i < 4; i++) {
            T_OK(train(&plain, i, 4, 0));
            b = batch_of(&broken, 50 + i, 4);
            T_OK(place(&broken, true, 4, &p));
            T_OK(step_begin(&broken.step, p->program, p->at, &b, t_err()));
            if (i % 2 == 0) // all is under way, or next to nothing
                T_OK(run_all(&broken, p));
            else
                T_OK(step_fresh(&broken.step, 0, t_err()));
            step_stop(&broken.step);
            T_OK(train(&broken, i, 4, 0));
        }
        same_bits(&plain, &broken);
        rig_close(&plain);
        rig_close(&broken);
    }
    emul_lazy(0);
    T_EQ(emul_alive(), before);
}

static const char *const calls[] = {
    "malloc",      "host_alloc", "free",   "free_host", "sync",
    "unpinned",    "busy_free",  "launch", "graph",     "event_sync",
    "event_query", "copy",       "event",  "stream",    "capture"};
#define CALLS SL_COUNT(calls)
enum {
    COUNT_LAUNCH = 7,
    COUNT_GRAPH,
    COUNT_EVENT_SYNC,
    COUNT_QUERY,
    COUNT_COPY
};

static void count(unsigned n[CALLS])
{
    for (unsigned i = 0; i < CALLS; i++)
        n[i] = emul_calls(calls[i]) - n[i];
}

// What the tenth step asks of the device.
static void count_step(uint32_t ranges, unsigned n[CALLS])
{
    uint64_t mem;
    struct rig r;

    emul_lazy(1); // the laziest: what must be waited for is waited for
    T_OK(rig_open(&r, "cuda", ranges));
    for (uint32_t i = 0; i < 9; i++)
        T_OK(train(&r, i, 4, 4));
    mem = sl_mem_calls();
    memset(n, 0, CALLS * sizeof(*n));
    count(n);
    T_OK(train(&r, 9, 4, 4));
    count(n);
    T_EQ(sl_mem_calls(), mem);
    rig_close(&r);
    emul_lazy(0);
}

TEST(step, asks_little_of_the_device)
{
    unsigned n[CALLS];

    count_step(1, n);
    T_EQ(n[COUNT_GRAPH], 1); // the whole step
    T_EQ(n[COUNT_COPY], 6);  // keys, parameters; loss, gradient; next batch
    T_EQ(n[COUNT_EVENT_SYNC], 2);
    for (unsigned i = 0; i <= COUNT_LAUNCH; i++)
        T_EQ(n[i], 0);
    T_EQ(n[CALLS - 1] + n[CALLS - 2] + n[CALLS - 3], 0);

    count_step(RANGES, n);
    T_GT(n[COUNT_GRAPH], 1);
    T_EQ(n[COUNT_COPY], 2 + 2 * RANGES + 2);
    T_LE(n[COUNT_EVENT_SYNC], 1 + RANGES);
    for (unsigned i = 0; i < COUNT_LAUNCH; i++)
        T_EQ(n[i], 0);
    T_EQ(n[CALLS - 1] + n[CALLS - 2] + n[CALLS - 3], 0);
}

// ---- failures --------------------------------------------------------------

static enum sl_err some_steps(struct rig *r)
{
    enum sl_err rc = rig_open(r, "cuda", RANGES);

    for (uint32_t i = 0; i < 4 && rc == SL_OK; i++)
        rc = train(r, i, i == 2 ? 6 : 4, i == 1 ? 6 : i == 2 ? 4 : 0);
    return rc == SL_OK ? evaluate(r, r->step.params, 1) : rc;
}

// The nth call of each kind breaks the device, for all n until none is left.
// What is on a broken device cannot be given back; what is not, is.
TEST(step, a_device_that_breaks_is_lost_and_leaves_nothing)
{
    static const char *const all[] = {
        "malloc", "host_alloc", "stream",       "event",      "copy",
        "fill",   "launch",     "event_record", "event_wait", "event_query",
        "graph",  "capture",    "end_capture",  "instantiate"};

    for (unsigned k = 0; k < SL_COUNT(all); k++) {
        for (unsigned nth = 1;; nth += nth < 8 ? 1 : 7) {
            struct rig r;
            uint64_t before = sl_mem_live();
            enum sl_err rc;

            emul_lazy(nth % 3);
            emul_fail(all[k], nth, cudaErrorIllegalAddress, true);
            rc = some_steps(&r);
            emul_heal(); // so that memory can be freed
            if (rc != SL_OK) {
                T_EQ(rc, SL_ELOST);
                T_HAS(r.err.text, "GPU 0 (emulated)");
            }
            rig_close(&r);
            T_EQ(sl_mem_live(), before);
            if (rc == SL_OK)
                break;
            T_LT(nth, 4000);
        }
    }
    emul_lazy(0);
}

TEST(step, too_little_memory_is_said_and_leaves_nothing)
{
    unsigned before = emul_alive();
    static const char *const all[] = {"malloc", "host_alloc"};

    for (unsigned k = 0; k < SL_COUNT(all); k++) {
        enum sl_err rc = SL_ENOMEM;

        for (unsigned nth = 1; rc != SL_OK; nth++) {
            struct rig r;

            emul_fail(all[k], nth, cudaErrorMemoryAllocation, false);
            rc = some_steps(&r);
            emul_heal();
            if (rc != SL_OK) {
                T_EQ(rc, SL_ENOMEM);
                T_TRUE(strstr(r.err.text, "smaller batch") != NULL);
            }
            rig_close(&r);
            T_EQ(emul_alive(), before);
        }
    }
}

TEST(step, every_allocation_of_the_host_may_fail)
{
    unsigned before = emul_alive();
    enum sl_err rc = SL_ENOMEM;

    for (uint64_t n = 1; rc != SL_OK; n += 1 + n / 16) {
        struct rig r;

        T_OK(rig_open(&r, "cuda", RANGES));
        sl_mem_fail_at(n);
        rc = train(&r, 0, 4, 0);
        if (rc == SL_OK)
            rc = train(&r, 1, 4, 0);
        if (!sl_mem_failed())
            T_OK(rc);
        else if (rc != SL_OK)
            T_EQ(rc, SL_ENOMEM);
        else
            rc = SL_ENOMEM; // it went on without what it could not have
        rig_close(&r);
        T_EQ(emul_alive(), before);
    }
}
