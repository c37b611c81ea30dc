// SPDX-License-Identifier: Apache-2.0
// proto/model_views.c -- layers that move elements to other places, or all by
// one number: padding, cropping, slicing, repeating, reshaping, permuting,
// rescaling.
#include "proto/model_build.h"

#include <math.h>

// How many elements at each side: of 1, 2 or 4 numbers (all; height, width;
// top, bottom, left, right), or for one axis of 1 or 2 (both; before, after);
// none is one 1.
static enum sl_err read_sides(struct model_build *b, const char *field,
                              const uint32_t *list, size_t n)
{
    static const unsigned which[5][4] = {
        [1] = {0, 0, 0, 0}, [2] = {0, 0, 1, 1}, [4] = {0, 1, 2, 3}};
    static const unsigned line[3][4] = {[1] = {0, 0, 0, 0}, [2] = {0, 0, 0, 1}};

    if (b->line && n > 2)
        return build_fail(b,
                          "wants 1 or 2 values of '%s' (both; before, after), "
                          "got %zu",
                          field, n);
    if (n == 3 || n > 4)
        return build_fail(b,
                          "wants 1, 2 or 4 values of '%s' (all; height, "
                          "width; top, bottom, left, right), got %zu",
                          field, n);
    for (unsigned side = b->line ? 2 : 0; side < 4; side++) {
        unsigned from = n == 0 ? 0 : (b->line ? line : which)[n][side];
        uint32_t *sides =
            side % 2 == 0 ? b->node->pad_before : b->node->pad_after;

        sides[side / 2] = n == 0 ? 1 : list[from];
    }
    return SL_OK;
}

// Wants an image.
enum sl_err build_zero_padding(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc = build_want_image(b);

    if (rc == SL_OK)
        rc = read_sides(b, "pad", l->pad, l->n_pad);
    for (unsigned axis = 0; rc == SL_OK && axis < 2; axis++)
        n->out.dim[axis] += (uint64_t)n->pad_before[axis] + n->pad_after[axis];
    return rc;
}

// Wants an image of which something is left.
enum sl_err build_cropping(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    char shape[MODEL_SHAPE_TEXT];
    enum sl_err rc = build_want_image(b);

    if (rc == SL_OK)
        rc = read_sides(b, "crop", l->crop, l->n_crop);
    for (unsigned axis = 0; rc == SL_OK && axis < 2; axis++) {
        uint64_t gone = (uint64_t)n->pad_before[axis] + n->pad_after[axis];

        if (gone >= n->in.dim[axis])
            return build_fail(b, "leaves nothing of its input %s",
                              model_shape_text(shape, &n->in));
        n->out.dim[axis] -= gone;
    }
    return rc;
}

// Wants an image; each element is repeated.
enum sl_err build_up_sampling(struct model_build *b)
{
    static const uint32_t twos[2] = {2, 2};
    struct model_node *n = b->node;
    enum sl_err rc = build_want_image(b);

    if (rc == SL_OK)
        rc = build_pair(b, n->window, "size", b->layer->size, b->layer->n_size,
                        twos);
    for (unsigned axis = 0; rc == SL_OK && axis < 2; axis++) {
        if (n->window[axis] > MODEL_VARIABLE_MAX)
            return build_fail(b, "wants a 'size' of at most %llu",
                              (unsigned long long)MODEL_VARIABLE_MAX);
        n->out.dim[axis] *= n->window[axis];
        n->stride[axis] = n->window[axis];
    }
    return rc;
}

// Up-sampling of an image of one element, of which a row is left.
enum sl_err build_repeat_vector(struct model_build *b)
{
    struct model_node *n = b->node;
    uint64_t channels = n->in.dim[0];
    uint32_t repeats = b->layer->repeats;
    enum sl_err rc = build_want_rank(b, 1, "an input of shape (features)", "");

    if (rc != SL_OK)
        return rc;
    if (repeats == 0 || repeats > MODEL_VARIABLE_MAX)
        return build_fail(b, "needs 'repeats' of at least 1 and at most %llu",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    n->type = MODEL_UP_SAMPLING2D;
    n->in = (struct model_shape){3, {1, 1, channels}};
    n->out = (struct model_shape){2, {repeats, channels}};
    n->window[0] = n->stride[0] = 1;
    n->window[1] = n->stride[1] = repeats;
    return SL_OK;
}

// Cropping of an image of one row, of which `size` columns are left.
enum sl_err build_slice(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    uint64_t features = n->in.dim[0];
    enum sl_err rc = build_want_rank(b, 1, "an input of shape (features)", "");

    if (rc != SL_OK)
        return rc;
    if (l->n_size != 1 || l->size[0] == 0)
        return build_fail(b, "needs 'size', the number of features that it "
                             "takes");
    if ((uint64_t)l->begin + l->size[0] > features)
        return build_fail(b, "takes features %u to %llu of an input of %llu",
                          l->begin, (unsigned long long)l->begin + l->size[0],
                          (unsigned long long)features);
    n->type = MODEL_CROPPING2D;
    n->in = (struct model_shape){3, {1, features, 1}};
    n->out = (struct model_shape){1, {l->size[0]}};
    n->pad_before[1] = l->begin;
    n->pad_after[1] = (uint32_t)(features - l->begin - l->size[0]);
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
