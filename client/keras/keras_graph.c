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

// ---- nodes

#define GRAPH_NAME (MODEL_NAME_BYTES + 2) // a name, a dot and a 0

static enum sl_err refuse_name(struct keras_graph *g, const char *prefix,
                               const char *name)
{
    return sl_fail(g->err, SL_ENOTSUP,
                   "layer '%.100s%.100s' has a name of more than %d bytes",
                   prefix, name, MODEL_NAME_BYTES);
}

// Writes the name in the job. A job's layers have letters, digits and three
// signs in their names, and "input" is the sample. keras_weights.py does the
// same. Calls of a layer after the first have a number, `suffix`, behind it.
static enum sl_err clean_name(char out[GRAPH_NAME], struct keras_graph *g,
                              const char *prefix, const char *name,
                              uint32_t suffix)
{
    char again[16] = "", *p;

    if (suffix > 0)
        snprintf(again, sizeof(again), "-%u", suffix);
    if (snprintf(out, GRAPH_NAME, "%s%s%s%s", prefix, name,
                 strcmp(name, "input") == 0 ? "_" : "",
                 again) > MODEL_NAME_BYTES)
        return refuse_name(g, prefix, name);
    for (p = out + strlen(prefix); *p != '\0'; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') &&
            !(*p >= '0' && *p <= '9') && strchr("_-.", *p) == NULL)
            *p = '_';
    return SL_OK;
}

// Writes the prefix of the names of what is inside `layer`: "inner.", or
// "inner-2." of a call with the number 2.
static enum sl_err inner_prefix(char out[GRAPH_NAME], struct keras_graph *g,
                                const char *prefix, const json_t *layer,
                                uint32_t suffix)
{
    enum sl_err rc = clean_name(out, g, prefix, keras_name(layer), suffix);

    if (rc == SL_OK)
        memcpy(out + strlen(out), ".", 2);
    return rc;
}

// Adds a node that is called `name` in Keras, and is called as *call says, the
// inputs of which are nodes here.
static enum sl_err add_node(struct keras_graph *g, const char *name,
                            const char *prefix, const char *class_name,
                            const json_t *config, const struct keras_call *call)
{
    char text[GRAPH_NAME];
    struct keras_node *n;
    enum sl_err rc = clean_name(text, g, prefix, name, call->suffix);

    if (rc != SL_OK)
        return rc;
    if (g->count == g->cap) {
        uint32_t cap = g->cap * 2 + 16;
        void *new = sl_realloc_array(g->nodes, cap, sizeof(*g->nodes));

        if (new == NULL)
            return keras_graph_no_memory(g);
        g->nodes = new;
        g->cap = cap;
    }
    n = &g->nodes[g->count];
    *n = (struct keras_node){.name = sl_strdup(text),
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
    struct keras_call both = {.inputs = 2, .suffix = call->suffix}, one = *call;
    char inner[GRAPH_NAME];
    enum sl_err rc;

    if (merge == NULL)
        return keras_refuse(g, keras_name(layer), "Bidirectional",
                            "has a merge_mode that is none of concat, sum, ave "
                            "and mul");
    rc = inner_prefix(inner, g, prefix, layer, call->suffix);
    one.suffix = 0; // the prefix says it
    for (unsigned k = 0; rc == SL_OK && k < 2; k++) {
        const json_t *half = k == 1 && json_is_object(second) ? second : first;

        rc = add_node(g, halves[k], inner, keras_class(half),
                      keras_config(half), &one);
        both.input[k] = g->count;
        if (rc == SL_OK) {
            g->nodes[g->count - 1].second = k == 1;
            g->nodes[g->count - 1].turned = k == 1 && half == first;
        }
    }
    if (rc == SL_OK)
        rc = add_node(g, keras_name(layer), prefix, merge, NULL, &both);
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
    json_decref(g->made);
    json_decref(g->outputs);
    *g = (struct keras_graph){.nodes = NULL};
}

// Counts more calls of layers, all of which are read one by one.
static enum sl_err count_calls(struct keras_graph *g, size_t more)
{
    g->called += (uint32_t)more;
    return g->called <= MODEL_LAYERS_MAX
               ? SL_OK
               : sl_fail(g->err, SL_ENOTSUP,
                         "more than %u layers, or calls of them",
                         MODEL_LAYERS_MAX);
}

// Returns why a job has no layer of this class of Keras' own.
static const char *why_none(const char *class_name)
{
    static const char *const classes[][2] = {
        {"StringLookup", "looks up text, which no data of a job has: write the "
                         "numbers that it gives into the data"},
        {"TextVectorization", "splits text, which no data of a job has: write "
                              "the numbers that it gives into the data"},
        {"Hashing", "hashes numbers as decimal text, which no kernel does: "
                    "write the numbers that it gives into the data"},
        {"HashedCrossing", "hashes pairs as text, which no kernel does: write "
                           "the numbers that it gives into the data"},
    };

    for (size_t i = 0; i < SL_COUNT(classes); i++)
        if (strcmp(class_name, classes[i][0]) == 0)
            return classes[i][1];
    return "is of a class that is not known: a program of yours can train it "
           "(docs/bring-your-own.md)";
}

// Checks that a layer has a class and a name, and is one of Keras' own.
static enum sl_err check_layer(struct keras_graph *g, const json_t *layer)
{
    const char *class_name = keras_class(layer);

    if (class_name == NULL || keras_name(layer) == NULL ||
        keras_name(layer)[0] == 0)
        return sl_fail(g->err, SL_EINVAL,
                       "a layer without a class_name or a name");
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
        return keras_refuse(g, keras_name(layer), class_name, "%s",
                            why_none(class_name));
    if (!keras_is_model(layer) && keras_config(layer) == NULL)
        return sl_fail(g->err, SL_EINVAL, "layer '%.100s' has no config",
                       keras_name(layer));
    return SL_OK;
}

static enum sl_err add_model(struct keras_graph *g, const json_t *model,
                             const char *prefix, uint32_t from, uint32_t *to,
                             unsigned depth);

// A model's layers take its place.
static enum sl_err add_nested(struct keras_graph *g, const json_t *model,
                              const char *prefix, uint32_t suffix,
                              uint32_t from, uint32_t *to, unsigned depth)
{
    char inner[GRAPH_NAME];
    enum sl_err rc;

    if (depth >= KERAS_NESTED_MAX)
        return sl_fail(g->err, SL_ENOTSUP, "models within models, %u deep",
                       depth);
    rc = inner_prefix(inner, g, prefix, model, suffix);
    return rc == SL_OK ? add_model(g, model, inner, from, to, depth + 1) : rc;
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

        rc = count_calls(g, 1);
        if (rc == SL_OK)
            rc = check_layer(g, layer);
        if (rc != SL_OK || is_input(layer))
            continue;
        if (keras_is_model(layer)) {
            rc = add_nested(g, layer, prefix, 0, from, &from, depth);
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

// Calls of a layer stand one behind the other; an InputLayer, and an op that
// makes masks, has one.
struct functional {
    const json_t *layers;
    struct strmap numbers; // name -> number + 1
    // Of each layer; owned, as what follows.
    struct functional_layer {
        uint32_t first, calls; // its calls
        uint32_t begin;        // lowest number that the file says of a call
        uint32_t suffix;       // behind a name, the last one; 1: of the first
                               // call, which has none; 0: no call has nodes
        uint32_t nodes;        // nodes before those of the first one
    } * of;
    uint32_t *masks;          // what each layer makes as a mask (keras_masks)
    uint32_t count;           // of all calls, and of what follows
    struct keras_call *calls; // input, mask: calls, when all is read
    uint32_t *layer;          // of each call
    uint8_t *seen;            // NEW, OPEN, PLACED, LEFT_OUT
    uint32_t *node;           // node of each placed call
    uint32_t *path, *next;    // of the walk: calls, and their next inputs
    uint32_t inputs;          // InputLayers
    uint32_t output[MODEL_OUTPUTS_MAX]; // calls
    const char *key[MODEL_OUTPUTS_MAX]; // names that are no layers'; or NULL
    uint32_t outputs;                   // how many
};

enum { NEW, OPEN, PLACED, LEFT_OUT }; // the last: makes masks

static const json_t *layer_of(const struct functional *f, uint32_t call)
{
    return json_array_get(f->layers, f->layer[call]);
}

// Makes the nodes behind the first `before` shares of those of the layer's
// first call, which are the same in the same order.
static void share_nodes(struct keras_graph *g, uint32_t first, uint32_t before)
{
    for (uint32_t i = before; i < g->count; i++) {
        uint32_t of = first + i - before;

        g->nodes[i].shares =
            g->nodes[of].shares != 0 ? g->nodes[of].shares : of + 1;
    }
}

// Adds the nodes of call i, all that it reads is placed.
static enum sl_err keras_graph_add_call(struct keras_graph *g,
                                        struct functional *f, uint32_t i,
                                        const char *prefix,
                                        const struct keras_call *call,
                                        unsigned depth)
{
    const json_t *layer = layer_of(f, i);
    struct functional_layer *of = &f->of[f->layer[i]];
    uint32_t before = g->count;
    enum sl_err rc;

    if (keras_is_model(layer)) {
        rc = add_nested(g, layer, prefix, call->suffix, call->input[0],
                        &f->node[i], depth);
    } else {
        rc = add_layer(g, layer, prefix, call);
        f->node[i] = g->count;
    }
    if (rc != SL_OK)
        return rc;
    if (call->suffix == 0)
        of->nodes = before;
    else
        share_nodes(g, of->nodes, before);
    return SL_OK;
}

// Returns the number behind the name of the next call of layer i, from 2 up,
// with which no layer of the model is called; 0 for the first call.
static uint32_t next_suffix(struct functional *f, uint32_t i)
{
    struct functional_layer *of = &f->of[i];
    char text[MODEL_NAME_BYTES + 16];

    if (of->suffix == 0) {
        of->suffix = 1;
        return 0;
    }
    do {
        snprintf(text, sizeof(text), "%s-%u",
                 keras_name(json_array_get(f->layers, i)), ++of->suffix);
    } while (strmap_get(&f->numbers, text) != NULL);
    return of->suffix;
}

// All that call i reads is placed.
static enum sl_err keras_graph_place_layer(struct keras_graph *g,
                                           struct functional *f, uint32_t i,
                                           const char *prefix, uint32_t from,
                                           unsigned depth)
{
    const json_t *layer = layer_of(f, i);
    struct keras_call call = f->calls[i];

    f->seen[i] = PLACED;
    f->node[i] = from;
    if (is_input(layer))
        return SL_OK;
    call.suffix = next_suffix(f, f->layer[i]);
    for (uint32_t k = 0; k < call.inputs; k++)
        call.input[k] = f->node[call.input[k]];
    // A mask of steps that a job's layers hand on comes from before the layer.
    if (call.mask != 0 && f->seen[call.mask - 1] != PLACED)
        return keras_refuse(g, keras_name(layer), keras_class(layer),
                            "has a mask of '%.100s', which it does not read",
                            keras_name(layer_of(f, call.mask - 1)));
    // Models in models have masks at their inputs that nobody wrote.
    if (!g->keras2 && depth == 0)
        call.node_mask = call.mask == 0 ? KERAS_UNMASKED
                                        : KERAS_MASKED + f->node[call.mask - 1];
    return keras_graph_add_call(g, f, i, prefix, &call, depth);
}

// Places call i, and before it what it reads: depth first, since the file may
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
                g, keras_name(layer_of(f, at)), keras_class(layer_of(f, at)),
                "reads '%.100s', which makes a mask: a job has no such layer",
                keras_name(layer_of(f, input)));
        if (f->seen[input] == OPEN)
            return sl_fail(g->err, SL_EINVAL,
                           "the layers are a circle: '%.100s' reads '%.100s', "
                           "and that what comes of it",
                           keras_name(layer_of(f, at)),
                           keras_name(layer_of(f, input)));
        if (f->seen[input] == NEW) {
            f->next[len] = 0;
            f->path[len++] = input;
        }
    }
    return rc;
}

// ---- which call is which

// Returns how many outputs `ends`, output_layers of a model, has: it is one
// triple, a list of triples, or an object of them.
static size_t count_outputs(const json_t *ends)
{
    json_int_t places[2];

    if (json_is_object(ends))
        return json_object_size(ends);
    return keras_tensor(ends, places) != NULL ? 1 : json_array_size(ends);
}

// Sets *layer and *at to what output `i` of `ends` comes from, and *key to what
// Keras calls it where that is not the name of the layer, else to NULL.
static enum sl_err find_output(struct keras_graph *g,
                               const struct functional *f, const json_t *ends,
                               size_t i, const char **key, uint32_t *layer,
                               uint32_t *at)
{
    json_int_t places[2];
    const json_t *value = json_array_get(ends, i);

    *key = NULL;
    if (json_is_object(ends)) {
        void *entry = json_object_iter((json_t *)(uintptr_t)ends);

        for (; i > 0; i--)
            entry = json_object_iter_next((json_t *)(uintptr_t)ends, entry);
        *key = json_object_iter_key(entry);
        value = json_object_iter_value(entry);
    } else if (keras_tensor(ends, places) != NULL) {
        value = ends;
    }
    if (keras_source(layer, at, &f->numbers, value) != SL_OK)
        return sl_fail(g->err, SL_EINVAL,
                       "output_layers does not say which layer it is");
    return SL_OK;
}

static void note_call(struct functional *f, uint32_t layer, uint32_t at)
{
    if (f->of[layer].begin > at)
        f->of[layer].begin = at;
}

// Notes what the file calls the first call of each layer.
static void note_calls(struct functional *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const struct keras_call *call = &f->calls[i];

        for (uint32_t k = 0; k < call->inputs; k++)
            note_call(f, call->input[k], call->at[k]);
        if (call->mask != 0)
            note_call(f, call->mask - 1, call->mask_at);
    }
}

// Sets *to to the number of the call that the file calls `at` of a layer. Many
// a model within a model has a call that is not written: its calls begin with
// 1, in Keras 2 everywhere, in Keras 3 where output_layers says one. Returns
// false if there is no such call.
static bool find_call(uint32_t *to, const struct functional *f, uint32_t layer,
                      uint32_t at)
{
    const struct functional_layer *of = &f->of[layer];

    if (at < of->begin || at - of->begin >= of->calls)
        return false;
    *to = of->first + at - of->begin;
    return true;
}

// Makes the inputs and the mask of a call numbers of calls.
static enum sl_err join_call(struct keras_graph *g, const struct functional *f,
                             uint32_t i)
{
    struct keras_call *call = &f->calls[i];
    bool found = true;

    for (uint32_t k = 0; found && k < call->inputs; k++)
        found = find_call(&call->input[k], f, call->input[k], call->at[k]);
    if (found && call->mask != 0) {
        found = find_call(&call->mask, f, call->mask - 1, call->mask_at);
        call->mask++;
    }
    return found ? SL_OK
                 : sl_fail(g->err, SL_EINVAL,
                           "layer '%.100s' reads a call of a layer that is "
                           "none",
                           keras_name(layer_of(f, i)));
}

// Sets output `i` of the model to the call `at` of a layer.
static enum sl_err join_output(struct keras_graph *g, struct functional *f,
                               size_t i, uint32_t layer, uint32_t at)
{
    // Tensors of Keras 3 begin with 0, so here all numbers are one higher.
    if (!g->keras2 && at - f->of[layer].begin == f->of[layer].calls)
        at--;
    if (!find_call(&f->output[i], f, layer, at))
        return sl_fail(g->err, SL_EINVAL,
                       "output_layers does not say which call it is");
    if (f->seen[f->output[i]] == LEFT_OUT)
        return keras_refuse(g, keras_name(layer_of(f, f->output[i])),
                            keras_class(layer_of(f, f->output[i])),
                            "makes a mask, and is the model's output: a job "
                            "has no such layer");
    return SL_OK;
}

static enum sl_err join_calls(struct keras_graph *g, struct functional *f,
                              const json_t *ends)
{
    uint32_t layer[MODEL_OUTPUTS_MAX], at[MODEL_OUTPUTS_MAX];
    size_t count = count_outputs(ends);
    enum sl_err rc = SL_OK;

    if (count > MODEL_OUTPUTS_MAX)
        return sl_fail(g->err, SL_ENOTSUP,
                       "the model has %zu outputs; at most %u", count,
                       MODEL_OUTPUTS_MAX);
    f->outputs = count > 0 ? (uint32_t)count : 1;
    for (uint32_t i = 0; rc == SL_OK && i < f->outputs; i++)
        rc = find_output(g, f, ends, i, &f->key[i], &layer[i], &at[i]);
    if (rc != SL_OK)
        return rc;
    note_calls(f);
    for (uint32_t i = 0; i < f->outputs; i++)
        note_call(f, layer[i], at[i]);
    for (uint32_t i = 0; rc == SL_OK && i < f->count; i++)
        rc = join_call(g, f, i);
    for (uint32_t i = 0; rc == SL_OK && i < f->outputs; i++)
        rc = join_output(g, f, i, layer[i], at[i]);
    return rc;
}

// ---- the list

static enum sl_err number_layers(struct keras_graph *g, struct functional *f)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < json_array_size(f->layers); i++) {
        const json_t *layer = json_array_get(f->layers, i);

        rc = count_calls(g, 1);
        if (rc == SL_OK && (!keras_mask_op(layer) || keras_name(layer) == NULL))
            rc = check_layer(g, layer);
        if (rc == SL_OK && strlen(keras_name(layer)) > MODEL_NAME_BYTES)
            rc = refuse_name(g, "", keras_name(layer));
        if (rc == SL_OK && strmap_get(&f->numbers, keras_name(layer)) != NULL)
            return sl_fail(g->err, SL_EINVAL, "two layers are called '%.100s'",
                           keras_name(layer));
        if (rc == SL_OK && strmap_put(&f->numbers, keras_name(layer),
                                      (void *)(i + 1)) != SL_OK)
            rc = keras_graph_no_memory(g);
    }
    if (rc == SL_OK)
        keras_masks(f->masks, f->layers, &f->numbers);
    return rc;
}

// Counts the calls of all layers, and makes space for them.
static enum sl_err make_calls(struct keras_graph *g, struct functional *f)
{
    size_t layers = json_array_size(f->layers), count;
    enum sl_err rc;

    for (size_t i = 0; i < layers; i++) {
        const json_t *layer = json_array_get(f->layers, i);
        size_t calls = json_array_size(json_object_get(layer, "inbound_nodes"));

        if (is_input(layer))
            calls = 1;
        if (f->masks[i] != 0 && calls > 1)
            return keras_refuse(g, keras_name(layer), keras_class(layer),
                                "makes a mask, and is called %zu times", calls);
        if (calls == 0)
            return keras_refuse(g, keras_name(layer), keras_class(layer),
                                "is never called");
        rc = count_calls(g, calls - 1);
        if (rc != SL_OK)
            return rc;
        f->of[i].first = f->count;
        f->of[i].calls = (uint32_t)calls;
        f->of[i].begin = UINT32_MAX;
        f->count += (uint32_t)calls;
    }
    count = f->count + (size_t)1;
    f->calls = sl_calloc(count, sizeof(*f->calls));
    f->layer = sl_calloc(count, sizeof(*f->layer));
    f->seen = sl_calloc(count, sizeof(*f->seen));
    f->node = sl_calloc(count, sizeof(*f->node));
    f->path = sl_calloc(count, sizeof(*f->path));
    f->next = sl_calloc(count, sizeof(*f->next));
    if (f->calls == NULL || f->layer == NULL || f->seen == NULL ||
        f->node == NULL || f->path == NULL || f->next == NULL)
        return keras_graph_no_memory(g);
    return SL_OK;
}

static enum sl_err read_call(struct keras_graph *g, struct functional *f,
                             const json_t *layer, uint32_t i, uint32_t k)
{
    struct keras_call *call = &f->calls[i];
    enum sl_err rc = keras_call(call, g, &f->numbers, layer, k);

    if (rc == SL_OK)
        rc = keras_masked(call, g, f->masks, f->layers, &f->numbers, layer);
    if (rc == SL_OK && keras_is_model(layer) && call->inputs > 1)
        rc = keras_refuse(g, keras_name(layer), keras_str(layer, "class_name"),
                          "has %u inputs; a model in a job has one",
                          call->inputs);
    return rc;
}

// Reads the calls of layer i.
static enum sl_err read_calls(struct keras_graph *g, struct functional *f,
                              uint32_t i)
{
    const json_t *layer = json_array_get(f->layers, i);
    const struct functional_layer *of = &f->of[i];
    enum sl_err rc = SL_OK;

    for (uint32_t k = 0; k < of->calls; k++)
        f->layer[of->first + k] = i;
    if (f->masks[i] != 0) {
        f->seen[of->first] = LEFT_OUT;
        return SL_OK;
    }
    if (is_input(layer)) {
        f->inputs++;
        return SL_OK;
    }
    if (keras_mask_op(layer))
        rc = check_layer(g, layer);
    for (uint32_t k = 0; rc == SL_OK && k < of->calls; k++)
        rc = read_call(g, f, layer, of->first + k, k);
    return rc;
}

static enum sl_err read_functional(struct keras_graph *g, struct functional *f,
                                   const json_t *ends)
{
    size_t count = json_array_size(f->layers);
    enum sl_err rc;

    strmap_init(&f->numbers);
    f->of = sl_calloc(count + 1, sizeof(*f->of));
    f->masks = sl_calloc(count + 1, sizeof(*f->masks));
    if (f->of == NULL || f->masks == NULL)
        return keras_graph_no_memory(g);
    rc = number_layers(g, f);
    if (rc == SL_OK)
        rc = make_calls(g, f);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++)
        rc = read_calls(g, f, i);
    return rc == SL_OK ? join_calls(g, f, ends) : rc;
}

// ---- several inputs

// Keeps a new JSON value as long as the graph. Borrowed; NULL: no memory.
static json_t *keep_made(struct keras_graph *g, json_t *value)
{
    if (g->made == NULL)
        g->made = json_array();
    return json_array_append_new(g->made, value) == 0 ? value : NULL;
}

// Sets *out to the number of elements of an input; `shape` has the batch's axis
// in front.
static enum sl_err input_elements(uint64_t *out, struct keras_graph *g,
                                  const json_t *layer, const json_t *shape)
{
    size_t n = json_array_size(shape);
    char text[KERAS_TEXT];

    *out = n < 2 ? 0 : 1;
    for (size_t i = 1; i < n && *out != 0; i++) {
        json_int_t axis = json_integer_value(json_array_get(shape, i));

        *out = axis < 1 || (uint64_t)axis > MODEL_VARIABLE_MAX / *out
                   ? 0
                   : *out * (uint64_t)axis;
    }
    return *out != 0 ? SL_OK
                     : keras_refuse(
                           g, keras_name(layer), "InputLayer",
                           "is of shape %s; one of several inputs has at least "
                           "one axis, and each is a number",
                           keras_text(text, shape));
}

// Adds the node of an input, which begins at element `begin` of the sample.
static enum sl_err add_slice(struct keras_graph *g, const json_t *layer,
                             const json_t *shape, uint64_t begin, uint64_t size)
{
    const struct keras_call sample = {.inputs = 1};
    bool flat = json_array_size(shape) == 2;
    const json_t *config =
        keep_made(g, json_pack("{sIsI}", "begin", (json_int_t)begin, "size",
                               (json_int_t)size));
    json_t *target = flat ? NULL : json_array();
    char text[GRAPH_NAME];
    enum sl_err rc = config != NULL ? SL_OK : keras_graph_no_memory(g);

    if (rc == SL_OK && !flat)
        rc = inner_prefix(text, g, "", layer, 0);
    if (rc == SL_OK)
        rc = add_node(g, flat ? keras_name(layer) : KERAS_FLAT,
                      flat ? "" : text, KERAS_SLICE, config, &sample);
    if (rc != SL_OK || flat) {
        json_decref(target);
        return rc;
    }
    for (size_t i = 1; i < json_array_size(shape); i++)
        json_array_append(target, json_array_get(shape, i));
    config = keep_made(g, json_pack("{so}", "target_shape", target));
    return config == NULL
               ? keras_graph_no_memory(g)
               : add_node(
                     g, keras_name(layer), "", "Reshape", config,
                     &(struct keras_call){.inputs = 1, .input = {g->count}});
}

// Sets *layer to the layer that item i of input_layers names, an InputLayer.
static enum sl_err find_input(struct keras_graph *g, const struct functional *f,
                              const json_t *list, size_t i, uint32_t *layer)
{
    const json_t *value = json_array_get(list, i);
    uint32_t at;

    if (json_is_object(list)) {
        json_t *object = (json_t *)(uintptr_t)list;
        void *iter = json_object_iter(object);

        for (; i > 0; i--)
            iter = json_object_iter_next(object, iter);
        value = json_object_iter_value(iter);
    }
    if (keras_source(layer, &at, &f->numbers, value) != SL_OK ||
        !is_input(json_array_get(f->layers, *layer)) ||
        f->seen[f->of[*layer].first] != NEW)
        return sl_fail(g->err, SL_EINVAL,
                       "input_layers does not name each InputLayer once");
    return SL_OK;
}

// Makes each of several inputs a part of the sample, in the order of
// input_layers: the sample is all of them, one after the other.
static enum sl_err add_several(struct keras_graph *g, struct functional *f,
                               const json_t *model)
{
    const json_t *list = json_object_get(keras_config(model), "input_layers");
    size_t count =
        json_is_object(list) ? json_object_size(list) : json_array_size(list);
    uint64_t begin = 0, size;
    enum sl_err rc = SL_OK;

    if (count != f->inputs)
        return sl_fail(g->err, SL_EINVAL,
                       "input_layers names %zu inputs, and there are %u", count,
                       f->inputs);
    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        uint32_t at = 0;
        const json_t *layer, *shape;

        rc = find_input(g, f, list, i, &at);
        if (rc != SL_OK)
            return rc;
        layer = json_array_get(f->layers, at);
        shape = keras_layer_input_shape(layer);
        rc = input_elements(&size, g, layer, shape);
        if (rc == SL_OK)
            rc = add_slice(g, layer, shape, begin, size);
        f->node[f->of[at].first] = g->count;
        f->seen[f->of[at].first] = PLACED;
        begin += size;
        if (rc == SL_OK && begin > MODEL_VARIABLE_MAX)
            rc = sl_fail(g->err, SL_ENOTSUP, "inputs of more than %llu numbers",
                         (unsigned long long)MODEL_VARIABLE_MAX);
    }
    g->shape = keep_made(g, json_pack("[nI]", (json_int_t)begin));
    return rc != SL_OK || g->shape != NULL ? rc : keras_graph_no_memory(g);
}

// Notes the outputs of the whole model, if it has several.
static enum sl_err keras_tell_outputs(struct keras_graph *g,
                                      const struct functional *f)
{
    if (f->outputs == 1)
        return SL_OK;
    g->outputs = json_array();
    for (uint32_t i = 0; i < f->outputs; i++) {
        const char *layer = keras_name(layer_of(f, f->output[i]));
        uint32_t node = f->node[f->output[i]];
        json_t *one;

        if (node <= keras_augmented(g))
            return sl_fail(g->err, SL_ENOTSUP,
                           "an output is the model's input, with no layer "
                           "between them");
        one = json_pack("[s, s, s]", g->nodes[node - 1].name, layer,
                        f->key[i] != NULL ? f->key[i] : layer);
        if (json_array_append_new(g->outputs, one) != 0)
            return keras_graph_no_memory(g);
    }
    return SL_OK;
}

static enum sl_err add_functional(struct keras_graph *g, const json_t *model,
                                  const char *prefix, uint32_t from,
                                  uint32_t *to, unsigned depth)
{
    struct functional f = {.layers = layers_of(model)};
    enum sl_err rc = read_functional(
        g, &f, json_object_get(keras_config(model), "output_layers"));

    if (rc == SL_OK && f.inputs > 1)
        rc = depth == 0
                 ? add_several(g, &f, model)
                 : keras_refuse(g, keras_name(model), keras_class(model),
                                "has %u inputs; a model in a job has one",
                                f.inputs);
    if (rc == SL_OK && f.outputs > 1 && depth > 0)
        rc = keras_refuse(g, keras_name(model), keras_class(model),
                          "has %u outputs; a model in a model has one",
                          f.outputs);
    for (uint32_t i = 0; rc == SL_OK && i < f.count; i++)
        rc = keras_graph_walk_inputs(g, &f, i, prefix, from, depth);
    if (rc == SL_OK)
        *to = f.node[f.output[0]];
    if (rc == SL_OK && depth == 0)
        rc = keras_tell_outputs(g, &f);
    strmap_release(&f.numbers);
    sl_free(f.of);
    sl_free(f.masks);
    sl_free(f.calls);
    sl_free(f.layer);
    sl_free(f.seen);
    sl_free(f.node);
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

// Returns true if an object in `value` has more keys than any that Keras
// writes, as a layer's config is read for each call of the model around it.
static bool too_many_keys(const json_t *value)
{
    json_t *inner = (json_t *)(uintptr_t)value, *each;
    bool found = json_object_size(value) > KERAS_KEYS_MAX;
    const char *key;
    size_t i;

    json_array_foreach(value, i, each) found = found || too_many_keys(each);
    json_object_foreach(inner, key, each) found = found || too_many_keys(each);
    return found;
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
    if (too_many_keys(model))
        return sl_fail(g->err, SL_ENOTSUP, "an object of more than %u keys",
                       KERAS_KEYS_MAX);
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
