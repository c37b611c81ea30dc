// SPDX-License-Identifier: Apache-2.0
// Models that Keras wrote, computed here: the same outputs for the same values,
// within 1e-5.
#include <math.h>

#include "common/base/mem.h"
#include "tests/unit/client/keras_corpus.h"
#include "worker/compile/compile.h"

#define ROWS 2 // as make.py has it
#define TOLERANCE 1e-5

// As make.py's value(): a number in [-1/4, 1/4) of a name and an index.
static double value(const char *name, uint64_t i)
{
    uint32_t h = 2166136261u;

    for (; *name != '\0'; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    h += (uint32_t)i * 0x9E3779B1u;
    h ^= h >> 15;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    return ((double)(h % 1024) - 512) / 2048;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

// Elements are counted in Keras' order of axes.
static void set_variable(float *params, const struct model_variable *v)
{
    struct layout_variable as = corpus_variable(v);
    double around =
        ends_with(v->name, "gamma") || ends_with(v->name, "moving_variance");
    float *ours = sl_malloc_array(v->elements, sizeof(*ours));
    float *keras = sl_malloc_array(v->elements, sizeof(*keras));

    for (uint64_t i = 0; i < v->elements; i++)
        ours[i] = (float)i; // exact: they are small
    layout_to_keras(&as, keras, ours);
    for (uint64_t i = 0; i < v->elements; i++)
        params[v->first + (uint64_t)keras[i]] =
            (float)(around + value(v->name, i));
    sl_free(ours);
    sl_free(keras);
}

static float *samples(const struct model *m, json_int_t ids)
{
    uint64_t count = ROWS * model_shape_elements(&m->nodes[0].out);
    float *x = sl_malloc_array(count, sizeof(*x));

    for (uint64_t i = 0; i < count; i++) {
        double v = value("input", i);

        x[i] = (float)(ids > 0 ? fmod(v * 2048 + 512, (double)ids) : v * 8);
    }
    return x;
}

// What the loss of output `h` sees; before anything that comes after it runs,
// such as what regularizers add.
static const float *run(struct program *p, struct program_io *io, uint32_t h)
{
    const struct program_op *loss;
    uint32_t at = 0;

    while (at < p->forward && (p->ops[at].op != KERN_MSE || h-- > 0))
        at++;
    T_LT(at, p->forward);
    loss = &p->ops[at];
    T_EQ(loss->arg[0].place, PROGRAM_ARENA);
    T_OK(program_run(p, io, 0, at + 1, t_err()));
    return (const float *)((uint8_t *)p->memory->arena.at +
                           loss->arg[0].offset);
}

static void check_outputs_in(const char *name, const char *backend,
                             enum kern_dtype compute, double tolerance)
{
    struct spec_head heads[MODEL_OUTPUTS_MAX];
    struct compile_options o = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                .batch = ROWS,
                                .compute = compute};
    json_t *want = corpus_want(name), *outputs;
    struct program_memory memory = {.dev = NULL};
    struct program_io io = {.params = NULL};
    struct program *p;
    struct kern_dev *dev;
    struct keras k;
    struct model *m;
    uint64_t count = 0, told = 0;

    t_again(name);
    corpus_import(&k, name);
    m = corpus_model(&k);
    for (uint32_t h = 0; h < m->outputs; h++) {
        heads[h] = (struct spec_head){.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                      .weight = 1};
        count += ROWS * model_shape_elements(&m->nodes[m->output[h]].out);
    }
    o.heads = m->outputs > 1 ? heads : NULL;
    T_OK(kern_open(&dev, backend, NULL, t_err()));
    T_OK(compile(&p, dev, m, &o, &memory, t_err()));
    io.params = sl_calloc(m->elements, sizeof(float));
    io.labels = sl_calloc(count, sizeof(float));
    io.x = samples(m, json_integer_value(json_object_get(want, "ids")));
    for (uint32_t i = 0; i < m->variables_count; i++)
        set_variable(io.params, &m->variables[i]);
    outputs = json_object_get(want, "outputs");
    T_EQ(count, json_array_size(outputs));
    for (uint32_t h = 0; h < m->outputs; h++) {
        const float *y = run(p, &io, h);
        uint64_t n = ROWS * model_shape_elements(&m->nodes[m->output[h]].out);

        for (uint64_t i = 0; i < n; i++) {
            double keras = json_number_value(json_array_get(outputs, told++));

            T_NEAR(y[i], keras, tolerance * fmax(1, fabs(keras)));
        }
    }
    program_free(p);
    program_memory_release(&memory);
    kern_close(dev);
    sl_free(io.params);
    sl_free((void *)(uintptr_t)io.x);
    sl_free((void *)(uintptr_t)io.labels);
    model_free(m);
    keras_release(&k);
    json_decref(want);
}

static void check_outputs(const char *name, const char *backend)
{
    check_outputs_in(name, backend, KERN_F32, TOLERANCE);
}

#define CHECK(name)                                                            \
    check_outputs(#name "-k2", backend);                                       \
    check_outputs(#name "-k3", backend);

TEST(keras, outputs_on_ref_are_those_of_keras)
{
    const char *backend = "ref";

    KERAS_CORPUS(CHECK)
}

TEST(keras, outputs_on_cpu_are_those_of_keras)
{
    const char *backend = "cpu";

    KERAS_CORPUS(CHECK)
}

// Numbers of rows stay whole, and numbers beside them are of 16 bits.
TEST(keras, outputs_in_16_bits_are_near)
{
    static const char *const backends[] = {"ref", "cpu"};

    for (size_t i = 0; i < SL_COUNT(backends); i++) {
        check_outputs_in("inputs-k3", backends[i], KERN_BF16, 0.02);
        check_outputs_in("inputs-k3", backends[i], KERN_F16, 0.002);
        check_outputs_in("words-k3", backends[i], KERN_F16, 0.002);
    }
}
