// SPDX-License-Identifier: Apache-2.0
// client/keras/keras_layer.c -- one layer: which of Keras' arguments become
// which of ours, and which may only be what they are by default.
#include <string.h>

#include "client/keras/keras_take.h"

static enum sl_err set_type(struct keras_take *t, const char *type)
{
    return json_object_set_new(t->to, "type", json_string(type)) == 0
               ? SL_OK
               : sl_no_memory(t->g->err);
}

// ReLU(max_value, negative_slope, threshold): three functions of ours.
static enum sl_err finish_relu(struct keras_take *t)
{
    const json_t *most = json_object_get(t->node->config, "max_value");
    const json_t *slope = json_object_get(t->node->config, "negative_slope");
    static const struct keras_rule alpha = {"negative_slope", take_copy,
                                            "alpha", NULL};
    bool leaks = json_is_number(slope) && json_number_value(slope) != 0;
    char text[KERAS_TEXT];
    enum sl_err rc;

    if (most == NULL || json_is_null(most)) {
        if (!leaks)
            return SL_OK;
        rc = set_type(t, "leaky_relu");
        return rc == SL_OK ? take_copy(t, &alpha, slope) : rc;
    }
    if (!leaks && keras_is(most, "6"))
        return set_type(t, "relu6");
    return keras_refuse(t->g, t->node->name, t->node->class_name,
                        "has max_value: %s; known is 6, without a "
                        "negative_slope",
                        keras_text(text, most));
}

// Keras 2 has a fused form of its own for images.
static enum sl_err finish_norm(struct keras_take *t)
{
    const json_t *fused = json_object_get(t->node->config, "fused");

    if (!t->g->keras2 || json_is_false(fused))
        return SL_OK;
    return json_object_set_new(t->to, "fused", json_true()) == 0
               ? SL_OK
               : sl_no_memory(t->g->err);
}

static enum sl_err finish_attention(struct keras_take *t)
{
    if (!t->node->causal)
        return SL_OK;
    return json_object_set_new(t->to, "use_causal_mask", json_true()) == 0
               ? SL_OK
               : sl_no_memory(t->g->err);
}

// A window without holes.
static enum sl_err take_dense(struct keras_take *t, const struct keras_rule *r,
                              const json_t *value)
{
    size_t i;
    json_t *each;

    json_array_foreach(value, i, each)
    {
        if (!keras_is(each, "1"))
            return take_refuse(t, r, value, "sluice knows only 1");
    }
    return json_is_array(value)
               ? SL_OK
               : take_only(t, &(struct keras_rule){r->key, NULL, NULL, "1"},
                           value);
}

// An op with a number, or the sign: factor x + offset.
static enum sl_err finish_number(struct keras_take *t)
{
    const struct keras_node *n = t->node;
    double factor = 1, offset = 0;

    if (strcmp(n->class_name, "Negative") == 0)
        factor = -1;
    else if (!n->numbered && strcmp(n->class_name, "TrueDivide") != 0)
        return SL_OK;
    else if (!n->numbered || n->inputs != 1)
        return keras_refuse(t->g, n->name, n->class_name,
                            "is called with %u tensors%s; known is one tensor "
                            "and one number",
                            n->inputs, n->numbered ? " and a number" : "");
    else if (strcmp(n->class_name, "Add") == 0)
        offset = n->number;
    else if (strcmp(n->class_name, "Multiply") == 0)
        factor = n->number;
    else if (strcmp(n->class_name, "Subtract") == 0) {
        factor = n->number_first ? -1 : 1;
        offset = n->number_first ? n->number : -n->number;
    } else if (n->number_first)
        return keras_refuse(t->g, n->name, n->class_name,
                            "divides a number by a tensor");
    else
        factor = 1 / n->number;
    if (json_object_set_new(t->to, "factor", json_real(factor)) != 0 ||
        (offset != 0 &&
         json_object_set_new(t->to, "offset", json_real(offset)) != 0))
        return sl_no_memory(t->g->err);
    return set_type(t, "rescaling");
}

// Reads the number of channel `i`, of a list or of one number for all; 0 if
// there is none. Returns false if it is no number.
static bool number_at(const json_t *value, size_t i, double *out)
{
    const json_t *at = json_is_array(value) ? json_array_get(value, i) : value;

    *out = json_number_value(at);
    return json_is_array(value) ? json_is_number(at)
                                : at == NULL || json_is_number(at);
}

// Rescaling by a list, a number for each channel, is a normalization: factor x
// + offset = (x - -offset / factor) / sqrt(1 / factor^2).
static enum sl_err rescale_channels(struct keras_take *t, const json_t *scale,
                                    const json_t *offset)
{
    size_t n = json_array_size(json_is_array(scale) ? scale : offset);
    json_t *mean = json_array(), *variance = json_array();
    bool known = !json_is_array(offset) || json_array_size(offset) == n;
    double factor, shift;
    int failed = json_object_set_new(t->to, "mean", mean) |
                 json_object_set_new(t->to, "variance", variance);

    for (size_t i = 0; known && failed == 0 && i < n; i++) {
        known = number_at(scale, i, &factor) && number_at(offset, i, &shift) &&
                factor > 0;
        if (!known)
            break;
        failed =
            json_array_append_new(mean,
                                  json_real(shift == 0 ? 0 : -shift / factor)) |
            json_array_append_new(variance, json_real(1 / (factor * factor)));
    }
    if (!known)
        return take_refuse(t, &(struct keras_rule){.key = "scale"}, scale,
                           "known are one number, and as many positive ones "
                           "as there are offsets");
    return failed != 0 ? sl_no_memory(t->g->err) : set_type(t, "normalization");
}

static enum sl_err finish_rescaling(struct keras_take *t)
{
    static const struct keras_rule factor = {"scale", take_number, "factor",
                                             NULL};
    static const struct keras_rule shift = {"offset", take_number, NULL, "0"};
    const json_t *scale =
        keras_plain(json_object_get(t->node->config, "scale"));
    const json_t *offset =
        keras_plain(json_object_get(t->node->config, "offset"));
    enum sl_err rc;

    if (json_is_array(scale) || json_is_array(offset))
        return rescale_channels(t, scale, offset);
    rc = scale == NULL ? SL_OK : take_number(t, &factor, scale);
    return rc != SL_OK || offset == NULL ? rc : take_number(t, &shift, offset);
}

// The second half of a Bidirectional goes the other way than the first, and its
// rows come in the order of the input.
static enum sl_err finish_recurrent(struct keras_take *t)
{
    const struct keras_node *n = t->node;
    bool back = json_is_true(json_object_get(n->config, "go_backwards"));

    if (n->turned)
        back = !back;
    if (n->second && !back &&
        json_is_true(json_object_get(n->config, "return_sequences")))
        return keras_refuse(t->g, n->name, n->class_name,
                            "is the second half of a Bidirectional and begins "
                            "at the first step; known are those that begin at "
                            "the last");
    if (n->turned &&
        json_object_set_new(t->to, "go_backwards", json_boolean(back)) != 0)
        return sl_no_memory(t->g->err);
    // It says nothing where all steps count.
    if (t->g->masks &&
        json_is_true(json_object_get(n->config, "zero_output_for_mask")) &&
        json_object_set_new(t->to, "zero_output_for_mask", json_true()) != 0)
        return sl_no_memory(t->g->err);
    if (n->second && json_object_set_new(t->to, "keep_order", json_true()) != 0)
        return sl_no_memory(t->g->err);
    return SL_OK;
}

// Dropout with one draw for each sample, as EfficientNetV2 drops its blocks.
static enum sl_err finish_dropout(struct keras_take *t)
{
    const json_t *shape = json_object_get(t->node->config, "noise_shape");
    char text[KERAS_TEXT];
    size_t i;
    json_t *each;
    bool samples = json_array_size(shape) > 1;

    if (shape == NULL || json_is_null(shape))
        return SL_OK;
    json_array_foreach(shape, i, each)
    {
        samples =
            samples && (i == 0 ? json_is_null(each) : keras_is(each, "1"));
    }
    return samples ? set_type(t, "stochastic_depth")
                   : keras_refuse(t->g, t->node->name, t->node->class_name,
                                  "has noise_shape: %s; known are null and "
                                  "(None, 1, ..., 1)",
                                  keras_text(text, shape));
}

// Returns true if the list `known` begins with what Keras has in front of the
// words of a vocabulary: the mask, if it has an index, and what stands for all
// others, `unknown` times.
static bool has_specials(const json_t *known, const json_t *mask,
                         const json_t *other, size_t unknown)
{
    size_t first = mask != NULL ? 1 : 0;
    bool same = first == 0 || keras_same(json_array_get(known, 0), mask);

    for (size_t i = 0; i < unknown; i++)
        same = same && keras_same(json_array_get(known, first + i), other);
    return same;
}

// A vocabulary may begin with the words that Keras adds itself. Rows may be
// longer than it is.
static enum sl_err finish_lookup(struct keras_take *t)
{
    const json_t *config = t->node->config;
    json_t *known = json_object_get(t->to, "vocabulary");
    const json_t *mask = json_object_get(t->to, "mask_token");
    const json_t *other = json_object_get(config, "oov_token");
    const json_t *oov = json_object_get(t->to, "num_oov_indices");
    const json_t *mode = json_object_get(t->to, "output_mode");
    size_t unknown = keras_is(oov, "0") ? 0 : 1; // more are refused later
    size_t whole;

    if (json_is_true(json_object_get(config, "pad_to_max_tokens")) &&
        mode != NULL)
        return take_refuse(t, &(struct keras_rule){.key = "pad_to_max_tokens"},
                           json_true(),
                           "sluice knows only rows as long as the vocabulary");
    whole = unknown + (mask != NULL && mode == NULL);
    if (whole > 0 && json_array_size(known) > whole &&
        has_specials(known, mode == NULL ? mask : NULL, other, unknown))
        while (whole-- > 0)
            json_array_remove(known, 0);
    return SL_OK;
}

// ---- the classes

#define CHANNELS                                                               \
    {                                                                          \
        "data_format", take_only, NULL, "\"channels_last\""                    \
    }
#define NO(key)                                                                \
    {                                                                          \
        key, take_only, NULL, "null"                                           \
    }
#define OFF(key)                                                               \
    {                                                                          \
        key, take_only, NULL, "false"                                          \
    }
#define ANY(key)                                                               \
    {                                                                          \
        key, take_ignore, NULL, NULL                                           \
    }
#define WITH_BIAS                                                              \
    {"use_bias", take_copy, NULL, "true"},                                     \
        {"bias_initializer", take_bias, NULL, "zeros"},                        \
        {"bias_regularizer", take_bias_regularizer, NULL, NULL},               \
        NO("bias_constraint")
#define WITH_KERNEL                                                            \
    {"kernel_initializer", take_initializer, NULL, "glorot_uniform"},          \
        {"kernel_regularizer", take_regularizer, NULL, NULL},                  \
        NO("kernel_constraint"),                                               \
    {                                                                          \
        "activation", take_activation, NULL, "linear"                          \
    }
#define WINDOW                                                                 \
    {"strides", take_pair, NULL, "1"},                                         \
        {"padding", take_copy, NULL, "\"valid\""},                             \
        {"dilation_rate", take_pair, NULL, "1"}, CHANNELS

// clang-format off
#define RULES(...) (const struct keras_rule[]){__VA_ARGS__, {.key = NULL}}
static const struct keras_rule none[] = {{.key = NULL}};
static const struct keras_rule common[] = {
    ANY("name"), ANY("function"), {"dtype", take_dtype, NULL, NULL}, ANY("batch_input_shape"),
    ANY("batch_shape"), ANY("autocast"), NO("activity_regularizer"), {.key = NULL}};
static const struct keras_rule pool[] = {
    {"pool_size", take_pair, NULL, "2"}, {"strides", take_pair, NULL, NULL},
    {"padding", take_copy, NULL, "\"valid\""}, CHANNELS, {.key = NULL}};
static const struct keras_rule global_pool[] = {
    CHANNELS, {"keepdims", take_copy, NULL, "false"}, {.key = NULL}};
static const struct keras_rule along_axis[] = {{"axis", take_axis, NULL, "-1"}, {.key = NULL}};

static const struct keras_rule conv[] = {
    {"filters", take_copy, NULL, NULL}, {"kernel_size", take_pair, NULL, NULL}, WINDOW,
    {"groups", take_copy, NULL, "1"}, WITH_KERNEL, WITH_BIAS, {.key = NULL}};
static const struct keras_rule depthwise[] = {
    {"kernel_size", take_pair, NULL, NULL}, WINDOW,
    {"groups", take_only, NULL, "1"}, {"depth_multiplier", take_copy, NULL, "1"},
    {"activation", take_activation, NULL, "linear"},
    {"depthwise_initializer", take_initializer, NULL, "glorot_uniform"},
    {"depthwise_regularizer", take_regularizer, NULL, NULL},
    NO("depthwise_constraint"), WITH_BIAS, {.key = NULL}};
static const struct keras_rule separable[] = {
    {"filters", take_copy, NULL, NULL}, {"kernel_size", take_pair, NULL, NULL}, WINDOW,
    {"groups", take_only, NULL, "1"}, {"depth_multiplier", take_copy, NULL, "1"},
    {"activation", take_activation, NULL, "linear"},
    {"depthwise_initializer", take_initializer, NULL, "glorot_uniform"},
    {"pointwise_initializer", take_initializer, NULL, "glorot_uniform"},
    {"depthwise_regularizer", take_regularizer, NULL, NULL},
    {"pointwise_regularizer", take_regularizer, NULL, NULL},
    NO("depthwise_constraint"), NO("pointwise_constraint"),
    // Keras 2 has them of Conv2D, and no use for them.
    ANY("kernel_initializer"), ANY("kernel_regularizer"),
    ANY("kernel_constraint"),
    WITH_BIAS, {.key = NULL}};

static const struct keras_rule transpose[] = {
    {"filters", take_copy, NULL, NULL}, {"kernel_size", take_pair, NULL, NULL},
    {"strides", take_pair, NULL, "1"}, {"padding", take_copy, NULL, "\"valid\""},
    CHANNELS, NO("output_padding"), {"dilation_rate", take_dense, NULL, NULL},
    {"groups", take_only, NULL, "1"}, WITH_KERNEL, WITH_BIAS, {.key = NULL}};
#define RECURRENT                                                              \
    {"units", take_copy, NULL, NULL}, {"activation", take_activation, NULL, "tanh"}, \
    {"kernel_initializer", take_initializer, NULL, "glorot_uniform"},          \
    {"recurrent_initializer", take_initializer, NULL, "orthogonal"},           \
    {"kernel_regularizer", take_regularizer, NULL, NULL},                      \
    {"recurrent_regularizer", take_regularizer, NULL, NULL},                   \
    NO("kernel_constraint"), NO("recurrent_constraint"), WITH_BIAS,            \
    {"return_sequences", take_copy, NULL, "false"},                            \
    {"go_backwards", take_copy, NULL, "false"}, OFF("return_state"),           \
    OFF("stateful"), OFF("time_major"), ANY("unroll"), ANY("implementation"),  \
    ANY("use_cudnn"), ANY("zero_output_for_mask"), ANY("seed"),                \
    {"dropout", take_only, NULL, "0"}, {"recurrent_dropout", take_only, NULL, "0"}
static const struct keras_rule spatial[] = {
    {"rate", take_copy, NULL, NULL}, {"seed", take_copy, NULL, NULL}, CHANNELS,
    NO("noise_shape"), ANY("trainable"), {.key = NULL}};

static const struct keras_layer_class {
    const char *class_name, *type;
    bool weights;
    enum sl_err (*finish)(struct keras_take *t); // once all keys are taken; or NULL
    const struct keras_rule *rules;              // the keys, besides common[]
} classes[] = {
    {"Activation", "activation", false, NULL, RULES(
        {"activation", take_activation, NULL, NULL})},
    {"Add", "add", false, finish_number, none},
    {"Average", "average", false, NULL, none},
    {"AveragePooling1D", "average_pooling1d", false, NULL, pool},
    {"AveragePooling2D", "average_pooling2d", false, NULL, pool},
    {"BatchNormalization", "batch_normalization", true, finish_norm, RULES(
        {"axis", take_axis, NULL, "-1"}, {"momentum", take_copy, NULL, "0.99"},
        {"epsilon", take_copy, NULL, "0.001"}, {"center", take_copy, NULL, "true"},
        {"scale", take_copy, NULL, "true"},
        {"beta_initializer", take_initial, NULL, "zeros"},
        {"gamma_initializer", take_initial, NULL, "ones"},
        {"moving_mean_initializer", take_initial, NULL, "zeros"},
        {"moving_variance_initializer", take_initial, NULL, "ones"},
        NO("beta_regularizer"), NO("gamma_regularizer"), NO("beta_constraint"),
        NO("gamma_constraint"), OFF("synchronized"), OFF("renorm"),
        ANY("renorm_clipping"), ANY("renorm_momentum"), ANY("fused"),
        NO("virtual_batch_size"))},
    {"CategoryEncoding", "category_encoding", false, NULL, RULES(
        {"num_tokens", take_copy, NULL, NULL}, {"output_mode", take_copy, NULL, "\"multi_hot\""},
        OFF("sparse"))},
    {"Concatenate", "concatenate", false, NULL, along_axis},
    {"Conv1D", "conv1d", true, NULL, conv},
    {"Conv1DTranspose", "conv1d_transpose", true, NULL, transpose},
    {"Conv2D", "conv2d", true, NULL, conv},
    {"Conv2DTranspose", "conv2d_transpose", true, NULL, transpose},
    {"Cropping1D", "cropping1d", false, NULL, RULES(
        {"cropping", take_pair, "crop", "1"})},
    {"Cropping2D", "cropping2d", false, NULL, RULES(
        {"cropping", take_padding, "crop", NULL}, CHANNELS)},
    {"Dense", "dense", true, NULL, RULES(
        {"units", take_copy, NULL, NULL}, WITH_KERNEL, WITH_BIAS)},
    {"DepthwiseConv1D", "depthwise_conv1d", true, NULL, depthwise},
    {"DepthwiseConv2D", "depthwise_conv2d", true, NULL, depthwise},
    {"Discretization", "discretization", false, NULL, RULES(
        {"bin_boundaries", take_learnt, NULL, NULL}, {"output_mode", take_copy, NULL, "\"int\""},
        OFF("sparse"), ANY("num_bins"), ANY("epsilon"), ANY("dtype"))},
    {"Dot", "dot", false, NULL, RULES(
        {"axes", take_pair, NULL, NULL}, OFF("normalize"))},
    {"Dropout", "dropout", false, finish_dropout, RULES(
        {"rate", take_copy, NULL, NULL}, {"seed", take_copy, NULL, NULL},
        ANY("noise_shape"))},
    {"ELU", "elu", false, NULL, RULES({"alpha", take_copy, NULL, "1"})},
    {"Embedding", "embedding", true, NULL, RULES(
        {"input_dim", take_copy, NULL, NULL}, {"output_dim", take_copy, NULL, NULL},
        {"embeddings_initializer", take_initializer, NULL, "random_uniform"},
        {"embeddings_regularizer", take_regularizer, NULL, NULL},
        NO("embeddings_constraint"), {"mask_zero", take_copy, NULL, "false"},
        ANY("input_length"))},
    {"Flatten", "flatten", false, NULL, RULES(CHANNELS)},
    {"GlobalAveragePooling1D", "global_average_pooling1d", false, NULL, global_pool},
    {"GlobalAveragePooling2D", "global_average_pooling2d", false, NULL, global_pool},
    {"GlobalMaxPooling1D", "global_max_pooling1d", false, NULL, global_pool},
    {"GlobalMaxPooling2D", "global_max_pooling2d", false, NULL, global_pool},
    {"GroupNormalization", "group_normalization", true, NULL, RULES(
        {"groups", take_copy, NULL, "32"}, {"axis", take_axis, NULL, "-1"},
        {"epsilon", take_copy, NULL, "0.001"}, {"center", take_copy, NULL, "true"},
        {"scale", take_copy, NULL, "true"},
        {"beta_initializer", take_initial, NULL, "zeros"},
        {"gamma_initializer", take_initial, NULL, "ones"},
        NO("beta_regularizer"), NO("gamma_regularizer"), NO("beta_constraint"),
        NO("gamma_constraint"))},
    {"GRU", "gru", true, finish_recurrent, RULES(
        RECURRENT, {"recurrent_activation", take_activation, NULL, "sigmoid"},
        {"reset_after", take_only, NULL, "true"})},
    {"IntegerLookup", "integer_lookup", false, finish_lookup, RULES(
        {"vocabulary", take_learnt, NULL, NULL}, {"output_mode", take_copy, NULL, "\"int\""},
        {"num_oov_indices", take_copy, NULL, "1"}, {"mask_token", take_copy, NULL, NULL},
        OFF("sparse"), OFF("invert"), NO("idf_weights"), ANY("dtype"), ANY("max_tokens"),
        ANY("oov_token"), ANY("vocabulary_dtype"), ANY("vocabulary_size"), ANY("oov_method"),
        ANY("has_input_vocabulary"), ANY("pad_to_max_tokens"))},
    {"LSTM", "lstm", true, finish_recurrent, RULES(
        RECURRENT, {"recurrent_activation", take_activation, NULL, "sigmoid"},
        {"unit_forget_bias", take_bias_flag, NULL, "true"})},
    {"LayerNormalization", "layer_normalization", true, NULL, RULES(
        {"axis", take_axis, NULL, "-1"}, {"epsilon", take_copy, NULL, "0.001"},
        {"center", take_copy, NULL, "true"}, {"scale", take_copy, NULL, "true"},
        {"beta_initializer", take_initial, NULL, "zeros"},
        {"gamma_initializer", take_initial, NULL, "ones"},
        NO("beta_regularizer"), NO("gamma_regularizer"), NO("beta_constraint"),
        NO("gamma_constraint"), OFF("rms_scaling"))},
    {"LayerScale", "layer_scale", true, NULL, RULES( // of ConvNeXt
        {"init_values", take_constant, "gamma_initializer", NULL},
        ANY("projection_dim"))},
    {"LeakyReLU", "leaky_relu", false, NULL, RULES(
        {"alpha", take_copy, NULL, "0.3"}, {"negative_slope", take_copy, "alpha", "0.3"})},
    {"MaxPooling1D", "max_pooling1d", false, NULL, pool},
    {"MaxPooling2D", "max_pooling2d", false, NULL, pool},
    {"Masking", "masking", false, NULL, RULES({"mask_value", take_number, NULL, "0"})},
    {"Maximum", "maximum", false, NULL, none},
    {"Minimum", "minimum", false, NULL, none},
    {"MultiHeadAttention", "multi_head_attention", true, finish_attention, RULES(
        {"num_heads", take_copy, NULL, NULL}, {"key_dim", take_copy, NULL, NULL},
        {"value_dim", take_value_dim, NULL, NULL}, {"dropout", take_copy, "rate", "0"},
        {"seed", take_copy, NULL, NULL}, {"use_bias", take_copy, NULL, "true"},
        {"kernel_initializer", take_initializer, NULL, "glorot_uniform"},
        {"bias_initializer", take_bias, NULL, "zeros"}, NO("output_shape"),
        {"attention_axes", take_only, NULL, "[1]"},
        {"kernel_regularizer", take_regularizer, NULL, NULL},
        {"bias_regularizer", take_bias_regularizer, NULL, NULL},
        NO("kernel_constraint"), NO("bias_constraint"),
        OFF("use_gate"), NO("sliding_window"), ANY("flash_attention"),
        OFF("softmax_robust_masking"), ANY("query_shape"), ANY("key_shape"),
        ANY("value_shape"))},
    {"Multiply", "multiply", false, finish_number, none},
    {"Negative", "rescaling", false, finish_number, none},
    {"Normalization", "normalization", false, NULL, RULES(
        {"axis", take_axis_or_none, NULL, "-1"}, {"mean", take_given, NULL, NULL},
        {"variance", take_given, NULL, NULL}, OFF("invert"))},
    {"PReLU", "prelu", true, NULL, RULES(
        {"alpha_initializer", take_initializer, NULL, "zeros"}, NO("alpha_regularizer"),
        NO("alpha_constraint"), {"shared_axes", take_copy, NULL, NULL})},
    {"Permute", "permute", false, NULL, RULES({"dims", take_copy, NULL, NULL})},
    {"ReLU", "relu", false, finish_relu, RULES(
        ANY("max_value"), ANY("negative_slope"), {"threshold", take_only, NULL, "0"})},
    {"RepeatVector", "repeat_vector", false, NULL, RULES({"n", take_copy, "repeats", NULL})},
    {"Rescaling", "rescaling", false, finish_rescaling, RULES(ANY("scale"), ANY("offset"))},
    {"Reshape", "reshape", false, NULL, RULES({"target_shape", take_copy, NULL, NULL})},
    {"SeparableConv1D", "separable_conv1d", true, NULL, separable},
    {"SeparableConv2D", "separable_conv2d", true, NULL, separable},
    {"SimpleRNN", "simple_rnn", true, finish_recurrent, RULES(RECURRENT)},
    {KERAS_SLICE, "slice", false, NULL, RULES( // what keras_graph makes of several inputs
        {"begin", take_copy, NULL, NULL}, {"size", take_copy, NULL, NULL})},
    {"Softmax", "softmax", false, NULL, along_axis},
    {"SpatialDropout1D", "spatial_dropout1d", false, NULL, spatial},
    {"SpatialDropout2D", "spatial_dropout2d", false, NULL, spatial},
    {"StochasticDepth", "stochastic_depth", false, NULL, RULES( // of ConvNeXt
        {"drop_path_rate", take_copy, "rate", NULL})},
    {"Subtract", "subtract", false, finish_number, none},
    {"TrueDivide", "rescaling", false, finish_number, none},
    {"UnitNormalization", "unit_normalization", false, NULL, along_axis},
    {"UpSampling1D", "up_sampling1d", false, NULL, RULES(
        {"size", take_pair, NULL, "2"})},
    {"UpSampling2D", "up_sampling2d", false, NULL, RULES(
        {"size", take_pair, NULL, "2"}, CHANNELS,
        {"interpolation", take_only, NULL, "\"nearest\""})},
    {"ZeroPadding1D", "zero_padding1d", false, NULL, RULES(
        {"padding", take_pair, "pad", "1"}, CHANNELS)},
    {"ZeroPadding2D", "zero_padding2d", false, NULL, RULES(
        {"padding", take_padding, "pad", NULL}, CHANNELS)},
};
// clang-format on

static const struct keras_layer_class *find_class(const char *name)
{
    for (size_t i = 0; i < SL_COUNT(classes); i++)
        if (strcmp(name, classes[i].class_name) == 0)
            return &classes[i];
    return NULL;
}

bool keras_offered(const char *class_name)
{
    return find_class(class_name) != NULL &&
           strcmp(class_name, KERAS_SLICE) != 0; // no file has it
}

bool keras_recurrent(const char *class_name)
{
    const struct keras_layer_class *known = find_class(class_name);

    return known != NULL && known->finish == finish_recurrent;
}

bool keras_takes_number(const char *class_name)
{
    const struct keras_layer_class *known = find_class(class_name);

    return known != NULL && known->finish == finish_number;
}

enum sl_err keras_known(struct buf *out)
{
    const char *between = "";
    enum sl_err rc = SL_OK;

    for (size_t i = 0; rc == SL_OK && i < SL_COUNT(classes); i++) {
        if (!keras_offered(classes[i].class_name))
            continue;
        rc = buf_appendf(out, "%s%s", between, classes[i].class_name);
        between = ", ";
    }
    return rc == SL_OK ? buf_appendf(out, ", Bidirectional, TimeDistributed")
                       : rc;
}

static const struct keras_rule *keras_find_rule(const struct keras_rule *rules,
                                                const char *key)
{
    for (; rules->key != NULL; rules++)
        if (strcmp(rules->key, key) == 0)
            return rules;
    return NULL;
}

static enum sl_err keras_freeze(struct keras_take *t)
{
    return json_object_set_new(t->to, "trainable", json_false()) == 0
               ? SL_OK
               : sl_no_memory(t->g->err);
}

static enum sl_err keras_layer_take_key(struct keras_take *t,
                                        const struct keras_layer_class *known,
                                        const char *key, const json_t *value)
{
    const struct keras_rule *r = keras_find_rule(known->rules, key);

    if (r == NULL)
        r = keras_find_rule(common, key);
    if (strcmp(key, "trainable") == 0)
        return known->weights && json_is_false(value) ? keras_freeze(t) : SL_OK;
    if (r != NULL)
        return r->take(t, r, keras_plain(value));
    // An unknown argument of a newer Keras is off if it is null or false.
    if (json_is_null(value) || json_is_false(value))
        return SL_OK;
    return take_refuse(t, &(struct keras_rule){.key = key}, value,
                       "that argument is not known");
}

// Makes t->to, which has all that the layer says, a further call of a layer
// that says it already.
static enum sl_err keras_share(struct keras_take *t)
{
    const struct keras_node *first = &t->g->nodes[t->node->shares - 1];
    json_t *to;

    if (first->causal != t->node->causal)
        return keras_refuse(t->g, t->node->name, t->node->class_name,
                            "is called with use_causal_mask and without");
    to = json_pack("{s:O, s:s, s:s}", "type", json_object_get(t->to, "type"),
                   "name", t->node->name, "shares", first->name);
    if (to == NULL)
        return sl_no_memory(t->g->err);
    json_decref(t->to);
    t->to = to;
    return SL_OK;
}

enum sl_err keras_layer(json_t **out, struct keras_graph *g,
                        const struct keras_node *node)
{
    struct keras_take t = {.g = g, .node = node, .to = json_object()};
    const struct keras_layer_class *known = find_class(node->class_name);
    const char *key;
    json_t *value;
    enum sl_err rc;

    rc = set_type(&t, known->type);
    if (rc == SL_OK &&
        json_object_set_new(t.to, "name", json_string(node->name)) != 0)
        rc = sl_no_memory(g->err);
    json_object_foreach((json_t *)(uintptr_t)node->config, key, value)
    {
        if (rc == SL_OK)
            rc = keras_layer_take_key(&t, known, key, value);
    }
    if (rc == SL_OK && node->frozen && known->weights)
        rc = keras_freeze(&t);
    if (rc == SL_OK && known->finish != NULL)
        rc = known->finish(&t);
    if (rc == SL_OK && node->causal && known->finish != finish_attention)
        rc = keras_refuse(g, node->name, node->class_name,
                          "is called with use_causal_mask=true");
    if (rc == SL_OK && node->shares != 0 && known->weights)
        rc = keras_share(&t);
    if (rc != SL_OK) {
        json_decref(t.to);
        return rc;
    }
    *out = t.to;
    return SL_OK;
}
