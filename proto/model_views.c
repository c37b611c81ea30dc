// SPDX-License-Identifier: Apache-2.0
// proto/model_views.c -- layers that move elements to other places, or all by
// one number: padding, reshaping, permuting, rescaling.
#include "proto/model_build.h"

#include <math.h>

// One number for both ends, or two.
static enum sl_err pad_line(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;

    if (l->n_pad > 2)
        return build_fail(b,
                          "wants 1 or 2 values of 'pad' (both; before, after), "
                          "got %zu",
                          l->n_pad);
    n->pad_before[1] = l->n_pad > 0 ? l->pad[0] : 1;
    n->pad_after[1] = l->n_pad > 1 ? l->pad[1] : n->pad_before[1];
    n->out.dim[1] += (uint64_t)n->pad_before[1] + n->pad_after[1];
    return SL_OK;
}

// Wants an image.
enum sl_err build_zero_padding(struct model_build *b)
{
    // Of one, two or four numbers: which is top, bottom, left, right.
    static const unsigned which[5][4] = {
        [1] = {0, 0, 0, 0}, [2] = {0, 0, 1, 1}, [4] = {0, 1, 2, 3}};
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc = build_want_image(b);

    if (rc != SL_OK)
        return rc;
    if (b->line)
        return pad_line(b);
    if (l->n_pad == 3 || l->n_pad > 4)
        return build_fail(b,
                          "wants 1, 2 or 4 values of 'pad' (all; height, "
                          "width; top, bottom, left, right), got %zu",
                          l->n_pad);
    for (unsigned side = 0; side < 4; side++) {
        uint32_t pad = l->n_pad > 0 ? l->pad[which[l->n_pad][side]] : 1;
        uint32_t *sides = side % 2 == 0 ? n->pad_before : n->pad_after;

        sides[side / 2] = pad;
        n->out.dim[side / 2] += pad;
    }
    return SL_OK;
}

// Wants `factor`; the factor and the offset must be finite in f32.
enum sl_err build_rescaling(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;

    if (!l->has_factor)
        return build_fail(b, "needs 'factor'");
    if (!isfinite((float)l->factor) || !isfinite((float)l->offset))
        return build_fail(b, "wants a finite 'factor' and 'offset'");
    b->node->factor = l->factor;
    b->node->offset = l->offset;
    return SL_OK;
}

// `free`: the axis that takes what is left, or SIZE_MAX.
static enum sl_err read_target(struct model_build *b, size_t *free)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;

    *free = SIZE_MAX;
    if (l->n_target_shape == 0 || l->n_target_shape > 4)
        return build_fail(b, "wants 1 to 4 axes of 'target_shape', got %zu",
                          l->n_target_shape);
    n->out = (struct model_shape){.rank = (uint32_t)l->n_target_shape};
    for (size_t i = 0; i < l->n_target_shape; i++) {
        int32_t axis = l->target_shape[i];

        if (axis == 0 || axis < -1 || (axis == -1 && *free != SIZE_MAX))
            return build_fail(b, "wants axes of at least 1 in 'target_shape', "
                                 "or one of -1");
        n->out.dim[i] = axis == -1 ? 1 : (uint64_t)axis;
        if (axis == -1)
            *free = i;
    }
    return SL_OK;
}

// Makes 1 to 4 axes, one of which may be -1: what is left.
enum sl_err build_reshape(struct model_build *b)
{
    uint64_t have = model_shape_elements(&b->node->in), want = 0;
    struct model_shape *out = &b->node->out;
    char from[MODEL_SHAPE_TEXT], to[MODEL_SHAPE_TEXT];
    size_t free;
    enum sl_err rc = read_target(b, &free);

    if (rc != SL_OK)
        return rc;
    if (shape_product(&want, out) == SL_OK && free != SIZE_MAX &&
        have % want == 0)
        out->dim[free] = have / want;
    if (shape_product(&want, out) == SL_OK && want == have)
        return SL_OK;
    return build_fail(b, "cannot make %s of %s: the numbers of elements differ",
                      model_shape_text(to, out),
                      model_shape_text(from, &b->node->in));
}

// Wants each axis, from 1, once in `dims`.
enum sl_err build_permute(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    uint32_t seen = 0;

    for (size_t i = 0; i < l->n_dims && i < n->in.rank; i++) {
        uint32_t from = l->dims[i] - 1;

        if (from >= n->in.rank)
            break;
        seen |= 1u << from;
        n->order[i] = from;
        n->out.dim[i] = n->in.dim[from];
    }
    if (l->n_dims != n->in.rank || seen != (1u << n->in.rank) - 1)
        return build_fail(b, "wants each axis from 1 to %u once in 'dims'",
                          n->in.rank);
    return SL_OK;
}
