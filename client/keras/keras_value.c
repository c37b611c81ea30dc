// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_value.c -- words and numbers as Keras writes them.
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/keras/keras_inner.h"
#include "common/base/json.h"
#include "proto/spec.h"

enum sl_err keras_refuse(struct keras_graph *g, const char *name,
                         const char *class_name, const char *fmt, ...)
{
    char what[760];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return sl_fail(g->err, SL_ENOTSUP, "layer '%.100s' (%.60s) %s", name,
                   class_name, what);
}

const char *keras_str(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

const json_t *keras_plain(const json_t *value)
{
    const char *class_name = keras_str(value, "class_name");
    const json_t *items = json_object_get(value, "items");
    bool tuple = class_name != NULL && strcmp(class_name, "__tuple__") == 0;

    return tuple && json_is_array(items) ? items : value;
}

bool keras_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (!json_is_array(a) || !json_is_array(b))
        return json_equal(a, b);
    if (json_array_size(a) != json_array_size(b))
        return false;
    // No array that is compared has arrays in it but for those of padding.
    for (size_t i = 0; i < json_array_size(a); i++)
        if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
            return false;
    return true;
}

bool keras_is(const json_t *value, const char *text)
{
    json_t *other = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = keras_same(value, other);

    json_decref(other);
    return same;
}

const char *keras_text(char out[KERAS_TEXT], const json_t *value)
{
    struct buf text = BUF_INIT;

    if (sl_json_write(&text, value, false) != SL_OK)
        buf_reset(&text);
    if (text.len >= KERAS_TEXT)
        snprintf(out, KERAS_TEXT, "%.*s...", KERAS_TEXT - 4, buf_text(&text));
    else
        snprintf(out, KERAS_TEXT, "%s", buf_text(&text));
    buf_release(&text);
    return out;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool own_module(const char *module, const char *class_name)
{
    if (strcmp(module, "builtins") == 0)
        return class_name != NULL && strcmp(class_name, "function") == 0;
    return strcmp(module, "keras") == 0 || begins(module, "keras.") ||
           begins(module, "tf_keras.");
}

bool keras_own(const json_t *object)
{
    const char *class_name = keras_str(object, "class_name");
    const json_t *module = json_object_get(object, "module");
    const json_t *registered = json_object_get(object, "registered_name");

    if (!json_is_object(object))
        return true;
    if (module != NULL && (!json_is_string(module) ||
                           !own_module(json_string_value(module), class_name)))
        return false;
    if (registered == NULL || json_is_null(registered))
        return true;
    // A function's class is "function", and its config what it is called.
    return json_is_string(registered) && class_name != NULL &&
           (json_equal(registered, json_object_get(object, "class_name")) ||
            json_equal(registered, json_object_get(object, "config")));
}

const char *keras_word(const json_t *value)
{
    const char *class_name = keras_str(value, "class_name");

    if (json_is_string(value))
        return json_string_value(value);
    if (class_name != NULL && strcmp(class_name, "function") == 0)
        return keras_str(value, "config");
    return class_name;
}

const json_t *keras_config(const json_t *value)
{
    const json_t *config = json_object_get(value, "config");

    return json_is_object(config) ? config : NULL;
}

bool keras_alike(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '_')
            a++;
        while (*b == '_')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (*a == '\0')
            return true;
    }
}

const char *keras_name(const json_t *layer)
{
    const char *name = keras_str(layer, "name");

    return name != NULL ? name : keras_str(keras_config(layer), "name");
}

// A job has Keras' names of functions, which are alike those of its classes.
#define LOSS_NAME(code, name) name,
static const char *const losses[] = {SPEC_LOSS_MAP(LOSS_NAME)};
#undef LOSS_NAME

const char *keras_loss_name(const json_t *value)
{
    const char *word = keras_word(value);

    if (word == NULL || !keras_own(value))
        return NULL;
    word = keras_alike(word, "MSE")   ? "mean_squared_error"
           : keras_alike(word, "MAE") ? "mean_absolute_error"
                                      : word;
    for (size_t i = 0; i < SL_COUNT(losses); i++)
        if (keras_alike(word, losses[i]))
            return losses[i];
    return NULL;
}
