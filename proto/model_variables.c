// SPDX-License-Identifier: Apache-2.0
// proto/model_variables.c -- the variables of a layer, in Keras' order, and
// what they start as.
#include "proto/model_build.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

// Appends a variable; its name is moved in, also when this fails.
static enum sl_err model_append_variable(struct model_build *b, char *name,
                                         const struct model_variable *from)
{
    struct model *m = b->m;
    struct model_variable *v;
    enum sl_err rc;

    if (name == NULL)
        return sl_fail(b->err, SL_ENOMEM, "out of memory for the model");
    if (m->variables_count == b->variables_cap) {
        uint32_t cap = b->variables_cap * 2 + 16;
        void *new = sl_realloc_array(m->variables, cap, sizeof(*v));

        if (new == NULL) {
            sl_free(name);
            return sl_fail(b->err, SL_ENOMEM, "out of memory for the model");
        }
        m->variables = new;
        b->variables_cap = cap;
    }
    v = &m->variables[m->variables_count++];
    *v = *from;
    v->name = name;
    v->first = m->elements;
    rc = shape_product(&v->elements, &v->shape);
    if (rc != SL_OK || v->elements > MODEL_ELEMENTS_MAX - m->elements)
        return sl_fail(b->err, SL_EINVAL,
                       "variable '%s' is too large: at most %llu elements, "
                       "and %llu in the whole model",
                       name, (unsigned long long)MODEL_VARIABLE_MAX,
                       (unsigned long long)MODEL_ELEMENTS_MAX);
    m->elements += v->elements;
    if (v->kind == MODEL_TRAINABLE)
        m->trainable += v->elements;
    return SL_OK;
}

static char *model_join_name(const char *layer, const char *weight)
{
    size_t n = strlen(layer) + strlen(weight) + 2;
    char *name = sl_malloc(n);

    if (name != NULL)
        snprintf(name, n, "%s/%s", layer, weight);
    return name;
}

// What the spec says of the weight's size, or NULL.
static const Sluice__V1__RegularizerSpec *
regularizer_of(const struct model_build *b, enum model_weight weight)
{
    const Sluice__V1__LayerSpec *l = b->layer;

    switch (weight) {
    case MODEL_DEPTHWISE_KERNEL:
        return l->depthwise_regularizer;
    case MODEL_POINTWISE_KERNEL:
        return l->pointwise_regularizer;
    case MODEL_RECURRENT_KERNEL:
        return l->recurrent_regularizer;
    case MODEL_EMBEDDINGS:
        return l->embeddings_regularizer;
    case MODEL_BIAS:
    case MODEL_QUERY_BIAS:
    case MODEL_KEY_BIAS:
    case MODEL_VALUE_BIAS:
    case MODEL_ATTENTION_OUTPUT_BIAS:
        return l->bias_regularizer;
    case MODEL_KERNEL:
        return b->node->type == MODEL_DEPTHWISE_CONV2D
                   ? l->depthwise_regularizer
                   : l->kernel_regularizer;
    case MODEL_U_KERNEL:
    case MODEL_QUERY_KERNEL:
    case MODEL_KEY_KERNEL:
    case MODEL_VALUE_KERNEL:
    case MODEL_ATTENTION_OUTPUT_KERNEL:
        return l->kernel_regularizer;
    default:
        return NULL;
    }
}

static enum sl_err regularize(struct model_build *b, enum model_weight weight,
                              struct model_variable *v)
{
    const Sluice__V1__RegularizerSpec *r = regularizer_of(b, weight);

    if (r == NULL)
        return SL_OK;
    if (!(r->l1 >= 0 && r->l1 <= 1e6) || !(r->l2 >= 0 && r->l2 <= 1e6))
        return build_fail(b,
                          "wants 'l1' and 'l2' of a regularizer between 0 "
                          "and 1e6, got %g and %g",
                          r->l1, r->l2);
    v->l1 = r->l1;
    v->l2 = r->l2;
    if (v->l1 > 0 || v->l2 > 0)
        build_needs(b, MODEL_EDITION);
    return SL_OK;
}

// Gives the layer at hand the variable of the layer that it shares, which must
// have the shape that it would make: that of `v`, by the name `name`.
static enum sl_err model_share_variable(const struct model_build *b,
                                        enum model_weight weight,
                                        const struct model_variable *v,
                                        const char *name)
{
    const struct model_node *nodes = b->m->nodes, *first = &nodes[b->shares];
    struct model_variable *of = &b->m->variables[first->weight[weight]];
    char here[MODEL_SHAPE_TEXT], there[MODEL_SHAPE_TEXT];

    if (!shape_equal(&of->shape, &v->shape))
        return build_fail(
            b,
            "wants inputs as '%s' has, the '%s' of which it shares: %s, got %s",
            first->name, name,
            model_shape_text(there, &nodes[first->input[0]].out),
            model_shape_text(here, &nodes[b->node->input[0]].out));
    if (v->kind == MODEL_MOVING && !b->node->frozen)
        of->momentum *= v->momentum; // each call moves it
    of->calls++;
    b->node->weight[weight] = first->weight[weight];
    return SL_OK;
}

// A variable of the layer at hand. `word` is the user's initializer or NULL.
static enum sl_err model_add_variable(struct model_build *b,
                                      enum model_weight weight,
                                      struct model_variable *v,
                                      const char *word, const char *otherwise,
                                      double fan_in, double fan_out)
{
    static const char *const names[] = {
        [MODEL_KERNEL] = "kernel",
        [MODEL_BIAS] = "bias",
        [MODEL_RECURRENT_KERNEL] = "recurrent_kernel",
        [MODEL_U_KERNEL] = "u_kernel",
        [MODEL_GAMMA] = "gamma",
        [MODEL_BETA] = "beta",
        [MODEL_MOVING_MEAN] = "moving_mean",
        [MODEL_MOVING_VARIANCE] = "moving_variance",
        [MODEL_DEPTHWISE_KERNEL] = "depthwise_kernel",
        [MODEL_POINTWISE_KERNEL] = "pointwise_kernel",
        [MODEL_EMBEDDINGS] = "embeddings",
        [MODEL_ALPHA] = "alpha",
        [MODEL_QUERY_KERNEL] = "query/kernel",
        [MODEL_QUERY_BIAS] = "query/bias",
        [MODEL_KEY_KERNEL] = "key/kernel",
        [MODEL_KEY_BIAS] = "key/bias",
        [MODEL_VALUE_KERNEL] = "value/kernel",
        [MODEL_VALUE_BIAS] = "value/bias",
        [MODEL_ATTENTION_OUTPUT_KERNEL] = "attention_output/kernel",
        [MODEL_ATTENTION_OUTPUT_BIAS] = "attention_output/bias",
    };
    char where[200];
    enum sl_err rc;

    if (b->shares != 0)
        return model_share_variable(b, weight, v, names[weight]);
    snprintf(where, sizeof(where), "layer '%s'", b->node->name);
    if (word != NULL && model_initializer_formed(word))
        build_needs(b, MODEL_EDITION_FORMED);
    if (word == NULL)
        word = otherwise;
    rc =
        strcmp(word, "orthogonal") == 0 && v->shape.rank > 1
            ? model_orthogonal(&v->init, &v->shape, &b->orthogonal, where,
                               b->err)
            : model_initializer(&v->init, word, fan_in, fan_out, where, b->err);
    if (v->init.kind > MODEL_INIT_TRUNCATED_NORMAL)
        build_needs(b, MODEL_EDITION_ORTHOGONAL);
    if (rc == SL_OK)
        rc = regularize(b, weight, v);
    if (rc != SL_OK)
        return rc;
    if (b->node->frozen) {
        v->kind = MODEL_MOVING;
        v->momentum = 1;
        v->l1 = v->l2 = 0; // as in Keras
    }
    v->node = b->at;
    v->calls = 1;
    b->node->weight[weight] = b->m->variables_count;
    return model_append_variable(
        b, model_join_name(b->node->name, names[weight]), v);
}

static enum sl_err add_vector(struct model_build *b, enum model_weight weight,
                              const char *word, const char *otherwise)
{
    uint64_t n = b->node->out.dim[b->node->out.rank - 1];
    struct model_variable v = {.shape = {1, {n}}};

    if (weight == MODEL_MOVING_MEAN || weight == MODEL_MOVING_VARIANCE) {
        v.kind = MODEL_MOVING;
        v.momentum = b->node->momentum;
    }
    return model_add_variable(b, weight, &v, word, otherwise, (double)n,
                              (double)n);
}

static enum sl_err model_add_bias(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;

    if (!l->has_use_bias || l->use_bias)
        return add_vector(b, MODEL_BIAS, l->bias_initializer, "zeros");
    if (l->bias_initializer != NULL)
        return build_fail(b, "has a 'bias_initializer' but no bias");
    if (l->bias_regularizer != NULL)
        return build_fail(b, "has a 'bias_regularizer' but no bias");
    return SL_OK;
}

// `v` is the kernel.
static enum sl_err add_kernel_and_bias(struct model_build *b,
                                       struct model_variable *v, double fan_in,
                                       double fan_out)
{
    enum sl_err rc =
        model_add_variable(b, MODEL_KERNEL, v, b->layer->kernel_initializer,
                           "glorot_uniform", fan_in, fan_out);

    return rc == SL_OK ? model_add_bias(b) : rc;
}

// The filter of a layer of one axis has no height, which is `axis`.
static void drop_height(const struct model_build *b, struct model_variable *v,
                        uint32_t axis)
{
    uint32_t n = 0;

    if (!b->line)
        return;
    for (uint32_t i = 0; i < v->keras_rank; i++) {
        uint32_t from = v->keras_order[i];

        if (from != axis)
            v->keras_order[n++] = from > axis ? from - 1 : from;
    }
    for (uint32_t i = axis; i + 1 < v->shape.rank; i++)
        v->shape.dim[i] = v->shape.dim[i + 1];
    v->shape.dim[--v->shape.rank] = 0;
    v->keras_rank = n;
}

enum sl_err build_conv_variables(struct model_build *b)
{
    const struct model_node *n = b->node;
    uint64_t in = n->in.dim[2] / n->groups, out = n->out.dim[2];
    double taps = (double)n->window[0] * n->window[1];
    struct model_variable v = {
        .shape = {4, {out, n->window[0], n->window[1], in}},
        .keras_rank = 4,
        .keras_order = {1, 2, 3, 0},
    };

    drop_height(b, &v, 1);
    return add_kernel_and_bias(b, &v, taps * (double)in, taps * (double)out);
}

// [channel, of its filters, h, w], which is OHWI with one input channel, as
// `weight`.
static enum sl_err add_depthwise(struct model_build *b,
                                 enum model_weight weight)
{
    const struct model_node *n = b->node;
    uint64_t channels = n->in.dim[2], times = n->out.dim[2] / channels;
    double taps = (double)n->window[0] * n->window[1];
    struct model_variable v = {
        .shape = {4, {channels, times, n->window[0], n->window[1]}},
        .keras_rank = 4,
        .keras_order = {2, 3, 0, 1},
    };

    drop_height(b, &v, 2);
    return model_add_variable(b, weight, &v, b->layer->depthwise_initializer,
                              "glorot_uniform", taps * (double)channels,
                              taps * (double)times);
}

enum sl_err build_depthwise_variables(struct model_build *b)
{
    enum sl_err rc = add_depthwise(b, MODEL_KERNEL);

    return rc == SL_OK ? model_add_bias(b) : rc;
}

// Adds the depthwise filters, then those of the pointwise convolution, which
// makes the layer's output.
enum sl_err build_separable_variables(struct model_build *b)
{
    struct model_node *n = b->node;
    uint64_t between = n->out.dim[2], filters = b->layer->filters;
    struct model_variable v = {
        .shape = {4, {filters, 1, 1, between}},
        .keras_rank = 4,
        .keras_order = {1, 2, 3, 0},
    };
    enum sl_err rc = add_depthwise(b, MODEL_DEPTHWISE_KERNEL);

    drop_height(b, &v, 1);
    if (rc == SL_OK)
        rc = model_add_variable(
            b, MODEL_POINTWISE_KERNEL, &v, b->layer->pointwise_initializer,
            "glorot_uniform", (double)between, (double)filters);
    n->out.dim[2] = filters;
    return rc == SL_OK ? model_add_bias(b) : rc;
}

enum sl_err build_transpose_variables(struct model_build *b)
{
    const struct model_node *n = b->node;
    uint64_t in = n->in.dim[2], out = n->out.dim[2];
    double taps = (double)n->window[0] * n->window[1];
    struct model_variable v = {
        .shape = {4, {in, n->window[0], n->window[1], out}},
        .keras_rank = 4,
        .keras_order = {1, 2, 3, 0},
    };

    drop_height(b, &v, 1);
    return add_kernel_and_bias(b, &v, taps * (double)out, taps * (double)in);
}

enum sl_err build_alpha_variable(struct model_build *b,
                                 const struct model_shape *s)
{
    struct model_variable v = {.shape = *s};
    double last = (double)s->dim[s->rank - 1];

    return model_add_variable(b, MODEL_ALPHA, &v, b->layer->alpha_initializer,
                              "zeros", last, last);
}

enum sl_err build_gamma_variable(struct model_build *b)
{
    return add_vector(b, MODEL_GAMMA, b->layer->gamma_initializer, "ones");
}

// Adds the bias of a recurrent layer, `each` elements in `biases` rows.
static enum sl_err add_recurrent_bias(struct model_build *b, uint64_t each,
                                      unsigned biases)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_variable v = {.shape = {2, {biases, each}}};
    bool forgets = b->node->type == MODEL_LSTM &&
                   (!l->has_unit_forget_bias || l->unit_forget_bias);
    enum sl_err rc;

    if (biases == 1)
        v.shape = (struct model_shape){1, {each}};
    rc = model_add_variable(b, MODEL_BIAS, &v, l->bias_initializer, "zeros",
                            (double)each, (double)each);
    if (rc != SL_OK || !forgets)
        return rc;
    if (l->bias_initializer != NULL &&
        strcmp(l->bias_initializer, "zeros") != 0)
        return build_fail(b, "has a 'bias_initializer' beside its "
                             "'unit_forget_bias': say unit_forget_bias: false");
    // The second of four gates.
    build_needs(b, MODEL_EDITION_ORTHOGONAL);
    b->m->variables[b->node->weight[MODEL_BIAS]].init = (struct model_init){
        MODEL_INIT_ONES_WITHIN, (double)each / 4, (double)each / 2};
    return SL_OK;
}

enum sl_err build_recurrent_variables(struct model_build *b, unsigned gates,
                                      unsigned biases)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    uint64_t in = b->node->in.dim[1], units = l->units, each = gates * units;
    struct model_variable kernel = {
        .shape = {2, {each, in}}, .keras_rank = 2, .keras_order = {1, 0}};
    struct model_variable recurrent = kernel;
    enum sl_err rc =
        model_add_variable(b, MODEL_KERNEL, &kernel, l->kernel_initializer,
                           "glorot_uniform", (double)in, (double)each);

    recurrent.shape.dim[1] = units;
    if (rc == SL_OK)
        rc = model_add_variable(b, MODEL_RECURRENT_KERNEL, &recurrent,
                                l->recurrent_initializer, "orthogonal",
                                (double)units, (double)each);
    if (rc != SL_OK)
        return rc;
    if (!l->has_use_bias || l->use_bias)
        return add_recurrent_bias(b, each, biases);
    if (l->bias_initializer != NULL || l->has_unit_forget_bias)
        return build_fail(b, "has a '%s' but no bias",
                          l->bias_initializer != NULL ? "bias_initializer"
                                                      : "unit_forget_bias");
    if (l->bias_regularizer != NULL)
        return build_fail(b, "has a 'bias_regularizer' but no bias");
    return SL_OK;
}

enum sl_err build_dense_variables(struct model_build *b)
{
    const struct model_node *n = b->node;
    uint64_t in = n->in.dim[n->in.rank - 1], out = n->out.dim[n->in.rank - 1];
    struct model_variable v = {
        .shape = {2, {out, in}},
        .keras_rank = 2,
        .keras_order = {1, 0},
    };

    return add_kernel_and_bias(b, &v, (double)in, (double)out);
}

// Adds a kernel of [out, in], in Keras [in, out].
static enum sl_err add_cross_kernel(struct model_build *b,
                                    enum model_weight weight, uint64_t in,
                                    uint64_t out)
{
    struct model_variable v = {
        .shape = {2, {out, in}},
        .keras_rank = 2,
        .keras_order = {1, 0},
    };

    return model_add_variable(b, weight, &v, b->layer->kernel_initializer,
                              "truncated_normal", (double)in, (double)out);
}

enum sl_err build_cross_variables(struct model_build *b)
{
    const struct model_node *n = b->node;
    uint64_t all = n->in.dim[n->in.rank - 1], in = all;
    enum sl_err rc = SL_OK;

    if (n->projection_dim > 0) {
        in = n->projection_dim;
        rc = add_cross_kernel(b, MODEL_U_KERNEL, all, in);
    }
    if (rc == SL_OK)
        rc = add_cross_kernel(b, MODEL_KERNEL, in, all);
    return rc == SL_OK ? model_add_bias(b) : rc;
}

enum sl_err build_layer_norm_variables(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    enum sl_err rc = SL_OK;

    if (!l->has_scale || l->scale)
        rc = add_vector(b, MODEL_GAMMA, NULL, "ones");
    if (rc == SL_OK && (!l->has_center || l->center))
        rc = add_vector(b, MODEL_BETA, NULL, "zeros");
    return rc;
}

enum sl_err build_norm_variables(struct model_build *b)
{
    enum sl_err rc = build_layer_norm_variables(b);

    if (rc == SL_OK)
        rc = add_vector(b, MODEL_MOVING_MEAN, NULL, "zeros");
    if (rc == SL_OK)
        rc = add_vector(b, MODEL_MOVING_VARIANCE, NULL, "ones");
    return rc;
}

enum sl_err build_embedding_variables(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    struct model_variable v = {.shape = {2, {l->input_dim, l->output_dim}}};

    return model_add_variable(b, MODEL_EMBEDDINGS, &v,
                              l->embeddings_initializer, "random_uniform",
                              l->input_dim, l->output_dim);
}

// [heads, of each, in]: a dense kernel; in Keras [in, heads, of each], with
// the fans of a filter.
static enum sl_err add_projection(struct model_build *b,
                                  enum model_weight kernel, uint64_t in,
                                  uint64_t each)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    uint64_t heads = b->node->heads;
    struct model_variable v = {.shape = {3, {heads, each, in}},
                               .keras_rank = 3,
                               .keras_order = {2, 0, 1}};
    struct model_variable bias = {.shape = {2, {heads, each}}};
    enum sl_err rc = model_add_variable(
        b, kernel, &v, l->kernel_initializer, "glorot_uniform",
        (double)in * (double)heads, (double)in * (double)each);

    if (rc == SL_OK && (!l->has_use_bias || l->use_bias))
        rc = model_add_variable(b, kernel + 1, &bias, l->bias_initializer,
                                "zeros", (double)heads, (double)each);
    return rc;
}

// [out, heads, of each]: what the heads found, as one row again.
static enum sl_err add_attention_output(struct model_build *b)
{
    const Sluice__V1__LayerSpec *l = b->layer;
    const struct model_node *n = b->node;
    uint64_t out = n->out.dim[1];
    struct model_variable v = {.shape = {3, {out, n->heads, n->value_dim}},
                               .keras_rank = 3,
                               .keras_order = {1, 2, 0}};
    enum sl_err rc = model_add_variable(b, MODEL_ATTENTION_OUTPUT_KERNEL, &v,
                                        l->kernel_initializer, "glorot_uniform",
                                        (double)n->heads * n->value_dim,
                                        (double)n->heads * (double)out);

    if (rc == SL_OK && (!l->has_use_bias || l->use_bias))
        rc = add_vector(b, MODEL_ATTENTION_OUTPUT_BIAS, l->bias_initializer,
                        "zeros");
    return rc;
}

enum sl_err build_attention_variables(struct model_build *b)
{
    const struct model_node *n = b->node;
    const struct model_node *nodes = b->m->nodes;
    uint32_t value = n->input[n->inputs > 1 ? 1 : 0];
    uint32_t key = n->inputs > 2 ? n->input[2] : value;
    enum sl_err rc =
        add_projection(b, MODEL_QUERY_KERNEL, n->in.dim[1], n->key_dim);

    if (rc == SL_OK)
        rc = add_projection(b, MODEL_KEY_KERNEL, nodes[key].out.dim[1],
                            n->key_dim);
    if (rc == SL_OK)
        rc = add_projection(b, MODEL_VALUE_KERNEL, nodes[value].out.dim[1],
                            n->value_dim);
    return rc == SL_OK ? add_attention_output(b) : rc;
}

// ---- external models: variables as the user names them

static enum sl_err external_shape(struct model_variable *v,
                                  const Sluice__V1__VariableSpec *from,
                                  const char *where, struct sl_error *err)
{
    uint64_t elements;

    if (from->n_shape > MODEL_RANK_MAX)
        return sl_fail(err, SL_EINVAL, "%s: has %zu axes; at most %u", where,
                       from->n_shape, MODEL_RANK_MAX);
    v->shape.rank = (uint32_t)from->n_shape;
    for (size_t i = 0; i < from->n_shape; i++)
        v->shape.dim[i] = from->shape[i];
    if (shape_product(&elements, &v->shape) != SL_OK)
        return sl_fail(err, SL_EINVAL,
                       "%s: each axis must be at least 1, and all together "
                       "at most %llu elements",
                       where, (unsigned long long)MODEL_VARIABLE_MAX);
    return SL_OK;
}

// Sets the initial values of an external variable, with fans as of a kernel
// [out, in] or filter [out, ..., in].
static enum sl_err external_init(struct model_variable *v, const char *word,
                                 const char *where, struct sl_error *err)
{
    const struct model_shape *s = &v->shape;
    double in = s->rank > 0 ? (double)s->dim[s->rank - 1] : 1;
    double out = s->rank > 0 ? (double)s->dim[0] : 1;
    double taps = 1;

    for (uint32_t i = 1; i + 1 < s->rank; i++)
        taps *= (double)s->dim[i];
    if (word == NULL)
        word = s->rank >= 2 ? "glorot_uniform" : "zeros";
    return model_initializer(&v->init, word, taps * in, taps * out, where, err);
}

enum sl_err build_external(struct model_build *b)
{
    const Sluice__V1__ModelSpec *spec = b->spec;

    if (spec->n_variables + spec->n_tables == 0)
        return sl_fail(b->err, SL_EINVAL,
                       "model.variables: an external model needs at least "
                       "one variable, or one of model.tables");
    for (size_t i = 0; i < spec->n_variables; i++) {
        const Sluice__V1__VariableSpec *from = spec->variables[i];
        struct model_variable v = {.node = MODEL_NONE};
        char where[64];
        enum sl_err rc;

        v.kind = from->moving ? MODEL_MOVING : MODEL_TRAINABLE;
        snprintf(where, sizeof(where), "model.variables[%zu]", i);
        if (from->name == NULL || !model_name_ok(from->name, "_-./:", 200))
            return sl_fail(b->err, SL_EINVAL,
                           "%s.name: wants 1 to 200 letters, digits or any "
                           "of _-./:",
                           where);
        if (strmap_get(&b->names, from->name) != NULL)
            return sl_fail(b->err, SL_EINVAL, "%s.name: '%s' appears twice",
                           where, from->name);
        rc = strmap_put(&b->names, from->name, b);
        if (rc == SL_OK)
            rc = external_shape(&v, from, where, b->err);
        if (from->initializer != NULL &&
            model_initializer_formed(from->initializer))
            build_needs(b, MODEL_EDITION_FORMED);
        if (rc == SL_OK)
            rc = external_init(&v, from->initializer, where, b->err);
        if (rc == SL_OK)
            rc = model_append_variable(b, sl_strdup(from->name), &v);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}
