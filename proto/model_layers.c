// SPDX-License-Identifier: Apache-2.0
// proto/model_layers.c -- the layers one at a time, and what comes out of each.
#include "proto/model_build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct act_kind {
    unsigned edition;
    const char *fields; // fields of the layer that it adds to those of any
    double alpha, layer_alpha;
} acts[MODEL_ACT_COUNT] = {
    [MODEL_ACT_LINEAR] = {.fields = ""},
#define ACTIVATION(code, name, edition, keys, alpha, layer_alpha)              \
    [MODEL_ACT_##code] = {edition, keys, alpha, layer_alpha},
#include "proto/layers.def"
};

// `axis` may say only what is done anyway; it counts the batch as axis 0.
enum sl_err build_last_axis(const struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;

    if (l->has_axis && l->axis != -1 && l->axis != (int32_t)b->node->in.rank)
        return build_fail(b, "works along the last axis (-1), got axis %d",
                          l->axis);
    return SL_OK;
}

static enum sl_err set_act(const struct model_build *b, const char *word)
{
    struct model_node *n = b->node;
    char where[220];

    if (word == NULL)
        return SL_OK;
    n->act = model_act_by_name(word);
    if (n->act == MODEL_ACT_COUNT) {
        snprintf(where, sizeof(where), "layer '%s' (%s)", n->name,
                 b->layer->type);
        return model_unknown_act(where, word, b->err);
    }
    build_needs(b, acts[n->act].edition);
    n->alpha = acts[n->act].alpha;
    return SL_OK;
}

enum sl_err build_act(const struct model_build *b)
{
    return set_act(b, b->layer->activation);
}

enum sl_err build_dense(struct model_build *b)
{
    struct model_node *n = b->node;
    enum sl_err rc;

    if (b->layer->units == 0)
        return build_fail(b, "needs 'units' of at least 1");
    if (n->in.rank > 1) // along the last axis
        build_needs(b, MODEL_EDITION);
    n->out.dim[n->in.rank - 1] = b->layer->units;
    rc = set_act(b, b->layer->activation);
    return rc == SL_OK ? build_dense_variables(b) : rc;
}

enum sl_err build_want_filters(const struct model_build *b)
{
    enum sl_err rc = build_want_image(b);

    if (rc != SL_OK)
        return rc;
    if (b->layer->filters == 0)
        return build_fail(b, "needs 'filters' of at least 1");
    if (b->layer->n_kernel_size == 0)
        return build_fail(b, "needs 'kernel_size'");
    return SL_OK;
}

enum sl_err build_conv2d(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    enum sl_err rc = build_want_filters(b);

    if (rc != SL_OK)
        return rc;
    b->node->out.dim[2] = l->filters;
    b->node->groups = l->has_groups ? l->groups : 1;
    if (b->node->groups == 0 || b->node->in.dim[2] % b->node->groups != 0 ||
        l->filters % b->node->groups != 0)
        return build_fail(b,
                          "wants 'groups' that divide the channels (%llu) "
                          "and the filters (%u), got %u",
                          (unsigned long long)b->node->in.dim[2], l->filters,
                          b->node->groups);
    if (b->node->groups > 1)
        build_needs(b, MODEL_EDITION);
    rc = build_window(b, l->kernel_size, l->n_kernel_size, l->strides,
                      l->n_strides);
    if (rc == SL_OK)
        rc = set_act(b, l->activation);
    return rc == SL_OK ? build_conv_variables(b) : rc;
}

// The convolution of each channel by itself, with depth_multiplier filters
// each; b->node->out is what comes out of that.
static enum sl_err each_channel(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    uint64_t times = l->has_depth_multiplier ? l->depth_multiplier : 1;
    struct model_node *n = b->node;
    uint64_t elements;
    enum sl_err rc = build_want_image(b);

    if (rc != SL_OK)
        return rc;
    if (l->n_kernel_size == 0)
        return build_fail(b, "needs 'kernel_size'");
    if (times == 0 || times * n->in.dim[2] > MODEL_VARIABLE_MAX)
        return build_fail(b,
                          "wants 'depth_multiplier' of at least 1, and not "
                          "more than %llu channels",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    n->groups = (uint32_t)n->in.dim[2];
    n->out.dim[2] = times * n->in.dim[2];
    rc = build_window(b, l->kernel_size, l->n_kernel_size, l->strides,
                      l->n_strides);
    if (rc == SL_OK && shape_product(&elements, &n->out) != SL_OK)
        return build_fail(b,
                          "has more than %llu elements in 'depth_multiplier' "
                          "times its input's channels",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    return rc == SL_OK ? set_act(b, l->activation) : rc;
}

enum sl_err build_depthwise(struct model_build *b)
{
    enum sl_err rc = each_channel(b);

    return rc == SL_OK ? build_depthwise_variables(b) : rc;
}

enum sl_err build_separable(struct model_build *b)
{
    enum sl_err rc = each_channel(b);

    if (rc == SL_OK && b->layer->filters == 0)
        return build_fail(b, "needs 'filters' of at least 1");
    return rc == SL_OK ? build_separable_variables(b) : rc;
}

enum sl_err build_pool(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    enum sl_err rc = build_want_image(b);

    return rc == SL_OK ? build_window(b, l->pool_size, l->n_pool_size,
                                      l->strides, l->n_strides)
                       : rc;
}

enum sl_err build_global_pool(struct model_build *b)
{
    struct model_node *n = b->node;
    enum sl_err rc = build_want_image(b);

    if (rc != SL_OK)
        return rc;
    n->window[0] = (uint32_t)n->in.dim[0];
    n->window[1] = (uint32_t)n->in.dim[1];
    n->stride[0] = n->stride[1] = 1;
    n->out = (struct model_shape){1, {n->in.dim[2]}};
    if (b->layer->keepdims) {
        n->out = (struct model_shape){3, {1, 1, n->in.dim[2]}};
        build_needs(b, MODEL_EDITION);
    }
    return SL_OK;
}

enum sl_err build_flatten(struct model_build *b)
{
    uint64_t elements = model_shape_elements(&b->node->in);

    b->node->out = (struct model_shape){1, {elements}};
    return SL_OK;
}

enum sl_err build_dropout(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;

    if (!l->has_rate || !(l->rate >= 0 && l->rate < 1))
        return build_fail(b, "needs 'rate' in [0, 1)");
    b->node->rate = l->rate;
    b->node->seed = l->seed;
    return SL_OK;
}

enum sl_err build_norm(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc = build_last_axis(b);

    if (rc != SL_OK)
        return rc;
    n->momentum = l->has_momentum ? l->momentum : 0.99;
    n->epsilon = l->has_epsilon ? l->epsilon : 1e-3;
    n->unbiased = l->fused && n->in.rank >= 3;
    if (n->unbiased)
        build_needs(b, MODEL_EDITION_FUSED);
    if (!(n->momentum >= 0 && n->momentum < 1))
        return build_fail(b, "wants 'momentum' in [0, 1), got %g", n->momentum);
    if (!(n->epsilon > 0 && isfinite(n->epsilon)))
        return build_fail(b, "wants 'epsilon' above 0, got %g", n->epsilon);
    return build_norm_variables(b);
}

enum sl_err build_layer_norm(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc = build_last_axis(b);

    if (rc != SL_OK)
        return rc;
    n->epsilon = l->has_epsilon ? l->epsilon : 1e-3;
    if (!(n->epsilon > 0 && isfinite(n->epsilon)))
        return build_fail(b, "wants 'epsilon' above 0, got %g", n->epsilon);
    return build_layer_norm_variables(b);
}

// All inputs have the shape of the first, but for the last axis.
static enum sl_err same_shapes(const struct model_build *b)
{
    const struct model_node *n = b->node;
    char first[MODEL_SHAPE_TEXT], other[MODEL_SHAPE_TEXT];

    for (uint32_t i = 1; i < n->inputs; i++) {
        const struct model_node *from = &b->m->nodes[n->input[i]];

        if (from->out.rank != n->in.rank ||
            memcmp(from->out.dim, n->in.dim,
                   (n->in.rank - 1) * sizeof(n->in.dim[0])) != 0)
            return build_fail(
                b,
                "wants inputs of one shape but for the last axis, got %s and "
                "%s ('%s')",
                model_shape_text(first, &n->in),
                model_shape_text(other, &from->out), from->name);
    }
    return SL_OK;
}

// (1, ..., 1, c), of a rank above 1.
static bool is_row(const struct model_shape *s)
{
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        if (s->dim[i] != 1)
            return false;
    return s->rank > 1;
}

// Inputs have one shape, or are a row of it, which stands at every place.
enum sl_err build_combination(struct model_build *b)
{
    struct model_node *n = b->node;
    char first[MODEL_SHAPE_TEXT], other[MODEL_SHAPE_TEXT];

    if (n->type == MODEL_SUBTRACT && n->inputs != 2)
        return build_fail(b, "reads exactly two layers, got %u inputs",
                          n->inputs);
    if ((n->type == MODEL_MAXIMUM || n->type == MODEL_MINIMUM) &&
        n->inputs > MODEL_PICKS_MAX)
        return build_fail(b, "reads at most %d layers, got %u inputs",
                          MODEL_PICKS_MAX, n->inputs);
    for (uint32_t i = 1; i < n->inputs && is_row(&n->out); i++)
        n->out = b->m->nodes[n->input[i]].out;
    for (uint32_t i = 0; i < n->inputs; i++) {
        const struct model_node *from = &b->m->nodes[n->input[i]];
        const struct model_shape *s = &from->out;
        uint32_t last = n->out.rank - 1;

        if (shape_equal(s, &n->out))
            continue;
        if (s->rank != n->out.rank || !is_row(s) ||
            s->dim[last] != n->out.dim[last])
            return build_fail(b,
                              "wants inputs of one shape, got %s and %s ('%s')",
                              model_shape_text(first, &n->out),
                              model_shape_text(other, s), from->name);
        build_needs(b, MODEL_EDITION);
    }
    return SL_OK;
}

enum sl_err build_concatenate(struct model_build *b)
{
    struct model_node *n = b->node;
    uint32_t last = n->in.rank - 1;
    enum sl_err rc = build_last_axis(b);

    if (rc == SL_OK)
        rc = same_shapes(b);
    if (rc != SL_OK)
        return rc;
    n->out.dim[last] = 0;
    for (uint32_t i = 0; i < n->inputs; i++)
        n->out.dim[last] += b->m->nodes[n->input[i]].out.dim[last];
    return SL_OK;
}

static bool act_has_alpha(enum model_act act)
{
    return strstr(acts[act].fields, " alpha ") != NULL;
}

// Refuses an alpha, with the activations that take one.
static enum sl_err build_fail_alpha(const struct model_build *b)
{
    char list[200] = "";
    size_t used = 0;

    for (unsigned i = 0; i < MODEL_ACT_COUNT && used < sizeof(list); i++)
        if (act_has_alpha((enum model_act)i))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                     used > 0 ? " and " : "",
                                     model_act_name((enum model_act)i));
    return build_fail(b, "takes 'alpha' only for %s", list);
}

enum sl_err build_activation(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    bool named = n->type == MODEL_ACTIVATION;
    const char *word = named ? l->activation : model_layer_name(n->type);
    enum sl_err rc;

    if (word == NULL)
        return build_fail(b, "needs 'activation'");
    rc = set_act(b, word);
    if (rc == SL_OK && n->act == MODEL_ACT_SOFTMAX)
        rc = build_last_axis(b);
    if (rc != SL_OK)
        return rc;
    if (!named)
        n->alpha = acts[n->act].layer_alpha;
    if (l->has_alpha && !act_has_alpha(n->act))
        return build_fail_alpha(b);
    if (l->has_alpha)
        n->alpha = l->alpha;
    if (!isfinite(n->alpha) || n->alpha < 0)
        return build_fail(b, "wants 'alpha' of at least 0, got %g", n->alpha);
    n->type = MODEL_ACTIVATION;
    return SL_OK;
}
