// SPDX-License-Identifier: Apache-2.0
// All of the arithmetic without a network: data, input, programs and an
// optimizer in one process learn what they should.
#include "tests/harness/t.h"

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "kernels/optim.h"
#include "nets.h"
#include "worker/compile/compile.h"
#include "trainer/base/grad.h"
#include "worker/data/input.h"
#include "worker/device/loss_scale.h"

struct learner {
    struct kern_dev *dev;
    struct model *model;
    struct program_memory memory;
    struct program *train, *test;
    float *params, *grads, *slots[OPTIM_SLOTS_MAX];
    struct data *train_data, *test_data;
    struct input *in;
    struct optim optim;
    uint64_t updates, skipped;
    enum kern_dtype compute;
    struct loss_scale scale;
};

static float *vector(size_t n)
{
    float *v = sl_calloc(n, sizeof(float));

    T_TRUE(v != NULL);
    return v;
}

// Glorot's bound is near enough for such small layers.
static void init(struct learner *l)
{
    for (uint32_t i = 0; i < l->model->variables_count; i++) {
        const struct model_variable *v = &l->model->variables[i];
        float *at = l->params + v->first;

        if (v->init.kind == MODEL_INIT_CONSTANT) {
            for (size_t k = 0; k < v->elements; k++)
                at[k] = (float)v->init.a;
            continue;
        }
        rng_fill_uniform(at, 1, i, 0, (size_t)v->elements);
        for (size_t k = 0; k < v->elements; k++)
            at[k] = (at[k] - 0.5f) * 0.3f;
    }
}

static void learner_open_in(struct learner *l, const char *device,
                            enum kern_dtype compute, bool u8, const char *net,
                            const struct data_source *source, uint32_t batch)
{
    enum spec_loss loss = SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    struct compile_options o = {
        .loss = loss, .train = true, .batch = batch, .compute = compute};
    struct data_want w;

    memset(l, 0, sizeof(*l));
    l->compute = compute;
    loss_scale_init(&l->scale, 0, 0);
    T_OK(kern_open(&l->dev, device, NULL, t_err()));
    l->model = t_model(net);
    T_OK(compile_wants(&w, l->model, loss, NULL, t_err()));
    w.u8 = u8;
    T_OK(data_open(&l->train_data, source, &w, t_err()));
    T_EQ(data_is_u8(l->train_data), u8);
    o.input = u8 ? KERN_U8 : KERN_F32;
    o.input_scale = (double)data_scale(l->train_data);
    o.input_offset = (double)data_offset(l->train_data);
    w.test = true;
    T_OK(data_open(&l->test_data, source, &w, t_err()));
    T_OK(compile(&l->train, l->dev, l->model, &o, &l->memory, t_err()));
    o.train = false;
    T_OK(compile(&l->test, l->dev, l->model, &o, &l->memory, t_err()));
    l->params = vector((size_t)l->model->elements);
    l->grads = vector((size_t)l->model->elements);
    optim_defaults(&l->optim, OPTIM_ADAM);
    for (unsigned i = 0; i < optim_slots(&l->optim); i++)
        l->slots[i] = vector((size_t)l->model->elements);
    init(l);
    T_OK(input_new(&l->in, 1, t_err()));
}

static void learner_open(struct learner *l, const char *net,
                         const struct data_source *source, uint32_t batch)
{
    learner_open_in(l, "auto", KERN_F32, false, net, source, batch);
}

static void learner_close(struct learner *l)
{
    input_free(l->in);
    program_free(l->train);
    program_free(l->test);
    program_memory_release(&l->memory);
    data_free(l->train_data);
    data_free(l->test_data);
    model_free(l->model);
    kern_close(l->dev);
    sl_free(l->params);
    sl_free(l->grads);
    for (unsigned i = 0; i < OPTIM_SLOTS_MAX; i++)
        sl_free(l->slots[i]);
}

static void update(struct learner *l, double rate)
{
    size_t n = (size_t)l->model->elements;
    bool finite = grad_finite(l->grads, n);

    if (l->compute == KERN_F16)
        loss_scale_step(&l->scale, finite);
    else
        T_TRUE(finite);
    l->skipped += !finite;
    if (!finite)
        return;
    optim_apply(&l->optim, ++l->updates, rate, n, l->grads, l->params,
                l->slots);
}

// Returns the share of right answers.
static double pass(struct learner *l, bool train, uint64_t epoch)
{
    struct data *d = train ? l->train_data : l->test_data;
    struct program *p = train ? l->train : l->test;
    struct input_run run = {.data = d,
                            .shuffle = train,
                            .epoch = epoch,
                            .count = data_samples(d),
                            .batch = p->batch};
    double right = 0;

    T_OK(order_init(&run.order, 1, epoch, data_samples(d)));
    input_open(l->in, &run);
    for (uint32_t k = 0; k < input_run_steps(&run); k++) {
        struct program_io io = {.params = l->params, .grads = l->grads};
        struct batch b;

        T_OK(input_get(l->in, &run, k, &b, t_err()));
        io.x = b.x;
        io.labels = b.y;
        if (l->compute == KERN_F16)
            program_set_loss_scale(p, l->scale.s);
        T_OK(program_run(p, &io, 0, p->count, t_err()));
        right += program_right_sum(p);
        input_put(l->in, &b);
        if (train)
            update(l, 0.003);
    }
    input_close(l->in, &run);
    return right / (double)run.count;
}

TEST(train, learns_synthetic_classes)
{
    struct data_source source = {.format = "synthetic",
                                 .generator = "classes",
                                 .classes = 10,
                                 .samples = 1280,
                                 .seed = 9,
                                 .scale = 1};
    struct learner l;
    double accuracy;

    learner_open(&l, NET_FASHION, &source, 64);
    accuracy = pass(&l, false, 0);
    T_TRUE(accuracy < 0.4);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        pass(&l, true, epoch);
    accuracy = pass(&l, false, 0);
    printf("accuracy %.3f\n", accuracy);
    T_TRUE(accuracy > 0.9);
    learner_close(&l);
}

static double learn(const char *device, enum kern_dtype compute)
{
    struct data_source source = {.format = "synthetic",
                                 .generator = "classes",
                                 .classes = 10,
                                 .samples = 1280,
                                 .seed = 9,
                                 .scale = 1};
    struct learner l;
    double accuracy;

    learner_open_in(&l, device, compute, false, NET_FASHION, &source, 64);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        pass(&l, true, epoch);
    accuracy = pass(&l, false, 0);
    printf("%s, dtype %d: accuracy %.4f, %d skipped\n", device, compute,
           accuracy, (int)l.skipped);
    T_LE(l.skipped, 6); // the first scales may be too large
    learner_close(&l);
    return accuracy;
}

// The bar of mixed precision: what f32 learns, f16 and bf16 learn.
TEST(train, learns_as_well_in_16_bits)
{
    double f32 = learn("cpu", KERN_F32);

    T_TRUE(f32 > 0.98);
    T_NEAR(learn("cpu", KERN_BF16), f32, 0.005);
    T_NEAR(learn("cpu", KERN_F16), f32, 0.005);
    T_NEAR(learn("ref", KERN_F16), f32, 0.005);
}

// What a worker computes of bytes is what it computes of the numbers that
// they stand for, bit by bit.
TEST(train, bytes_and_floats_are_the_same_to_learn_from)
{
    static const char *const devices[] = {"ref", "cpu"};
    struct data_source source = {.format = "synthetic",
                                 .generator = "images",
                                 .classes = 10,
                                 .samples = 128,
                                 .seed = 9,
                                 .scale = 1 / 255.0};

    for (size_t i = 0; i < SL_COUNT(devices); i++) {
        struct learner bytes, floats;

        learner_open_in(&bytes, devices[i], KERN_F32, true, NET_FASHION,
                        &source, 16);
        learner_open_in(&floats, devices[i], KERN_F32, false, NET_FASHION,
                        &source, 16);
        T_TRUE(pass(&bytes, true, 0) == pass(&floats, true, 0));
        T_MEM(bytes.params, floats.params,
              (size_t)bytes.model->elements * sizeof(float));
        learner_close(&bytes);
        learner_close(&floats);
    }
}

// Steps allocate nothing: neither the batches nor the programs. Only a slot
// of the ring that was not used so far makes its two buffers.
TEST(train, a_step_allocates_nothing)
{
    struct data_source source = {.format = "synthetic",
                                 .generator = "classes",
                                 .classes = 10,
                                 .samples = 64,
                                 .seed = 9,
                                 .scale = 1};
    struct learner l;
    uint64_t calls;

    learner_open(&l, NET_FASHION, &source, 16);
    pass(&l, true, 0);
    pass(&l, true, 1);
    calls = sl_mem_calls();
    for (uint64_t epoch = 2; epoch < 20; epoch++)
        pass(&l, true, epoch);
    T_LE(sl_mem_calls() - calls, 2 * INPUT_SLOTS);
    learner_close(&l);
}

// Two variables of two elements each and two statistics; what is sent of a
// range is the weighted mean, and that of another range is left alone.
TEST(grad, statistics_of_several_micro_batches)
{
    struct model *m = t_model("{'input_shape': [2], 'layers': [{'type': "
                              "'batch_normalization', 'momentum': 0.9}]}");
    double seen[] = {3, 5, 4}, sum = 0, mean;
    float g[8];

    T_EQ(m->elements, 8); // gamma, beta, moving mean, moving variance
    for (int i = 0; i < 3; i++)
        sum = 0.9 * sum + seen[i];
    mean = (0.81 * 3 + 0.9 * 5 + 4) / (0.81 + 0.9 + 1);
    for (int i = 0; i < 8; i++)
        g[i] = (float)sum;
    grad_statistics(g, m, 0, 8, 1);
    for (int i = 0; i < 8; i++)
        T_NEAR((double)g[i], sum, 1e-5);
    grad_statistics(g, m, 3, 3, 3);
    for (int i = 0; i < 8; i++)
        T_NEAR((double)g[i], i == 4 || i == 5 ? mean : sum, 1e-5);
    model_free(m);
}

// A frozen variable is a statistic that nothing moves; the factor of several
// micro-batches has no value for it.
TEST(grad, frozen_variables_are_sent_as_they_are)
{
    struct model *m = t_model("{'input_shape': [2], 'layers': [{'type': "
                              "'batch_normalization', 'trainable': false}, "
                              "{'type': 'dense', 'units': 1}]}");
    float g[11] = {0};

    T_EQ(m->elements, 11);
    T_EQ(m->trainable, 3);
    T_NEAR(m->variables[0].momentum, 1, 0);
    grad_statistics(g, m, 0, 11, 3);
    grad_statistics_share(g, m, 0, 11, 2);
    for (int i = 0; i < 11; i++)
        T_NEAR((double)g[i], 0, 0);
    model_free(m);
}

// Two members of a group had micro-batches 1 to 2 and 3 to 4: their shares add
// up to what one worker would have had of all four.
TEST(grad, statistics_of_shares_add_up)
{
    struct model *m = t_model("{'input_shape': [2], 'layers': [{'type': "
                              "'batch_normalization', 'momentum': 0.9}]}");
    float a[8], b[8], all = 0;

    for (int i = 0; i < 4; i++)
        all = 0.9f * all + (float)(i + 3);
    for (int i = 0; i < 8; i++) {
        a[i] = 0.9f * 3 + 4;
        b[i] = 0.9f * 5 + 6;
    }
    grad_statistics_share(a, m, 0, 8, 2);
    grad_statistics_share(b, m, 0, 8, 0);
    for (int i = 0; i < 8; i++)
        T_NEAR((double)(a[i] + b[i]), i < 4 ? 6.7 + 10.5 : (double)all, 1e-5);
    model_free(m);
}

TEST(grad, clipping)
{
    struct model *m = t_model("{'input_shape': [2], 'layers': [{'type': "
                              "'dense', 'units': 1}, {'type': "
                              "'batch_normalization'}]}");
    float g[8];

    // kernel [2], bias, gamma, beta, moving mean, moving variance
    T_EQ(m->elements, 7);
    for (int i = 0; i < 7; i++)
        g[i] = i < 2 ? (float)(3 + i) : 7;
    grad_clipnorm(g, m, 2.5);
    T_NEAR((double)g[0], 1.5, 1e-6);
    T_NEAR((double)g[1], 2, 1e-6);
    T_NEAR((double)g[2], 2.5, 1e-6);
    T_NEAR((double)g[5], 7, 0); // statistics are not gradients
    T_NEAR((double)g[6], 7, 0);
    g[0] = 3, g[1] = 4, g[2] = g[3] = g[4] = 0;
    grad_global_clipnorm(g, m, 10);
    T_NEAR((double)g[1], 4, 0);
    grad_global_clipnorm(g, m, 0.5);
    T_NEAR((double)g[0], 0.3, 1e-6);
    T_NEAR((double)g[5], 7, 0);
    T_TRUE(grad_finite(g, 7));
    g[6] = __builtin_nanf("");
    T_FALSE(grad_finite(g, 7));
    T_TRUE(grad_finite(g, 6));
    g[0] = -__builtin_inff();
    T_FALSE(grad_finite(g, 1));
    model_free(m);
}
