// SPDX-License-Identifier: Apache-2.0
// proto/model.c -- the graph of a model: names, edges and order.
#include "proto/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/suggest.h"
#include "proto/field.h"
#include "proto/model_build.h"

static enum sl_err model_no_memory(const struct model_build *b)
{
    return sl_fail(b->err, SL_ENOMEM, "out of memory for the model");
}

// ---- names

// A node's number as the value of a name; 0 is "none".
static uint32_t model_node_number(const struct model_build *b, const char *name)
{
    return (uint32_t)(uintptr_t)strmap_get(&b->names, name);
}

static enum sl_err set_name(struct model_build *b, uint32_t node,
                            const char *name)
{
    b->m->nodes[node].name = sl_strdup(name);
    if (b->m->nodes[node].name == NULL ||
        strmap_put(&b->names, name, (void *)(uintptr_t)node) != SL_OK)
        return model_no_memory(b);
    return SL_OK;
}

// Names that the user gave come first, so that the others avoid them.
static enum sl_err given_name(struct model_build *b, uint32_t node)
{
    const char *name = b->spec->layers[node - 1]->name;

    if (!model_name_ok(name, "_-.", MODEL_NAME_BYTES))
        return sl_fail(b->err, SL_EINVAL,
                       "model.layers[%u].name: wants 1 to %d letters, digits "
                       "or any of _-.",
                       node - 1, MODEL_NAME_BYTES);
    if (strcmp(name, "input") == 0)
        return sl_fail(b->err, SL_EINVAL,
                       "model.layers[%u].name: 'input' means the sample; "
                       "choose another name",
                       node - 1);
    if (model_node_number(b, name) != 0)
        return sl_fail(b->err, SL_EINVAL,
                       "model.layers[%u].name: '%s' is the name of layers[%u] "
                       "too",
                       node - 1, name, model_node_number(b, name) - 1);
    return set_name(b, node, name);
}

// As Keras: conv2d, conv2d_1, conv2d_2 ...
static enum sl_err default_name(struct model_build *b, uint32_t node)
{
    enum model_layer type = b->m->nodes[node].type;
    char name[64];

    do {
        uint32_t n = b->counters[type]++;

        if (n == 0)
            snprintf(name, sizeof(name), "%s", model_layer_name(type));
        else
            snprintf(name, sizeof(name), "%s_%u", model_layer_name(type), n);
    } while (model_node_number(b, name) != 0);
    return set_name(b, node, name);
}

static enum sl_err model_find_type(struct model_build *b, uint32_t node)
{
    const char *word = b->spec->layers[node - 1]->type;
    char where[64];

    snprintf(where, sizeof(where), "model.layers[%u]", node - 1);
    if (word == NULL)
        return sl_fail(b->err, SL_EINVAL, "%s.type is missing", where);
    b->m->nodes[node].type = model_layer_by_name(word);
    if (b->m->nodes[node].type == MODEL_LAYER_COUNT)
        return model_unknown_layer(where, word, b->err);
    return SL_OK;
}

static enum sl_err name_all(struct model_build *b)
{
    uint32_t count = b->m->nodes_count;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 1; i < count && rc == SL_OK; i++) {
        rc = model_find_type(b, i);
        if (rc == SL_OK && b->spec->layers[i - 1]->name != NULL)
            rc = given_name(b, i);
    }
    for (uint32_t i = 1; i < count && rc == SL_OK; i++)
        if (b->spec->layers[i - 1]->name == NULL)
            rc = default_name(b, i);
    return rc;
}

// ---- edges

static enum sl_err unknown_input(const struct model_build *b, const char *name)
{
    const char **names = sl_malloc_array(b->m->nodes_count, sizeof(*names));
    const char *near = NULL;

    if (names != NULL) {
        for (uint32_t i = 0; i < b->m->nodes_count; i++)
            names[i] = b->m->nodes[i].name;
        near = sl_suggest(name, names, b->m->nodes_count);
        sl_free(names);
    }
    return build_fail(b, "reads '%.60s', which is no layer%s%s%s", name,
                      near != NULL ? "; did you mean '" : "",
                      near != NULL ? near : "", near != NULL ? "'?" : "");
}

static enum sl_err connect(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;

    if (l->n_inputs > MODEL_INPUTS_MAX)
        return build_fail(b, "reads %zu layers; at most %u", l->n_inputs,
                          MODEL_INPUTS_MAX);
    if (l->n_inputs > MODEL_INPUTS_OLD)
        build_needs(b, MODEL_EDITION_INPUTS);
    if (l->rows != NULL && l->n_inputs == 0)
        return SL_OK; // it reads a column of ids
    n->inputs = l->n_inputs > 0 ? (uint32_t)l->n_inputs : 1;
    n->input[0] = b->at - 1; // the sequential short form
    for (size_t i = 0; i < l->n_inputs; i++) {
        const char *name = l->inputs[i];

        n->input[i] = model_node_number(b, name);
        if (n->input[i] == 0 && strcmp(name, "input") != 0)
            return unknown_input(b, name);
        if (n->input[i] == b->at)
            return build_fail(b, "reads itself");
        if (n->input[i] > b->at)
            return build_fail(b,
                              "reads '%s', which comes after it; list layers "
                              "after those that they read (a cycle cannot be)",
                              name);
    }
    for (uint32_t i = 0; i < n->inputs; i++)
        b->m->nodes[n->input[i]].users++;
    return SL_OK;
}

// Makes the layer at hand, which shares the variables of another one, that
// layer with its own name and inputs.
static enum sl_err build_shared(struct model_build *b)
{
    const Sluice__V1__LayerSpec *own = b->layer, *first;
    uint32_t from = model_node_number(b, own->shares);
    const char *key = field_outside(&own->base, " type name inputs shares ");

    if (from == 0 || from >= b->at)
        return build_fail(b, "shares '%.60s', which is no layer before it",
                          own->shares);
    first = b->spec->layers[from - 1];
    if (strcmp(own->type, first->type) != 0)
        return build_fail(b, "shares '%s', which is of type %s", own->shares,
                          first->type);
    if (key != NULL)
        return build_fail(b,
                          "takes no '%s': it shares '%s', and has all keys of "
                          "that",
                          key, own->shares);
    if (first->shares != NULL)
        return build_fail(b, "shares '%s', which shares '%s' itself: name that",
                          own->shares, first->shares);
    if (first->rows != NULL)
        return build_fail(b,
                          "shares '%s', which has rows of a table: those "
                          "belong to one layer",
                          own->shares);
    build_needs(b, MODEL_EDITION_SHARES);
    b->shares = from;
    b->called = *first;
    b->called.name = own->name;
    b->called.inputs = own->inputs;
    b->called.n_inputs = own->n_inputs;
    b->layer = &b->called;
    return SL_OK;
}

static enum sl_err build_nodes(struct model_build *b)
{
    for (b->at = 1; b->at < b->m->nodes_count; b->at++) {
        enum sl_err rc;

        b->layer = b->spec->layers[b->at - 1];
        b->node = &b->m->nodes[b->at];
        for (unsigned w = 0; w < MODEL_WEIGHTS; w++)
            b->node->weight[w] = MODEL_NONE;
        b->shares = 0;
        rc = b->layer->shares != NULL ? build_shared(b) : SL_OK;
        if (rc == SL_OK)
            rc = connect(b);
        if (rc == SL_OK)
            rc = build_layer(b);
        if (rc != SL_OK)
            return rc;
    }
    return build_ids(b);
}

// Sets the outputs to those of several losses.
static enum sl_err model_find_several(struct model_build *b)
{
    const Sluice__V1__ModelSpec *spec = b->spec;
    struct model *m = b->m;

    if (spec->n_outputs > MODEL_OUTPUTS_MAX)
        return sl_fail(b->err, SL_EINVAL, "losses: %zu outputs; at most %u",
                       spec->n_outputs, MODEL_OUTPUTS_MAX);
    for (size_t i = 0; i < spec->n_outputs; i++) {
        uint32_t node = model_node_number(b, spec->outputs[i]);

        if (node == 0)
            return sl_fail(b->err, SL_EINVAL,
                           "losses[%zu].output: there is no layer '%.60s'", i,
                           spec->outputs[i]);
        for (size_t k = 0; k < i; k++)
            if (m->output[k] == node)
                return sl_fail(
                    b->err, SL_EINVAL,
                    "losses[%zu].output: '%s' is that of losses[%zu] "
                    "too; an output has one loss",
                    i, m->nodes[node].name, k);
        m->output[i] = node;
    }
    m->outputs = (uint32_t)spec->n_outputs;
    build_needs(b, MODEL_EDITION_OUTPUTS);
    return SL_OK;
}

static enum sl_err model_find_one(struct model_build *b)
{
    struct model *m = b->m;

    m->outputs = 1;
    m->output[0] = m->nodes_count - 1;
    if (b->spec->output == NULL)
        return SL_OK;
    m->output[0] = model_node_number(b, b->spec->output);
    return m->output[0] != 0
               ? SL_OK
               : sl_fail(b->err, SL_EINVAL,
                         "model.output: there is no layer '%.60s'",
                         b->spec->output);
}

static enum sl_err model_find_outputs(struct model_build *b)
{
    struct model *m = b->m;
    enum sl_err rc =
        b->spec->n_outputs > 0 ? model_find_several(b) : model_find_one(b);

    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < m->outputs; i++)
        m->nodes[m->output[i]].users++;
    for (b->at = 1; b->at < m->nodes_count; b->at++) {
        b->node = &m->nodes[b->at];
        b->layer = b->spec->layers[b->at - 1];
        if (b->node->users == 0)
            return build_fail(b,
                              "leads nowhere: no layer reads it, and it is %s",
                              m->outputs > 1 ? "no output" : "not the output");
    }
    return SL_OK;
}

// ---- the whole

static enum sl_err model_set_input(struct model_build *b)
{
    const Sluice__V1__ModelSpec *spec = b->spec;
    struct model_node *n = &b->m->nodes[0];
    uint64_t elements;

    if (spec->n_input_shape == 0 || spec->n_input_shape > 4)
        return sl_fail(b->err, SL_EINVAL,
                       "model.input_shape: wants the 1 to 4 axes of one "
                       "sample, e.g. [28, 28, 1], got %zu",
                       spec->n_input_shape);
    n->type = MODEL_INPUT;
    n->mask = n->mask_out = MODEL_NONE;
    n->out.rank = (uint32_t)spec->n_input_shape;
    for (uint32_t i = 0; i < n->out.rank; i++)
        n->out.dim[i] = spec->input_shape[i];
    if (shape_product(&elements, &n->out) != SL_OK)
        return sl_fail(b->err, SL_EINVAL,
                       "model.input_shape: each axis must be at least 1, and "
                       "all together at most %llu elements",
                       (unsigned long long)MODEL_VARIABLE_MAX);
    n->in = n->out;
    for (unsigned w = 0; w < MODEL_WEIGHTS; w++)
        n->weight[w] = MODEL_NONE;
    n->name = sl_strdup("input");
    return n->name != NULL ? SL_OK : model_no_memory(b);
}

static enum sl_err build_graph(struct model_build *b)
{
    const Sluice__V1__ModelSpec *spec = b->spec;
    enum sl_err rc;

    if (spec->n_variables > 0)
        return sl_fail(b->err, SL_EINVAL,
                       "model.variables: only an external model (type: "
                       "external) lists variables");
    if (spec->n_layers == 0 || spec->n_layers > MODEL_LAYERS_MAX)
        return sl_fail(b->err, SL_EINVAL,
                       "model.layers: wants 1 to %u layers, got %zu",
                       MODEL_LAYERS_MAX, spec->n_layers);
    b->m->nodes = sl_calloc(spec->n_layers + 1, sizeof(*b->m->nodes));
    if (b->m->nodes == NULL)
        return model_no_memory(b);
    b->m->nodes_count = (uint32_t)spec->n_layers + 1;
    rc = model_set_input(b);
    if (rc == SL_OK)
        rc = name_all(b);
    if (rc == SL_OK)
        rc = build_nodes(b);
    if (rc == SL_OK)
        rc = model_find_outputs(b);
    if (rc == SL_OK && b->m->trainable == 0)
        return sl_fail(
            b->err, SL_EINVAL,
            "model.layers: nothing to train: no layer has weights, or "
            "all have trainable: false");
    return rc;
}

static enum sl_err build_model(struct model_build *b)
{
    const Sluice__V1__ModelSpec *spec = b->spec;
    const char *type = spec->type != NULL ? spec->type : "graph";

    if (strcmp(type, "graph") == 0)
        return build_graph(b);
    if (strcmp(type, "external") != 0)
        return sl_fail(b->err, SL_EINVAL,
                       "model.type: wants 'graph' or 'external', got '%.60s'",
                       type);
    if (spec->n_layers > 0 || spec->output != NULL || spec->n_outputs > 0)
        return sl_fail(b->err, SL_EINVAL,
                       "model: an external model lists variables; it has no "
                       "layers and no output");
    b->m->external = true;
    return build_external(b);
}

enum sl_err model_make(struct model **out, const Sluice__V1__ModelSpec *spec,
                       struct sl_error *err)
{
    struct model_build b = {.spec = spec, .err = err};
    enum sl_err rc;

    b.m = sl_calloc(1, sizeof(*b.m));
    if (b.m == NULL)
        return model_no_memory(&b);
    strmap_init(&b.names);
    rc = build_model(&b);
    strmap_release(&b.names);
    if (rc != SL_OK) {
        model_free(b.m);
        return rc;
    }
    *out = b.m;
    return SL_OK;
}

void model_free(struct model *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->nodes_count; i++) {
        sl_free((char *)m->nodes[i].name);
        sl_free((char *)m->nodes[i].column);
        sl_free(m->nodes[i].given);
    }
    for (uint32_t i = 0; i < m->variables_count; i++)
        sl_free((char *)m->variables[i].name);
    sl_free(m->nodes);
    sl_free(m->variables);
    sl_free(m);
}
