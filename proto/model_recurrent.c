// SPDX-License-Identifier: Apache-2.0
// proto/model_recurrent.c -- layers that go step by step: lstm, gru,
// simple_rnn.
#include "proto/model_build.h"

#include <stdio.h>

// Sets *act to the activation `word`, or to `otherwise`.
static enum sl_err recurrent_act(const struct model_build *b,
                                 enum model_act *act, const char *word,
                                 enum model_act otherwise, const char *key)
{
    // A step keeps what its activation gives, not what it is given.
    static const enum model_act known[] = {
        MODEL_ACT_LINEAR, MODEL_ACT_RELU,        MODEL_ACT_RELU6,
        MODEL_ACT_TANH,   MODEL_ACT_SIGMOID,     MODEL_ACT_SELU,
        MODEL_ACT_ELU,    MODEL_ACT_HARD_SIGMOID};
    enum model_act found = otherwise;

    char where[220];

    if (word != NULL)
        found = model_act_by_name(word);
    if (found == MODEL_ACT_COUNT) {
        snprintf(where, sizeof(where), "layer '%s' (%s)", b->node->name,
                 b->layer->type);
        return model_unknown_act(where, word, b->err);
    }
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        if (found != known[k])
            continue;
        *act = found;
        return SL_OK;
    }
    return build_fail(b,
                      "has '%s' %.60s; a recurrent layer knows linear, relu, "
                      "relu6, tanh, sigmoid, selu, elu and hard_sigmoid",
                      key, word);
}

// Reads what all of them have. Wants (steps, features).
static enum sl_err build_recurrent(struct model_build *b, unsigned gates,
                                   unsigned biases)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc =
        build_want_rank(b, 2, "an input of shape (steps, features)", "");

    if (rc != SL_OK)
        return rc;
    if (n->in.dim[0] > MODEL_STEPS_MAX)
        return build_fail(b, "goes %llu steps, and at most %d are possible",
                          (unsigned long long)n->in.dim[0], MODEL_STEPS_MAX);
    b->steps += n->in.dim[0];
    if (b->steps > MODEL_STEPS_ALL)
        return build_fail(b,
                          "goes %llu steps together with the recurrent layers "
                          "before it, and at most %d are possible",
                          (unsigned long long)b->steps, MODEL_STEPS_ALL);
    if (l->units == 0 || l->units > MODEL_VARIABLE_MAX / 4)
        return build_fail(b, "needs 'units' of 1 to %llu",
                          (unsigned long long)(MODEL_VARIABLE_MAX / 4));
    n->sequences = l->return_sequences;
    n->backwards = l->go_backwards;
    n->keep_order = l->keep_order;
    n->zero_masked = l->zero_output_for_mask;
    if (n->zero_masked)
        build_needs(b, MODEL_EDITION_MASKS);
    n->alpha = 1; // of elu
    rc = recurrent_act(b, &n->step_act, l->activation, MODEL_ACT_TANH,
                       "activation");
    if (rc == SL_OK)
        rc = recurrent_act(b, &n->gate_act, l->recurrent_activation,
                           MODEL_ACT_SIGMOID, "recurrent_activation");
    if (rc != SL_OK)
        return rc;
    n->out = (struct model_shape){2, {n->in.dim[0], l->units}};
    if (!n->sequences)
        n->out = (struct model_shape){1, {l->units}};
    return build_recurrent_variables(b, gates, biases);
}

enum sl_err build_lstm(struct model_build *b)
{
    return build_recurrent(b, 4, 1);
}

// As Keras' with reset_after: the reset gate multiplies the product with the
// recurrent kernel, which has a bias of its own.
enum sl_err build_gru(struct model_build *b)
{
    return build_recurrent(b, 3, 2);
}

enum sl_err build_simple_rnn(struct model_build *b)
{
    return build_recurrent(b, 1, 1);
}
