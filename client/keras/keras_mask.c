// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_mask.c -- masks of steps in a Functional model of Keras 3.
//
// Keras hands a mask on by itself, and a job's layers do the same. Keras 3
// writes what came of it: ops that make the mask, as NotEqual(ids, 0), and an
// argument `mask` of each call that has one. No job has such ops: they are
// followed to the NotEqual that they begin with, left out, and what a job's
// layers do by themselves is compared with what is written.
#include <string.h>

#include "client/keras/keras_inner.h"

// What is known of a layer's output. Higher numbers: the mask that the NotEqual
// of number - MASK_OF makes.
enum { NO_MASK, MASK_NEUTRAL, MASK_MIXED, MASK_OF };

#define MASK_PASSES 8

bool keras_mask_op(const json_t *layer)
{
    static const char *const ops[] = {"NotEqual",   "Any",       "LogicalOr",
                                      "ExpandDims", "ZerosLike", "OnesLike",
                                      "Concatenate"};
    const char *module = keras_str(layer, "module");
    const char *name = keras_str(layer, "class_name");

    if (module == NULL || name == NULL ||
        strncmp(module, "keras.src.ops.", 14) != 0)
        return false;
    for (size_t i = 0; i < SL_COUNT(ops); i++)
        if (strcmp(name, ops[i]) == 0)
            return true;
    return false;
}

static const json_t *mask_args(const json_t *layer)
{
    const json_t *call =
        json_array_get(json_object_get(layer, "inbound_nodes"), 0);

    return keras_plain(json_object_get(call, "args"));
}

static uint32_t mask_join(uint32_t a, uint32_t b)
{
    if (a == NO_MASK || b == NO_MASK)
        return NO_MASK;
    if (a == b || b == MASK_NEUTRAL)
        return a;
    return a == MASK_NEUTRAL ? b : MASK_MIXED;
}

// Joins the masks of all tensors in the list `args` and in lists in it. More
// than a layer can read are no mask.
static uint32_t mask_of_args(const uint32_t *masks,
                             const struct strmap *numbers, const json_t *args)
{
    uint32_t all = MASK_NEUTRAL;
    size_t seen = 0;

    for (size_t i = 0; i < json_array_size(args); i++) {
        const json_t *value = keras_plain(json_array_get(args, i));
        json_int_t at[2];
        const char *name = keras_tensor(value, at);
        size_t count = name == NULL ? json_array_size(value) : 1;

        seen += count;
        if (i > MODEL_INPUTS_MAX || seen > MODEL_INPUTS_MAX)
            return NO_MASK;
        for (size_t k = 0; k < count; k++) {
            const char *one = name != NULL
                                  ? name
                                  : keras_tensor(json_array_get(value, k), at);
            uint32_t number =
                one != NULL ? (uint32_t)(uintptr_t)strmap_get(numbers, one) : 0;

            all = mask_join(all, number != 0 ? masks[number - 1] : NO_MASK);
        }
    }
    return all;
}

static uint32_t mask_of_op(const uint32_t *masks, const struct strmap *numbers,
                           const json_t *layer, uint32_t i)
{
    const char *name = keras_str(layer, "class_name");

    if (strcmp(name, "NotEqual") == 0)
        return MASK_OF + i;
    if (strcmp(name, "ZerosLike") == 0)
        return MASK_NEUTRAL;
    if (strcmp(name, "OnesLike") == 0)
        return MASK_MIXED;
    return mask_of_args(masks, numbers, mask_args(layer));
}

void keras_masks(uint32_t *masks, const json_t *layers,
                 const struct strmap *numbers)
{
    bool again = true;

    // Keras lists an op behind those that it reads. Others may have another
    // order: repeat until no mask is new, but not as often as there are ops.
    for (unsigned pass = 0; again && pass < MASK_PASSES; pass++) {
        again = false;
        for (uint32_t i = 0; i < json_array_size(layers); i++) {
            const json_t *layer = json_array_get(layers, i);

            if (masks[i] != NO_MASK || !keras_mask_op(layer))
                continue;
            masks[i] = mask_of_op(masks, numbers, layer, i);
            again = again || masks[i] != NO_MASK;
        }
    }
}

enum sl_err keras_masked(struct keras_call *call, struct keras_graph *g,
                         const uint32_t *masks, const json_t *layers,
                         const struct strmap *numbers, const json_t *layer)
{
    uint32_t mask = call->mask != 0 ? masks[call->mask - 1] : NO_MASK;
    const json_t *args = mask >= MASK_OF
                             ? mask_args(json_array_get(layers, mask - MASK_OF))
                             : NULL;
    const json_t *number = json_array_get(args, 1);
    uint32_t of;

    if (call->mask == 0)
        return SL_OK;
    if (keras_source(&of, &call->mask_at, numbers, json_array_get(args, 0)) !=
            SL_OK ||
        !json_is_number(number))
        return keras_refuse(g, keras_name(layer), keras_class(layer),
                            "is called with a mask that is none of one "
                            "Embedding with mask_zero or of one Masking");
    call->mask = of + 1;
    call->mask_number = json_number_value(number);
    return SL_OK;
}

// ---- what a job's layers do by themselves

static bool mask_fits(const struct model *m, const struct model_node *n,
                      const json_t *said)
{
    const struct model_node *by;

    if (n->mask == MODEL_NONE || json_is_null(said))
        return n->mask == MODEL_NONE && json_is_null(said);
    by = &m->nodes[n->mask];
    return json_number_value(json_array_get(said, 1)) == by->mask_value &&
           strcmp(json_string_value(json_array_get(said, 0)),
                  by->input[0] == 0 ? "input" : m->nodes[by->input[0]].name) ==
               0;
}

enum sl_err keras_check_masks(const struct keras *k, const struct model *m,
                              struct sl_error *err)
{
    for (uint32_t i = 1; i < m->nodes_count; i++) {
        const json_t *said = json_object_get(k->masks, m->nodes[i].name);

        if (said != NULL && !mask_fits(m, &m->nodes[i], said))
            return sl_fail(err, SL_ENOTSUP,
                           "layer '%.100s' is called with another mask than "
                           "the layers before it hand on, or without it",
                           m->nodes[i].name);
    }
    return SL_OK;
}
