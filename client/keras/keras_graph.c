// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_graph.c -- the layers of a file as one list, each after
// those that it reads. A model that is a layer becomes its layers.
#include <stdio.h>
#include <string.h>

#include "client/keras/keras_inner.h"
#include "common/base/map.h"
#include "common/base/mem.h"

static enum sl_err keras_graph_no_memory(struct keras_graph *g)
{
    return sl_no_memory(g->err);
}

bool keras_is_model(const json_t *layer)
{
    const char *name = keras_str(layer, "class_name");

    return name != NULL &&
           (strcmp(name, "Sequential") == 0 || strcmp(name, "Model") == 0 ||
            strcmp(name, "Functional") == 0);
}

static bool is_input(const json_t *layer)
{
    return strcmp(keras_str(layer, "class_name"), "InputLayer") == 0;
}

static const json_t *layers_of(const json_t *model)
{
    const json_t *config = json_object_get(model, "config");

    // Very old files have the list itself there.
    return json_is_array(config) ? config : json_object_get(config, "layers");
}

// ---- nodes

// A job's layers have letters, digits and three signs in their names, and
// "input" is the sample. keras_weights.py does the same.
static char *clean_name(const char *prefix, const char *name)
{
    size_t n = strlen(prefix) + strlen(name) + 2;
    char *out = sl_malloc(n), *p;

    if (out == NULL)
        return NULL;
    snprintf(out, n, "%s%s%s", prefix, name,
             strcmp(name, "input") == 0 ? "_" : "");
    for (p = out + strlen(prefix); *p != '\0'; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') &&
            !(*p >= '0' && *p <= '9') && strchr("_-.", *p) == NULL)
            *p = '_';
    return out;
}

// Adds a node that is called `name` in Keras, and is called as *call says, the
// inputs of which are nodes here.
static enum sl_err add_node(struct keras_graph *g, const char *name,
                            const char *prefix, const char *class_name,
                            const json_t *config, const struct keras_call *call)
{
    struct keras_node *n;

    if (g->count == g->cap) {
        uint32_t cap = g->cap * 2 + 16;
        void *new = sl_realloc_array(g->nodes, cap, sizeof(*g->nodes));

        if (new == NULL)
            return keras_graph_no_memory(g);
        g->nodes = new;
        g->cap = cap;
    }
    n = &g->nodes[g->count];
    *n = (struct keras_node){.name = clean_name(prefix, name),
                             .class_name = class_name,
                             .config = config,
                             .causal = call->causal,
                             .numbered = call->numbered,
                             .number_first = call->number_first,
                             .number = call->number,
                             .inputs = call->inputs,
                             .mask = call->node_mask,
                             .mask_number = call->mask_number,
                             .frozen = g->frozen > 0};
    if (n->name == NULL)
        return keras_graph_no_memory(g);
    memcpy(n->input, call->input, call->inputs * sizeof(*call->input));
    g->masks = g->masks || strcmp(class_name, "Masking") == 0 ||
               json_is_true(json_object_get(config, "mask_zero"));
    g->count++;
    return SL_OK;
}

// ---- layers around a layer

static bool is_wrapper(const json_t *layer, const char *class_name)
{
    const char *name = keras_class(layer);

    return name != NULL && strcmp(name, class_name) == 0;
}

// Returns the layer within a Bidirectional or TimeDistributed.
static const json_t *wrapped(const json_t *layer, const char *key)
{
    return json_object_get(keras_config(layer), key);
}

static bool wraps(const json_t *layer)
{
    return is_wrapper(layer, "Bidirectional") ||
           is_wrapper(layer, "TimeDistributed");
}

// Returns true if a Bidirectional (`two`), or a TimeDistributed, may be around
// `inner`: one that goes step by step, or a Dense, which takes each step by
// itself anyway.
static bool known_within(const json_t *inner, bool two)
{
    const char *class_name = inner != NULL ? keras_class(inner) : NULL;

    return class_name != NULL && keras_own(inner) &&
           keras_config(inner) != NULL &&
           (two ? keras_recurrent(class_name)
                : strcmp(class_name, "Dense") == 0);
}

// Checks that Sluice knows the layers inside a wrapper layer.
static enum sl_err check_wrapped(struct keras_graph *g, const json_t *layer)
{
    const json_t *inner = wrapped(layer, "layer");
    const json_t *second = wrapped(layer, "backward_layer");
    bool two = is_wrapper(layer, "Bidirectional");
    bool known = known_within(inner, two);
    const char *class_name;

    if (known && two && second != NULL && !json_is_null(second)) {
        inner = second;
        known = known_within(inner, true);
    }
    class_name = inner != NULL ? keras_class(inner) : NULL;
    return known ? SL_OK
                 : keras_refuse(g, keras_name(layer), keras_class(layer),
                                "is around a %.60s; known is %s",
                                class_name != NULL ? class_name : "thing",
                                two ? "LSTM, GRU or SimpleRNN" : "Dense");
}

// Returns the class of the layer that joins both halves; NULL: there is none.
static const char *merge_class(const json_t *layer)
{
    static const char *const modes[][2] = {{"concat", "Concatenate"},
                                           {"sum", "Add"},
                                           {"ave", "Average"},
                                           {"mul", "Multiply"}};
    const char *mode = keras_str(keras_config(layer), "merge_mode");

    for (size_t i = 0; mode != NULL && i < SL_COUNT(modes); i++)
        if (strcmp(mode, modes[i][0]) == 0)
            return modes[i][1];
    return NULL;
}

// Adds both halves as layers "name.forward" and "name.backward", and what joins
// them under the layer's own name.
static enum sl_err add_bidirectional(struct keras_graph *g, const json_t *layer,
                                     const char *prefix,
                                     const struct keras_call *call)
{
    static const char *const halves[] = {"forward", "backward"};
    const json_t *first = wrapped(layer, "layer");
    const json_t *second = wrapped(layer, "backward_layer");
    const char *merge = merge_class(layer);
    struct keras_call both = {.inputs = 2};
    char *inner = clean_name(prefix, keras_name(layer)), *dotted = NULL;
    enum sl_err rc = SL_OK;

    if (merge == NULL)
        rc = keras_refuse(g, keras_name(layer), "Bidirectional",
                          "has a merge_mode that is none of concat, sum, ave "
                          "and mul");
    if (inner != NULL)
        dotted = sl_malloc(strlen(inner) + 2);
    if (rc == SL_OK && dotted == NULL)
        rc = keras_graph_no_memory(g);
    if (rc == SL_OK)
        snprintf(dotted, strlen(inner) + 2, "%s.", inner);
    for (unsigned k = 0; rc == SL_OK && k < 2; k++) {
        const json_t *half = k == 1 && json_is_object(second) ? second : first;

        rc = add_node(g, halves[k], dotted, keras_class(half),
                      keras_config(half), call);
        both.input[k] = g->count;
        if (rc == SL_OK) {
            g->nodes[g->count - 1].second = k == 1;
            g->nodes[g->count - 1].turned = k == 1 && half == first;
        }
    }
    if (rc == SL_OK)
        rc = add_node(g, keras_name(layer), prefix, merge, NULL, &both);
    sl_free(inner);
    sl_free(dotted);
    return rc;
}

// Adds the node, or the nodes, of a layer that is no model. The last one has
// its output.
static enum sl_err add_layer(struct keras_graph *g, const json_t *layer,
                             const char *prefix, const struct keras_call *call)
{
    // What is around a layer freezes it, and says so of itself alone.
    bool frozen =
        wraps(layer) &&
        json_is_false(json_object_get(keras_config(layer), "trainable"));
    enum sl_err rc;

    g->frozen += frozen;
    if (is_wrapper(layer, "Bidirectional"))
        rc = add_bidirectional(g, layer, prefix, call);
    else if (is_wrapper(layer, "TimeDistributed"))
        rc = add_node(g, keras_name(layer), prefix, "Dense",
                      keras_config(wrapped(layer, "layer")), call);
    else
        rc = add_node(g, keras_name(layer), prefix, keras_class(layer),
                      keras_config(layer), call);
    g->frozen -= frozen;
    return rc;
}

void keras_graph_release(struct keras_graph *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        sl_free(g->nodes[i].name);
    sl_free(g->nodes);
    *g = (struct keras_graph){.nodes = NULL};
}

// Checks that a layer has a class and a name, and is one of Keras' own.
static enum sl_err check_layer(struct keras_graph *g, const json_t *layer)
{
    const char *class_name = keras_class(layer);

    if (class_name == NULL || keras_name(layer) == NULL ||
        keras_name(layer)[0] == 0)
        return sl_fail(g->err, SL_EINVAL,
                       "a layer without a class_name or a name");
    if (++g->called > MODEL_LAYERS_MAX)
        return sl_fail(g->err, SL_ENOTSUP, "more than %u layers",
                       MODEL_LAYERS_MAX);
    if (strcmp(class_name, "Lambda") == 0)
        return keras_refuse(g, keras_name(layer), class_name,
                            "holds code, which a job never does");
    if (!keras_own(layer))
        return keras_refuse(g, keras_name(layer), class_name,
                            "is no layer of Keras' own: a program of yours "
                            "can train it (python/README.md)");
    if (keras_is_model(layer) && !json_is_array(layers_of(layer)))
        return keras_refuse(g, keras_name(layer), class_name,
                            "says no layers: a subclassed model is code");
    if (wraps(layer))
        return check_wrapped(g, layer);
    if (!keras_is_model(layer) && !is_input(layer) &&
        !keras_augments(class_name) && !keras_offered(class_name))
        return keras_refuse(g, keras_name(layer), class_name,
                            "is of a class that is not known: a program of "
                            "yours can train it (docs/bring-your-own.md)");
    if (!keras_is_model(layer) && keras_config(layer) == NULL)
        return sl_fail(g->err, SL_EINVAL, "layer '%.100s' has no config",
                       keras_name(layer));
    return SL_OK;
}

static enum sl_err add_model(struct keras_graph *g, const json_t *model,
                             const char *prefix, uint32_t from, uint32_t *to,
                             unsigned depth);

// A model's layers take its place: "inner.dense".
static enum sl_err add_nested(struct keras_graph *g, const json_t *model,
                              const char *prefix, uint32_t from, uint32_t *to,
                              unsigned depth)
{
    char *name, *inner;
    enum sl_err rc;

    if (depth >= KERAS_NESTED_MAX)
        return sl_fail(g->err, SL_ENOTSUP, "models within models, %u deep",
                       depth);
    name = clean_name(prefix, keras_name(model));
    inner = name != NULL ? sl_malloc(strlen(name) + 2) : NULL;
    rc = inner != NULL ? SL_OK : keras_graph_no_memory(g);
    if (rc == SL_OK) {
        snprintf(inner, strlen(name) + 2, "%s.", name);
        rc = add_model(g, model, inner, from, to, depth + 1);
    }
    sl_free(name);
    sl_free(inner);
    return rc;
}

// ---- Sequential

static enum sl_err add_sequential(struct keras_graph *g, const json_t *model,
                                  const char *prefix, uint32_t from,
                                  uint32_t *to, unsigned depth)
{
    const json_t *layers = layers_of(model);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);

        rc = check_layer(g, layer);
        if (rc != SL_OK || is_input(layer))
            continue;
        if (keras_is_model(layer)) {
            rc = add_nested(g, layer, prefix, from, &from, depth);
            continue;
        }
        rc = add_layer(g, layer, prefix,
                       &(struct keras_call){.inputs = 1, .input = {from}});
        if (rc == SL_OK)
            from = g->count;
    }
    if (rc == SL_OK)
        *to = from;
    return rc;
}

// ---- Functional

struct functional {
    const json_t *layers;
    struct strmap numbers;    // name -> number + 1
    struct keras_call *calls; // of each; owned, as what follows
    uint8_t *seen;            // NEW, OPEN, PLACED, LEFT_OUT
    uint32_t *node;           // node of each placed layer
    uint32_t *masks;          // what each makes as a mask (keras_masks)
    uint32_t *path, *next;    // of the walk: layers, and their next inputs
    uint32_t inputs;          // InputLayers
};

enum { NEW, OPEN, PLACED, LEFT_OUT }; // the last: makes masks

// All that layer i reads is placed.
static enum sl_err keras_graph_place_layer(struct keras_graph *g,
                                           struct functional *f, uint32_t i,
                                           const char *prefix, uint32_t from,
                                           unsigned depth)
{
    const json_t *layer = json_array_get(f->layers, i);
    struct keras_call call = f->calls[i];
    enum sl_err rc;

    f->seen[i] = PLACED;
    f->node[i] = from;
    if (is_input(layer))
        return SL_OK;
    if (keras_is_model(layer))
        return add_nested(g, layer, prefix, f->node[call.input[0]], &f->node[i],
                          depth);
    for (uint32_t k = 0; k < call.inputs; k++)
        call.input[k] = f->node[call.input[k]];
    // A mask of steps that a job's layers hand on comes from before the layer.
    if (call.mask != 0 && f->seen[call.mask - 1] != PLACED)
        return keras_refuse(
            g, keras_name(layer), keras_class(layer),
            "has a mask of '%.100s', which it does not read",
            keras_name(json_array_get(f->layers, call.mask - 1)));
    // Models in models have masks at their inputs that nobody wrote.
    if (!g->keras2 && depth == 0)
        call.node_mask = call.mask == 0 ? KERAS_UNMASKED
                                        : KERAS_MASKED + f->node[call.mask - 1];
    rc = add_layer(g, layer, prefix, &call);
    if (rc != SL_OK)
        return rc;
    f->node[i] = g->count;
    return SL_OK;
}

// Places layer i, and before it what it reads: depth first, since the file may
// have them in any order.
static enum sl_err keras_graph_walk_inputs(struct keras_graph *g,
                                           struct functional *f, uint32_t i,
                                           const char *prefix, uint32_t from,
                                           unsigned depth)
{
    uint32_t len = 0;
    enum sl_err rc = SL_OK;

    if (f->seen[i] == NEW)
        f->path[len++] = i;
    f->next[0] = 0;
    while (rc == SL_OK && len > 0) {
        uint32_t at = f->path[len - 1], input;
        const struct keras_call *call = &f->calls[at];

        f->seen[at] = OPEN;
        if (f->next[len - 1] == call->inputs) {
            rc = keras_graph_place_layer(g, f, at, prefix, from, depth);
            len--;
            continue;
        }
        input = call->input[f->next[len - 1]++];
        if (f->seen[input] == LEFT_OUT)
            return keras_refuse(
                g, keras_name(json_array_get(f->layers, at)),
                keras_class(json_array_get(f->layers, at)),
                "reads '%.100s', which makes a mask: a job has no such layer",
                keras_name(json_array_get(f->layers, input)));
        if (f->seen[input] == OPEN)
            return sl_fail(g->err, SL_EINVAL,
                           "the layers are a circle: '%.100s' reads '%.100s', "
                           "and that what comes of it",
                           keras_name(json_array_get(f->layers, at)),
                           keras_name(json_array_get(f->layers, input)));
        if (f->seen[input] == NEW) {
            f->next[len] = 0;
            f->path[len++] = input;
        }
    }
    return rc;
}

// `ends` is one triple, a list of triples, or an object of them.
static enum sl_err keras_graph_find_output(struct keras_graph *g,
                                           struct functional *f,
                                           const json_t *ends, uint32_t *to)
{
    json_int_t tensor;
    size_t count = json_array_size(ends);
    const char *name = keras_tensor(ends, &tensor);
    uint32_t number;

    if (json_is_object(ends)) {
        count = json_object_size(ends);
        name = keras_tensor(
            json_object_iter_value(json_object_iter((json_t *)(uintptr_t)ends)),
            &tensor);
    } else if (name != NULL) {
        count = 1;
    } else {
        name = keras_tensor(json_array_get(ends, 0), &tensor);
    }
    if (count > 1)
        return sl_fail(g->err, SL_ENOTSUP,
                       "the model has %zu outputs; a job's loss sees one",
                       count);
    number =
        name != NULL ? (uint32_t)(uintptr_t)strmap_get(&f->numbers, name) : 0;
    if (number == 0)
        return sl_fail(g->err, SL_EINVAL,
                       "output_layers does not say which layer it is");
    if (f->seen[number - 1] == LEFT_OUT)
        return keras_refuse(g, name,
                            keras_class(json_array_get(f->layers, number - 1)),
                            "makes a mask, and is the model's output: a job "
                            "has no such layer");
    *to = f->node[number - 1];
    return SL_OK;
}

static enum sl_err read_functional(struct keras_graph *g, struct functional *f)
{
    size_t count = json_array_size(f->layers);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        const json_t *layer = json_array_get(f->layers, i);

        if (!keras_mask_op(layer) || keras_name(layer) == NULL)
            rc = check_layer(g, layer);
        if (rc == SL_OK && strmap_get(&f->numbers, keras_name(layer)) != NULL)
            return sl_fail(g->err, SL_EINVAL, "two layers are called '%.100s'",
                           keras_name(layer));
        if (rc == SL_OK && strmap_put(&f->numbers, keras_name(layer),
                                      (void *)(i + 1)) != SL_OK)
            rc = keras_graph_no_memory(g);
    }
    if (rc == SL_OK)
        keras_masks(f->masks, f->layers, &f->numbers);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++) {
        const json_t *layer = json_array_get(f->layers, i);

        if (f->masks[i] != 0) {
            f->seen[i] = LEFT_OUT;
            continue;
        }
        if (keras_mask_op(layer))
            rc = check_layer(g, layer);
        if (rc != SL_OK)
            return rc;
        if (!is_input(layer))
            rc = keras_call(&f->calls[i], g, &f->numbers, layer);
        else if (++f->inputs > 1)
            rc = keras_refuse(g, keras_name(layer), "InputLayer",
                              "is a second input; a job's sample is one "
                              "tensor");
        if (rc == SL_OK)
            rc = keras_masked(&f->calls[i], g, f->masks, f->layers, &f->numbers,
                              layer);
        if (rc == SL_OK && keras_is_model(layer) && f->calls[i].inputs > 1)
            rc = keras_refuse(
                g, keras_name(layer), keras_str(layer, "class_name"),
                "has %u inputs; a model in a job has one", f->calls[i].inputs);
    }
    return rc;
}

static enum sl_err add_functional(struct keras_graph *g, const json_t *model,
                                  const char *prefix, uint32_t from,
                                  uint32_t *to, unsigned depth)
{
    struct functional f = {.layers = layers_of(model)};
    size_t count = json_array_size(f.layers);
    enum sl_err rc = SL_OK;

    strmap_init(&f.numbers);
    f.calls = sl_calloc(count + 1, sizeof(*f.calls));
    f.seen = sl_calloc(count + 1, sizeof(*f.seen));
    f.node = sl_calloc(count + 1, sizeof(*f.node));
    f.masks = sl_calloc(count + 1, sizeof(*f.masks));
    f.path = sl_calloc(count + 1, sizeof(*f.path));
    f.next = sl_calloc(count + 1, sizeof(*f.next));
    if (f.calls == NULL || f.seen == NULL || f.node == NULL ||
        f.masks == NULL || f.path == NULL || f.next == NULL)
        rc = keras_graph_no_memory(g);
    if (rc == SL_OK)
        rc = read_functional(g, &f);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++)
        rc = keras_graph_walk_inputs(g, &f, i, prefix, from, depth);
    if (rc == SL_OK)
        rc = keras_graph_find_output(
            g, &f, json_object_get(keras_config(model), "output_layers"), to);
    strmap_release(&f.numbers);
    sl_free(f.calls);
    sl_free(f.seen);
    sl_free(f.node);
    sl_free(f.masks);
    sl_free(f.path);
    sl_free(f.next);
    return rc;
}

// ---- the whole

static enum sl_err add_model(struct keras_graph *g, const json_t *model,
                             const char *prefix, uint32_t from, uint32_t *to,
                             unsigned depth)
{
    const json_t *trainable = json_object_get(keras_config(model), "trainable");

    enum sl_err rc;

    g->frozen += json_is_false(trainable);
    rc = strcmp(keras_str(model, "class_name"), "Sequential") == 0
             ? add_sequential(g, model, prefix, from, to, depth)
             : add_functional(g, model, prefix, from, to, depth);
    g->frozen -= json_is_false(trainable);
    return rc;
}

// The shape that a model or layer says of its input, or NULL.
static const json_t *keras_layer_input_shape(const json_t *layer)
{
    const json_t *config = keras_config(layer);
    static const char *const keys[] = {"batch_shape", "batch_input_shape",
                                       "build_input_shape"};
    const json_t *shape = NULL;

    for (size_t i = 0; shape == NULL && i < SL_COUNT(keys); i++)
        shape = json_object_get(config, keys[i]);
    if (shape == NULL || json_is_null(shape))
        shape = json_object_get(json_object_get(layer, "build_config"),
                                "input_shape");
    shape = keras_plain(shape);
    return json_is_array(shape) ? shape : NULL;
}

// Of the InputLayer; else of what comes first, or of the first in that.
static const json_t *find_shape(const json_t *model)
{
    const json_t *at = model, *shape = NULL;

    for (unsigned i = 0; shape == NULL && i <= KERAS_NESTED_MAX; i++) {
        const json_t *layers = layers_of(at), *layer;
        size_t k;

        json_array_foreach(layers, k, layer)
        {
            const char *class_name = keras_str(layer, "class_name");

            if (shape == NULL && class_name != NULL &&
                strcmp(class_name, "InputLayer") == 0)
                shape = keras_layer_input_shape(layer);
        }
        if (shape == NULL)
            shape = keras_layer_input_shape(at);
        at = json_array_get(layers, 0);
    }
    return shape;
}

enum sl_err keras_graph(struct keras_graph *g, const json_t *model)
{
    enum sl_err rc;

    if (keras_str(model, "class_name") == NULL)
        return sl_fail(g->err, SL_EINVAL,
                       "no model of Keras: write it with model.to_json()");
    if (!keras_is_model(model) || !json_is_array(layers_of(model)))
        return sl_fail(g->err, SL_ENOTSUP,
                       "a %.60s is code; what can be imported is Sequential "
                       "or Functional",
                       keras_str(model, "class_name"));
    if (!keras_own(model))
        return sl_fail(g->err, SL_ENOTSUP, "the model is a custom object");
    g->keras2 = json_object_get(model, "keras_version") != NULL ||
                json_object_get(model, "module") == NULL;
    g->shape = find_shape(model);
    rc = add_model(g, model, "", 0, &g->output, 0);
    if (rc == SL_OK && g->shape == NULL)
        return sl_fail(g->err, SL_EINVAL,
                       "the file does not say what shape a sample has: build "
                       "the model, or begin it with an Input");
    return rc;
}
