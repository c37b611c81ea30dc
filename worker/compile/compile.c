// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile.c -- the builder of a program: the order of its parts,
// the memory of its tensors, its precision.
#include "worker/compile/compile.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "kernels/prove/prove.h"
#include "trainer/base/figures.h"
#include "worker/compile/compile_build.h"

// Least workspace that speeds plans up.
#define LEAST_WORKSPACE ((size_t)1 << 20)

// ---- memory
static struct arena_item *lives(const struct build *b)
{
    struct arena_item *items = sl_calloc(b->tensors_count + 1, sizeof(*items));

    if (items == NULL)
        return NULL;
    for (uint32_t i = 0; i < b->tensors_count; i++)
        items[i].first = UINT32_MAX; // not used so far
    for (uint32_t i = 0; i < b->p->count; i++) {
        for (uint32_t k = 0; k < b->p->ops[i].args; k++) {
            uint32_t t = b->ops[i].ref[k].tensor;

            if (b->tensors[t].place != PROGRAM_ARENA)
                continue;
            if (items[t].first == UINT32_MAX)
                items[t].first = i;
            items[t].last = i;
            items[t].bytes = b->tensors[t].bytes;
        }
    }
    return items;
}

// Gives every argument its place.
static void compile_place_args(struct build *b)
{
    struct arena_item *items = lives(b);

    if (items == NULL ||
        arena_plan(items, b->tensors_count, &b->p->arena_bytes) != SL_OK) {
        sl_free(items);
        b->rc = sl_no_memory(&b->err);
        return;
    }
    for (uint32_t i = 0; i < b->p->count; i++) {
        for (uint32_t k = 0; k < b->p->ops[i].args; k++) {
            struct build_ref ref = b->ops[i].ref[k];
            const struct tensor *t = &b->tensors[ref.tensor];
            struct program_arg *arg = &b->p->ops[i].arg[k];

            arg->place = t->place;
            assert(ref.offset <= t->bytes);
            arg->bytes = t->bytes - ref.offset;
            arg->offset = ref.offset + t->offset;
            if (t->place == PROGRAM_ARENA)
                arg->offset = ref.offset + items[ref.tensor].offset;
        }
    }
    sl_free(items);
}

// Grows a memory. No enqueued op uses `m` any more: see compile.h.
static enum sl_err compile_grow_mem(struct program_memory *memory,
                                    struct kern_mem *m, size_t bytes,
                                    struct sl_error *err)
{
    struct kern_dev *dev = memory->dev;
    enum sl_err rc;

    if (m->bytes >= bytes && m->at != NULL)
        return SL_OK;
    if (m->at != NULL)
        dev->backend->release(dev, m);
    *m = (struct kern_mem){NULL, 0};
    memory->moved++;
    rc = dev->backend->alloc(m, dev, bytes > 0 ? bytes : 64, KERN_DEVICE);
    if (rc == SL_ENOMEM)
        return sl_fail(err, rc,
                       "no memory for %zu bytes of activations; use a smaller "
                       "batch",
                       bytes);
    return rc == SL_OK ? rc : sl_fail(err, rc, "%s", program_fault(dev, rc));
}

// The batches that a device holds at once: one computes, one arrives.
#define SLOTS 2

// Returns true if the device has room for two batches, which are allocated
// after the workspace.
static bool leaves_room(const struct build *b, const struct kern_backend *of)
{
    size_t sample = (size_t)model_shape_elements(&b->model->nodes[0].out) *
                    (b->o->input == KERN_U8 ? 1 : b->real);
    struct kern_mem probe = {NULL, 0};
    enum sl_err rc;

    if (of->host || b->p->workspace_bytes < 2 * LEAST_WORKSPACE)
        return true;
    rc = of->alloc(&probe, b->dev, SLOTS * b->o->batch * sample, KERN_DEVICE);
    if (probe.at != NULL)
        of->release(b->dev, &probe);
    return rc != SL_ENOMEM;
}

// Shrinks the workspace to the size that programs made before count on.
static void compile_shrink_workspace(struct build *b, struct program_memory *m)
{
    if (m->workspace.at != NULL && m->workspace.bytes > b->least) {
        b->dev->backend->release(b->dev, &m->workspace);
        m->workspace = (struct kern_mem){NULL, 0};
    }
    if (b->least > 0)
        (void)compile_grow_mem(m, &m->workspace, b->least, NULL);
}

// Grows the arena first; the workspace gets what it leaves.
static void grow_memory(struct build *b, struct program_memory *m)
{
    size_t wanted = b->p->workspace_bytes;

    m->dev = b->dev;
    b->rc = compile_grow_mem(m, &m->arena, b->p->arena_bytes, &b->err);
    b->p->memory = m;
    if (b->rc != SL_OK)
        return;
    b->rc = compile_grow_mem(m, &m->workspace,
                             wanted > b->least ? wanted : b->least, &b->err);
    if (b->rc == SL_OK && !leaves_room(b, b->dev->backend))
        b->rc = sl_fail(&b->err, SL_ENOMEM,
                        "no memory for batches of %u beside %zu bytes of "
                        "workspace; use a smaller batch",
                        b->o->batch, m->workspace.bytes);
    b->lacks_workspace = b->rc == SL_ENOMEM;
    if (b->lacks_workspace)
        compile_shrink_workspace(b, m);
}

// ---- a survey of the model, constants, precision

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// Returns the length of an attention's query or value, the longer one.
static size_t compile_attention_longest(const struct build *b,
                                        const struct model_node *node)
{
    uint32_t value = node->input[node->inputs > 1 ? 1 : 0];

    return larger((size_t)node->in.dim[0],
                  (size_t)b->model->nodes[value].out.dim[0]);
}

// Returns how many ones, and zeroes, a node reads.
static size_t ones_of(const struct model *m, const struct model_node *node)
{
    size_t channels = (size_t)compile_channels(&node->in);

    switch (node->type) {
    case MODEL_BATCH_NORMALIZATION:
    case MODEL_LAYER_NORMALIZATION:
    case MODEL_NORMALIZATION:
    case MODEL_LAYER_SCALE:
        return channels;
    case MODEL_UNIT_NORMALIZATION:
        return 2 * channels;
    case MODEL_GROUP_NORMALIZATION:
        return larger(channels,
                      (size_t)model_shape_elements(&node->in) / node->groups);
    case MODEL_PRELU:
        return (size_t)m->variables[node->weight[MODEL_ALPHA]].elements;
    default:
        return 0;
    }
}

static void survey(struct build *b)
{
    const struct model *m = b->model;

    b->constants = 1; // penalties need a one
    for (uint32_t i = 1; i < m->nodes_count; i++) {
        const struct model_node *node = &m->nodes[i];

        b->constants = larger(b->constants, ones_of(m, node));
        b->given += node->given_count;
        if (b->o->train && node->rate > 0)
            b->p->dropouts++;
        if (node->causal)
            b->mask = larger(b->mask, compile_attention_longest(b, node));
    }
}

#define NOT_SEEN (-1e9) // added to the scores of positions that are hidden

static void put_constant(struct program *p, size_t at, double x)
{
    if (p->real == sizeof(double))
        ((double *)(void *)p->constants)[at] = x;
    else
        ((float *)(void *)p->constants)[at] = (float)x;
}

// Writes what layers are given, from constant `at` on.
static void put_given(struct program *p, const struct model *m, size_t at)
{
    for (uint32_t i = 1; i < m->nodes_count; i++)
        for (uint32_t k = 0; k < m->nodes[i].given_count; k++)
            put_constant(p, at++, m->nodes[i].given[k]);
}

static bool reals(const struct build *b)
{
    struct program *p = b->p;
    size_t ones = b->constants, mask = b->mask;
    size_t all = compile_given_begin(b) + b->given;

    p->constants = sl_calloc(all + 1, p->real);
    p->constants_bytes = all * p->real;
    p->seeds = sl_calloc(p->dropouts + 1, sizeof(*p->seeds));
    p->keys = sl_calloc(2 * (size_t)p->dropouts + 1, sizeof(*p->keys));
    if (p->constants == NULL || p->seeds == NULL || p->keys == NULL)
        return false;
    for (size_t i = 0; i < ones; i++)
        put_constant(p, i, 1);
    for (size_t i = 0; i < mask; i++)
        for (size_t k = i + 1; k < mask; k++)
            put_constant(p, 2 * ones + i * mask + k, NOT_SEEN);
    put_given(p, b->model, compile_given_begin(b));
    return true;
}

// Makes the space of the layers with rows of tables, each at a place of its
// own.
static bool make_rows(struct build *b)
{
    const struct model *m = b->model;
    struct program *p = b->p;

    p->tables = sl_calloc(m->tables + 1, sizeof(*p->tables));
    for (uint32_t i = 1; p->tables != NULL && i < m->nodes_count; i++) {
        const struct model_node *node = &m->nodes[i];
        size_t bytes = b->o->batch * (size_t)node->out.dim[0] * b->real;

        if (node->column == NULL)
            continue;
        p->tables[node->table] = (struct program_rows){
            .dim = (uint32_t)node->out.dim[0], .offset = p->rows_bytes};
        p->rows_bytes += (bytes + KERN_ALIGN - 1) & ~(size_t)(KERN_ALIGN - 1);
    }
    p->tables_count = m->tables;
    if (p->tables == NULL || m->tables == 0)
        return p->tables != NULL;
    p->rows = sl_calloc(p->rows_bytes, 1);
    if (b->o->train)
        p->row_grads = sl_calloc(p->rows_bytes, 1);
    return p->rows != NULL && (p->row_grads != NULL || !b->o->train);
}

static void choose_precision(struct build *b)
{
    bool half =
        !b->o->f64 && (b->o->compute == KERN_BF16 || b->o->compute == KERN_F16);

    b->real = b->o->f64 ? sizeof(double) : sizeof(float);
    b->scaled = half && b->o->compute == KERN_F16;
    if (half && b->o->half_if_faster)
        half = compile_half_pays(b);
    b->t = half ? b->o->compute : KERN_F32;
    b->act = b->t == KERN_F32 ? b->real : kern_dtype_bytes(b->t);
    b->device = !b->o->f64 && (!b->dev->backend->host || b->o->as_device);
}

static bool build_init(struct build *b)
{
    size_t nodes = b->model->nodes_count, all;

    all = nodes * (5 + COMPILE_KEPT) + 2 * (size_t)b->model->variables_count;
    b->value = sl_malloc_array(all, sizeof(*b->value));
    b->act_done = sl_calloc(nodes, sizeof(*b->act_done));
    b->bias_done = sl_calloc(nodes, sizeof(*b->bias_done));
    b->loss_act = sl_calloc(nodes, sizeof(*b->loss_act));
    b->written = sl_calloc(b->model->variables_count + 1, sizeof(*b->written));
    b->p = sl_calloc(1, sizeof(*b->p));
    if (b->value == NULL || b->act_done == NULL || b->bias_done == NULL ||
        b->loss_act == NULL || b->written == NULL || b->p == NULL)
        return false;
    memset(b->value, 0xff, all * sizeof(*b->value)); // NO_TENSOR
    b->exact = b->value + nodes;
    b->grad = b->exact + nodes;
    b->aux = b->grad + nodes;
    b->saved = b->aux + nodes;
    b->kept = b->saved + nodes;
    b->copy = b->kept + COMPILE_KEPT * nodes;
    b->own = b->copy + b->model->variables_count;
    choose_precision(b);
    b->p->real = b->real;
    b->p->dev = b->dev;
    b->p->batch = b->o->batch;
    b->p->train = b->o->train;
    b->p->compute = b->t;
    b->p->add = b->o->add;
    survey(b);
    return make_rows(b) && reals(b);
}

static void build_release(struct build *b)
{
    sl_free(b->value);
    sl_free(b->act_done);
    sl_free(b->bias_done);
    sl_free(b->loss_act);
    sl_free(b->written);
    sl_free(b->tensors);
    sl_free(b->ops);
    compile_plans_release(b);
}

static void compile_build_program(struct build *b,
                                  struct program_memory *memory)
{
    map_init(&b->plans);
    if (!build_init(b)) {
        b->rc = sl_no_memory(&b->err);
    } else {
        compile_loss_take_acts(b);
        compile_forward(b);
        compile_losses(b);
        b->p->forward = b->p->count;
        if (b->o->train)
            compile_backward(b);
        if (b->rc == SL_OK)
            compile_place_args(b);
        if (b->rc == SL_OK)
            grow_memory(b, memory);
        b->p->loss_scale = 1;
        program_set_samples(b->p, b->o->batch);
    }
    build_release(b);
}

// Halves the most workspace of a plan and returns true, if that may help: a
// device that lacks memory for the workspace that its libraries like best may
// have enough for less.
static bool with_less(struct build *b, const struct build *failed)
{
    size_t had = failed->lacks_workspace ? failed->p->workspace_bytes : 0;

    if (had < 2 * LEAST_WORKSPACE || b->dev->backend->host)
        return false;
    b->cap = had / 2;
    LOG(WARN, "no memory for the workspace of the fastest ways; taking others",
        "device=%s wanted_mib=%zu most_mib=%zu", b->dev->backend->name,
        had >> 20, b->cap >> 20);
    return true;
}

// Says, for status, which kernels the device leaves out: the first one, and how
// many there are besides.
static void tell_left_out(struct kern_dev *dev)
{
    const char *first = kern_left_out(dev, NULL, 0);
    unsigned count = 0;
    char what[500];

    while (kern_left_out(dev, NULL, count) != NULL)
        count++;
    if (count == 0)
        return;
    snprintf(what, sizeof(what), "%.440s", first);
    if (count > 1)
        snprintf(what, sizeof(what), "%.440s, and %u others", first, count - 1);
    figures_left_out(what);
}

// Says how many kernels have proved themselves since `before`, and what that
// took of the start.
static void tell_proofs(struct kern_dev *dev, const struct proofs *before)
{
    struct proofs now = kern_proofs(dev);

    if (now.checked == before->checked)
        return;
    figures_kernels(now.checked - before->checked, now.wrong - before->wrong);
    LOG(INFO, "kernels are checked", "device=%s count=%u wrong=%u ms=%" PRIu64,
        dev->backend->name, now.checked - before->checked,
        now.wrong - before->wrong, now.ms - before->ms);
}

void compile_tell_kernels(struct kern_dev *dev, const struct proofs *before)
{
    tell_proofs(dev, before);
    tell_left_out(dev);
}

enum sl_err compile(struct program **out, struct kern_dev *dev,
                    const struct model *model,
                    const struct compile_options *options,
                    struct program_memory *memory, struct sl_error *err)
{
    struct build fresh = {.model = model,
                          .o = options,
                          .dev = dev,
                          .least = memory->workspace.bytes};
    struct proofs before = kern_proofs(dev);
    struct build b = fresh;

    compile_build_program(&b, memory);
    compile_tell_kernels(dev, &before);
    while (b.rc != SL_OK && with_less(&fresh, &b)) {
        program_free(b.p);
        b = fresh;
        compile_build_program(&b, memory);
    }
    if (b.rc != SL_OK) {
        program_free(b.p);
        if (err != NULL)
            *err = b.err;
        return b.rc;
    }
    *out = b.p;
    return SL_OK;
}
