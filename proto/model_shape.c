// SPDX-License-Identifier: Apache-2.0
// proto/model_shape.c -- shapes, and the window arithmetic of convolutions and
// pooling.
#include "proto/model_build.h"

#include <stdio.h>
#include <string.h>

uint64_t model_shape_elements(const struct model_shape *s)
{
    uint64_t product = 1;

    for (uint32_t i = 0; i < s->rank; i++)
        product *= s->dim[i];
    return product;
}

enum sl_err shape_product(uint64_t *out, const struct model_shape *s)
{
    uint64_t product = 1;

    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] == 0 ||
            __builtin_mul_overflow(product, s->dim[i], &product) ||
            product > MODEL_VARIABLE_MAX)
            return SL_EINVAL;
    *out = product;
    return SL_OK;
}

bool shape_equal(const struct model_shape *a, const struct model_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, a->rank * sizeof(a->dim[0])) == 0;
}

const char *model_shape_text(char out[MODEL_SHAPE_TEXT],
                             const struct model_shape *s)
{
    size_t len = 0;

    len += (size_t)snprintf(out, MODEL_SHAPE_TEXT, "(");
    for (uint32_t i = 0; i < s->rank; i++)
        len +=
            (size_t)snprintf(out + len, MODEL_SHAPE_TEXT - len, "%s%llu",
                             i > 0 ? ", " : "", (unsigned long long)s->dim[i]);
    snprintf(out + len, MODEL_SHAPE_TEXT - len, s->rank == 1 ? ",)" : ")");
    return out;
}

// One value for both, or two; absent: as `otherwise`. A layer of one axis has
// one, and 1 for the height.
enum sl_err build_pair(const struct model_build *b, uint32_t out[2],
                       const char *field, const uint32_t *list, size_t n,
                       const uint32_t otherwise[2])
{
    if (n > (b->line ? 1 : 2))
        return build_fail(b, "wants %s of '%s', got %zu",
                          b->line ? "1 value" : "1 or 2 values", field, n);
    for (unsigned i = 0; i < 2; i++) {
        out[i] = n == 0 ? otherwise[i] : list[n == 2 ? i : 0];
        if (b->line && i == 0)
            out[i] = 1;
        if (out[i] == 0)
            return build_fail(b, "wants '%s' of at least 1, got 0", field);
    }
    return SL_OK;
}

enum sl_err build_choice(const struct model_build *b, unsigned *out,
                         const char *field, const char *word,
                         const char *const *words)
{
    char list[128];
    size_t n = 0;

    for (unsigned i = 0; word != NULL && words[i] != NULL && n < sizeof(list);
         i++) {
        const char *between = i == 0                 ? ""
                              : words[i + 1] != NULL ? ", "
                                                     : " or ";

        if (strcmp(word, words[i]) == 0) {
            *out = i;
            return SL_OK;
        }
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", between,
                              words[i]);
    }
    return word == NULL
               ? SL_OK
               : build_fail(b, "wants '%s' %s, got '%.60s'", field, list, word);
}

enum { VALID, SAME, CAUSAL };

// Causal, of convolutions of one axis: nothing that comes later is read.
static enum sl_err padding(const struct model_build *b, unsigned *how)
{
    const char *word = b->layer->padding;
    bool causal = b->line && b->layer->n_kernel_size > 0;

    *how = VALID;
    if (word == NULL || strcmp(word, "valid") == 0)
        return SL_OK;
    *how = SAME;
    if (strcmp(word, "same") == 0)
        return SL_OK;
    *how = CAUSAL;
    if (causal && strcmp(word, "causal") == 0)
        return SL_OK;
    return build_fail(b, "wants padding 'valid'%s or 'same', got '%.60s'",
                      causal ? ", 'causal'" : "", word);
}

// What a window spans: its holes, too.
static uint64_t reach(const struct model_node *n, unsigned axis)
{
    uint64_t dilation = n->dilation[axis] > 0 ? n->dilation[axis] : 1;

    return (n->window[axis] - 1) * dilation + 1;
}

// SAME: ceil(in / stride) positions, and what is missing before and after, the
// odd one after (as TensorFlow; other frameworks put it before).
static void axis_same(struct model_node *n, unsigned axis, uint64_t in,
                      uint64_t *out)
{
    uint64_t positions = (in + n->stride[axis] - 1) / n->stride[axis];
    uint64_t covered = (positions - 1) * n->stride[axis] + reach(n, axis);
    uint64_t missing = covered > in ? covered - in : 0;

    n->pad_before[axis] = (uint32_t)(missing / 2);
    n->pad_after[axis] = (uint32_t)(missing - missing / 2);
    *out = positions;
}

// As in Keras, either the strides or the dilation are 1.
static enum sl_err dilation(struct model_build *b,
                            const Sluice__V1__LayerSpec *l)
{
    static const uint32_t ones[2] = {1, 1};
    struct model_node *n = b->node;
    enum sl_err rc = build_pair(b, n->dilation, "dilation_rate",
                                l->dilation_rate, l->n_dilation_rate, ones);
    bool wide = n->dilation[0] > 1 || n->dilation[1] > 1;

    if (rc == SL_OK && wide && (n->stride[0] > 1 || n->stride[1] > 1))
        return build_fail(b, "wants 'strides' of 1 where 'dilation_rate' is "
                             "more than 1");
    if (wide)
        build_needs(b, MODEL_EDITION);
    return rc;
}

enum sl_err build_window(struct model_build *b, const uint32_t *size,
                         size_t n_size, const uint32_t *strides,
                         size_t n_strides)
{
    bool pool = b->node->type == MODEL_MAX_POOLING2D ||
                b->node->type == MODEL_AVERAGE_POOLING2D;
    const Sluice__V1__LayerSpec *l = b->layer;
    unsigned how;
    const char *field = pool ? "pool_size" : "kernel_size";
    static const uint32_t ones[2] = {1, 1}, twos[2] = {2, 2};
    struct model_node *n = b->node;
    char shape[MODEL_SHAPE_TEXT];
    enum sl_err rc = build_pair(b, n->window, field, size, n_size, twos);

    if (rc == SL_OK)
        rc = build_pair(b, n->stride, "strides", strides, n_strides,
                        pool ? n->window : ones);
    if (rc == SL_OK && l->n_dilation_rate > 0)
        rc = dilation(b, l);
    if (rc == SL_OK)
        rc = padding(b, &how);
    if (rc != SL_OK)
        return rc;
    for (unsigned axis = 0; axis < 2; axis++) {
        uint64_t in = n->in.dim[axis];

        if (reach(n, axis) > INT32_MAX)
            return build_fail(
                b, "has a window that spans more than %d elements", INT32_MAX);
        if (how == CAUSAL)
            n->pad_before[axis] = (uint32_t)reach(n, axis) - 1;
        if (how == SAME)
            axis_same(n, axis, in, &n->out.dim[axis]);
        else if (in + n->pad_before[axis] < reach(n, axis))
            return build_fail(b,
                              "has a window of %llu x %llu, larger than its "
                              "input %s; use padding: same or a smaller %s",
                              (unsigned long long)reach(n, 0),
                              (unsigned long long)reach(n, 1),
                              model_shape_text(shape, &n->in), field);
        else
            n->out.dim[axis] =
                (in + n->pad_before[axis] - reach(n, axis)) / n->stride[axis] +
                1;
    }
    return SL_OK;
}

// The output of axis `axis`, of which the window makes the input.
static uint64_t axis_back(struct model_node *n, unsigned axis, bool same)
{
    uint64_t all = n->in.dim[axis] * n->stride[axis], positions;

    if (!same)
        return all + (n->window[axis] > n->stride[axis]
                          ? n->window[axis] - n->stride[axis]
                          : 0);
    axis_same(n, axis, all, &positions);
    return all;
}

enum sl_err build_window_back(struct model_build *b)
{
    static const uint32_t ones[2] = {1, 1};
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    unsigned how;
    enum sl_err rc = build_pair(b, n->window, "kernel_size", l->kernel_size,
                                l->n_kernel_size, ones);

    if (rc == SL_OK)
        rc =
            build_pair(b, n->stride, "strides", l->strides, l->n_strides, ones);
    if (rc == SL_OK)
        rc = padding(b, &how);
    if (rc == SL_OK && how == CAUSAL)
        return build_fail(b, "wants padding 'valid' or 'same', got 'causal'");
    for (unsigned axis = 0; rc == SL_OK && axis < 2; axis++) {
        if (n->window[axis] > INT32_MAX || n->stride[axis] > INT32_MAX)
            return build_fail(
                b, "has a window that spans more than %d elements", INT32_MAX);
        n->out.dim[axis] = axis_back(n, axis, how == SAME);
    }
    return rc;
}

// ---- what a layer demands of its input

enum sl_err build_fail(const struct model_build *b, const char *fmt, ...)
{
    char what[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return sl_fail(b->err, SL_EINVAL, "layer '%s' (%s) %s", b->node->name,
                   b->layer->type, what);
}

enum sl_err build_want_rank(const struct model_build *b, uint32_t rank,
                            const char *shape, const char *advice)
{
    char got[MODEL_SHAPE_TEXT];

    if (b->node->in.rank == rank)
        return SL_OK;
    return build_fail(b, "wants %s, got %s%s", shape,
                      model_shape_text(got, &b->node->in), advice);
}

enum sl_err build_want_image(const struct model_build *b)
{
    return build_want_rank(b, 3, "an input of shape (height, width, channels)",
                           "");
}
