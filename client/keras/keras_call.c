// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_call.c -- how a layer of a Functional model is called:
// what it reads, in the words of Keras 2 and of Keras 3.
#include <string.h>

#include "client/keras/keras_inner.h"

const char *keras_tensor(const json_t *value, json_int_t at[2])
{
    const char *class_name = keras_str(value, "class_name");

    if (class_name != NULL && strcmp(class_name, "__keras_tensor__") == 0)
        value = json_object_get(keras_config(value), "keras_history");
    if (!json_is_integer(json_array_get(value, 1)) ||
        !json_is_integer(json_array_get(value, 2)))
        return NULL;
    at[0] = json_integer_value(json_array_get(value, 1));
    at[1] = json_integer_value(json_array_get(value, 2));
    return json_string_value(json_array_get(value, 0));
}

enum sl_err keras_source(uint32_t *layer, uint32_t *call,
                         const struct strmap *numbers, const json_t *value)
{
    json_int_t at[2];
    const char *name = keras_tensor(value, at);
    uint32_t number =
        name != NULL ? (uint32_t)(uintptr_t)strmap_get(numbers, name) : 0;

    if (number == 0 || at[0] < 0 || at[0] > MODEL_LAYERS_MAX)
        return SL_EINVAL;
    *layer = number - 1;
    *call = (uint32_t)at[0];
    return SL_OK;
}

const char *keras_class(const json_t *layer)
{
    static const char *const functions[][2] = {
        {"__operators__.add", "Add"},   {"math.add", "Add"},
        {"math.multiply", "Multiply"},  {"math.subtract", "Subtract"},
        {"math.truediv", "TrueDivide"}, {"math.negative", "Negative"},
    };
    const char *class_name = keras_str(layer, "class_name");
    const char *function = keras_str(keras_config(layer), "function");

    if (class_name == NULL || strcmp(class_name, "TFOpLambda") != 0 ||
        function == NULL)
        return class_name;
    for (size_t i = 0; i < SL_COUNT(functions); i++)
        if (strcmp(function, functions[i][0]) == 0)
            return functions[i][1];
    return class_name;
}

// Returns the number that `value` is, or NULL. Keras 2 writes one in a tensor's
// place as ["_CONSTANT_VALUE", -1, 3.0, {}].
static const json_t *call_number(const json_t *value)
{
    const char *word = json_string_value(json_array_get(value, 0));

    if (word != NULL && strcmp(word, "_CONSTANT_VALUE") == 0)
        value = json_array_get(value, 2);
    return json_is_number(value) ? value : NULL;
}

static enum sl_err with_number(struct keras_graph *g, const json_t *layer,
                               struct keras_call *call, const json_t *number)
{
    const char *class_name = keras_class(layer);
    char text[KERAS_TEXT];

    if (!keras_takes_number(class_name) || call->numbered)
        return keras_refuse(g, keras_name(layer), class_name,
                            "is called with %s, which is not a tensor",
                            keras_text(text, number));
    call->numbered = true;
    call->number_first = call->inputs == 0;
    call->number = json_number_value(number);
    return SL_OK;
}

// Sets *out and *call to the layer, and its call, that makes the tensor
// `value`, which `layer` is called with.
static enum sl_err call_source(uint32_t *out, uint32_t *call,
                               struct keras_graph *g,
                               const struct strmap *numbers,
                               const json_t *layer, const json_t *value)
{
    const char *class_name = keras_str(layer, "class_name");
    char text[KERAS_TEXT];
    json_int_t at[2] = {0, 0};
    const char *name = keras_tensor(value, at);

    if (name == NULL)
        return keras_refuse(g, keras_name(layer), class_name,
                            "is called with %s, which is not a tensor",
                            keras_text(text, value));
    if (keras_source(out, call, numbers, value) != SL_OK)
        return sl_fail(g->err, SL_EINVAL,
                       "layer '%.100s' reads '%.100s', which is no layer",
                       keras_name(layer), name);
    if (at[1] != 0)
        return keras_refuse(g, keras_name(layer), class_name,
                            "reads the second tensor of '%.100s'; layers have "
                            "one",
                            name);
    return SL_OK;
}

static enum sl_err with(struct keras_graph *g, const struct strmap *numbers,
                        const json_t *layer, struct keras_call *call,
                        const json_t *value)
{
    uint32_t source, at;
    enum sl_err rc;

    if (call_number(value) != NULL)
        return with_number(g, layer, call, call_number(value));
    rc = call_source(&source, &at, g, numbers, layer, value);
    if (rc != SL_OK)
        return rc;
    if (call->inputs == MODEL_INPUTS_MAX)
        return keras_refuse(g, keras_name(layer),
                            keras_str(layer, "class_name"),
                            "reads more than %u layers", MODEL_INPUTS_MAX);
    if (++g->edges > KERAS_EDGES_MAX)
        return sl_fail(g->err, SL_ENOTSUP, "more than %u edges",
                       KERAS_EDGES_MAX);
    call->at[call->inputs] = at;
    call->input[call->inputs++] = source;
    return SL_OK;
}

// A tensor or a list of them, which is not empty.
static enum sl_err with_all(struct keras_graph *g, const struct strmap *numbers,
                            const json_t *layer, struct keras_call *call,
                            const json_t *value)
{
    json_int_t at[2];
    enum sl_err rc = SL_OK;

    value = keras_plain(value);
    if (json_array_size(value) == 0 || call_number(value) != NULL ||
        keras_tensor(value, at) != NULL)
        return with(g, numbers, layer, call, value);
    for (size_t i = 0; rc == SL_OK && i < json_array_size(value); i++)
        rc = with(g, numbers, layer, call, json_array_get(value, i));
    return rc;
}

// Returns true if `value` is null, or a list of nulls: of a call with several
// tensors.
static bool says_nothing(const json_t *value)
{
    const json_t *list = keras_plain(value);
    bool nothing = json_is_null(value) || json_array_size(list) > 0;
    size_t i;
    json_t *each;

    json_array_foreach(list, i, each) nothing = nothing && json_is_null(each);
    return nothing;
}

// Arguments with names: tensors where a layer has several, and what changes
// nothing. Attention's are query, value, key, in this order.
static enum sl_err call_kwargs(struct keras_graph *g,
                               const struct strmap *numbers,
                               const json_t *layer, struct keras_call *call,
                               const json_t *kwargs)
{
    static const char *const tensors[] = {"inputs", "query", "value", "key",
                                          "x1",     "x2",    "x",     "y"};
    const char *class_name = keras_str(layer, "class_name"), *key;
    char text[KERAS_TEXT];
    json_int_t at[2];
    json_t *value;
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(tensors); i++) {
        value = json_object_get(kwargs, tensors[i]);
        if (value != NULL && !json_is_null(value))
            rc = with_all(g, numbers, layer, call, value);
    }
    if (rc != SL_OK)
        return rc;
    json_object_foreach((json_t *)(uintptr_t)kwargs, key, value)
    {
        bool named = false, known = says_nothing(value) || json_is_false(value);

        for (size_t i = 0; i < SL_COUNT(tensors); i++)
            named = named || strcmp(key, tensors[i]) == 0;
        // In Keras 3 it is what the call was that made the model, and replaced
        // by fit and evaluate. Keras 2 holds to it, also to false.
        if (strcmp(key, "training") == 0)
            known = json_is_null(value) || !g->keras2;
        if (strcmp(key, "mask") == 0 && keras_tensor(value, at) != NULL) {
            rc = call_source(&call->mask, &call->mask_at, g, numbers, layer,
                             value);
            if (rc != SL_OK)
                return rc;
            call->mask++;
        } else if (strcmp(key, "use_causal_mask") == 0 &&
                   json_is_boolean(value))
            call->causal = json_is_true(value);
        else if (!named && !known)
            return keras_refuse(
                g, keras_name(layer), class_name,
                "is called with %.60s=%s, which sluice does not know", key,
                keras_text(text, value));
    }
    return SL_OK;
}

// Keras 3: {"args": [...], "kwargs": {...}}.
static enum sl_err read_call3(struct keras_graph *g,
                              const struct strmap *numbers, const json_t *layer,
                              struct keras_call *call, const json_t *node)
{
    const json_t *args = keras_plain(json_object_get(node, "args"));
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < json_array_size(args); i++)
        rc = with_all(g, numbers, layer, call, json_array_get(args, i));
    if (rc == SL_OK)
        rc = call_kwargs(g, numbers, layer, call,
                         json_object_get(node, "kwargs"));
    return rc;
}

// Keras 2: [["dense", 0, 0, {...}], ...]; the fourth may be missing. A function
// has the only one without the list around it.
static enum sl_err read_call2(struct keras_graph *g,
                              const struct strmap *numbers, const json_t *layer,
                              struct keras_call *call, const json_t *node)
{
    bool alone = json_is_string(json_array_get(node, 0));
    size_t count = alone ? 1 : json_array_size(node);
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < count; i++) {
        const json_t *one = alone ? node : json_array_get(node, i);

        rc = with(g, numbers, layer, call, one);
        if (rc == SL_OK)
            rc = call_kwargs(g, numbers, layer, call, json_array_get(one, 3));
    }
    return rc;
}

enum sl_err keras_call(struct keras_call *out, struct keras_graph *g,
                       const struct strmap *numbers, const json_t *layer,
                       size_t i)
{
    const json_t *node =
        json_array_get(json_object_get(layer, "inbound_nodes"), i);
    struct keras_call call = {.inputs = 0};
    enum sl_err rc;

    rc = json_is_object(node) ? read_call3(g, numbers, layer, &call, node)
                              : read_call2(g, numbers, layer, &call, node);
    if (rc == SL_OK && call.inputs == 0)
        return sl_fail(g->err, SL_EINVAL, "layer '%.100s' reads nothing",
                       keras_name(layer));
    if (rc == SL_OK)
        *out = call;
    return rc;
}
