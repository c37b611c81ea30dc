// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_argument.c -- the kinds of arguments that layers have in
// Keras, and what a job says instead of them.
#include "client/keras/keras_take.h"

#include <stdio.h>
#include <string.h>

enum sl_err take_refuse(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value, const char *why)
{
    char text[KERAS_TEXT];

    return keras_refuse(t->g, t->node->name, t->node->class_name,
                        "has %s: %s; %s", r->key, keras_text(text, value), why);
}

// Takes the reference.
static enum sl_err keras_put_field(struct keras_take *t,
                                   const struct keras_rule *r, json_t *value)
{
    const char *field = r->field != NULL ? r->field : r->key;

    if (json_object_set_new(t->to, field, value) != 0)
        return sl_no_memory(t->g->err);
    return SL_OK;
}

// ---- kinds of arguments

enum sl_err take_ignore(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value)
{
    (void)t;
    (void)r;
    (void)value;
    return SL_OK;
}

enum sl_err take_only(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value)
{
    char why[100];

    if (json_is_null(value) || keras_is(value, r->otherwise))
        return SL_OK;
    snprintf(why, sizeof(why), "sluice knows only %s", r->otherwise);
    return take_refuse(t, r, value, why);
}

enum sl_err take_copy(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value)
{
    if (json_is_null(value) ||
        (r->otherwise != NULL && keras_is(value, r->otherwise)))
        return SL_OK;
    return keras_put_field(t, r, json_deep_copy(value));
}

// One number for both axes, or two; a list of one where there is one axis.
enum sl_err take_pair(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value)
{
    if (json_array_size(value) == 1 ||
        (json_array_size(value) == 2 &&
         keras_same(json_array_get(value, 0), json_array_get(value, 1))))
        value = json_array_get(value, 0);
    return take_copy(t, r, value);
}

// Normalization and the like work along the last axis; counted from the batch,
// as ours.
enum sl_err take_axis(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value)
{
    if (json_array_size(value) == 1)
        value = json_array_get(value, 0);
    if (!json_is_integer(value))
        return take_refuse(t, r, value, "sluice knows only the last axis");
    return take_copy(t, r, value);
}

enum sl_err take_activation(struct keras_take *t, const struct keras_rule *r,
                            const json_t *value)
{
    static const char *const others[][2] = {{"swish", "silu"},
                                            {"hard_swish", "hard_silu"}};
    const char *word = keras_word(value);
    const char *class_name = keras_str(value, "class_name");

    if (json_is_null(value) || (word != NULL && r->otherwise != NULL &&
                                strcmp(word, r->otherwise) == 0))
        return SL_OK;
    if (word == NULL || !keras_own(value) ||
        (class_name != NULL && strcmp(class_name, "function") != 0))
        return take_refuse(t, r, value,
                           "sluice knows only functions of Keras itself");
    for (size_t i = 0; i < SL_COUNT(others); i++)
        if (strcmp(word, others[i][0]) == 0)
            word = others[i][1];
    // Keras 2 clips 0.2 x + 0.5, Keras 3 x / 6 + 0.5.
    if (t->g->keras2 && strcmp(word, "hard_sigmoid") == 0)
        return take_refuse(t, r, value,
                           "Keras 2 and Keras 3 have different functions of "
                           "that name, and sluice knows that of Keras 3");
    return keras_put_field(t, r, json_string(word));
}

// ---- initializers

static const struct keras_initializer {
    const char *class_name; // or its short name
    const char *word;
    const char *config; // what it must be; NULL: nothing but a seed counts
} initializers[] = {
    {"glorot_uniform", "glorot_uniform", NULL},
    {"orthogonal", "orthogonal", "{\"gain\": 1}"},
    {"orthogonal_initializer", "orthogonal", "{\"gain\": 1}"}, // a Keras 3
    {"glorot_normal", "glorot_normal", NULL},
    {"he_uniform", "he_uniform", NULL},
    {"he_normal", "he_normal", NULL},
    {"lecun_uniform", "lecun_uniform", NULL},
    {"lecun_normal", "lecun_normal", NULL},
    {"zeros", "zeros", NULL},
    {"zero", "zeros", NULL},
    {"ones", "ones", NULL},
    {"one", "ones", NULL},
    {"constant", "zeros", "{\"value\": 0}"},
    {"constant", "ones", "{\"value\": 1}"},
    {"random_normal", "random_normal", "{\"mean\": 0, \"stddev\": 0.05}"},
    {"normal", "random_normal", "{\"mean\": 0, \"stddev\": 0.05}"},
    {"random_uniform", "random_uniform",
     "{\"minval\": -0.05, \"maxval\": 0.05}"},
    {"uniform", "random_uniform", "{\"minval\": -0.05, \"maxval\": 0.05}"},
    {"truncated_normal", "truncated_normal", "{\"mean\": 0, \"stddev\": 0.05}"},
#define SCALING(scale, mode, distribution)                                     \
    "{\"scale\": " scale ", \"mode\": \"" mode "\", \"distribution\": "        \
    "\"" distribution "\"}"
    {"variance_scaling", "glorot_uniform", SCALING("1", "fan_avg", "uniform")},
    {"variance_scaling", "he_uniform", SCALING("2", "fan_in", "uniform")},
    {"variance_scaling", "lecun_uniform", SCALING("1", "fan_in", "uniform")},
    {"variance_scaling", "glorot_normal",
     SCALING("1", "fan_avg", "truncated_normal")},
    {"variance_scaling", "he_normal",
     SCALING("2", "fan_in", "truncated_normal")},
    {"variance_scaling", "lecun_normal",
     SCALING("1", "fan_in", "truncated_normal")},
#undef SCALING
};

// What each initializer may have beside its own arguments. Keras 2.2.4-tf
// writes the type of the values, which are f32 in a job.
static bool always_fits(const char *key, const json_t *value)
{
    return strcmp(key, "seed") == 0 || json_is_null(value) ||
           (strcmp(key, "dtype") == 0 && keras_is(value, "\"float32\""));
}

// Returns true if `config` has the values in `want` and no other value that
// counts. Without a config (a short name) the defaults hold, which are `want`.
static bool keras_config_fits(const json_t *config, const char *want)
{
    json_t *values = json_loads(want != NULL ? want : "{}", 0, NULL), *value;
    const char *key;
    bool same = true;

    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        const json_t *other = json_object_get(values, key);

        if (!always_fits(key, value))
            same = same && other != NULL && keras_same(value, other);
    }
    json_decref(values);
    return same;
}

// What initializers with arguments have in Keras, and a job writes behind the
// name, in this order.
static const struct keras_formed {
    const char *class_name, *word, *key[3];
} formed[] = {
    {"constant", "constant", {"value"}},
    {"random_normal", "random_normal", {"mean", "stddev"}},
    {"normal", "random_normal", {"mean", "stddev"}},
    {"random_uniform", "random_uniform", {"minval", "maxval"}},
    {"uniform", "random_uniform", {"minval", "maxval"}},
    {"truncated_normal", "truncated_normal", {"mean", "stddev"}},
    {"variance_scaling", "variance_scaling", {"scale", "mode", "distribution"}},
};

#define FORMED_TEXT 120

// Writes "random_normal(0, 0.01)" to `out`. Returns false if `config` lacks an
// argument, has one that counts beside them, or one that is no number or word.
static bool write_formed(char out[FORMED_TEXT], const struct keras_formed *f,
                         const json_t *config)
{
    int n = snprintf(out, FORMED_TEXT, "%s(", f->word);
    const char *key;
    json_t *value;
    bool known = true;

    for (unsigned i = 0; i < 3 && f->key[i] != NULL; i++) {
        const json_t *at = json_object_get(config, f->key[i]);
        const char *between = i > 0 ? ", " : "";

        known = known && (json_is_number(at) || json_is_string(at));
        if (json_is_number(at))
            n += snprintf(out + n, FORMED_TEXT - (size_t)n, "%s%.9g", between,
                          json_number_value(at));
        else if (known)
            n += snprintf(out + n, FORMED_TEXT - (size_t)n, "%s%.20s", between,
                          json_string_value(at));
    }
    snprintf(out + n, FORMED_TEXT - (size_t)n, ")");
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        bool named = false;

        for (unsigned i = 0; i < 3 && f->key[i] != NULL; i++)
            named = named || strcmp(key, f->key[i]) == 0;
        known = known && (named || always_fits(key, value));
    }
    return known;
}

// Returns the job's words for an initializer with arguments, in `out`; NULL: it
// is none that a job can say.
static const char *formed_word(char out[FORMED_TEXT], const json_t *value)
{
    const char *word = keras_word(value);

    if (word == NULL || !keras_own(value) || keras_config(value) == NULL)
        return NULL;
    for (size_t i = 0; i < SL_COUNT(formed); i++)
        if (keras_alike(word, formed[i].class_name) &&
            write_formed(out, &formed[i], keras_config(value)))
            return out;
    return NULL;
}

static const char *initializer_word(const json_t *value)
{
    const char *word = keras_word(value);

    if (word == NULL || !keras_own(value))
        return NULL;
    for (size_t i = 0; i < SL_COUNT(initializers); i++)
        if (keras_alike(word, initializers[i].class_name) &&
            keras_config_fits(keras_config(value), initializers[i].config))
            return initializers[i].word;
    return NULL;
}

enum sl_err take_initializer(struct keras_take *t, const struct keras_rule *r,
                             const json_t *value)
{
    const char *word = initializer_word(value);
    char text[FORMED_TEXT];

    if (json_is_null(value) ||
        (word != NULL && strcmp(word, r->otherwise) == 0))
        return SL_OK;
    if (word == NULL)
        word = formed_word(text, value);
    if (word == NULL)
        return take_refuse(
            t, r, value,
            "known are zeros, ones, orthogonal, random_normal, "
            "random_uniform, truncated_normal, constant, variance_scaling, and "
            "{glorot,he,lecun}_{normal,uniform}; write "
            "one of these, and give submit --weights the model's own first "
            "values (sluice.keras.save_weights)");
    return keras_put_field(t, r, json_string(word));
}

// Ours begin so and cannot begin otherwise.
enum sl_err take_initial(struct keras_take *t, const struct keras_rule *r,
                         const json_t *value)
{
    const char *word = initializer_word(value);
    char why[100];

    if (json_is_null(value) ||
        (word != NULL && strcmp(word, r->otherwise) == 0))
        return SL_OK;
    snprintf(why, sizeof(why), "sluice knows only %s", r->otherwise);
    return take_refuse(t, r, value, why);
}

// Returns true if the layer has no bias: its bias arguments mean nothing then.
static bool without_bias(const struct keras_take *t)
{
    return json_is_false(json_object_get(t->node->config, "use_bias"));
}

enum sl_err take_bias_flag(struct keras_take *t, const struct keras_rule *r,
                           const json_t *value)
{
    return without_bias(t) ? SL_OK : take_copy(t, r, value);
}

enum sl_err take_bias(struct keras_take *t, const struct keras_rule *r,
                      const json_t *value)
{
    return without_bias(t) ? SL_OK : take_initializer(t, r, value);
}

// ---- regularizers

enum sl_err take_regularizer(struct keras_take *t, const struct keras_rule *r,
                             const json_t *value)
{
    const char *word = keras_word(value), *key;
    const json_t *config = keras_config(value);
    json_t *to, *number;
    bool known = word != NULL && config != NULL && keras_own(value) &&
                 (keras_alike(word, "L1") || keras_alike(word, "L2") ||
                  keras_alike(word, "L1L2"));

    if (json_is_null(value))
        return SL_OK;
    json_object_foreach((json_t *)(uintptr_t)config, key, number)
    {
        known = known && json_is_number(number) &&
                (strcmp(key, "l1") == 0 || strcmp(key, "l2") == 0);
    }
    if (!known)
        return take_refuse(t, r, value, "known are L1, L2 and L1L2");
    to = json_object();
    known = to != NULL;
    json_object_foreach((json_t *)(uintptr_t)config, key, number)
    {
        if (json_number_value(number) != 0)
            known = known && json_object_set(to, key, number) == 0;
    }
    if (known && json_object_size(to) > 0)
        return keras_put_field(t, r, to);
    json_decref(to);
    return known ? SL_OK : sl_no_memory(t->g->err);
}

enum sl_err take_bias_regularizer(struct keras_take *t,
                                  const struct keras_rule *r,
                                  const json_t *value)
{
    return without_bias(t) ? SL_OK : take_regularizer(t, r, value);
}

// ---- precision

// 32 bits; 16 bits with variables in 32 are a property of the job.
enum sl_err take_dtype(struct keras_take *t, const struct keras_rule *r,
                       const json_t *value)
{
    const char *word = keras_str(keras_config(value), "name");

    if (word == NULL)
        word = json_string_value(value);
    if (json_is_null(value) || (word != NULL && strcmp(word, "float32") == 0))
        return SL_OK;
    if (word != NULL && strcmp(word, "mixed_float16") == 0)
        t->g->precision = "f16";
    else if (word != NULL && strcmp(word, "mixed_bfloat16") == 0)
        t->g->precision = "bf16";
    else
        return take_refuse(t, r, value,
                           "known are float32, mixed_float16 and "
                           "mixed_bfloat16");
    return SL_OK;
}

// ---- arguments of single layers

// ((top, bottom), (left, right)) -> [top, bottom, left, right]
enum sl_err take_padding(struct keras_take *t, const struct keras_rule *r,
                         const json_t *value)
{
    json_t *to = json_array();
    json_int_t side;
    bool one = true;

    for (size_t i = 0; i < 4; i++) {
        const json_t *at =
            json_array_get(keras_plain(json_array_get(value, i / 2)), i % 2);

        if (!json_is_integer(at)) {
            json_decref(to);
            return take_refuse(
                t, r, value,
                "sluice knows only ((top, bottom), (left, right))");
        }
        if (json_array_append(to, (json_t *)(uintptr_t)at) != 0) {
            json_decref(to);
            return sl_no_memory(t->g->err);
        }
        one = one && json_equal(at, json_array_get(to, 0));
    }
    if (one) {
        side = json_integer_value(json_array_get(to, 0));
        json_decref(to);
        if (side == 1)
            return SL_OK;
        to = json_integer(side);
    }
    return keras_put_field(t, r, to);
}

enum sl_err take_axis_or_none(struct keras_take *t, const struct keras_rule *r,
                              const json_t *value)
{
    if (json_is_null(value) ||
        (json_is_array(value) && json_array_size(value) == 0))
        return SL_OK;
    return take_axis(t, r, value);
}

#define NOT_LEARNT                                                             \
    "what adapt() found is not in this file: sluice.keras.to_job(model) "      \
    "takes "                                                                   \
    "it from the model; or "

enum sl_err take_given(struct keras_take *t, const struct keras_rule *r,
                       const json_t *value)
{
    if (json_is_null(value))
        return take_refuse(t, r, value,
                           NOT_LEARNT "make the layer with "
                                      "Normalization(mean=..., variance=...)");
    return take_copy(t, r, value);
}

enum sl_err take_learnt(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value)
{
    if (!json_is_array(value))
        return take_refuse(t, r, value, NOT_LEARNT "give the layer a list");
    return take_copy(t, r, value);
}

enum sl_err take_constant(struct keras_take *t, const struct keras_rule *r,
                          const json_t *value)
{
    char text[FORMED_TEXT];

    if (!json_is_number(value))
        return take_refuse(t, r, value, "known is one number");
    snprintf(text, sizeof(text), "constant(%.9g)", json_number_value(value));
    return keras_put_field(t, r, json_string(text));
}

enum sl_err take_number(struct keras_take *t, const struct keras_rule *r,
                        const json_t *value)
{
    if (!json_is_number(value))
        return take_refuse(t, r, value, "known is one number");
    return take_copy(t, r, value);
}

enum sl_err take_value_dim(struct keras_take *t, const struct keras_rule *r,
                           const json_t *value)
{
    if (keras_same(value, json_object_get(t->node->config, "key_dim")))
        return SL_OK;
    return take_copy(t, r, value);
}
