// SPDX-License-Identifier: Apache-2.0
// proto/model_composed.c -- layers that a worker composes of ops that other
// layers have: transposed convolutions, normalizations, products of two inputs.
#include "proto/model_build.h"

#include <math.h>

// Wants an image; its output is what a convolution of that window makes it of.
enum sl_err build_conv_transpose(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    enum sl_err rc = build_want_filters(b);

    if (rc != SL_OK)
        return rc;
    b->node->groups = 1;
    b->node->out.dim[2] = l->filters;
    rc = build_window_back(b);
    if (rc == SL_OK)
        rc = build_act(b);
    return rc == SL_OK ? build_transpose_variables(b) : rc;
}

// Wants an image: a channel of a sample goes or stays whole.
enum sl_err build_spatial_dropout(struct model_build *b)
{
    enum sl_err rc = build_want_image(b);

    return rc == SL_OK ? build_dropout(b) : rc;
}

// The variables are those of a layer normalization.
enum sl_err build_group_norm(struct model_build *b)
{
    struct model_node *n = b->node;
    uint64_t channels = n->in.dim[n->in.rank - 1];

    n->groups = b->layer->has_groups ? b->layer->groups : 32;
    if (n->groups == 0 || channels % n->groups != 0)
        return build_fail(b,
                          "wants 'groups' that divide the channels (%llu), "
                          "got %u",
                          (unsigned long long)channels, n->groups);
    return build_layer_norm(b);
}

enum sl_err build_unit_norm(struct model_build *b)
{
    return build_last_axis(b);
}

// Sets to[channels] to the list, which has one number for all, or each.
static enum sl_err read_given(const struct model_build *b, double *to,
                              uint64_t channels, const char *field,
                              const double *list, size_t n, double least)
{
    if (n != 1 && n != channels)
        return build_fail(b,
                          "needs 1 value of '%s' or one of each of %llu "
                          "channels, got %zu",
                          field, (unsigned long long)channels, n);
    for (uint64_t i = 0; i < channels; i++) {
        to[i] = list[n == 1 ? 0 : i];
        if (!isfinite((float)to[i]) || to[i] < least)
            return build_fail(b, "wants a finite '%s'%s, got %g", field,
                              least == 0 ? " of at least 0" : "", to[i]);
    }
    return SL_OK;
}

// Its mean and variance are numbers of the spec, not variables.
enum sl_err build_normalization(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    uint64_t channels = n->in.dim[n->in.rank - 1];
    enum sl_err rc = build_last_axis(b);

    if (rc != SL_OK)
        return rc;
    rc = build_given(b, channels, "channels", 2 * channels);
    if (rc != SL_OK)
        return rc;
    rc = read_given(b, n->given, channels, "mean", l->mean, l->n_mean,
                    -INFINITY);
    return rc == SL_OK ? read_given(b, n->given + channels, channels,
                                    "variance", l->variance, l->n_variance, 0)
                       : rc;
}

// Both inputs are (features), or (several, features) in any order; `axes` are
// multiplied and added up.
enum sl_err build_dot(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    const struct model_shape *x = &n->in, *y;
    char first[MODEL_SHAPE_TEXT], other[MODEL_SHAPE_TEXT];

    if (n->inputs != 2)
        return build_fail(b, "reads exactly two layers, got %u inputs",
                          n->inputs);
    y = &b->m->nodes[n->input[1]].out;
    if (x->rank != y->rank || x->rank > 2)
        return build_fail(b,
                          "wants two inputs of one or of two axes, got %s and "
                          "%s",
                          model_shape_text(first, x),
                          model_shape_text(other, y));
    if (l->n_axes == 0 || l->n_axes > 2)
        return build_fail(b, "needs 'axes': one for both inputs, or two");
    for (unsigned k = 0; k < 2; k++) {
        int32_t axis = l->axes[l->n_axes == 2 ? k : 0];

        n->axis[k] = axis == -1 ? x->rank - 1 : (uint32_t)axis - 1;
        if (n->axis[k] >= x->rank)
            return build_fail(b, "wants 'axes' from 1 to %u, or -1", x->rank);
    }
    if (x->dim[n->axis[0]] != y->dim[n->axis[1]])
        return build_fail(b,
                          "wants axes of one length, got %u of %s and %u of "
                          "%s",
                          n->axis[0] + 1, model_shape_text(first, x),
                          n->axis[1] + 1, model_shape_text(other, y));
    n->out = (struct model_shape){1, {1}};
    if (x->rank == 2)
        n->out = (struct model_shape){
            2, {x->dim[1 - n->axis[0]], y->dim[1 - n->axis[1]]}};
    return SL_OK;
}

enum sl_err build_layer_scale(struct model_build *b)
{
    return build_gamma_variable(b);
}

// Alpha has the input's shape, and 1 for axes that share it: the first ones.
enum sl_err build_prelu(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_shape s = b->node->in;
    uint32_t shared = 0;

    for (size_t i = 0; i < l->n_shared_axes && i < s.rank; i++)
        if (l->shared_axes[i] >= 1 && l->shared_axes[i] <= s.rank)
            shared |= 1u << (l->shared_axes[i] - 1);
    if (l->n_shared_axes >= s.rank || shared != (1u << l->n_shared_axes) - 1)
        return build_fail(b,
                          "wants the first of the axes from 1 to %u in "
                          "'shared_axes', and not the last",
                          s.rank);
    for (size_t i = 0; i < l->n_shared_axes; i++)
        s.dim[i] = 1;
    return build_alpha_variable(b, &s);
}
