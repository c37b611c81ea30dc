// SPDX-License-Identifier: Apache-2.0
// proto/model_encode.c -- layers that give each number an index, and make rows
// of indexes; and what layers are given as numbers of the spec.
#include "proto/model_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

size_t model_given_aligned(size_t count)
{
    return (count + MODEL_GIVEN_ALIGN - 1) / MODEL_GIVEN_ALIGN *
           MODEL_GIVEN_ALIGN;
}

enum sl_err build_given(struct model_build *b, uint64_t things,
                        const char *what, size_t count)
{
    struct model_node *n = b->node;

    b->given += things;
    if (things > MODEL_GIVEN_MAX || b->given > MODEL_GIVEN_ALL)
        return build_fail(b,
                          "has %llu %s; a layer may have %d, and all layers "
                          "that are given numbers %d",
                          (unsigned long long)things, what, MODEL_GIVEN_MAX,
                          MODEL_GIVEN_ALL);
    n->given_count = (uint32_t)model_given_aligned(count);
    n->given = sl_calloc(n->given_count, sizeof(*n->given));
    return n->given != NULL ? SL_OK : sl_no_memory(b->err);
}

size_t model_encode_part(const struct model_encode *e,
                         enum model_encode_part part)
{
    size_t classes = model_given_aligned(e->classes);
    size_t at[MODEL_ENCODE_PARTS] = {[MODEL_ENCODE_INDEX] = 0};

    at[MODEL_ENCODE_OTHERWISE] = classes;
    at[MODEL_ENCODE_FROM] = classes + model_given_aligned(e->classes > 0);
    at[MODEL_ENCODE_TO] = at[MODEL_ENCODE_FROM] + classes;
    at[MODEL_ENCODE_TOKENS] = at[MODEL_ENCODE_TO] + (e->open ? 0 : classes);
    at[MODEL_ENCODE_END] =
        at[MODEL_ENCODE_TOKENS] +
        (e->how != MODEL_INDEX ? model_given_aligned((size_t)e->tokens + 1)
                               : 0);
    return at[part];
}

// ---- mode, shape and space of a layer that encodes

static enum sl_err read_mode(struct model_build *b,
                             enum model_encoding otherwise)
{
    static const char *const words[] = {"int", "one_hot", "multi_hot", "count",
                                        NULL};
    unsigned first = otherwise == MODEL_INDEX ? MODEL_INDEX : MODEL_ONE_HOT;
    unsigned how = otherwise - first;
    enum sl_err rc = build_choice(b, &how, "output_mode", b->layer->output_mode,
                                  words + first);

    b->node->encode.how = (enum model_encoding)(first + how);
    return rc;
}

// Keras makes a new axis for one_hot, but of a last axis of 1 its place.
static enum sl_err set_shape(struct model_build *b)
{
    struct model_node *n = b->node;
    struct model_shape *out = &n->out;

    if (n->encode.how == MODEL_INDEX)
        return SL_OK;
    if (n->encode.how == MODEL_ONE_HOT) {
        if (out->rank > 3)
            return build_fail(b, "wants an input of at most 3 axes, got %u",
                              out->rank);
        out->rank += out->dim[out->rank - 1] != 1;
        out->dim[out->rank - 1] = n->encode.tokens;
        return SL_OK;
    }
    *out = (struct model_shape){1, {n->encode.tokens}};
    return build_want_rank(b, 1, "an input of shape (numbers)",
                           "; only one_hot takes others");
}

// Makes space for the numbers of the node, of which n->encode says how many
// there are, and sets those of its tokens.
static enum sl_err begin_encoding(struct model_build *b, uint64_t things,
                                  const char *what)
{
    struct model_node *n = b->node;
    struct model_encode *e = &n->encode;
    const struct model_node *from = &b->m->nodes[n->input[0]];
    uint64_t most = e->tokens > e->classes ? e->tokens : e->classes;
    enum sl_err rc = set_shape(b);
    double *tokens;

    if (rc == SL_OK && from->learns)
        return build_fail(b,
                          "reads '%s', at or behind a layer that is trained: "
                          "no gradient goes through an index",
                          from->name);
    if (rc == SL_OK)
        rc = build_given(b, things, what,
                         model_encode_part(e, MODEL_ENCODE_END));
    if (rc != SL_OK)
        return rc;
    if (model_shape_elements(&n->in) * most > MODEL_VARIABLE_MAX)
        return build_fail(b,
                          "compares %llu numbers with %llu, more than %llu "
                          "times",
                          (unsigned long long)model_shape_elements(&n->in),
                          (unsigned long long)most,
                          (unsigned long long)MODEL_VARIABLE_MAX);
    tokens = n->given + model_encode_part(e, MODEL_ENCODE_TOKENS);
    for (size_t i = 0; e->how != MODEL_INDEX && i <= e->tokens; i++)
        tokens[i] = (double)i;
    return SL_OK;
}

// ---- the layers

enum sl_err build_category_encoding(struct model_build *b)
{
    enum sl_err rc = read_mode(b, MODEL_MULTI_HOT);

    if (rc != SL_OK)
        return rc;
    if (b->layer->num_tokens == 0)
        return build_fail(b, "needs 'num_tokens' of at least 1");
    b->node->encode.tokens = b->layer->num_tokens;
    return begin_encoding(b, b->layer->num_tokens, "tokens");
}

// Each bin has the numbers from its boundary on, and below the boundary of the
// next bin.
enum sl_err build_discretization(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    struct model_encode *e = &n->encode;
    enum sl_err rc = read_mode(b, MODEL_INDEX);
    double *from;

    if (rc != SL_OK)
        return rc;
    if (l->n_bin_boundaries == 0)
        return build_fail(b, "needs 'bin_boundaries', at least one");
    e->classes = (uint32_t)l->n_bin_boundaries;
    e->open = true;
    e->tokens = e->classes + 1;
    rc = begin_encoding(b, l->n_bin_boundaries, "bin_boundaries");
    if (rc != SL_OK)
        return rc;
    from = n->given + model_encode_part(e, MODEL_ENCODE_FROM);
    for (uint32_t i = 0; i < e->classes; i++) {
        from[i] = l->bin_boundaries[i];
        n->given[i] = 1;
        if (!isfinite((float)from[i]) || (i > 0 && from[i] < from[i - 1]))
            return build_fail(b,
                              "wants finite 'bin_boundaries' in ascending "
                              "order, got %g behind %g",
                              from[i], i > 0 ? from[i - 1] : -INFINITY);
    }
    return SL_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

// Checks what a lookup knows, the classes from[classes].
static enum sl_err check_vocabulary(const struct model_build *b,
                                    const double *from)
{
    uint32_t count = b->node->encode.classes;
    double *sorted = sl_malloc_array(count, sizeof(*sorted));
    enum sl_err rc = SL_OK;

    if (sorted == NULL)
        return sl_no_memory(b->err);
    memcpy(sorted, from, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_numbers);
    for (uint32_t i = 0; rc == SL_OK && i < count; i++) {
        if (fabs(sorted[i]) >= MODEL_WHOLE_MAX)
            rc = build_fail(b,
                            "knows %.0f; data are floats, of which whole "
                            "numbers are exact below %d",
                            sorted[i], MODEL_WHOLE_MAX);
        else if (i > 0 && sorted[i] == sorted[i - 1])
            rc = build_fail(b,
                            "has %.0f twice in 'vocabulary', or there and as "
                            "'mask_token'",
                            sorted[i]);
    }
    sl_free(sorted);
    return rc;
}

// The indexes are Keras': the mask's, that of what is not known, those of the
// vocabulary. Rows have no place for the mask. A number that has no index has
// -1.
enum sl_err build_integer_lookup(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    struct model_encode *e = &n->encode;
    uint32_t known = (uint32_t)l->n_vocabulary;
    uint32_t oov = l->has_num_oov_indices ? l->num_oov_indices : 1;
    enum sl_err rc = read_mode(b, MODEL_INDEX);
    double first, other, *from, *to;

    if (rc != SL_OK)
        return rc;
    if (l->n_vocabulary == 0)
        return build_fail(b, "needs 'vocabulary', at least one number");
    if (oov > 1)
        return build_fail(b, "wants 'num_oov_indices' 0 or 1, got %u", oov);
    e->classes = known + l->has_mask_token;
    e->tokens = known + oov;
    first = e->how == MODEL_INDEX && l->has_mask_token;
    other = oov > 0 ? first : -1;
    rc = begin_encoding(b, l->n_vocabulary, "numbers in 'vocabulary'");
    if (rc != SL_OK)
        return rc;
    from = n->given + model_encode_part(e, MODEL_ENCODE_FROM);
    to = n->given + model_encode_part(e, MODEL_ENCODE_TO);
    for (uint32_t i = 0; i < e->classes; i++) {
        bool mask = i == known;

        from[i] = mask ? l->mask_token : l->vocabulary[i];
        to[i] = from[i] + 1;
        n->given[i] = (mask ? first - 1 : first + oov + i) - other;
    }
    n->given[model_encode_part(e, MODEL_ENCODE_OTHERWISE)] = other;
    return check_vocabulary(b, from);
}
