// SPDX-License-Identifier: Apache-2.0
// client/keras/keras.c -- from the text of to_json() to a ModelSpec.
#include "client/keras/keras.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "client/keras/keras_inner.h"
#include "common/base/json.h"

// ---- the text

// Python's json writes NaN and Infinity, which are no JSON. Which line? 0:
// none.
static unsigned find_nan(const char *text, size_t len)
{
    bool quoted = false;
    unsigned line = 1;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            line++;
        else if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted &&
                 ((len - i >= 3 && !memcmp(text + i, "NaN", 3)) ||
                  (len - i >= 8 && !memcmp(text + i, "Infinity", 8))))
            return line;
    }
    return 0;
}

static enum sl_err keras_parse_json(json_t **out, const char *name,
                                    const char *text, size_t len,
                                    struct sl_error *err)
{
    static const struct sl_json_limits limits = {.bytes = KERAS_BYTES_MAX};
    enum sl_err rc;
    unsigned line;

    // A .keras file is a zip archive, a .h5 file begins like this.
    if ((len >= 4 && memcmp(text, "PK\3\4", 4) == 0) ||
        (len >= 4 && memcmp(text, "\x89HDF", 4) == 0))
        return sl_fail(err, SL_EINVAL,
                       "%s: a saved model, which is not read; write what "
                       "model.to_json() gives into a file, and its values with "
                       "sluice.keras.save_weights",
                       name);
    rc = sl_json_parse(out, name, text, len, &limits, err);
    if (rc != SL_EINVAL)
        return rc;
    if (len > 0 && text[0] == '"')
        return sl_fail(err, SL_EINVAL,
                       "%s: JSON within a string; write what model.to_json() "
                       "gives as it is, without json.dump",
                       name);
    line = find_nan(text, len);
    if (line == 0)
        return rc;
    return sl_fail(err, SL_EINVAL,
                   "%s:%u: NaN or Infinity is no JSON, and no argument that a "
                   "job could have",
                   name, line);
}

// ---- the sample

static bool known_dtype(const char *word)
{
    static const char *const words[] = {"float32", "uint8", "int8",   "int16",
                                        "int32",   "int64", "float16"};

    for (size_t i = 0; i < SL_COUNT(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

// [null, 28, 28, 1] -> [28, 28, 1]; an axis of any length is 0.
static enum sl_err input_shape(json_t *to, const struct keras_graph *g)
{
    char text[KERAS_TEXT];
    size_t n = json_array_size(g->shape);

    if (n < 2)
        return sl_fail(g->err, SL_ENOTSUP,
                       "the input is of shape %s; a job's sample has at least "
                       "one axis",
                       keras_text(text, g->shape));
    for (size_t i = 1; i < n; i++) {
        json_t *axis = json_array_get(g->shape, i);

        if (json_is_null(axis)) {
            if (json_array_append_new(to, json_integer(0)) != 0)
                return sl_no_memory(g->err);
            continue;
        }
        if (!json_is_integer(axis))
            return sl_fail(g->err, SL_ENOTSUP,
                           "the input is of shape %s; an axis must be a "
                           "number or null",
                           keras_text(text, g->shape));
        if (json_array_append(to, axis) != 0)
            return sl_no_memory(g->err);
    }
    return SL_OK;
}

// What an InputLayer of the outer model says of samples.
static enum sl_err check_input(const struct keras_graph *g, const json_t *root)
{
    const json_t *config = json_object_get(root, "config"), *layer;
    const json_t *layers =
        json_is_array(config) ? config : json_object_get(config, "layers");
    size_t i;

    json_array_foreach(layers, i, layer)
    {
        const json_t *is = keras_config(layer);
        const char *dtype = keras_str(is, "dtype");

        if (strcmp(keras_str(layer, "class_name"), "InputLayer") != 0)
            continue;
        if (json_is_true(json_object_get(is, "sparse")) ||
            json_is_true(json_object_get(is, "ragged")))
            return sl_fail(g->err, SL_ENOTSUP,
                           "the input is sparse or ragged; a job's samples "
                           "are dense");
        if (dtype != NULL && !known_dtype(dtype))
            return sl_fail(g->err, SL_ENOTSUP,
                           "the input is of %.60s; a job's samples are numbers",
                           dtype);
    }
    return SL_OK;
}

// ---- the model

static const char *node_name(const struct keras_graph *g, uint32_t node)
{
    return node == 0 ? "input" : g->nodes[node - 1].name;
}

// Not said where it is the layer before, as in the sequential short form. What
// changes images is a part of the sample.
static enum sl_err add_inputs(json_t *layer, struct keras_graph *g, uint32_t i)
{
    const struct keras_node *n = &g->nodes[i];
    uint32_t sample = keras_augmented(g);
    json_t *names;
    int rc = 0;

    for (uint32_t k = 0; k < n->inputs; k++)
        if (n->input[k] < sample)
            return keras_refuse(g, n->name, n->class_name,
                                "reads images that are not changed, or not to "
                                "the end; a job changes them for all layers");
    if (n->inputs == 1 && n->input[0] == i)
        return SL_OK;
    names = json_array();
    for (uint32_t k = 0; rc == 0 && k < n->inputs; k++) {
        uint32_t from = n->input[k] == sample ? 0 : n->input[k];

        rc = json_array_append_new(names, json_string(node_name(g, from)));
    }
    if (rc == 0)
        rc = json_object_set(layer, "inputs", names);
    json_decref(names);
    return rc == 0 ? SL_OK : sl_no_memory(g->err);
}

static enum sl_err add_layers(json_t *to, json_t *augment,
                              struct keras_graph *g)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < g->count; i++) {
        json_t *layer = NULL;

        if (keras_augments(g->nodes[i].class_name)) {
            rc = keras_augment(augment, g, i);
            continue;
        }
        rc = keras_layer(&layer, g, &g->nodes[i]);
        if (rc == SL_OK)
            rc = add_inputs(layer, g, i);
        if (rc == SL_OK && json_array_append(to, layer) != 0)
            rc = sl_no_memory(g->err);
        json_decref(layer);
    }
    return rc;
}

// Writes what the file says of the masks of layers that have a use for one.
static enum sl_err said_masks(json_t **out, const struct keras_graph *g)
{
    json_t *masks = json_object();
    int failed = masks == NULL;

    for (uint32_t i = 0; failed == 0 && i < g->count; i++) {
        const struct keras_node *n = &g->nodes[i];

        if (n->mask == KERAS_UNSAID ||
            (!keras_recurrent(n->class_name) &&
             strcmp(n->class_name, "GlobalAveragePooling1D") != 0))
            continue;
        failed = json_object_set_new(
            masks, n->name,
            n->mask == KERAS_UNMASKED
                ? json_null()
                : json_pack("[s, f]", node_name(g, n->mask - KERAS_MASKED),
                            n->mask_number));
    }
    *out = masks;
    return failed == 0 ? SL_OK : sl_no_memory(g->err);
}

static enum sl_err make_model(json_t **out, json_t *augment,
                              struct keras_graph *g, const json_t *root)
{
    json_t *shape = json_array(), *layers = json_array(),
           *model = json_object();
    enum sl_err rc = check_input(g, root);

    if (rc == SL_OK && g->output <= keras_augmented(g))
        rc = sl_fail(g->err, SL_ENOTSUP, "the model has no layers");
    if (rc == SL_OK)
        rc = input_shape(shape, g);
    if (rc == SL_OK)
        rc = add_layers(layers, augment, g);
    if (rc == SL_OK &&
        (json_object_set(model, "input_shape", shape) != 0 ||
         json_object_set(model, "layers", layers) != 0 ||
         (g->outputs == NULL && g->output != g->count &&
          json_object_set_new(model, "output",
                              json_string(node_name(g, g->output))) != 0)))
        rc = sl_no_memory(g->err);
    json_decref(shape);
    json_decref(layers);
    if (rc == SL_OK)
        *out = model;
    else
        json_decref(model);
    return rc;
}

// "My model_1" -> "my-model-1": a-z, 0-9 and inner '-', not like an id.
static void keras_job_name(char out[KERAS_NAME], const char *name)
{
    size_t n = 0;

    for (; name != NULL && *name != '\0' && n < KERAS_NAME - 1; name++) {
        unsigned char c = (unsigned char)*name;

        if (isalnum(c) && c < 128)
            out[n++] = (char)tolower(c);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
    if (n == 0 || (strncmp(out, "j-", 2) == 0 &&
                   out[2 + strspn(out + 2, "0123456789")] == '\0'))
        snprintf(out, KERAS_NAME, "model");
}

// A model of TensorFlow.js holds what to_json() gave, and beside it values,
// which are not read.
static const json_t *model_of(const json_t *root)
{
    const json_t *held =
        json_object_get(json_object_get(root, "modelTopology"), "model_config");

    return held != NULL ? held : root;
}

enum sl_err keras_read(struct keras *out, const char *name, const char *text,
                       size_t len, struct sl_error *err)
{
    struct sl_error inner = SL_ERROR_INIT;
    struct keras_graph g = {.err = &inner};
    struct keras k = {.augment = json_array()};
    json_t *root = NULL;
    const json_t *model;
    enum sl_err rc = keras_parse_json(&root, name, text, len, err);

    if (rc != SL_OK) {
        keras_release(&k);
        return rc;
    }
    model = model_of(root);
    rc = keras_graph(&g, model);
    if (rc == SL_OK)
        rc = make_model(&k.model, k.augment, &g, model);
    if (rc == SL_OK)
        rc = said_masks(&k.masks, &g);
    if (rc == SL_OK) {
        json_t *compiled = json_object_get(model, "compile_config");

        if (json_object_size(compiled) > 0)
            k.compiled = json_incref(compiled);
        k.outputs = json_incref(g.outputs);
        k.precision = g.precision;
        keras_job_name(k.name, keras_str(keras_config(model), "name"));
        *out = k;
    } else {
        sl_fail(err, rc, "%s: %s", name, inner.text);
        keras_release(&k);
    }
    keras_graph_release(&g);
    json_decref(root);
    return rc;
}

enum sl_err keras_tell_inputs(const struct keras *k, struct buf *notes)
{
    const char *between =
        "a sample has the numbers of the model's inputs in this order: ";
    const json_t *layers = json_object_get(k->model, "layers"), *layer;
    enum sl_err rc = SL_OK;
    size_t i;

    json_array_foreach(layers, i, layer)
    {
        const char *name = keras_str(layer, "name");
        size_t n = strlen(name), end = strlen("." KERAS_FLAT);

        if (rc != SL_OK || strcmp(keras_str(layer, "type"), "slice") != 0)
            continue;
        if (n > end && strcmp(name + n - end, "." KERAS_FLAT) == 0)
            n -= end;
        rc = buf_appendf(
            notes, "%s%.*s (%lld)", between, (int)n, name,
            (long long)json_integer_value(json_object_get(layer, "size")));
        between = ", ";
    }
    return rc == SL_OK && *between == ',' ? buf_appendf(notes, "\n") : rc;
}

void keras_release(struct keras *k)
{
    json_decref(k->model);
    json_decref(k->masks);
    json_decref(k->outputs);
    json_decref(k->augment);
    json_decref(k->compiled);
    *k = (struct keras){.model = NULL};
}
