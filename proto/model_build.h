// SPDX-License-Identifier: Apache-2.0
// proto/model_build.h -- what the model_*.c files share. For this room only.
#ifndef PROTO_MODEL_BUILD_H
#define PROTO_MODEL_BUILD_H

#include "common/base/map.h"
#include "proto/model.h"

// A model that is being made, and the layer at hand.
struct model_build {
    struct model *m;
    const Sluice__V1__ModelSpec *spec;
    struct strmap names; // layer -> its node's number, as a pointer
    uint32_t counters[MODEL_LAYER_COUNT]; // of names like conv2d_1
    uint32_t variables_cap;

    uint32_t at; // node being built; layer at - 1 of the spec
    const Sluice__V1__LayerSpec *layer;
    struct model_node *node;
    struct sl_error *err;
};

// Raises the edition that a program must know to compute the model.
static inline void build_needs(const struct model_build *b, unsigned edition)
{
    if (b->m->edition < edition)
        b->m->edition = edition;
}

// "layer 'pool1' (max_pooling2d) ...". Returns SL_EINVAL.
enum sl_err build_fail(const struct model_build *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// ---- model_words.c

// MODEL_LAYER_COUNT, MODEL_ACT_COUNT if there is none.
enum model_layer model_layer_by_name(const char *name);
enum model_act model_act_by_name(const char *name);

// SL_EINVAL: "unknown <what> 'x'; did you mean 'y'? known are ...", prefixed
// with `where` and a colon.
enum sl_err model_unknown_layer(const char *where, const char *word,
                                struct sl_error *err);
enum sl_err model_unknown_act(const char *where, const char *word,
                              struct sl_error *err);

// A layer's name: letters, digits, '_', '-', '.'; 1 to 150 bytes.
bool model_name_ok(const char *name, const char *also, size_t max);

// Keras' initializer of that name for a variable with these fans.
enum sl_err model_initializer(struct model_init *out, const char *name,
                              double fan_in, double fan_out, const char *where,
                              struct sl_error *err);

// ---- model_layers.c

// Checks which fields the layer has, fills the node and its variables.
enum sl_err build_layer(struct model_build *b);

// SL_EINVAL unless the input has this rank: "wants <shape>, got ...<advice>".
enum sl_err build_want_rank(const struct model_build *b, uint32_t rank,
                            const char *shape, const char *advice);
// A rank of 3: height, width, channels.
enum sl_err build_want_image(const struct model_build *b);

// ---- model_views.c: layers that move elements and compute none

enum sl_err build_zero_padding(struct model_build *b);
enum sl_err build_rescaling(struct model_build *b);
enum sl_err build_reshape(struct model_build *b);
enum sl_err build_permute(struct model_build *b);

// ---- model_attention.c: layers of sequences

enum sl_err build_embedding(struct model_build *b);
enum sl_err build_attention(struct model_build *b);
// Marks the nodes that are ids; SL_EINVAL if something else reads them, too.
enum sl_err build_ids(struct model_build *b);

// ---- model_shape.c

// SL_EINVAL unless the product is at most MODEL_VARIABLE_MAX.
enum sl_err shape_product(uint64_t *out, const struct model_shape *s);

// Window, strides, dilation and padding of a convolution or pooling layer; sets
// out's height and width.
enum sl_err build_window(struct model_build *b, const uint32_t *size,
                         size_t n_size, const uint32_t *strides,
                         size_t n_strides);

// ---- model_variables.c

enum sl_err build_conv_variables(struct model_build *b);
enum sl_err build_depthwise_variables(struct model_build *b);
enum sl_err build_separable_variables(struct model_build *b);
enum sl_err build_dense_variables(struct model_build *b);
enum sl_err build_norm_variables(struct model_build *b);
enum sl_err build_layer_norm_variables(struct model_build *b);
enum sl_err build_embedding_variables(struct model_build *b);
enum sl_err build_attention_variables(struct model_build *b);
enum sl_err build_external(struct model_build *b);

#endif
