// SPDX-License-Identifier: Apache-2.0
// proto/model_attention.c -- layers of sequences: rows of a table for numbers,
// and attention.
#include "proto/model_build.h"

#include <string.h>

#include "common/base/mem.h"
#include "proto/field.h"

// ---- rows of a sparse table

#define ROWS_FIELDS                                                            \
    BUILD_KEYS "output_dim embeddings_initializer rows ids combiner buckets "  \
               "optimizer admit evict "
#define VARIABLE_FIELDS                                                        \
    BUILD_KEYS "inputs input_dim output_dim embeddings_initializer "           \
               "embeddings_regularizer mask_zero "

static enum sl_err rows_combiner(const struct model_build *b)
{
    static const char *const words[] = {"sum", "mean", "sqrtn", NULL};
    unsigned combiner = MODEL_SUM;
    enum sl_err rc =
        build_choice(b, &combiner, "combiner", b->layer->combiner, words);

    b->node->combiner = (enum model_combiner)combiner;
    return rc;
}

// Takes rows from a table, which has all other keys (proto/spec_tables.c).
static enum sl_err build_rows(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    const char *other = field_outside(&l->base, ROWS_FIELDS);

    if (strcmp(l->rows, "dynamic") != 0)
        return build_fail(b, "wants 'rows' dynamic, got '%.60s'", l->rows);
    if (other != NULL)
        return build_fail(b, "takes no '%s' beside 'rows: dynamic'", other);
    if (l->ids == NULL)
        return build_fail(b, "needs 'ids', a column of data.train.ids, for "
                             "'rows: dynamic'");
    if (l->output_dim == 0)
        return build_fail(b, "needs 'output_dim' of at least 1");
    build_needs(b, MODEL_EDITION_ROWS);
    n->column = sl_strdup(l->ids);
    if (n->column == NULL)
        return sl_no_memory(b->err);
    n->table = b->m->tables++;
    n->in = n->out = (struct model_shape){1, {l->output_dim}};
    return rows_combiner(b);
}

// Adds the embeddings, too; the input has at most 3 axes.
enum sl_err build_embedding(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    const char *other = field_outside(&l->base, VARIABLE_FIELDS);

    if (l->rows != NULL)
        return build_rows(b);
    if (other != NULL)
        return build_fail(b, "takes '%s' only with 'rows: dynamic'", other);
    if (n->inputs != 1)
        return build_fail(b, "reads one layer, got %u inputs", n->inputs);
    if (l->input_dim == 0 || l->output_dim == 0)
        return build_fail(b, "needs 'input_dim' and 'output_dim' of at least "
                             "1");
    if (n->in.rank > 3)
        return build_fail(b, "wants an input of at most 3 axes, got %u",
                          n->in.rank);
    n->masks = l->mask_zero;
    if (n->masks && n->in.rank != 1)
        return build_fail(b,
                          "wants an input of shape (steps) for "
                          "'mask_zero', got %u axes",
                          n->in.rank);
    n->out.dim[n->out.rank++] = l->output_dim;
    return build_embedding_variables(b);
}

// ---- numbers of rows

static bool reads_numbers(const struct model_node *n)
{
    return n->type == MODEL_EMBEDDING && n->column == NULL;
}

static bool encodes(const struct model_node *n)
{
    return n->type == MODEL_CATEGORY_ENCODING ||
           n->type == MODEL_DISCRETIZATION || n->type == MODEL_INTEGER_LOOKUP;
}

static bool is_view(const struct model_node *n)
{
    return n->type == MODEL_RESHAPE || n->type == MODEL_FLATTEN ||
           n->type == MODEL_CROPPING2D || n->type == MODEL_PERMUTE;
}

// Returns true if node i is numbers as data or a layer gave them, which no 16
// bits have rounded.
static bool is_exact(const struct model *m, uint32_t i)
{
    while (i != 0 && is_view(&m->nodes[i]))
        i = m->nodes[i].input[0];
    return i == 0 ||
           (encodes(&m->nodes[i]) && m->nodes[i].encode.how == MODEL_INDEX);
}

// All that reads the node is marked.
static enum sl_err reads_ids(struct model_build *b)
{
    struct model *m = b->m;
    struct model_node *n = b->node;
    bool numbers = reads_numbers(n) || encodes(n) || (n->ids && is_view(n));

    if (reads_numbers(n) && !is_exact(m, n->input[0]))
        return build_fail(b, "reads numbers of rows: it wants the sample or "
                             "what a layer gives as int, or a reshape, "
                             "flatten, permute or cropping of it");
    for (uint32_t k = 0; k < n->inputs; k++) {
        struct model_node *from = &m->nodes[n->input[k]];

        if (!numbers)
            from->mixed = true;
        else if (is_exact(m, n->input[k]))
            from->ids = true;
    }
    return SL_OK;
}

enum sl_err build_ids(struct model_build *b)
{
    struct model *m = b->m;
    enum sl_err rc = SL_OK;

    for (b->at = m->nodes_count; b->at-- > 1 && rc == SL_OK;) {
        b->node = &m->nodes[b->at];
        b->layer = b->spec->layers[b->at - 1];
        rc = reads_ids(b);
    }
    for (uint32_t i = 0; i < m->nodes_count; i++) {
        const struct model_node *n = &m->nodes[i];

        if (n->ids && (n->mixed || n->type == MODEL_CROPPING2D ||
                       n->type == MODEL_PERMUTE))
            build_needs(b, MODEL_EDITION_ENCODES);
    }
    return rc;
}

// ---- attention

static const struct model_shape *
attention_value_shape(const struct model_build *b)
{
    const struct model_node *n = b->node;

    return &b->m->nodes[n->input[n->inputs > 1 ? 1 : 0]].out;
}

static enum sl_err want_sequences(const struct model_build *b)
{
    const struct model_node *n = b->node;
    uint64_t length = attention_value_shape(b)->dim[0];

    if (n->inputs > 3)
        return build_fail(b,
                          "reads the query, and if they are others the value "
                          "and the key; got %u inputs",
                          n->inputs);
    for (uint32_t k = 0; k < n->inputs; k++) {
        const struct model_shape *s = &b->m->nodes[n->input[k]].out;
        char got[MODEL_SHAPE_TEXT];

        if (s->rank != 2)
            return build_fail(b,
                              "wants inputs of shape (length, features), "
                              "got %s",
                              model_shape_text(got, s));
        if (k == 2 && s->dim[0] != length)
            return build_fail(b,
                              "wants a key as long as its value (%llu), got "
                              "%s",
                              (unsigned long long)length,
                              model_shape_text(got, s));
    }
    return SL_OK;
}

// What the heads make must not be larger than any tensor may be.
static enum sl_err check_sizes(const struct model_build *b)
{
    const struct model_node *n = b->node;
    uint64_t length[2] = {n->in.dim[0], attention_value_shape(b)->dim[0]},
             elements;
    struct model_shape scores = {3, {n->heads, length[0], length[1]}};
    uint32_t each = n->key_dim > n->value_dim ? n->key_dim : n->value_dim;

    if (shape_product(&elements, &scores) != SL_OK)
        return build_fail(b, "has more than %llu scores of all heads",
                          (unsigned long long)MODEL_VARIABLE_MAX);
    for (int i = 0; i < 2; i++) {
        struct model_shape all = {3, {n->heads, length[i], each}};

        if (shape_product(&elements, &all) != SL_OK)
            return build_fail(b, "has more than %llu elements in all heads",
                              (unsigned long long)MODEL_VARIABLE_MAX);
    }
    return SL_OK;
}

// Adds the projections, too; refuses scores of more elements than a variable
// may have.
enum sl_err build_attention(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_node *n = b->node;
    enum sl_err rc = want_sequences(b);

    if (rc != SL_OK)
        return rc;
    if (l->num_heads == 0 || l->key_dim == 0)
        return build_fail(b, "needs 'num_heads' and 'key_dim' of at least 1");
    if (l->has_value_dim && l->value_dim == 0)
        return build_fail(b, "wants 'value_dim' of at least 1");
    if (l->has_rate && !(l->rate >= 0 && l->rate < 1))
        return build_fail(b, "wants 'rate' in [0, 1)");
    if (l->has_use_bias && !l->use_bias && l->bias_initializer != NULL)
        return build_fail(b, "has a 'bias_initializer' but no bias");
    if (l->has_use_bias && !l->use_bias && l->bias_regularizer != NULL)
        return build_fail(b, "has a 'bias_regularizer' but no bias");
    n->heads = l->num_heads;
    n->key_dim = l->key_dim;
    n->value_dim = l->has_value_dim ? l->value_dim : l->key_dim;
    n->rate = l->rate;
    n->seed = l->seed;
    n->causal = l->use_causal_mask;
    rc = check_sizes(b);
    return rc == SL_OK ? build_attention_variables(b) : rc;
}
