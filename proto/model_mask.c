// SPDX-License-Identifier: Apache-2.0
// proto/model_mask.c -- which steps of a sequence count. An embedding with
// mask_zero and a masking say it, and the layers behind them hand it on, as
// those of Keras do: no tensor goes through the graph with it.
#include "proto/model_build.h"

#include <string.h>

static enum mask_rule {
    REFUSES,  // Keras would compute something else with a mask
    HANDS_ON, // works on each step by itself
    LOSES,    // the steps of its output are others; Keras warns of it
    USES,     // its output has no steps, or they are carried on
} rules[MODEL_LAYER_COUNT] = {
    [MODEL_DENSE] = HANDS_ON,
    [MODEL_ACTIVATION] = HANDS_ON,
    [MODEL_PRELU] = HANDS_ON,
    [MODEL_DROPOUT] = HANDS_ON,
    [MODEL_SPATIAL_DROPOUT2D] = HANDS_ON,
    [MODEL_LAYER_NORMALIZATION] = HANDS_ON,
    [MODEL_UNIT_NORMALIZATION] = HANDS_ON,
    [MODEL_ADD] = HANDS_ON,
    [MODEL_MULTIPLY] = HANDS_ON,
    [MODEL_AVERAGE] = HANDS_ON,
    [MODEL_SUBTRACT] = HANDS_ON,
    [MODEL_MAXIMUM] = HANDS_ON,
    [MODEL_MINIMUM] = HANDS_ON,
    [MODEL_CONCATENATE] = HANDS_ON,
    [MODEL_FLATTEN] = LOSES,
    [MODEL_RESHAPE] = LOSES,
    [MODEL_PERMUTE] = LOSES,
    [MODEL_CONV2D] = LOSES,
    [MODEL_DEPTHWISE_CONV2D] = LOSES,
    [MODEL_SEPARABLE_CONV2D] = LOSES,
    [MODEL_CONV2D_TRANSPOSE] = LOSES,
    [MODEL_MAX_POOLING2D] = LOSES,
    [MODEL_AVERAGE_POOLING2D] = LOSES,
    [MODEL_GLOBAL_MAX_POOLING2D] = LOSES,
    [MODEL_ZERO_PADDING2D] = LOSES,
    [MODEL_CROPPING2D] = LOSES,
    [MODEL_UP_SAMPLING2D] = LOSES,
    [MODEL_DOT] = LOSES,
    [MODEL_GLOBAL_AVERAGE_POOLING2D] = USES,
    [MODEL_LSTM] = USES,
    [MODEL_GRU] = USES,
    [MODEL_SIMPLE_RNN] = USES,
};

static uint32_t mask_of_input(const struct model_build *b, uint32_t k)
{
    return b->m->nodes[b->node->input[k]].mask_out;
}

// Sets the node's mask to that of its inputs: inputs with different masks are
// refused, and an input without one goes with any, but in concatenate.
static enum sl_err mask_of_inputs(const struct model_build *b)
{
    struct model_node *n = b->node;
    bool all = n->type == MODEL_CONCATENATE; // Keras 2 and 3 differ there
    uint32_t from = 0;                       // the input that n->mask is of

    for (uint32_t k = 0; k < n->inputs; k++) {
        uint32_t mask = mask_of_input(b, k);

        if (n->mask == MODEL_NONE && (k == 0 || !all)) {
            n->mask = mask;
            from = k;
        }
        if (n->mask != mask && (all || mask != MODEL_NONE))
            return build_fail(b,
                              "reads '%s' and '%s', in which other steps are "
                              "masked; use one mask for all",
                              b->m->nodes[n->input[from]].name,
                              b->m->nodes[n->input[k]].name);
    }
    return SL_OK;
}

// Makes the node the one that says which steps count.
static enum sl_err mask_begins(struct model_build *b)
{
    build_needs(b, MODEL_EDITION_MASKS);
    b->node->mask_out = b->at;
    return SL_OK;
}

enum sl_err build_mask(struct model_build *b)
{
    struct model_node *n = b->node;
    enum mask_rule rule = rules[n->type];
    enum sl_err rc;

    n->mask = n->mask_out = MODEL_NONE;
    if (n->type == MODEL_MASKING)
        return mask_begins(b);
    if (n->type == MODEL_EMBEDDING)
        return n->masks ? mask_begins(b) : SL_OK;
    rc = mask_of_inputs(b);
    if (rc != SL_OK || n->mask == MODEL_NONE)
        return rc;
    if (rule == REFUSES || strcmp(b->layer->type, "softmax") == 0)
        return build_fail(b,
                          "reads steps of which '%s' masks some, and is not "
                          "offered with a mask",
                          b->m->nodes[n->mask].name);
    if (rule == HANDS_ON || (rule == USES && n->sequences))
        n->mask_out = n->mask;
    if (rule != USES)
        n->mask = MODEL_NONE;
    return SL_OK;
}

// Reads (steps, features); a step whose features are all `mask_value` does not
// count, and becomes zeroes.
enum sl_err build_masking(struct model_build *b)
{
    b->node->mask_value = b->layer->mask_value;
    return build_want_rank(b, 2, "an input of shape (steps, features)", "");
}
