// SPDX-License-Identifier: Apache-2.0
// proto/model_interact.c -- layers of recommendation models: features that meet
// each other.
#include "proto/model_build.h"

#include <math.h>

// ---- vectors of one length

// Sets *count to the number of vectors in all inputs: one in an input of shape
// (d), f in one of (f, d).
static enum sl_err count_vectors(const struct model_build *b, uint64_t *count)
{
    const struct model_node *n = b->node;
    uint64_t d = n->in.dim[n->in.rank - 1], elements;
    char got[MODEL_SHAPE_TEXT];

    *count = 0;
    for (uint32_t k = 0; k < n->inputs; k++) {
        const struct model_node *from = &b->m->nodes[n->input[k]];
        const struct model_shape *s = &from->out;

        if (s->rank > 2 || s->dim[s->rank - 1] != d)
            return build_fail(b,
                              "wants inputs of shape (%llu,) or (features, "
                              "%llu), got %s ('%s')",
                              (unsigned long long)d, (unsigned long long)d,
                              model_shape_text(got, s), from->name);
        *count += s->rank == 2 ? s->dim[0] : 1;
    }
    if (*count < 2)
        return build_fail(b, "wants two vectors or more, got one: name more "
                             "layers in 'inputs', or one of shape (features, "
                             "length)");
    if (shape_product(&elements, &(struct model_shape){2, {*count, d}}) !=
        SL_OK)
        return build_fail(b, "has more than %llu elements in all inputs",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    return SL_OK;
}

// Takes at most MODEL_INTERACT_MAX vectors.
enum sl_err build_dot_interaction(struct model_build *b)
{
    struct model_node *n = b->node;
    uint64_t count;
    enum sl_err rc = count_vectors(b, &count);

    if (rc != SL_OK)
        return rc;
    if (count > MODEL_INTERACT_MAX)
        return build_fail(b, "wants at most %u vectors, got %llu",
                          MODEL_INTERACT_MAX, (unsigned long long)count);
    n->self_interaction = b->layer->self_interaction;
    if (!n->self_interaction)
        count--;
    n->out = (struct model_shape){1, {count * (count + 1) / 2}};
    return SL_OK;
}

// Makes one number.
enum sl_err build_fm(struct model_build *b)
{
    uint64_t count;
    enum sl_err rc = count_vectors(b, &count);

    b->node->out = (struct model_shape){1, {1}};
    return rc;
}

// ---- cross

// The inputs are x0 and x, or one for both.
static enum sl_err check_crossed(const struct model_build *b)
{
    const struct model_node *n = b->node;
    const struct model_node *x = &b->m->nodes[n->input[n->inputs - 1]];
    char first[MODEL_SHAPE_TEXT], other[MODEL_SHAPE_TEXT];

    if (n->inputs > 2)
        return build_fail(b,
                          "reads x0 and x, or one layer for both; got %u "
                          "inputs",
                          n->inputs);
    if (!shape_equal(&x->out, &n->in))
        return build_fail(b, "wants inputs of one shape, got %s and %s ('%s')",
                          model_shape_text(first, &n->in),
                          model_shape_text(other, &x->out), x->name);
    return SL_OK;
}

// What lies between the kernels must not be larger than any tensor may be.
static enum sl_err check_projected(const struct model_build *b)
{
    struct model_shape between = b->node->in;
    uint64_t elements;

    if (b->layer->has_projection_dim && b->layer->projection_dim == 0)
        return build_fail(b, "wants 'projection_dim' of at least 1, got 0");
    if (!b->layer->has_projection_dim)
        return SL_OK;
    between.dim[between.rank - 1] = b->layer->projection_dim;
    if (shape_product(&elements, &between) != SL_OK)
        return build_fail(b, "has more than %llu elements between its kernels",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    return SL_OK;
}

// Adds the kernels and the bias, too.
enum sl_err build_cross(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc = check_crossed(b);

    if (rc == SL_OK)
        rc = check_projected(b);
    if (rc != SL_OK)
        return rc;
    if (!(l->diag_scale >= 0) || !isfinite((float)l->diag_scale))
        return build_fail(b,
                          "wants a finite 'diag_scale' of at least 0, got "
                          "%g",
                          l->diag_scale);
    n->projection_dim = l->projection_dim;
    n->diag_scale = l->diag_scale;
    return build_cross_variables(b);
}
