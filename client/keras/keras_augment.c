// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_augment.c -- Random* layers in front of a model, as
// data.train.augment.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/keras/keras_inner.h"

static const struct augment_class {
    const char *class_name;
    const char *change; // field of AugmentSpec
    const char *factor; // argument of the amount
    const char *other;  // argument that must be null or equal it; NULL: none
    double unit;        // amount of a factor of 1
} augment_classes[] = {
    {"RandomFlip", "flip", "mode", NULL, 0},
    {"RandomTranslation", "translate", "height_factor", "width_factor", 1},
    {"RandomRotation", "rotate", "factor", NULL, 360},
    {"RandomZoom", "zoom", "height_factor", "width_factor", 1},
    {"RandomBrightness", "brightness", "factor", NULL, 1},
    {"RandomContrast", "contrast", "factor", NULL, 1},
};

static const struct augment_class *augment_class(const char *class_name)
{
    for (size_t i = 0; i < SL_COUNT(augment_classes); i++)
        if (strcmp(augment_classes[i].class_name, class_name) == 0)
            return &augment_classes[i];
    return NULL;
}

bool keras_augments(const char *class_name)
{
    return augment_class(class_name) != NULL;
}

uint32_t keras_augmented(const struct keras_graph *g)
{
    uint32_t n = 0;

    while (n < g->count && keras_augments(g->nodes[n].class_name))
        n++;
    return n;
}

static enum sl_err refuse_argument(struct keras_graph *g,
                                   const struct keras_node *n, const char *key,
                                   const char *why)
{
    char text[KERAS_TEXT];

    return keras_refuse(g, n->name, n->class_name, "has %s: %s; %s", key,
                        keras_text(text, json_object_get(n->config, key)), why);
}

// Returns the f of a factor f, [-f, f], or of a contrast [f, f] or [0, f], as
// versions of Keras write one number; 0: it is none of these.
static double augment_factor(const json_t *value, bool contrast)
{
    double low, high;

    value = keras_plain(value);
    if (json_is_number(value))
        return json_number_value(value);
    if (json_array_size(value) != 2)
        return 0;
    low = json_number_value(json_array_get(value, 0));
    high = json_number_value(json_array_get(value, 1));
    return low == -high || (contrast && (low == high || low == 0)) ? high : 0;
}

static json_t *augment_flip(const json_t *mode)
{
    const char *word = json_string_value(mode);

    return json_string(word == NULL                                   ? ""
                       : strcmp(word, "horizontal_and_vertical") == 0 ? "both"
                                                                      : word);
}

// Checks the arguments beside the amount: those that a job could not say.
static enum sl_err augment_check(struct keras_graph *g,
                                 const struct keras_node *n,
                                 const struct augment_class *c)
{
    static const struct {
        const char *key, *only;
    } fixed[] = {{"fill_mode", "\"reflect\""},
                 {"interpolation", "\"bilinear\""},
                 {"data_format", "\"channels_last\""}};

    for (size_t i = 0; i < SL_COUNT(fixed); i++) {
        const json_t *value = json_object_get(n->config, fixed[i].key);

        if (value != NULL && !keras_is(value, fixed[i].only))
            return refuse_argument(g, n, fixed[i].key,
                                   "a job has Keras' default alone");
    }
    if (c->other != NULL) {
        const json_t *other = json_object_get(n->config, c->other);
        bool zoom = strcmp(c->change, "zoom") == 0;

        if (zoom ? other != NULL && !json_is_null(other)
                 : !keras_same(json_object_get(n->config, c->factor), other))
            return refuse_argument(g, n, c->other,
                                   zoom ? "a job zooms both axes alike"
                                        : "a job moves both axes alike");
    }
    return SL_OK;
}

static enum sl_err augment_entry(json_t *entry, struct keras_graph *g,
                                 const struct keras_node *n,
                                 const struct augment_class *c)
{
    const json_t *factor = json_object_get(n->config, c->factor);
    const json_t *range = json_object_get(n->config, "value_range");
    double by = augment_factor(factor, strcmp(c->change, "contrast") == 0);
    bool flip = c->unit == 0;
    int rc;

    if (!flip && !(by > 0))
        return refuse_argument(g, n, c->factor,
                               "a job draws as much either way");
    // 0.1 * 360 is 36, not 36.00000000000001.
    rc = json_object_set_new(entry, c->change,
                             flip ? augment_flip(factor)
                                  : json_real(round(by * c->unit * 1e9) / 1e9));
    if (rc == 0 && range != NULL && !keras_is(keras_plain(range), "[0, 255]") &&
        !keras_is(keras_plain(range), "[0.0, 255.0]"))
        rc = json_object_set(entry, "range",
                             (json_t *)(uintptr_t)keras_plain(range));
    return rc == 0 ? SL_OK : sl_no_memory(g->err);
}

enum sl_err keras_augment(json_t *to, struct keras_graph *g, uint32_t i)
{
    const struct keras_node *n = &g->nodes[i];
    const struct augment_class *c = augment_class(n->class_name);
    json_t *entry = json_object();
    enum sl_err rc;

    if (i >= keras_augmented(g) || n->inputs != 1 || n->input[0] != i)
        rc = keras_refuse(g, n->name, n->class_name,
                          "changes what a layer computed; a job changes images "
                          "as they are read: put it before all other layers");
    else
        rc = augment_check(g, n, c);
    if (rc == SL_OK)
        rc = augment_entry(entry, g, n, c);
    if (rc == SL_OK && json_array_append(to, entry) != 0)
        rc = sl_no_memory(g->err);
    json_decref(entry);
    return rc;
}

enum sl_err keras_fill_augment(json_t *spec, const struct keras *k,
                               struct buf *notes, struct sl_error *err)
{
    json_t *train = json_object_get(json_object_get(spec, "data"), "train");
    char *text;
    enum sl_err rc;

    if (json_array_size(k->augment) == 0 ||
        json_object_get(train, "augment") != NULL)
        return SL_OK;
    if (json_is_object(train))
        return json_object_set(train, "augment", k->augment) == 0
                   ? SL_OK
                   : sl_no_memory(err);
    text = json_dumps(k->augment, JSON_COMPACT | JSON_REAL_PRECISION(12));
    rc = text == NULL
             ? sl_no_memory(err)
             : buf_appendf(notes,
                           "data.train: the model's Random* layers are "
                           "augment: %s there\n",
                           text);
    free(text);
    return rc;
}
