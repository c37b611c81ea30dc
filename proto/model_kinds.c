// SPDX-License-Identifier: Apache-2.0
// proto/model_kinds.c -- the types of layers: which fields and how many inputs
// each takes, and which builder does the rest.
#include "proto/model_build.h"

#include "proto/field.h"

#define ANY BUILD_KEYS "inputs "
#define BIASED ANY " bias_initializer bias_regularizer use_bias activation "
#define WEIGHTED BIASED " kernel_initializer kernel_regularizer "
#define RECURRENT                                                              \
    WEIGHTED " units recurrent_initializer recurrent_regularizer "             \
             "return_sequences go_backwards keep_order zero_output_for_mask "
#define WINDOWED " strides padding "
#define CONVOLVES WINDOWED " kernel_size dilation_rate "

enum { ONE, SEVERAL, OWN }; // inputs of a layer

static const struct layer_kind {
    const char *fields;
    enum sl_err (*build)(struct model_build *b);
    unsigned inputs, edition;
} layer_kinds[MODEL_LAYER_COUNT] = {
#define LAYER(code, name, edition, inputs, build, keys)                        \
    [MODEL_##code] = {keys, build_##build, inputs, edition},
#include "proto/layers.def"
};

// Which layer of images a layer of one axis is; 0: it is none.
static const enum model_layer image_types[MODEL_LAYER_COUNT] = {
#define LAYER(...)
#define LINE(code, name, edition, of, build, keys) [MODEL_##code] = MODEL_##of,
#include "proto/layers.def"
};

static enum sl_err check_fields(const struct model_build *b)
{
    const char *name =
        field_outside(&b->layer->base, layer_kinds[b->node->type].fields);

    return name == NULL ? SL_OK : build_fail(b, "takes no '%s'", name);
}

static enum sl_err check_inputs(const struct model_build *b)
{
    unsigned want = layer_kinds[b->node->type].inputs, got = b->node->inputs;

    if (want == ONE && got != 1)
        return build_fail(b, "reads one layer, got %u inputs", got);
    if (want == SEVERAL && got < 2)
        return build_fail(b, "reads at least two layers: name them in "
                             "'inputs'");
    return SL_OK;
}

// Makes of (length, channels) an image of height 1.
static enum sl_err begin_line(struct model_build *b)
{
    struct model_node *n = b->node;
    enum sl_err rc =
        build_want_rank(b, 2, "an input of shape (length, channels)", "");

    if (rc != SL_OK)
        return rc;
    n->type = image_types[n->type];
    n->in = (struct model_shape){3, {1, n->in.dim[0], n->in.dim[1]}};
    n->out = n->in;
    return SL_OK;
}

static void end_line(struct model_build *b)
{
    struct model_shape *out = &b->node->out;

    if (out->rank == 3)
        *out = (struct model_shape){2, {out->dim[1], out->dim[2]}};
}

// Returns true if something at or before the node is trained.
static bool learns(const struct model_build *b)
{
    const struct model *m = b->m;
    const struct model_node *n = b->node;
    bool found = n->column != NULL;

    for (unsigned w = 0; w < MODEL_WEIGHTS; w++)
        found |= n->weight[w] != MODEL_NONE &&
                 m->variables[n->weight[w]].kind == MODEL_TRAINABLE;
    for (uint32_t k = 0; k < n->inputs; k++)
        found |= m->nodes[n->input[k]].learns;
    return found;
}

enum sl_err build_layer(struct model_build *b)
{
    struct model_node *n = b->node;
    const struct layer_kind *kind = &layer_kinds[n->type];
    uint64_t elements;
    enum sl_err rc = check_fields(b);

    if (rc == SL_OK)
        rc = check_inputs(b);
    if (rc != SL_OK)
        return rc;
    n->in = b->m->nodes[n->input[0]].out;
    n->out = n->in;
    build_needs(b, kind->edition);
    n->frozen = b->layer->has_trainable && !b->layer->trainable;
    if (n->frozen)
        build_needs(b, MODEL_EDITION_FROZEN);
    if (n->frozen && b->layer->rows != NULL)
        return build_fail(b, "has rows of a table, which are always trained: "
                             "leave 'trainable' out");
    b->line = image_types[n->type] != 0;
    if (b->line)
        rc = begin_line(b);
    if (rc == SL_OK)
        rc = kind->build(b);
    if (b->line)
        end_line(b);
    n->learns = rc == SL_OK && learns(b);
    if (rc == SL_OK)
        rc = build_mask(b);
    if (rc == SL_OK && shape_product(&elements, &n->out) != SL_OK)
        return build_fail(b, "has an output of more than %llu elements",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    return rc;
}
