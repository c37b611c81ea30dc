// SPDX-License-Identifier: Apache-2.0
// Programs against the mathematics: gradients of whole nets by central
// differences in double, cpu against ref, and what overlap.h promises.
#include "tests/harness/t.h"

#include <math.h>

#include "common/base/mem.h"
#include "nets.h"
#include "worker/compile/compile.h"
#include "trainer/base/grad.h"
#include "worker/compile/overlap.h"

// A program with vectors and a batch of random numbers.
struct net {
    struct kern_dev *dev;
    struct model *model;
    struct program *p;
    struct program_memory memory;
    struct program_io io;
    size_t real, elements, features, outputs, classes; // classes: of a row
    enum spec_loss loss;
};

static double uniform(double low, double high)
{
    return low + (high - low) * (double)(t_rand() >> 11) * 0x1p-53;
}

static void put(struct net *n, const void *at, size_t i, double value)
{
    if (n->real == sizeof(double))
        ((double *)(uintptr_t)at)[i] = value;
    else
        ((float *)(uintptr_t)at)[i] = (float)value;
}

static double get(const struct net *n, const void *at, size_t i)
{
    return n->real == sizeof(double) ? ((const double *)at)[i]
                                     : (double)((const float *)at)[i];
}

// The same numbers for every backend and precision: call after t_rand has been
// put to the same place (a struct net is filled first thing in a test).
static void fill(struct net *n, uint32_t batch, const double *numbers)
{
    size_t k = 0;

    n->io.params = sl_calloc(n->elements, n->real);
    n->io.grads = sl_calloc(n->elements, n->real);
    n->io.x = sl_calloc(batch * n->features, n->real);
    n->io.labels = sl_calloc(batch * n->outputs, sizeof(double));
    for (size_t i = 0; i < n->elements; i++)
        put(n, n->io.params, i, numbers[k++] - 0.5);
    for (uint32_t v = 0; v < n->model->variables_count; v++) {
        const struct model_variable *var = &n->model->variables[v];

        if (strstr(var->name, "gamma") || strstr(var->name, "variance")) {
            for (size_t i = 0; i < var->elements; i++)
                put(n, n->io.params, var->first + i, numbers[k++] + 0.5);
        }
    }
    for (size_t i = 0; i < batch * n->features; i++, k++)
        put(n, n->io.x, i,
            n->model->nodes[0].ids ? (double)(int)(9 * numbers[k])
                                   : 2 * numbers[k] - 1);
    for (size_t i = 0; i < batch * n->outputs / n->classes; i++) {
        size_t label = (size_t)(numbers[k++] * (double)n->classes);

        if (n->loss == SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
            ((int32_t *)(uintptr_t)n->io.labels)[i] = (int32_t)label;
        for (size_t o = 0;
             o < n->classes && n->loss == SPEC_LOSS_CATEGORICAL_CROSSENTROPY;
             o++)
            put(n, n->io.labels, i * n->classes + o, o == label);
        for (size_t o = 0;
             o < n->classes && (n->loss == SPEC_LOSS_BINARY_CROSSENTROPY ||
                                !spec_loss_counts(n->loss));
             o++)
            put(n, n->io.labels, i * n->classes + o, numbers[k++] > 0.5);
    }
}

#define NUMBERS 100000
static double numbers[NUMBERS];

static void draw(void)
{
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = uniform(0, 1);
}

static const char *device_options;

// Fills in labels of several outputs, the batch of which has rows of `wide`
// reals and some more: one-hot where a loss is one of classes.
static void fill_joined(struct net *n, uint32_t batch,
                        const struct spec_head *heads)
{
    size_t wide = n->outputs, at = 0, k = 0;

    for (uint32_t h = 0; h < n->model->outputs; h++) {
        const struct model_shape *out =
            &n->model->nodes[n->model->output[h]].out;
        size_t elements = (size_t)model_shape_elements(out);
        size_t classes = (size_t)out->dim[out->rank - 1];

        for (uint32_t i = 0; i < batch; i++) {
            for (size_t o = 0; o < elements; o++)
                put(n, n->io.labels, i * wide + at + o,
                    spec_loss_has_classes(heads[h].loss)
                        ? o % classes == (o / classes + i) % classes
                        : numbers[k++] > 0.5);
        }
        at += elements;
    }
}

static void net_open_as(struct net *n, const char *backend, const char *text,
                        const struct compile_options *o)
{
    memset(n, 0, sizeof(*n));
    T_OK(kern_open(&n->dev, backend, device_options, t_err()));
    n->model = t_model(text);
    n->loss = o->loss;
    n->real = o->f64 ? sizeof(double) : sizeof(float);
    n->elements = (size_t)n->model->elements;
    n->features = (size_t)model_shape_elements(&n->model->nodes[0].out);
    n->outputs =
        (size_t)model_shape_elements(&n->model->nodes[n->model->output[0]].out);
    n->classes =
        (size_t)n->model->nodes[n->model->output[0]]
            .out.dim[n->model->nodes[n->model->output[0]].out.rank - 1];
    for (uint32_t h = 0; o->heads != NULL && h < n->model->outputs; h++) {
        n->classes = 1;
        n->outputs = h == 0 ? 0 : n->outputs;
        n->outputs += (size_t)model_shape_elements(
            &n->model->nodes[n->model->output[h]].out);
    }
    T_OK(compile(&n->p, n->dev, n->model, o, &n->memory, t_err()));
    fill(n, o->batch, numbers);
    if (o->heads != NULL)
        fill_joined(n, o->batch, o->heads);
    program_set_step(n->p, 3);
}

static struct compile_options options(enum spec_loss loss, bool from_logits,
                                      bool train, uint32_t batch, bool f64)
{
    return (struct compile_options){.loss = loss,
                                    .from_logits = from_logits,
                                    .train = train,
                                    .batch = batch,
                                    .seed = 5,
                                    .f64 = f64};
}

static void net_open(struct net *n, const char *backend, const char *text,
                     enum spec_loss loss, bool from_logits, bool train,
                     uint32_t batch, bool f64)
{
    struct compile_options o = options(loss, from_logits, train, batch, f64);

    net_open_as(n, backend, text, &o);
}

static void net_close(struct net *n)
{
    program_free(n->p);
    program_memory_release(&n->memory);
    model_free(n->model);
    kern_close(n->dev);
    sl_free(n->io.params);
    sl_free(n->io.grads);
    sl_free((void *)(uintptr_t)n->io.x);
    sl_free((void *)(uintptr_t)n->io.labels);
}

// The same net, fed with bytes: its batch is theirs, for both.
static void feed_bytes(struct net *bytes, struct net *floats, uint32_t batch,
                       double scale, double offset)
{
    size_t count = batch * bytes->features;
    uint8_t *x = sl_malloc(count);

    for (size_t i = 0; i < count; i++) {
        x[i] = (uint8_t)t_below(256);
        if (floats != bytes)
            put(floats, floats->io.x, i,
                (float)scale * (float)x[i] + (float)offset);
    }
    sl_free((void *)(uintptr_t)bytes->io.x);
    bytes->io.x = x;
}

static double loss_at(struct net *n)
{
    T_OK(program_run(n->p, &n->io, 0, n->p->forward, t_err()));
    return program_loss_sum(n->p) / (double)n->p->samples;
}

static bool is_moving(const struct net *n, size_t element)
{
    for (uint32_t v = 0; v < n->model->variables_count; v++) {
        const struct model_variable *var = &n->model->variables[v];

        if (element >= var->first && element < var->first + var->elements)
            return var->kind == MODEL_MOVING;
    }
    return false;
}

// Every coordinate if there are few, else 200 random ones.
static void check_gradient_as(const char *text, const struct compile_options *o)
{
    struct net n;
    double *grads;
    size_t tries;

    draw();
    net_open_as(&n, "ref", text, o);
    T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
    grads = sl_malloc(n.elements * sizeof(double));
    memcpy(grads, n.io.grads, n.elements * sizeof(double));
    tries = n.elements < 200 ? n.elements : 200;
    for (size_t k = 0; k < tries; k++) {
        size_t i = n.elements < 200 ? k : t_below(n.elements);
        double at = get(&n, n.io.params, i), h = 1e-6, up, down, slope;

        if (is_moving(&n, i))
            continue;
        put(&n, n.io.params, i, at + h);
        up = loss_at(&n);
        put(&n, n.io.params, i, at - h);
        down = loss_at(&n);
        put(&n, n.io.params, i, at);
        slope = (up - down) / (2 * h);
        if (!(fabs(slope - grads[i]) <= 1e-6 * (1 + fabs(slope))))
            T_FAIL("element %zu: by differences %.9g, by the program %.9g", i,
                   slope, grads[i]);
    }
    sl_free(grads);
    net_close(&n);
}

static void check_gradient(const char *text, enum spec_loss loss,
                           bool from_logits, uint32_t batch)
{
    struct compile_options o = options(loss, from_logits, true, batch, true);

    check_gradient_as(text, &o);
}

TEST(compile, gradient_of_everything)
{
    check_gradient(NET_EVERYTHING, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   true, 4);
    check_gradient(NET_EVERYTHING, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 3);
}

TEST(compile, gradient_of_fashion)
{
    check_gradient(NET_FASHION, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   false, 3);
    check_gradient(NET_FASHION, SPEC_LOSS_CATEGORICAL_CROSSENTROPY, false, 1);
}

TEST(compile, gradient_of_residual)
{
    check_gradient(NET_RESIDUAL, SPEC_LOSS_BINARY_CROSSENTROPY, false, 5);
    check_gradient(NET_RESIDUAL, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 5);
    check_gradient(NET_RESIDUAL, SPEC_LOSS_BINARY_CROSSENTROPY, true, 2);
}

TEST(compile, gradient_of_mlp)
{
    check_gradient(NET_MLP, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, 6);
    check_gradient(NET_MLP, SPEC_LOSS_CATEGORICAL_CROSSENTROPY, true, 6);
    check_gradient(NET_MLP, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 6);
}

TEST(compile, gradient_of_views)
{
    check_gradient(NET_VIEWS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   3);
    check_gradient(NET_VIEWS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_groups)
{
    check_gradient(NET_GROUPS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   3);
    check_gradient(NET_GROUPS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_picks)
{
    check_gradient(NET_PICKS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   3);
    check_gradient(NET_PICKS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_rows)
{
    check_gradient(NET_ROWS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   3);
    check_gradient(NET_ROWS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

// Writes what the layers read of their tables; returns how many numbers.
static size_t fill_rows(struct net *n)
{
    size_t count = n->p->rows_bytes / n->real;

    for (size_t i = 0; i < count; i++)
        put(n, n->p->rows, i, numbers[i] - 0.5);
    return count;
}

TEST(compile, gradient_of_rows_of_tables)
{
    const double h = 1e-6;
    struct net n;
    size_t count, gaps = 0;

    draw();
    net_open(&n, "ref", NET_TABLES, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
             true, true, 3, true);
    count = fill_rows(&n);
    T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
    for (size_t i = 0; i < count; i++) {
        double at = get(&n, n.p->rows, i), by = get(&n, n.p->row_grads, i);
        double up, slope;

        put(&n, n.p->rows, i, at + h);
        up = loss_at(&n);
        put(&n, n.p->rows, i, at - h);
        slope = (up - loss_at(&n)) / (2 * h);
        put(&n, n.p->rows, i, at);
        T_NEAR(by, slope, 1e-6 * (1 + fabs(slope)));
        gaps += by == 0; // what only fills up a layer's space
    }
    T_EQ(count - gaps, 2u * 3 * 5);
    net_close(&n);
}

// A table's rows of ids 0 to 8, and a variable of nine rows: one loss, and one
// gradient of what both read.
TEST(compile, rows_of_a_table_are_those_of_a_dense_embedding)
{
#define BEHIND                                                                 \
    "{'type': 'dense', 'name': 'h', 'units': 6, 'activation': 'tanh'},"        \
    "{'type': 'dense', 'name': 'o', 'units': 10}]}"
    static const char dense[] =
        "{'input_shape': [1], 'layers': [{'type': 'embedding', 'name': 'e',"
        " 'input_dim': 9, 'output_dim': 4}, {'type': 'flatten'}," BEHIND;
    static const char rows[] =
        "{'input_shape': [1], 'layers': [{'type': 'embedding', 'name': 'e',"
        " 'ids': 'i', 'rows': 'dynamic', 'output_dim': 4}," BEHIND;
    struct net a, b;
    float sum[9 * 4] = {0};

    draw();
    net_open(&a, "cpu", dense, SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 7,
             false);
    net_open(&b, "cpu", rows, SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 7,
             false);
    memcpy(b.io.params, (float *)a.io.params + 36, b.elements * sizeof(float));
    memcpy((void *)(uintptr_t)b.io.labels, a.io.labels,
           7 * 10 * sizeof(double));
    for (int i = 0; i < 7; i++)
        memcpy(program_rows(b.p, 0) + i * 4,
               (float *)a.io.params + 4 * (int)((const float *)a.io.x)[i],
               4 * sizeof(float));
    T_NEAR(loss_at(&a), loss_at(&b), 1e-6);
    T_OK(program_run(a.p, &a.io, 0, a.p->count, t_err()));
    T_OK(program_run(b.p, &b.io, 0, b.p->count, t_err()));
    for (int i = 0; i < 7 * 4; i++)
        sum[4 * (int)((const float *)a.io.x)[i / 4] + i % 4] +=
            program_row_grads(b.p, 0)[i];
    for (int i = 0; i < 36; i++)
        T_NEAR(sum[i], ((float *)a.io.grads)[i], 1e-5);
    for (size_t i = 0; i < b.elements; i++)
        T_NEAR(((float *)b.io.grads)[i], ((float *)a.io.grads)[36 + i], 1e-5);
    net_close(&a);
    net_close(&b);
#undef BEHIND
}

TEST(compile, gradient_of_many_inputs)
{
    check_gradient(NET_MANY, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   3);
    check_gradient(NET_MANY, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_features)
{
    check_gradient(NET_FEATURES, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   true, 3);
    check_gradient(NET_FEATURES, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_a_line)
{
    check_gradient(NET_LINE, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   4);
    check_gradient(NET_LINE, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_composed)
{
    check_gradient(NET_COMPOSED, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   true, 4);
    check_gradient(NET_COMPOSED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
    check_gradient(NET_PRODUCTS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_recurrent)
{
    check_gradient(NET_RECURRENT, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   true, 4);
    check_gradient(NET_RECURRENT, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 3);
}

#define OUTPUTS 3
static const struct spec_head heads_of_outputs[OUTPUTS] = {
    {SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false, 0.1, 0.3},
    {SPEC_LOSS_MEAN_SQUARED_ERROR, false, 0, 2},
    {SPEC_LOSS_BINARY_CROSSENTROPY, false, 0, 1}};

static struct compile_options outputs_options(uint32_t batch, bool f64)
{
    struct compile_options o =
        options(SPEC_LOSS_SEVERAL, false, true, batch, f64);

    o.heads = heads_of_outputs;
    return o;
}

TEST(compile, gradient_of_several_outputs)
{
    struct compile_options o = outputs_options(4, true);

    check_gradient_as(NET_OUTPUTS, &o);
    o.as_device = true;
    check_gradient_as(NET_OUTPUTS, &o);
}

// The loss is the sum of the outputs' losses, each times its weight, and of the
// penalties, which no weight changes.
TEST(compile, the_loss_of_several_outputs_is_their_weighted_sum)
{
    struct spec_head heads[OUTPUTS];
    struct compile_options o = outputs_options(4, true);
    double alone[OUTPUTS + 1], sum, all;
    struct net n;

    draw();
    o.heads = heads;
    for (unsigned i = 0; i <= OUTPUTS; i++) {
        for (unsigned k = 0; k < OUTPUTS; k++) {
            heads[k] = heads_of_outputs[k];
            heads[k].weight = i == k ? 1 : 0;
        }
        net_open_as(&n, "ref", NET_OUTPUTS, &o);
        alone[i] = loss_at(&n); // the last: penalties alone
        net_close(&n);
    }
    o.heads = heads_of_outputs;
    net_open_as(&n, "ref", NET_OUTPUTS, &o);
    all = loss_at(&n);
    net_close(&n);
    sum = alone[OUTPUTS];
    T_TRUE(sum > 0.01);
    for (unsigned i = 0; i < OUTPUTS; i++) {
        T_TRUE(alone[i] > alone[OUTPUTS] + 0.01);
        sum += heads_of_outputs[i].weight * (alone[i] - alone[OUTPUTS]);
    }
    T_NEAR(all, sum, 1e-9 * sum);
}

// Samples that weigh 1 and 0, and those that weigh 0 and 1, are together those
// that weigh 1.
TEST(compile, weights_of_samples_count_for_all_outputs)
{
    enum { BATCH = 4 };
    struct compile_options o = outputs_options(BATCH, false);
    struct net plain, some;
    double *sum, loss = 0, penalties = 0;
    size_t wide;

    draw();
    net_open_as(&plain, "cpu", NET_OUTPUTS, &o);
    T_OK(program_run(plain.p, &plain.io, 0, plain.p->count, t_err()));
    o.weighted = true;
    net_open_as(&some, "cpu", NET_OUTPUTS, &o);
    wide = some.outputs + 1;
    sum = sl_calloc(some.elements, sizeof(*sum));
    sl_free((void *)(uintptr_t)some.io.labels);
    some.io.labels = sl_calloc(BATCH * wide, sizeof(float));
    for (unsigned turn = 0; turn < 3; turn++) { // the last: none weighs
        for (unsigned i = 0; i < BATCH; i++) {
            for (size_t k = 0; k < some.outputs; k++)
                put(&some, some.io.labels, i * wide + k,
                    get(&plain, plain.io.labels, i * some.outputs + k));
            put(&some, some.io.labels, i * wide + some.outputs,
                turn == 2 ? 0 : (i + turn) % 2);
        }
        T_OK(program_run(some.p, &some.io, 0, some.p->count, t_err()));
        if (turn == 2)
            penalties = program_loss_sum(some.p);
        else
            loss += program_loss_sum(some.p);
        for (size_t k = 0; k < some.elements; k++)
            sum[k] += (turn == 2 ? -1 : 1) * get(&some, some.io.grads, k);
    }
    T_NEAR(program_loss_sum(plain.p), loss - penalties, 1e-4);
    for (size_t k = 0; k < some.elements; k++)
        T_NEAR(get(&plain, plain.io.grads, k), sum[k], 1e-5);
    sl_free(sum);
    net_close(&plain);
    net_close(&some);
}

TEST(compile, gradient_of_masked)
{
    check_gradient(NET_MASKED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

// All that layers give a variable that they share, and its penalty once.
TEST(compile, gradient_of_shared)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 4, true);

    check_gradient_as(NET_SHARED, &o);
    check_gradient_as(NET_SHARED_TOKENS, &o);
    o.as_device = true; // a norm sums for the bias of the layer before it
    check_gradient_as(NET_SHARED, &o);
    o.as_device = false;
    o.part_bytes = NET_WIDE_PART; // a large layer is not cut
    check_gradient_as(NET_SHARED, &o);
}

// Two calls move the statistics in turn, as two layers that had them would.
TEST(compile, a_norm_that_is_called_twice_moves_twice)
{
#define TWO_NORMS(second)                                                      \
    "{'input_shape': [5], 'layers': ["                                         \
    "{'type': 'dense', 'name': 'a', 'units': 3, 'inputs': ['input']},"         \
    "{'type': 'dense', 'name': 'b', 'units': 3, 'inputs': ['input']},"         \
    "{'type': 'batch_normalization', 'name': 'n', 'momentum': 0.75,"           \
    " 'inputs': ['a']},"                                                       \
    "{'type': 'batch_normalization', 'name': 'm'," second " 'inputs': ['b']}," \
    "{'type': 'add', 'name': 's', 'inputs': ['n', 'm']}]}"
    static const double k = 0.75;
    struct net two, shared;
    const struct model_variable *first, *second, *both;

    draw();
    net_open(&two, "cpu", TWO_NORMS("'momentum': 0.75,"),
             SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 7, false);
    net_open(&shared, "cpu", TWO_NORMS("'shares': 'n',"),
             SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 7, false);
    memcpy((void *)(uintptr_t)shared.io.x, two.io.x,
           7 * two.features * two.real);
    T_OK(program_run(two.p, &two.io, 0, two.p->count, t_err()));
    T_OK(program_run(shared.p, &shared.io, 0, shared.p->count, t_err()));
    for (unsigned w = MODEL_MOVING_MEAN; w <= MODEL_MOVING_VARIANCE; w++) {
        first = &two.model->variables[two.model->nodes[3].weight[w]];
        second = &two.model->variables[two.model->nodes[4].weight[w]];
        both = &shared.model->variables[shared.model->nodes[4].weight[w]];
        T_NEAR(both->momentum, k * k, 1e-12);
        for (size_t i = 0; i < 3; i++) {
            double s = get(&two, two.io.grads, first->first + i);
            double t = get(&two, two.io.grads, second->first + i);

            // From 2: what two moves leave, and what one of both leaves.
            T_NEAR(k * k * 2 + (1 - k * k) * get(&shared, shared.io.grads,
                                                 both->first + i),
                   k * (k * 2 + (1 - k) * s) + (1 - k) * t, 1e-5);
        }
    }
    net_close(&two);
    net_close(&shared);
#undef TWO_NORMS
}

// What is not trained has no gradient, which no op computes, and no penalty.
TEST(compile, gradient_of_frozen)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 3, true);
    struct net n;

    check_gradient_as(NET_FROZEN, &o);
    o.add = true;
    o.part_bytes = NET_WIDE_PART;
    net_open_as(&n, "cpu", NET_FROZEN, &o);
    for (uint32_t i = 0; i < n.p->count; i++)
        T_TRUE(n.p->ops[i].op != KERN_PENALTY &&
               n.p->ops[i].op != KERN_BN_BWD &&
               (n.p->ops[i].op != KERN_CONV_WGRAD || n.p->ops[i].node == 1));
    T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
    for (size_t i = 0; i < n.elements; i++)
        T_TRUE(!is_moving(&n, i) || get(&n, n.io.grads, i) == 0);
    net_close(&n);
}

TEST(compile, gradient_beside_a_frozen_table)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 3, true);
    unsigned tables = 0;
    struct net n;

    check_gradient_as(NET_FROZEN_TABLE, &o);
    net_open_as(&n, "cpu", NET_FROZEN_TABLE, &o);
    for (uint32_t i = 0; i < n.p->count; i++)
        tables += n.p->ops[i].op == KERN_GATHER_BWD;
    T_EQ(tables, 1);
    net_close(&n);
}

TEST(compile, gradient_beside_encoded_numbers)
{
    check_gradient(NET_ENCODED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_tokens)
{
    check_gradient(NET_TOKENS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   3);
    check_gradient(NET_TOKENS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 4);
}

TEST(compile, gradient_of_a_label_for_each_row_of_outputs)
{
    check_gradient(NET_STEPS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   4);
    check_gradient(NET_STEPS, SPEC_LOSS_CATEGORICAL_CROSSENTROPY, true, 3);
    check_gradient(NET_STEPS, SPEC_LOSS_BINARY_CROSSENTROPY, true, 3);
    check_gradient(NET_STEPS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 3);
    check_gradient(NET_PIXELS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false,
                   3);
    check_gradient(NET_PIXELS, SPEC_LOSS_CATEGORICAL_CROSSENTROPY, false, 2);
}

TEST(compile, gradient_of_penalties)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 3, true);

    check_gradient_as(NET_PENALTIES, &o);
    o.part_bytes = NET_WIDE_PART;
    check_gradient_as(NET_PENALTIES, &o);
}

TEST(compile, gradient_of_smoothed_labels_and_absolute_errors)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_ABSOLUTE_ERROR, false, true, 4, true);

    check_gradient_as(NET_MLP, &o);
    o.smoothing = 0.2;
    o.from_logits = true;
    o.loss = SPEC_LOSS_CATEGORICAL_CROSSENTROPY;
    check_gradient_as(NET_MLP, &o);
    o.loss = SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    o.top_k = 2;
    check_gradient_as(NET_MLP, &o);
    o.loss = SPEC_LOSS_BINARY_CROSSENTROPY;
    check_gradient_as(NET_RESIDUAL, &o);
    o.from_logits = false;
    check_gradient_as(NET_RESIDUAL, &o);
}

// The loss is larger by l1 sum |w| + l2 sum w^2, to train and to evaluate.
TEST(compile, penalties_are_added_to_the_loss)
{
    static const char plain[] =
        "{'input_shape': [3], 'layers': [{'type': 'dense', 'units': 2}]}";
    static const char heavy[] =
        "{'input_shape': [3], 'layers': [{'type': 'dense', 'units': 2,"
        " 'kernel_regularizer': {'l1': 0.5, 'l2': 2}}]}";

    for (int train = 0; train < 2; train++) {
        struct net a, b;
        double want = 0;

        draw();
        net_open(&a, "cpu", plain, SPEC_LOSS_MEAN_SQUARED_ERROR, false, train,
                 5, false);
        net_open(&b, "cpu", heavy, SPEC_LOSS_MEAN_SQUARED_ERROR, false, train,
                 5, false);
        for (size_t i = 0; i < 6; i++) {
            double w = get(&a, a.io.params, i);

            want += 0.5 * fabs(w) + 2 * w * w;
        }
        T_NEAR(loss_at(&b) - loss_at(&a), want, 1e-5);
        net_close(&a);
        net_close(&b);
    }
}

// Of forty samples, how many have their class among k of four.
TEST(compile, right_is_among_the_first_k)
{
    double right[5];

    for (uint32_t k = 1; k <= 4; k++) {
        struct compile_options o = options(
            SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, false, 40, false);
        struct net n;

        draw();
        o.top_k = k;
        net_open_as(&n, "cpu", NET_MLP, &o);
        (void)loss_at(&n);
        right[k] = program_right_sum(n.p);
        net_close(&n);
    }
    T_LT(right[1], right[2]);
    T_LT(right[2], right[3]);
    T_NEAR(right[4], 40, 0); // of four classes all are
}

static double distance(const struct net *a, const struct net *b, const void *va,
                       const void *vb, size_t count)
{
    double apart = 0, size = 0;

    for (size_t i = 0; i < count; i++) {
        double x = get(a, va, i), y = get(b, vb, i);

        apart += (x - y) * (x - y);
        size += x * x;
    }
    return sqrt(apart / (size + 1e-30));
}

// Runs both: losses and gradients are the same, but for so much.
static void check_alike(struct net *a, struct net *b, double loss,
                        double grads_e6)
{
    T_OK(program_run(a->p, &a->io, 0, a->p->count, t_err()));
    T_OK(program_run(b->p, &b->io, 0, b->p->count, t_err()));
    T_NEAR(a->p->stats[0] / b->p->stats[0], 1, loss);
    T_LT(distance(a, b, a->io.grads, b->io.grads, a->elements) * 1e6, grads_e6);
}

static const struct program_op *op_of(const struct net *n, enum kern_op op,
                                      uint32_t node)
{
    for (uint32_t i = 0; i < n->p->count; i++) {
        if (n->p->ops[i].op == op && n->p->ops[i].node == node)
            return &n->p->ops[i];
    }
    T_FAIL("node %u has no op %d", node, (int)op);
    return NULL;
}

// A max pool sums for the bias of the convolution in front, if it sees all of
// that one's gradient and that is already the one before the activation.
TEST(compile, a_pool_sums_what_is_still_small)
{
    static const struct {
        const char *conv, *pool;
        bool sums;
    } cases[] = {
        {"'activation': 'relu'", "max", true},
        {"'activation': 'linear'", "max", true},
        {"'activation': 'relu', 'use_bias': false", "max", false},
        {"'activation': 'tanh'", "max", false},
        {"'activation': 'relu'", "average", false},
    };
    struct compile_options here = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                   .train = true,
                                   .batch = 4,
                                   .seed = 5},
                           far = here;

    far.as_device = true;
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct net cpu, ref;
        char text[512];

        snprintf(text, sizeof(text),
                 "{'input_shape': [9, 8, 2], 'layers': [{'type': 'conv2d',"
                 " 'filters': 5, 'kernel_size': 3, %s}, {'type':"
                 " '%s_pooling2d', 'pool_size': 2}, {'type': 'flatten'},"
                 " {'type': 'dense', 'units': 3}]}",
                 cases[i].conv, cases[i].pool);
        draw();
        net_open_as(&cpu, "cpu", text, &far);
        net_open_as(&ref, "ref", text, &here);
        T_EQ(op_of(&ref, KERN_POOL_BWD, 2)->args,
             cases[i].pool[0] == 'm' ? 3 : 2);
        T_EQ(op_of(&cpu, KERN_POOL_BWD, 2)->args,
             (cases[i].pool[0] == 'm' ? 3 : 2) + cases[i].sums);
        check_alike(&cpu, &ref, 1e-5, 5);
        net_close(&cpu);
        net_close(&ref);
        check_gradient(text, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 3);
    }
}

// So does a batch norm, of all that it writes; where the backend has that.
TEST(compile, a_batch_norm_sums_what_it_writes)
{
    static const struct {
        const char *conv;
        bool sums;
    } cases[] = {
        {"'activation': 'relu'", true},
        {"'activation': 'linear'", true},
        {"'activation': 'relu', 'use_bias': false", false},
        {"'activation': 'tanh'", false},
    };
    struct compile_options here = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                   .train = true,
                                   .batch = 4,
                                   .seed = 5},
                           far = here;

    far.as_device = true;
    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct net cpu, ref, device;
        char text[512];

        snprintf(text, sizeof(text),
                 "{'input_shape': [9, 8, 2], 'layers': [{'type': 'conv2d',"
                 " 'filters': 5, 'kernel_size': 3, %s}, {'type':"
                 " 'batch_normalization'}, {'type': 'flatten'},"
                 " {'type': 'dense', 'units': 3}]}",
                 cases[i].conv);
        draw();
        net_open_as(&device, "ref", text, &far);
        net_open_as(&ref, "ref", text, &here);
        net_open_as(&cpu, "cpu", text, &far);
        T_EQ(op_of(&device, KERN_BN_BWD, 2)->args, 8 + cases[i].sums);
        T_EQ(op_of(&ref, KERN_BN_BWD, 2)->args, 8);
        T_EQ(op_of(&cpu, KERN_BN_BWD, 2)->args, 8);
        check_alike(&device, &ref, 1e-5, 5);
        net_close(&device);
        net_close(&ref);
        net_close(&cpu);
        check_gradient(text, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 3);
    }
}

// ---- large dense layers

static const struct compile_options wide = {.loss =
                                                SPEC_LOSS_MEAN_SQUARED_ERROR,
                                            .train = true,
                                            .batch = 6,
                                            .seed = 5,
                                            .part_bytes = NET_WIDE_PART};

TEST(compile, gradient_in_parts)
{
    struct compile_options o = wide;

    o.f64 = true;
    check_gradient_as(NET_WIDE, &o);
}

TEST(compile, parts_have_the_numbers_of_the_whole)
{
    struct net whole, parts;

    draw();
    net_open(&whole, "cpu", NET_WIDE, wide.loss, false, true, wide.batch,
             false);
    net_open_as(&parts, "cpu", NET_WIDE, &wide);
    T_GT(parts.p->count, whole.p->count);
    check_alike(&whole, &parts, 1e-6, 1);
    net_close(&whole);
    net_close(&parts);
}

// Who evaluates has all parameters, and sends nothing; a device is given all
// ops at once.
TEST(compile, parts_are_for_those_who_train_on_a_host)
{
    struct compile_options o = wide;
    struct net whole, parts;

    draw();
    o.train = false;
    o.part_bytes = 0;
    net_open_as(&whole, "cpu", NET_WIDE, &o);
    o.part_bytes = NET_WIDE_PART;
    net_open_as(&parts, "cpu", NET_WIDE, &o);
    T_EQ(parts.p->count, whole.p->count);
    net_close(&parts);
    net_close(&whole);
    o.train = o.as_device = true;
    net_open_as(&parts, "cpu", NET_WIDE, &o);
    o.part_bytes = 0;
    net_open_as(&whole, "cpu", NET_WIDE, &o);
    T_EQ(parts.p->count, whole.p->count);
    net_close(&parts);
    net_close(&whole);
}

// ---- attention

// The output of a model whose loss is the mean square.
static const double *output_of(const struct net *n)
{
    const struct program_arg *y = &n->p->ops[n->p->forward - 1].arg[0];

    T_EQ(y->place, PROGRAM_ARENA);
    return (const double *)(const void *)((const uint8_t *)n->memory.arena.at +
                                          y->offset);
}

enum { LENGTH = 4, FEATURES = 3, HEADS = 2, EACH = 5 };

// As Keras' layer says it: all in loops, one sample, one head, one position.
// What a head found is added to y through its part of the output kernel.
static void attend(const struct net *n, size_t sample, int head, int at,
                   bool causal, double y[FEATURES])
{
    const struct model_variable *v = n->model->variables;
    const double *w = n->io.params, *x = n->io.x;
    double q[EACH], share[LENGTH], sum = 0;
    int seen = causal ? at + 1 : LENGTH;

    x += sample * LENGTH * FEATURES;
    for (int e = 0; e < EACH; e++) {
        q[e] = w[v[1].first + head * EACH + e];
        for (int f = 0; f < FEATURES; f++)
            q[e] += x[at * FEATURES + f] *
                    w[v[0].first + (head * EACH + e) * FEATURES + f];
    }
    for (int k = 0; k < seen; k++) {
        double score = 0;

        for (int e = 0; e < EACH; e++) {
            double key = w[v[3].first + head * EACH + e];

            for (int f = 0; f < FEATURES; f++)
                key += x[k * FEATURES + f] *
                       w[v[2].first + (head * EACH + e) * FEATURES + f];
            score += q[e] * key / sqrt(EACH);
        }
        share[k] = exp(score);
        sum += share[k];
    }
    for (int k = 0; k < seen; k++)
        for (int e = 0; e < EACH; e++) {
            double value = w[v[5].first + head * EACH + e];

            for (int f = 0; f < FEATURES; f++)
                value += x[k * FEATURES + f] *
                         w[v[4].first + (head * EACH + e) * FEATURES + f];
            for (int f = 0; f < FEATURES; f++)
                y[f] += share[k] / sum * value *
                        w[v[6].first + (f * HEADS + head) * EACH + e];
        }
}

static void check_attention(bool causal)
{
    enum { BATCH = 2 };
    char text[400];
    struct net n;

    snprintf(text, sizeof(text),
             "{'input_shape': [4, 3], 'layers': [{'type': "
             "'multi_head_attention', 'num_heads': 2, 'key_dim': 5, "
             "'use_causal_mask': %s}, {'type': 'flatten'}]}",
             causal ? "true" : "false");
    draw();
    net_open(&n, "ref", text, SPEC_LOSS_MEAN_SQUARED_ERROR, false, false, BATCH,
             true);
    T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
    for (size_t i = 0; i < BATCH * LENGTH; i++) {
        const double *bias = (const double *)n.io.params;
        double y[FEATURES];

        bias += n.model->variables[7].first;
        memcpy(y, bias, sizeof(y));
        for (int head = 0; head < HEADS; head++)
            attend(&n, i / LENGTH, head, i % LENGTH, causal, y);
        for (int f = 0; f < FEATURES; f++)
            T_NEAR(output_of(&n)[i * FEATURES + f], y[f], 1e-6);
    }
    net_close(&n);
}

TEST(compile, attention_is_what_it_says)
{
    check_attention(false);
    check_attention(true);
}

// Opens a net in which 'k' is the sample, four vectors of three numbers, and
// 'v' the second of them: their kernels only choose.
static void open_vectors(struct net *n, const char *layer)
{
    char text[500];
    double *w;

    snprintf(text, sizeof(text),
             "{'input_shape': [4, 3], 'layers': ["
             "{'type': 'dense', 'name': 'k', 'units': 3, 'use_bias': false},"
             "{'type': 'flatten', 'name': 'f', 'inputs': ['input']},"
             "{'type': 'dense', 'name': 'v', 'units': 3, 'use_bias': false},"
             "{%s, 'inputs': ['v', 'k']}]}",
             layer);
    draw();
    net_open(n, "ref", text, SPEC_LOSS_MEAN_SQUARED_ERROR, false, false, 2,
             true);
    w = n->io.params;
    memset(w, 0, n->elements * sizeof(double));
    for (int i = 0; i < 3; i++)
        w[i * 3 + i] = w[9 + i * 12 + 3 + i] = 1;
    T_OK(program_run(n->p, &n->io, 0, n->p->count, t_err()));
}

// Returns vector `at` of those that the layer reads: 'v', then those of 'k'.
static const double *vector_of(const struct net *n, size_t sample, int at)
{
    return (const double *)n->io.x + sample * 12 + (at == 0 ? 1 : at - 1) * 3;
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void check_dots(const char *layer, int self)
{
    struct net n;
    size_t at = 0;

    open_vectors(&n, layer);
    for (size_t sample = 0; sample < 2; sample++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < i + self; j++)
                T_NEAR(output_of(&n)[at++],
                       dot(vector_of(&n, sample, i), vector_of(&n, sample, j)),
                       1e-12);
    T_EQ(at, 2 * n.outputs);
    net_close(&n);
}

// Row by row, as in DotInteraction of TensorFlow Recommenders.
TEST(compile, dot_interaction_is_what_it_says)
{
    check_dots("'type': 'dot_interaction'", 0);
    check_dots("'type': 'dot_interaction', 'self_interaction': true", 1);
}

TEST(compile, fm_is_half_the_square_of_the_sum_less_the_squares)
{
    struct net n;

    open_vectors(&n, "'type': 'fm'");
    for (size_t sample = 0; sample < 2; sample++) {
        double sum[3] = {0}, squares = 0;

        for (int i = 0; i < 5; i++) {
            const double *v = vector_of(&n, sample, i);

            for (int k = 0; k < 3; k++)
                sum[k] += v[k];
            squares += dot(v, v);
        }
        T_NEAR(output_of(&n)[sample], (dot(sum, sum) - squares) / 2, 1e-12);
    }
    net_close(&n);
}

enum { CROSSED = 4, BETWEEN = 2 };

// Returns element `at` of w x + bias, of a kernel [.., columns].
static double row_product(const struct model_variable *w, const double *params,
                          int at, int columns, const double *x, double bias)
{
    for (int k = 0; k < columns; k++)
        bias += params[w->first + (size_t)(at * columns + k)] * x[k];
    return bias;
}

// y = x0 * (W x + b + diag_scale x) + x, as in Cross of TensorFlow
// Recommenders.
TEST(compile, cross_is_what_it_says)
{
    static const char text[] =
        "{'input_shape': [4], 'layers': [{'type': 'cross', 'name': 'a'},"
        "{'type': 'cross', 'inputs': ['input', 'a'], 'projection_dim': 2,"
        " 'diag_scale': 0.5}]}";
    const struct model_variable *v;
    const double *w;
    struct net n;

    draw();
    net_open(&n, "ref", text, SPEC_LOSS_MEAN_SQUARED_ERROR, false, false, 2,
             true);
    T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
    v = n.model->variables;
    w = n.io.params;
    for (size_t sample = 0; sample < 2; sample++) {
        const double *x0 = (const double *)n.io.x + sample * CROSSED;
        double x[CROSSED], u[BETWEEN];

        for (int i = 0; i < CROSSED; i++)
            x[i] = x0[i] * row_product(&v[0], w, i, CROSSED, x0,
                                       w[v[1].first + (size_t)i]) +
                   x0[i];
        for (int i = 0; i < BETWEEN; i++)
            u[i] = row_product(&v[2], w, i, CROSSED, x, 0);
        for (int i = 0; i < CROSSED; i++)
            T_NEAR(output_of(&n)[sample * CROSSED + (size_t)i],
                   x0[i] * (row_product(&v[3], w, i, BETWEEN, u,
                                        w[v[4].first + (size_t)i]) +
                            0.5 * x[i]) +
                       x[i],
                   1e-12);
    }
    net_close(&n);
}

// ---- layers that encode

enum { ENCODED = 4 }; // numbers of a sample

// Wants what the layer in `keys` makes of x, a digit each or - for -1: a dense
// layer behind it gives them one by one.
static void check_encoded_by(const char *backend, bool f64, const char *keys,
                             const double x[ENCODED], const char *want)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_SQUARED_ERROR, false, false, 1, f64);
    size_t count = strlen(want);
    char text[400];
    struct net n;

    snprintf(text, sizeof(text),
             "{'input_shape': [4], 'layers': [{'name': 'l', %s},"
             "{'type': 'flatten', 'name': 'f'},"
             "{'type': 'dense', 'units': 1, 'name': 'd'}]}",
             keys);
    draw();
    net_open_as(&n, backend, text, &o);
    T_EQ(n.elements, count + 1);
    for (size_t k = 0; k < ENCODED; k++)
        put(&n, n.io.x, k, x[k]);
    for (size_t at = 0; at < count; at++) {
        double got;

        for (size_t k = 0; k <= count; k++)
            put(&n, n.io.params, k, k == at);
        T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
        got = get(&n, output_of(&n), 0);
        if (got != (want[at] == '-' ? -1 : want[at] - '0'))
            T_FAIL("%s on %s: place %zu is %g, not %c", keys, backend, at, got,
                   want[at]);
    }
    net_close(&n);
}

static void check_encoded(const char *keys, const double x[ENCODED],
                          const char *want)
{
    check_encoded_by("ref", false, keys, x, want);
    check_encoded_by("ref", true, keys, x, want);
    check_encoded_by("cpu", false, keys, x, want);
}

// As Keras: a number on a boundary is above it, NaN is above all; an index that
// is none has no place in a row.
TEST(compile, numbers_become_the_indexes_of_keras)
{
    static const double x[] = {1, 0.99999994, NAN, -INFINITY};
    static const double far[] = {INFINITY, 2, 1e-45, -1e-45};
    static const double words[] = {5, -3, 16777215, 4};
    static const double tokens[] = {0, 2.75, 3, -1};
#define BINS(bounds) "'type': 'discretization', 'bin_boundaries': " bounds
#define KNOWN "'type': 'integer_lookup', 'vocabulary': [-3, 5, 16777215]"
#define TOKENS(mode)                                                           \
    "'type': 'category_encoding', 'num_tokens': 3, 'output_mode': '" mode "'"

    check_encoded(BINS("[0, 1]"), x, "2120");
    check_encoded(BINS("[0, 1, 1, 2]"), far, "4410");
    check_encoded(BINS("1, 'output_mode': 'one_hot'"), x, "01100110");
    check_encoded(BINS("1, 'output_mode': 'multi_hot'"), x, "11");
    check_encoded(BINS("1, 'output_mode': 'count'"), x, "22");
    check_encoded(KNOWN, words, "2130");
    check_encoded(KNOWN ", 'mask_token': 4", words, "3240");
    check_encoded(KNOWN ", 'num_oov_indices': 0", words, "102-");
    check_encoded(KNOWN ", 'num_oov_indices': 0, 'mask_token': 4", words,
                  "2130");
    check_encoded(KNOWN ", 'output_mode': 'count'", words, "1111");
    check_encoded(KNOWN ", 'output_mode': 'count', 'mask_token': 4", words,
                  "0111");
    check_encoded(KNOWN ", 'output_mode': 'multi_hot'", x, "1000");
    check_encoded(KNOWN ", 'num_oov_indices': 0, 'output_mode': 'one_hot'",
                  words, "010100001000");
    check_encoded(TOKENS("one_hot"), tokens, "100001000000");
    check_encoded(TOKENS("multi_hot"), tokens, "101");
    check_encoded(TOKENS("count"), (const double[]){1, 1, NAN, 2}, "021");
#undef BINS
#undef KNOWN
#undef TOKENS
}

// Numbers that another layer compares are f32 in a net of 16 bits, also behind
// views; those that are as well read by a dense layer are not.
TEST(compile, numbers_are_not_rounded_in_16_bits)
{
    struct compile_options o =
        options(SPEC_LOSS_MEAN_SQUARED_ERROR, false, false, 1, false);
    static const char *const text =
        "{'input_shape': [1, 2], 'layers': ["
        "{'type': 'permute', 'name': 'p', 'dims': [2, 1]},"
        "{'type': 'cropping1d', 'name': 'c', 'crop': [1, 0]},"
        "{'type': 'flatten', 'name': 'f'},"
        "{'type': 'integer_lookup', 'name': 'i', 'vocabulary': [1001],"
        " 'num_oov_indices': 0, 'inputs': ['f']},"
        "{'type': 'embedding', 'name': 'e', 'input_dim': 1, 'output_dim': 1},"
        "{'type': 'flatten', 'name': 'g'},"
        "{'type': 'dense', 'name': 'd', 'units': 1, 'inputs': ['f']},"
        "{'type': 'add', 'name': 'a', 'inputs': ['g', 'd']}]}";
    struct net n;

    draw();
    o.compute = KERN_BF16;
    net_open_as(&n, "ref", text, &o);
    put(&n, n.io.x, 0, NAN);
    put(&n, n.io.x, 1, 1001); // 1000 in bf16
    put(&n, n.io.params, 0, 24);
    put(&n, n.io.params, 1, 1);
    put(&n, n.io.params, 2, 0);
    T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
    T_EQ(get(&n, output_of(&n), 0), 1024);
    net_close(&n);
}

// ---- backends

static void check_backends(const char *text, enum spec_loss loss,
                           bool from_logits, uint32_t batch)
{
    struct net a, b;

    draw();
    net_open(&a, "ref", text, loss, from_logits, true, batch, false);
    net_open(&b, "cpu", text, loss, from_logits, true, batch, false);
    check_alike(&a, &b, 1e-5, 100);
    net_close(&a);
    net_close(&b);
}

TEST(compile, cpu_is_ref_with_several_outputs)
{
    struct compile_options o = outputs_options(9, false);
    struct net a, b;

    draw();
    net_open_as(&a, "ref", NET_OUTPUTS, &o);
    net_open_as(&b, "cpu", NET_OUTPUTS, &o);
    check_alike(&a, &b, 1e-5, 100);
    net_close(&a);
    net_close(&b);
}

TEST(compile, several_outputs_in_16_bits)
{
    struct compile_options o = outputs_options(5, false);
    struct net half, whole;

    draw();
    net_open_as(&whole, "ref", NET_OUTPUTS, &o);
    o.compute = KERN_F16;
    net_open_as(&half, "cpu", NET_OUTPUTS, &o);
    program_set_loss_scale(half.p, 1024);
    T_OK(program_run(whole.p, &whole.io, 0, whole.p->count, t_err()));
    T_OK(program_run(half.p, &half.io, 0, half.p->count, t_err()));
    T_NEAR(program_loss_sum(half.p) / program_loss_sum(whole.p), 1, 0.02);
    T_NEAR(
        distance(&half, &whole, half.io.grads, whole.io.grads, half.elements),
        0, 0.01);
    net_close(&half);
    net_close(&whole);
}

TEST(compile, cpu_is_ref)
{
    check_backends(NET_EVERYTHING, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   true, 7);
    check_backends(NET_FASHION, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                   false, 64);
    check_backends(NET_RESIDUAL, SPEC_LOSS_BINARY_CROSSENTROPY, false, 9);
    check_backends(NET_MLP, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 33);
    check_backends(NET_VIEWS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_GROUPS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_PICKS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_TOKENS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_STEPS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true,
                   9);
    check_backends(NET_PIXELS, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false,
                   9);
    check_backends(NET_PENALTIES, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_ROWS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_MANY, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_TABLES, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_FEATURES, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_LINE, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_COMPOSED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_RECURRENT, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_MASKED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_FROZEN, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_SHARED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_SHARED_TOKENS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_ENCODED, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_PRODUCTS, SPEC_LOSS_MEAN_SQUARED_ERROR, false, 9);
    check_backends(NET_MLP, SPEC_LOSS_MEAN_ABSOLUTE_ERROR, false, 33);
}

// Bytes as input: the same gradient as of the numbers that they stand for.
static void check_bytes(const char *backend, const char *text, bool train)
{
    enum { BATCH = 3 };
    struct compile_options o = {.loss =
                                    SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                .from_logits = true,
                                .train = train,
                                .batch = BATCH,
                                .seed = 5,
                                .input = KERN_U8,
                                .input_scale = 1 / 127.5,
                                .input_offset = -1};
    struct net bytes, floats;

    draw();
    net_open(&floats, backend, text, o.loss, true, train, BATCH, false);
    net_open_as(&bytes, backend, text, &o);
    feed_bytes(&bytes, &floats, BATCH, o.input_scale, o.input_offset);
    T_EQ(bytes.p->count, floats.p->count + 1);
    T_EQ(bytes.p->ops[0].op, KERN_IMAGE_U8);
    T_EQ(bytes.p->ops[0].arg[0].place, PROGRAM_X);
    T_EQ(bytes.p->ops[0].arg[0].bytes, BATCH * bytes.features);
    check_alike(&bytes, &floats, 1e-6, 10);
    net_close(&floats);
    net_close(&bytes);
}

TEST(compile, bytes_as_input)
{
    check_bytes("ref", NET_EVERYTHING, true);
    check_bytes("cpu", NET_EVERYTHING, true);
    check_bytes("cpu", NET_MLP, true);
    check_bytes("cpu", NET_EVERYTHING, false);
}

// To evaluate: no dropout, moving statistics, the same loss and hits for a
// batch and for its samples one by one.
TEST(compile, evaluation_does_not_depend_on_the_batch)
{
    struct net whole, one;
    double loss = 0, right = 0;
    enum { BATCH = 6 };

    draw();
    net_open(&whole, "cpu", NET_EVERYTHING,
             SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, false, BATCH,
             false);
    net_open(&one, "cpu", NET_EVERYTHING,
             SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, false, 1, false);
    T_EQ(whole.p->forward, whole.p->count);
    T_EQ(whole.p->dropouts, 0);
    T_OK(program_run(whole.p, &whole.io, 0, whole.p->count, t_err()));
    for (size_t i = 0; i < BATCH; i++) {
        struct program_io io = {
            .params = whole.io.params,
            .x = (const float *)whole.io.x + i * whole.features,
            .labels = (const int32_t *)whole.io.labels + i,
        };

        T_OK(program_run(one.p, &io, 0, one.p->count, t_err()));
        loss += program_loss_sum(one.p);
        right += program_right_sum(one.p);
    }
    T_NEAR(program_loss_sum(whole.p), loss, 1e-4);
    T_EQ((int)program_right_sum(whole.p), (int)right);
    net_close(&whole);
    net_close(&one);
}

TEST(compile, dropout_masks_are_functions_of_the_step)
{
    struct net n;
    double a, b;

    draw();
    net_open(&n, "cpu", NET_EVERYTHING,
             SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, true, 4, false);
    a = loss_at(&n);
    program_set_step(n.p, 4);
    b = loss_at(&n);
    T_TRUE(a < b || a > b);
    program_set_step(n.p, 3);
    T_NEAR(loss_at(&n), a, 0);
    net_close(&n);
}

#define NET_DEPTH                                                              \
    "{'input_shape': [3, 4], 'layers': ["                                      \
    "{'type': 'stochastic_depth', 'name': 'd', 'rate': 0.5},"                  \
    "{'type': 'flatten', 'name': 'f'},"                                        \
    "{'type': 'dense', 'name': 'o', 'units': 10, 'use_bias': false}]}"

// Nothing of a sample that goes is left: all logits are 0.
TEST(compile, stochastic_depth_drops_whole_samples)
{
    enum { STEPS = 40 };
    struct net n;
    double kept = 0;
    unsigned gone = 0;

    draw();
    net_open(&n, "cpu", NET_DEPTH, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
             true, true, 1, false);
    for (unsigned i = 0; i < STEPS; i++) {
        double loss;

        program_set_step(n.p, i);
        loss = loss_at(&n);
        if (fabs(loss - log(10)) < 1e-6) {
            gone++;
            continue;
        }
        if (kept > 0)
            T_NEAR(loss, kept, 0);
        kept = loss;
    }
    T_GT(gone, STEPS / 5);
    T_LT(gone, STEPS - STEPS / 5);
    net_close(&n);
}

TEST(compile, says_what_it_cannot_do)
{
    struct kern_dev *dev = NULL;
    struct model *m = t_model(NET_RESIDUAL);
    struct program_memory memory = {.dev = NULL};
    struct compile_options o = {
        .loss = SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .batch = 2};
    struct sl_error err = SL_ERROR_INIT;
    struct program *p;

    T_OK(kern_open(&dev, "ref", NULL, t_err()));
    T_FAILS(SL_ENOTSUP, compile(&p, dev, m, &o, &memory, &err));
    T_HAS(err.text, "layer 'out'");
    T_HAS(err.text, "from_logits");
    kern_close(dev);
    model_free(m);
}

// ---- overlap

static uint32_t cut(struct elements *out, uint32_t most, uint64_t elements)
{
    uint32_t n = 0;
    uint64_t at = 0;

    while (at < elements) {
        uint64_t left = elements - at, take = 1 + t_below(left);

        if (n + 1 == most)
            take = left;
        out[n++] = (struct elements){at, take};
        at += take;
    }
    return n;
}

static void poison(struct net *n, void *vector, struct elements r)
{
    for (uint64_t i = 0; i < r.count; i++)
        put(n, vector, r.first + i, (double)NAN);
}

static void copy(struct net *n, void *to, const void *from, struct elements r)
{
    memcpy((uint8_t *)to + r.first * n->real,
           (const uint8_t *)from + r.first * n->real, r.count * n->real);
}

// One step as the worker does it: until a shard was waited for, its parameters
// are not there yet; once it was sent and they are said to be read no more,
// they are overwritten by the answer. The gradient that left must be the true
// one.
static void check_overlap(struct net *n, const void *params, const void *want)
{
    struct elements shards[6];
    uint32_t count = cut(shards, 6, n->elements), w = 0, s = 0;
    void *sent = sl_calloc(n->elements, n->real);
    struct overlap o;

    T_OK(overlap_make(&o, n->p, shards, count, t_err()));
    poison(n, n->io.params, (struct elements){0, n->elements});
    poison(n, n->io.grads, (struct elements){0, n->elements});
    for (uint32_t op = 0; op < n->p->count; op++) {
        for (; w < count && o.wait_before[o.by_wait[w]] <= op; w++)
            copy(n, n->io.params, params, shards[o.by_wait[w]]);
        T_OK(program_run(n->p, &n->io, op, op + 1, t_err()));
        for (; s < count && o.send_after[o.by_send[s]] <= op; s++) {
            struct elements r = shards[o.by_send[s]];

            T_GE(op + 1, n->p->forward); // not before the loss is known
            copy(n, sent, n->io.grads, r);
            poison(n, n->io.grads, r);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t sent_at = o.send_after[i] + 1, read = o.read_until[i];

            if (op + 1 == (read > sent_at ? read : sent_at))
                poison(n, n->io.params, shards[i]);
        }
    }
    T_EQ(w, count);
    T_EQ(s, count);
    T_MEM(sent, want, n->elements * n->real);
    overlap_release(&o);
    sl_free(sent);
}

static void check_overlaps(const struct compile_options *o)
{
    static const char *const nets[] = {
        NET_EVERYTHING, NET_FASHION,   NET_RESIDUAL, NET_MLP,
        NET_WIDE,       NET_VIEWS,     NET_GROUPS,   NET_PICKS,
        NET_TOKENS,     NET_PENALTIES, NET_ROWS,     NET_MANY,
        NET_FEATURES,   NET_LINE,      NET_COMPOSED, NET_PRODUCTS,
        NET_RECURRENT,  NET_MASKED,    NET_SHARED,   NET_SHARED_TOKENS,
        NET_ENCODED};

    for (size_t i = 0; i < SL_COUNT(nets); i++) {
        struct net n;
        void *params, *want;

        draw();
        net_open_as(&n, "cpu", nets[i], o);
        T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
        params = sl_malloc(n.elements * n.real);
        want = sl_malloc(n.elements * n.real);
        memcpy(params, n.io.params, n.elements * n.real);
        memcpy(want, n.io.grads, n.elements * n.real);
        for (int round = 0; round < 20; round++)
            check_overlap(&n, params, want);
        sl_free(params);
        sl_free(want);
        net_close(&n);
    }
}

TEST(overlap, what_leaves_early_is_whole_and_unread)
{
    struct compile_options o = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                .train = true,
                                .batch = 3,
                                .seed = 5};

    check_overlaps(&o);
    o.part_bytes = NET_WIDE_PART;
    check_overlaps(&o);
    o.as_device = true;
    check_overlaps(&o);
    o.compute = KERN_BF16;
    check_overlaps(&o);
}

// The point of it: the last layers' shards leave before the first layers are
// done.
TEST(overlap, late_layers_leave_first)
{
    struct net n;
    struct overlap o;
    struct elements shards[2];

    draw();
    net_open(&n, "cpu", NET_FASHION, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
             false, true, 4, false);
    shards[0] = (struct elements){0, n.model->variables[2].first};
    shards[1] =
        (struct elements){shards[0].count, n.elements - shards[0].count};
    T_OK(overlap_make(&o, n.p, shards, 2, t_err()));
    T_EQ(o.by_send[0], 1);
    T_LT(o.send_after[1], o.send_after[0]);
    T_EQ(o.wait_before[0], 0);
    T_GT(o.wait_before[1], 0);
    T_EQ(o.send_after[0], n.p->count - 1);
    T_LE(o.read_until[0], o.send_after[0] + 1);
    // What a layer hands back comes after its gradient.
    T_GT(o.read_until[1], o.send_after[1] + 1);
    overlap_release(&o);
    net_close(&n);
}

// How far the next pass gets with the parameters of the first layers alone: it
// computes the same then, whatever the others are.
static void check_reach(struct net *n, uint64_t elements, uint32_t want)
{
    const float *params = n->io.params;
    float *front = sl_malloc_array(n->elements, sizeof(*front));
    double loss;

    T_EQ(overlap_reach(n->p, elements), want);
    T_OK(program_run(n->p, &n->io, 0, n->p->forward, t_err()));
    loss = program_loss_sum(n->p);
    for (uint64_t i = 0; i < n->elements; i++)
        front[i] = i < elements ? params[i] : NAN;
    n->io.params = front;
    T_OK(program_run(n->p, &n->io, 0, want, t_err()));
    n->io.params = (void *)params;
    T_OK(program_run(n->p, &n->io, want, n->p->forward, t_err()));
    T_TRUE(program_loss_sum(n->p) == loss);
    sl_free(front);
}

static uint32_t first_reader(const struct net *n, uint64_t first)
{
    struct elements behind = {first, n->elements - first};
    struct overlap o;
    uint32_t op;

    T_OK(overlap_make(&o, n->p, &behind, 1, t_err()));
    op = o.wait_before[0];
    overlap_release(&o);
    return op;
}

TEST(overlap, a_pass_reaches_the_first_layer_that_it_lacks)
{
    struct net n;

    draw();
    net_open(&n, "cpu", NET_FASHION, SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
             false, true, 4, false);
    for (uint32_t i = 1; i < n.model->variables_count; i++) {
        uint64_t first = n.model->variables[i].first;

        check_reach(&n, first, first_reader(&n, first));
    }
    T_EQ(overlap_reach(n.p, 0), first_reader(&n, 0));
    T_EQ(overlap_reach(n.p, n.elements), n.p->forward);
    net_close(&n);
}

// Statistics of the batch go where the gradient does.
TEST(overlap, a_pass_ends_where_it_writes_statistics_beyond)
{
    struct net n;
    uint64_t end;

    draw();
    net_open(&n, "cpu", NET_MLP, SPEC_LOSS_MEAN_SQUARED_ERROR, false, true, 4,
             false);
    for (uint32_t i = 0; i < n.model->variables_count; i++) {
        const struct model_variable *v = &n.model->variables[i];

        end = v->first + v->elements;
        T_EQ(overlap_reach(n.p, end - 1), first_reader(&n, end - 1));
    }
    T_EQ(overlap_reach(n.p, n.elements), n.p->forward);
    net_close(&n);
}

// Nor do the shards of one large layer wait for each other.
TEST(overlap, a_large_layer_comes_and_goes_in_parts)
{
    enum { SHARDS = 3, UNITS = 70, INPUTS = 20, FIRST = 12 * 20 + 20 };
    struct elements shards[SHARDS];
    struct overlap o;
    struct net n;

    draw();
    net_open_as(&n, "cpu", NET_WIDE, &wide);
    for (int i = 0; i < SHARDS; i++) // of 200 units; parts have 64
        shards[i] =
            (struct elements){(uint64_t)(FIRST + i * UNITS * INPUTS),
                              (uint64_t)(i < SHARDS - 1 ? UNITS : 60) * INPUTS};
    T_OK(overlap_make(&o, n.p, shards, SHARDS, t_err()));
    for (int i = 1; i < SHARDS; i++) {
        T_GT(o.wait_before[i], o.wait_before[i - 1]);
        T_GT(o.send_after[i], o.send_after[i - 1]);
    }
    T_LT(o.wait_before[SHARDS - 1], n.p->forward);
    overlap_release(&o);
    net_close(&n);
}

// ---- precision

#define SPARSE SPEC_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY

// In 16 bits the gradient is that in 32, but for rounding.
static void check_half(const char *backend, const char *text,
                       enum spec_loss loss, enum kern_dtype t)
{
    enum { BATCH = 5 };
    struct compile_options o = {.loss = loss,
                                .from_logits = loss == SPARSE,
                                .train = true,
                                .batch = BATCH,
                                .seed = 5,
                                .compute = t};
    struct net half, whole;
    double far;

    draw();
    net_open_as(&half, backend, text, &o);
    net_open(&whole, "ref", text, loss, o.from_logits, true, BATCH, false);
    program_set_loss_scale(half.p, t == KERN_F16 ? 1024 : 1);
    T_OK(program_run(whole.p, &whole.io, 0, whole.p->count, t_err()));
    T_OK(program_run(half.p, &half.io, 0, half.p->count, t_err()));
    T_NEAR(half.p->stats[0] / whole.p->stats[0], 1, 0.02);
    far = distance(&half, &whole, half.io.grads, whole.io.grads, half.elements);
    if (!(far < (t == KERN_F16 ? 0.01 : 0.08)))
        T_FAIL("%s, dtype %d: relative distance %g", backend, t, far);
    T_TRUE(far > 1e-6); // it does compute in 16 bits
    net_close(&half);
    net_close(&whole);
}

TEST(compile, gradients_in_16_bits)
{
    static const char *const backends[] = {"ref", "cpu"};
    static const enum kern_dtype dtypes[] = {KERN_BF16, KERN_F16};

    for (size_t b = 0; b < SL_COUNT(backends); b++) {
        for (size_t t = 0; t < SL_COUNT(dtypes); t++) {
            check_half(backends[b], NET_EVERYTHING, SPARSE, dtypes[t]);
            check_half(backends[b], NET_RESIDUAL, SPEC_LOSS_BINARY_CROSSENTROPY,
                       dtypes[t]);
            check_half(backends[b], NET_RESIDUAL, SPEC_LOSS_MEAN_SQUARED_ERROR,
                       dtypes[t]);
            check_half(backends[b], NET_MLP, SPARSE, dtypes[t]);
            check_half(backends[b], NET_MLP, SPEC_LOSS_MEAN_SQUARED_ERROR,
                       dtypes[t]);
            check_half(backends[b], NET_VIEWS, SPARSE, dtypes[t]);
            check_half(backends[b], NET_GROUPS, SPARSE, dtypes[t]);
            check_half(backends[b], NET_PICKS, SPARSE, dtypes[t]);
            check_half(backends[b], NET_TOKENS, SPARSE, dtypes[t]);
            check_half(backends[b], NET_PENALTIES, SPARSE, dtypes[t]);
            check_half(backends[b], NET_ROWS, SPARSE, dtypes[t]);
            check_half(backends[b], NET_MANY, SPARSE, dtypes[t]);
            check_half(backends[b], NET_FEATURES, SPARSE, dtypes[t]);
        }
    }
}

TEST(compile, gradients_of_composed_layers_in_16_bits)
{
    static const char *const backends[] = {"ref", "cpu"};
    static const char *const nets[] = {
        NET_LINE,   NET_COMPOSED, NET_PRODUCTS,      NET_FROZEN, NET_RECURRENT,
        NET_MASKED, NET_SHARED,   NET_SHARED_TOKENS, NET_ENCODED};

    for (size_t b = 0; b < SL_COUNT(backends); b++) {
        for (size_t i = 0; i < SL_COUNT(nets); i++) {
            check_half(backends[b], nets[i], SPARSE, KERN_BF16);
            check_half(backends[b], nets[i], SPARSE, KERN_F16);
        }
    }
}

static bool same(const struct net *a, const struct net *b)
{
    return memcmp(a->io.grads, b->io.grads, a->elements * a->real) == 0;
}

// A CPU without products of 16 bits would only round between two layers: it
// computes in f32, bit by bit, and the loss may be scaled all the same.
TEST(compile, f32_where_16_bits_are_no_faster)
{
    static const enum kern_dtype dtypes[] = {KERN_BF16, KERN_F16};

    for (size_t t = 0; t < SL_COUNT(dtypes); t++) {
        struct compile_options o = {.loss = SPARSE,
                                    .from_logits = true,
                                    .train = true,
                                    .batch = 5,
                                    .seed = 5,
                                    .compute = dtypes[t],
                                    .half_if_faster = true};
        struct net half, whole;

        draw();
        net_open_as(&half, "ref", NET_EVERYTHING, &o);
        T_EQ(half.p->compute, dtypes[t]); // slow in all of them
        net_close(&half);
        device_options = "isa=base";
        net_open_as(&half, "cpu", NET_EVERYTHING, &o);
        o.compute = KERN_F32;
        net_open_as(&whole, "cpu", NET_EVERYTHING, &o);
        device_options = NULL;
        T_EQ(half.p->compute, KERN_F32);
        program_set_loss_scale(half.p, dtypes[t] == KERN_F16 ? 1024 : 1);
        T_OK(program_run(whole.p, &whole.io, 0, whole.p->count, t_err()));
        T_OK(program_run(half.p, &half.io, 0, half.p->count, t_err()));
        T_TRUE(same(&half, &whole));
        net_close(&half);
        net_close(&whole);
    }
}

// A scale that is too large shows in the gradient, not in the loss; one that
// is a power of two changes nothing else; batch norm's statistics are not
// gradients and stay as they are.
TEST(compile, the_loss_scale_only_keeps_gradients_from_vanishing)
{
    struct compile_options o = {.loss = SPARSE,
                                .from_logits = true,
                                .train = true,
                                .batch = 5,
                                .compute = KERN_F16};
    struct net a, b;
    double loss;

    draw();
    net_open_as(&a, "ref", NET_MLP, &o);
    net_open_as(&b, "ref", NET_MLP, &o);
    program_set_loss_scale(a.p, 256);
    program_set_loss_scale(b.p, 1024);
    T_OK(program_run(a.p, &a.io, 0, a.p->count, t_err()));
    T_OK(program_run(b.p, &b.io, 0, b.p->count, t_err()));
    T_LT(distance(&a, &b, a.io.grads, b.io.grads, a.elements) * 1e6, 3000);
    loss = a.p->stats[0];
    program_set_loss_scale(a.p, 0x1p40);
    T_OK(program_run(a.p, &a.io, 0, a.p->count, t_err()));
    T_NEAR(a.p->stats[0], loss, 0);
    T_FALSE(grad_finite(a.io.grads, a.elements));
    program_set_loss_scale(a.p, 1024);
    T_OK(program_run(a.p, &a.io, 0, a.p->count, t_err()));
    T_TRUE(same(&a, &b));
    net_close(&a);
    net_close(&b);
}

// Batch normalization of (3, 2, 2) in 5 samples; the format has its `fused`.
#define NET_FUSED                                                              \
    "{'input_shape': [3, 2, 2], 'layers': [{'type': 'batch_normalization',"    \
    " 'name': 'bn'%s}, {'type': 'flatten'}, {'type': 'dense', 'units': 3}]}"

// Only what moves the moving variance is another, by n / (n - 1).
static void check_fused(const char *backend, double share)
{
    static const char *const ways[] = {"", ", 'fused': true"};
    struct compile_options o = {.loss = SPARSE,
                                .from_logits = true,
                                .train = true,
                                .share = share,
                                .batch = 5};
    struct net n[2];

    draw();
    for (int i = 0; i < 2; i++) {
        char text[300];

        snprintf(text, sizeof(text), NET_FUSED, ways[i]);
        net_open_as(&n[i], backend, text, &o);
    }
    for (int i = 0; i < 2; i++)
        T_OK(program_run(n[i].p, &n[i].io, 0, n[i].p->count, t_err()));
    for (uint32_t v = 0; v < n[0].model->variables_count; v++) {
        const struct model_variable *var = &n[0].model->variables[v];
        bool variance = strcmp(var->name, "bn/moving_variance") == 0;

        for (size_t k = var->first; k < var->first + var->elements; k++)
            T_NEAR(get(&n[1], n[1].io.grads, k),
                   get(&n[0], n[0].io.grads, k) * (variance ? 30.0 / 29 : 1),
                   1e-6);
    }
    net_close(&n[0]);
    net_close(&n[1]);
}

TEST(compile, a_fused_norm_moves_by_the_unbiased_variance)
{
    check_fused("ref", 0);
    check_fused("cpu", 0);
    check_fused("cpu", 0.25);
}

// ---- several micro-batches

static const uint32_t micro[] = {4, 4, 2};
#define MICRO_ALL 10

static double momentum_of(const struct net *n, size_t element)
{
    for (uint32_t v = 0; v < n->model->variables_count; v++) {
        const struct model_variable *var = &n->model->variables[v];

        if (element >= var->first && element < var->first + var->elements)
            return var->momentum;
    }
    return 0;
}

// Runs micro-batch i of the net's batch into `grads`; with `add` by the program
// that adds to what is there.
static void run_micro(struct net *n, struct compile_options o, uint32_t i,
                      bool add, void *grads)
{
    size_t label = o.loss == SPARSE ? sizeof(int32_t) : n->outputs * n->real;
    struct program_memory memory = {.dev = NULL};
    struct program_io io = n->io;
    struct program *p = NULL;
    size_t from = 0;

    for (uint32_t k = 0; k < i; k++)
        from += micro[k];
    io.x = (const uint8_t *)n->io.x + from * n->features * n->real;
    io.labels = (const uint8_t *)n->io.labels + from * label;
    io.grads = grads;
    o.batch = micro[i];
    o.add = add;
    T_OK(compile(&p, n->dev, n->model, &o, &memory, t_err()));
    program_set_samples(p, MICRO_ALL);
    program_set_loss_scale(p, o.compute == KERN_F16 ? 256 : 1);
    program_set_step(p, 100 + i);
    T_OK(program_run(p, &io, 0, p->count, t_err()));
    program_free(p);
    program_memory_release(&memory);
}

// What is added is the sum of what each gives alone; and if `whole`, what the
// large batch gives: the largest distance.
static void check_micro(const char *backend, const char *text,
                        struct compile_options o, bool whole, double apart)
{
    struct net n;
    double *want, far;
    void *one, *sum;

    o.train = true;
    o.seed = 5;
    o.batch = MICRO_ALL;
    draw();
    net_open_as(&n, backend, text, &o);
    one = sl_calloc(n.elements, n.real);
    sum = sl_calloc(n.elements, n.real);
    want = sl_calloc(n.elements, sizeof(double));
    memset(sum, 0xff, n.elements * n.real); // it is written, not added to
    for (uint32_t i = 0; i < SL_COUNT(micro); i++) {
        run_micro(&n, o, i, false, one);
        run_micro(&n, o, i, i > 0, sum);
        for (size_t k = 0; k < n.elements; k++)
            want[k] = (is_moving(&n, k) ? momentum_of(&n, k) : 1) * want[k] +
                      get(&n, one, k);
    }
    for (size_t k = 0; k < n.elements; k++)
        put(&n, one, k, want[k]);
    far = distance(&n, &n, one, sum, n.elements);
    if (whole) {
        T_OK(program_run(n.p, &n.io, 0, n.p->count, t_err()));
        far = fmax(far, distance(&n, &n, n.io.grads, sum, n.elements));
    }
    if (!(far < apart))
        T_FAIL("%s: relative distance %g", backend, far);
    sl_free(one);
    sl_free(sum);
    sl_free(want);
    net_close(&n);
}

// ---- weights

#define WEIGHED 4
#define NET_PLAIN(shape)                                                       \
    "{'input_shape': " shape ", 'layers': ["                                   \
    "{'type': 'dense', 'units': 4, 'activation': 'tanh'},"                     \
    "{'type': 'dense', 'units': 3}]}"
#define NET_ONE                                                                \
    "{'input_shape': [5], 'layers': ["                                         \
    "{'type': 'dense', 'units': 1, 'activation': 'sigmoid'}]}"

// Returns the labels of a batch, of `units` of `each` bytes a sample, with the
// weight of its sample behind each unit. sl_free'd.
static uint8_t *weighed(const void *labels, size_t units, size_t each,
                        const float *weights)
{
    uint8_t *packed = sl_malloc(WEIGHED * units * (each + sizeof(float)));

    for (size_t i = 0; i < WEIGHED * units; i++) {
        uint8_t *to = packed + i * (each + sizeof(float));

        memcpy(to, (const uint8_t *)labels + i * each, each);
        memcpy(to + each, &weights[i / units], sizeof(float));
    }
    return packed;
}

// A weighted batch gives what its samples give one by one, times their weights.
static void check_weights(const char *backend, const char *text,
                          struct compile_options o)
{
    static const float weights[WEIGHED] = {1, 0, 2.5f, 0.25f};
    size_t units, label, far = 0;
    double *want, loss = 0, right = 0;
    uint8_t *packed;
    struct program *p = NULL;
    struct net n;

    o.train = true;
    o.batch = 1;
    draw();
    net_open_as(&n, backend, text, &o);
    sl_free((void *)(uintptr_t)n.io.x);
    sl_free((void *)(uintptr_t)n.io.labels);
    sl_free(n.io.params);
    sl_free(n.io.grads);
    fill(&n, WEIGHED, numbers);
    units = spec_loss_has_classes(o.loss) ? n.outputs / n.classes : 1;
    label =
        o.loss == SPARSE ? sizeof(int32_t) : n.outputs / units * sizeof(float);
    packed = weighed(n.io.labels, units, label, weights);
    want = sl_calloc(n.elements, sizeof(*want));
    program_set_samples(n.p, WEIGHED);
    for (size_t i = 0; i < WEIGHED; i++) {
        struct program_io io = n.io;

        io.x = (const float *)n.io.x + i * n.features;
        io.labels = (const uint8_t *)n.io.labels + i * units * label;
        T_OK(program_run(n.p, &io, 0, n.p->count, t_err()));
        loss += (double)weights[i] * n.p->stats[0];
        right += n.p->stats[1];
        for (size_t k = 0; k < n.elements; k++)
            want[k] += (double)weights[i] * get(&n, n.io.grads, k);
    }
    o.batch = WEIGHED;
    o.weighted = true;
    T_OK(compile(&p, n.dev, n.model, &o, &n.memory, t_err()));
    program_set_samples(p, WEIGHED);
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = 0; k < p->ops[i].args; k++)
            if (p->ops[i].arg[k].place == PROGRAM_LABELS)
                T_LE(p->ops[i].arg[k].offset + p->ops[i].arg[k].bytes,
                     WEIGHED * units * (label + sizeof(float)));
    sl_free((void *)(uintptr_t)n.io.labels);
    n.io.labels = packed;
    T_OK(program_run(p, &n.io, 0, p->count, t_err()));
    T_NEAR(p->stats[0], loss, 1e-5 * fabs(loss));
    T_NEAR(p->stats[1], right, 1e-6 * fabs(right));
    for (size_t k = 0; k < n.elements; k++)
        far += fabs(get(&n, n.io.grads, k) - want[k]) >
               1e-6 + 1e-5 * fabs(want[k]);
    T_EQ(far, 0);
    program_free(p);
    sl_free(want);
    net_close(&n);
}

TEST(compile, a_weight_multiplies_what_its_sample_gives)
{
    static const struct {
        enum spec_loss loss;
        bool logits;
        double smoothing;
    } losses[] = {
        {SPARSE, true, 0},
        {SPARSE, true, 0.1},
        {SPEC_LOSS_CATEGORICAL_CROSSENTROPY, true, 0},
        {SPEC_LOSS_BINARY_CROSSENTROPY, true, 0},
        {SPEC_LOSS_MEAN_SQUARED_ERROR, false, 0},
        {SPEC_LOSS_MEAN_ABSOLUTE_ERROR, false, 0},
    };
    static const char *const backends[] = {"ref", "cpu"};

    for (size_t b = 0; b < SL_COUNT(backends); b++) {
        struct compile_options one = {.loss = SPEC_LOSS_BINARY_CROSSENTROPY};

        check_weights(backends[b], NET_ONE, one);
        for (size_t i = 0; i < SL_COUNT(losses); i++) {
            struct compile_options o = {.loss = losses[i].loss,
                                        .from_logits = losses[i].logits,
                                        .smoothing = losses[i].smoothing};

            check_weights(backends[b], NET_PLAIN("[5]"), o);
            check_weights(backends[b], NET_PLAIN("[2, 5]"), o);
        }
    }
}

TEST(compile, micro_batches_are_the_large_batch)
{
    struct compile_options o = {.loss = SPARSE, .f64 = true};
    struct compile_options parts = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                    .part_bytes = NET_WIDE_PART};

    check_micro("ref", NET_FASHION, o, true, 1e-12);
    o.f64 = false;
    check_micro("ref", NET_FASHION, o, true, 1e-6);
    check_micro("cpu", NET_FASHION, o, true, 1e-6);
    o.as_device = true;
    check_micro("cpu", NET_FASHION, o, true, 1e-6);
    check_micro("cpu", NET_WIDE, parts, true, 1e-6);
    parts.f64 = true;
    check_micro("ref", NET_WIDE, parts, true, 1e-12);
}

// Batch norm sees micro-batches, and dropout's masks are theirs.
TEST(compile, micro_batches_add_up)
{
    static const char *const nets[] = {
        NET_EVERYTHING, NET_RESIDUAL, NET_MLP,           NET_VIEWS,
        NET_GROUPS,     NET_PICKS,    NET_TOKENS,        NET_PENALTIES,
        NET_ROWS,       NET_MANY,     NET_FEATURES,      NET_RECURRENT,
        NET_MASKED,     NET_SHARED,   NET_SHARED_TOKENS, NET_ENCODED};
    static const enum kern_dtype dtypes[] = {KERN_F32, KERN_BF16, KERN_F16};

    for (size_t i = 0; i < SL_COUNT(nets); i++) {
        struct compile_options o = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                    .f64 = true};

        check_micro("ref", nets[i], o, false, 1e-8); // momentum is an f32
        o.f64 = false;
        for (size_t t = 0; t < SL_COUNT(dtypes); t++) {
            o.compute = dtypes[t];
            for (int device = 0; device < 2; device++) {
                o.as_device = device;
                check_micro("ref", nets[i], o, false, 1e-6);
                check_micro("cpu", nets[i], o, false, 1e-6);
            }
        }
    }
}

// A shard is sent when the last op that adds to it is done.
TEST(overlap, what_is_added_to_leaves_when_it_is_whole)
{
    struct compile_options o = wide;
    struct elements range;
    struct overlap overlap;
    struct net n;

    draw();
    o.add = true;
    net_open_as(&n, "cpu", NET_WIDE, &o);
    for (uint32_t v = 0; v < n.model->variables_count; v++) {
        const struct model_variable *var = &n.model->variables[v];
        uint32_t last = 0;

        range = (struct elements){var->first, var->elements};
        T_OK(overlap_make(&overlap, n.p, &range, 1, t_err()));
        for (uint32_t i = 0; i < n.p->count; i++) {
            const struct program_arg *to = &n.p->ops[i].arg[1];
            uint64_t at = to->offset / sizeof(float);

            if (n.p->ops[i].op == KERN_AXPBY && to->place == PROGRAM_GRADS &&
                at >= var->first && at < var->first + var->elements)
                last = i;
        }
        T_GT(last, n.p->forward);
        T_EQ(overlap.send_after[0], last);
        overlap_release(&overlap);
    }
    net_close(&n);
}

static bool is_product(enum kern_op op)
{
    return op == KERN_MATMUL || op == KERN_CONV_FWD || op == KERN_CONV_DGRAD ||
           op == KERN_CONV_WGRAD;
}

// As for a device: tensors of products begin at multiples of KERN_ALIGN, and
// nothing else changes.
TEST(compile, operands_of_a_device_are_aligned)
{
    static const char *const nets[] = {
        NET_EVERYTHING, NET_FASHION, NET_MLP,           NET_VIEWS,
        NET_GROUPS,     NET_PICKS,   NET_TOKENS,        NET_PENALTIES,
        NET_ROWS,       NET_MANY,    NET_FEATURES,      NET_RECURRENT,
        NET_MASKED,     NET_SHARED,  NET_SHARED_TOKENS, NET_ENCODED};

    for (size_t i = 0; i < SL_COUNT(nets); i++) {
        struct compile_options o = {.loss = SPEC_LOSS_MEAN_SQUARED_ERROR,
                                    .train = true,
                                    .batch = 3,
                                    .seed = 5,
                                    .as_device = true};
        struct net plain, device;

        draw();
        net_open_as(&device, "ref", nets[i], &o);
        net_open(&plain, "ref", nets[i], o.loss, false, true, 3, false);
        T_GE(device.p->count, plain.p->count);
        for (uint32_t k = 0; k < device.p->count; k++) {
            const struct program_op *op = &device.p->ops[k];

            for (uint32_t arg = 0; arg < op->args && is_product(op->op); arg++)
                T_EQ(op->arg[arg].offset % KERN_ALIGN, 0);
        }
        T_OK(program_run(plain.p, &plain.io, 0, plain.p->count, t_err()));
        T_OK(program_run(device.p, &device.io, 0, device.p->count, t_err()));
        T_TRUE(same(&plain, &device));
        net_close(&plain);
        net_close(&device);
    }
}

// Channels of nothing are added to an image and to the filters over it, and
// their gradients are dropped.
static void check_padded(enum kern_dtype t)
{
    enum { BATCH = 3 };
    struct compile_options o = {.loss = SPEC_LOSS_BINARY_CROSSENTROPY,
                                .train = true,
                                .batch = BATCH,
                                .compute = t,
                                .input = KERN_U8,
                                .input_scale = 1 / 255.0};
    struct net plain, padded;

    draw();
    net_open_as(&plain, "ref", NET_RESIDUAL, &o);
    o.as_device = true;
    net_open_as(&padded, "ref", NET_RESIDUAL, &o);
    feed_bytes(&plain, &plain, BATCH, 1, 0);
    sl_free((void *)(uintptr_t)padded.io.x);
    padded.io.x = plain.io.x;
    T_EQ(plain.p->ops[0].arg[1].bytes, BATCH * plain.features * 2);
    T_EQ(padded.p->ops[0].arg[1].bytes, BATCH * plain.features / 3 * 8 * 2);
    program_set_loss_scale(plain.p, 8);
    program_set_loss_scale(padded.p, 8);
    T_OK(program_run(plain.p, &plain.io, 0, plain.p->count, t_err()));
    T_OK(program_run(padded.p, &padded.io, 0, padded.p->count, t_err()));
    T_TRUE(same(&plain, &padded));
    padded.io.x = NULL;
    net_close(&plain);
    net_close(&padded);
}

// The same of an image that comes as floats.
static void check_padded_floats(enum kern_dtype t)
{
    struct compile_options o = {.loss = SPEC_LOSS_BINARY_CROSSENTROPY,
                                .train = true,
                                .batch = 3,
                                .compute = t};
    struct net plain, padded;

    draw();
    net_open_as(&plain, "ref", NET_RESIDUAL, &o);
    o.as_device = true;
    net_open_as(&padded, "ref", NET_RESIDUAL, &o);
    T_OK(program_run(plain.p, &plain.io, 0, plain.p->count, t_err()));
    T_OK(program_run(padded.p, &padded.io, 0, padded.p->count, t_err()));
    T_EQ(padded.p->ops[0].op, KERN_FILL);
    T_TRUE(same(&plain, &padded));
    net_close(&plain);
    net_close(&padded);
}

// ---- A device whose library likes workspace ------------------------------

#define WISHED ((size_t)64 << 20) // by every plan

static struct kern_backend greedy;
static const struct kern_backend *inner; // ref
static size_t room;                      // of the device
static unsigned refused;

static enum sl_err greedy_plan(struct kern_plan **out, size_t *workspace_bytes,
                               struct kern_dev *dev, const struct kern_desc *d,
                               size_t cap_bytes, struct sl_error *err)
{
    enum sl_err rc = inner->plan(out, workspace_bytes, dev, d, cap_bytes, err);

    *workspace_bytes = cap_bytes < WISHED ? cap_bytes : WISHED;
    return rc;
}

static enum sl_err greedy_alloc(struct kern_mem *out, struct kern_dev *dev,
                                size_t bytes, enum kern_place place)
{
    enum sl_err rc =
        bytes > room ? SL_ENOMEM : inner->alloc(out, dev, bytes, place);

    refused += bytes > room;
    if (rc == SL_OK)
        room -= bytes;
    return rc;
}

static void greedy_release(struct kern_dev *dev, struct kern_mem *mem)
{
    room += mem->bytes;
    inner->release(dev, mem);
}

// A device that is ref but for its greed, and has so much memory.
static struct kern_dev *greedy_open(size_t bytes)
{
    struct kern_dev *dev = NULL;

    T_OK(kern_open(&dev, "ref", NULL, t_err()));
    inner = dev->backend;
    greedy = *inner;
    greedy.host = false;
    greedy.plan = greedy_plan;
    greedy.alloc = greedy_alloc;
    greedy.release = greedy_release;
    room = bytes;
    refused = 0;
    dev->backend = &greedy;
    return dev;
}

static void greedy_close(struct kern_dev *dev)
{
    dev->backend = inner;
    kern_close(dev);
}

TEST(compile, a_device_without_room_is_asked_for_less_workspace)
{
    struct compile_options o =
        options(SPEC_LOSS_CATEGORICAL_CROSSENTROPY, true, true, 2, false);
    struct kern_dev *dev = greedy_open((size_t)20 << 20);
    struct program_memory memory = {0};
    struct model *model = t_model(NET_MLP);
    struct program *p = NULL, *second = NULL;

    T_OK(compile(&p, dev, model, &o, &memory, t_err()));
    T_EQ(refused, 2); // 64 and 32 MiB
    T_EQ(p->workspace_bytes, WISHED / 4);
    T_EQ(memory.workspace.bytes, WISHED / 4);
    o.train = false;
    T_OK(compile(&second, dev, model, &o, &memory, t_err()));
    T_EQ(memory.workspace.bytes, WISHED / 4); // as the first one needs it
    program_free(second);
    program_free(p);
    program_memory_release(&memory);
    model_free(model);
    greedy_close(dev);
}

// Two batches come after the workspace.
TEST(compile, the_workspace_leaves_room_for_the_batches)
{
    struct compile_options o =
        options(SPEC_LOSS_CATEGORICAL_CROSSENTROPY, true, true, 50000, false);
    struct kern_dev *dev = greedy_open((size_t)4 << 30);
    struct program_memory memory = {0};
    struct model *model = t_model(NET_MLP);
    struct program *p = NULL;
    size_t arena, batches = 2 * o.batch * sizeof(float) *
                            (size_t)model_shape_elements(&model->nodes[0].out);

    T_GT(batches, 1 << 20);
    T_OK(compile(&p, dev, model, &o, &memory, t_err()));
    T_EQ(p->workspace_bytes, WISHED);
    arena = p->arena_bytes;
    program_free(p);
    program_memory_release(&memory);
    room = arena + WISHED + batches / 2; // for one
    T_OK(compile(&p, dev, model, &o, &memory, t_err()));
    T_EQ(p->workspace_bytes, WISHED / 2);
    program_free(p);
    program_memory_release(&memory);
    model_free(model);
    greedy_close(dev);
}

TEST(compile, images_of_a_device_have_channels_by_the_eight)
{
    check_padded_floats(KERN_BF16);
    check_padded_floats(KERN_F16);
    check_padded(KERN_BF16);
    check_padded(KERN_F16);
}
