// SPDX-License-Identifier: Apache-2.0
// proto/model_build.h -- what the model_*.c files share. For this room only.
//
// Threads  any; a model_build one at a time.
// Memory   texts are borrowed for the call. What a function has added belongs
//          to b->m, also after a failure: model_free.
// Errors   SL_EINVAL, SL_ENOMEM. `err` and b->err may be NULL, no other pointer
//          may.
#ifndef PROTO_MODEL_BUILD_H
#define PROTO_MODEL_BUILD_H

#include "common/base/map.h"
#include "proto/model.h"

// The keys that every layer with variables may have, for field_outside.
#define BUILD_KEYS " type name trainable "

// A model that is being made, and the layer at hand.
struct model_build {
    struct model *m;
    const Sluice__V1__ModelSpec *spec;
    struct strmap names; // layer -> its node's number, as a pointer
    uint32_t counters[MODEL_LAYER_COUNT]; // next numbers of names, conv2d_1
    uint32_t variables_cap;
    uint64_t given;      // of MODEL_GIVEN_ALL
    uint64_t steps;      // of recurrent layers
    uint64_t orthogonal; // multiplications for orthogonal first values

    uint32_t at; // node being built; layer at - 1 of the spec
    const Sluice__V1__LayerSpec *layer;
    struct model_node *node;
    uint32_t shares; // node whose variables `node` has; 0: `node` has its own
    Sluice__V1__LayerSpec called; // `layer`, where the node shares
    bool line; // of one axis: `in` is, and `out` becomes, an image of height 1
    struct sl_error *err;
};

// Raises the edition that a program must know to compute the model to
// `edition`, if it is lower.
static inline void build_needs(const struct model_build *b, unsigned edition)
{
    if (b->m->edition < edition)
        b->m->edition = edition;
}

// Sets the error "layer 'pool1' (max_pooling2d) ..." of b->node and b->layer,
// and returns SL_EINVAL.
enum sl_err build_fail(const struct model_build *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// ---- model_words.c

// Returns the type of layers called `name`; MODEL_LAYER_COUNT: there is none.
enum model_layer model_layer_by_name(const char *name);
// Returns the activation called `name`; MODEL_ACT_COUNT: there is none.
enum model_act model_act_by_name(const char *name);

// Sets the error "<where>: unknown layer type '<word>'; did you mean 'y'? known
// are ..." and returns SL_EINVAL.
enum sl_err model_unknown_layer(const char *where, const char *word,
                                struct sl_error *err);
// Sets the error "<where>: unknown activation '<word>'; did you mean 'y'? known
// are ..." and returns SL_EINVAL.
enum sl_err model_unknown_act(const char *where, const char *word,
                              struct sl_error *err);

// Returns true if `name` has 1 to `max` bytes, each a letter, a digit or one of
// the characters in `also`.
bool model_name_ok(const char *name, const char *also, size_t max);

// Returns true if `name` of an initializer has arguments, "constant(3)": a '('.
bool model_initializer_formed(const char *name);

// Fills *out, which owns nothing, with Keras' initializer `name` for a variable
// with these fans, of which less than 1 counts as 1. SL_EINVAL, with `where`:
// there is none of that name (orthogonal is none here), or its arguments are
// wrong, and *out is untouched; no other error.
enum sl_err model_initializer(struct model_init *out, const char *name,
                              double fan_in, double fan_out, const char *where,
                              struct sl_error *err);

// ---- model_kinds.c

// Checks which fields the layer at hand (b->layer) has, and fills its node,
// which has its name, type and inputs before, and MODEL_NONE as its weights,
// with its variables and its mask (build_mask); raises the edition. SL_EINVAL
// names the layer; SL_ENOMEM.
enum sl_err build_layer(struct model_build *b);

// Checks that the input of the layer at hand has rank `rank`; else SL_EINVAL:
// "wants <shape>, got ...<advice>".
enum sl_err build_want_rank(const struct model_build *b, uint32_t rank,
                            const char *shape, const char *advice);
// Checks that the input of the layer at hand has rank 3: height, width,
// channels; else SL_EINVAL.
enum sl_err build_want_image(const struct model_build *b);
// Checks that the input is an image, and that the layer has filters and the
// size of their kernel; else SL_EINVAL.
enum sl_err build_want_filters(const struct model_build *b);

// ---- The builders of layers.def: model_layers.c, model_views.c (layers that
// move elements, and rescaling), model_attention.c, model_interact.c,
// model_composed.c, model_recurrent.c, model_mask.c, model_encode.c
//
// Each checks the keys of one layer, and fills its node, its variables and the
// shape of its output, which begins as that of the input. The node's type may
// become that of a layer that computes the same; the edition may rise.
// SL_EINVAL names the layer and the key.

#define LAYER(code, name, edition, inputs, build, keys)                        \
    enum sl_err build_##build(struct model_build *b);
#include "proto/layers.def"

// ---- model_words.c, for initializers that know the variable's shape

// Sets *out to Keras' orthogonal initializer of a kernel of that shape, the
// first axis of which is its outputs, adds to *work what making it takes, and
// returns SL_OK; SL_EINVAL, with `where` and *out untouched, if it, or all
// together, is too large to be made (*work has it then, if it is all together).
// Its rank is at least 1.
enum sl_err model_orthogonal(struct model_init *out,
                             const struct model_shape *shape, uint64_t *work,
                             const char *where, struct sl_error *err);

// ---- model_attention.c

// Marks, after all layers are built, the nodes that are ids (model_node.ids,
// mixed), and raises the edition; SL_EINVAL if an embedding reads what is no
// number of a row. Goes over all layers with b->at, b->node and b->layer.
enum sl_err build_ids(struct model_build *b);

// ---- model_mask.c

// Sets which steps of the input of the layer at hand count, and of its output
// (model_node.mask, mask_out), as Keras' layers hand masks on; after the
// layer's builder. The edition may rise. SL_EINVAL: its inputs have different
// masks, or one that the layer cannot take.
enum sl_err build_mask(struct model_build *b);

// ---- model_layers.c, for builders elsewhere

// Checks that the layer's `axis`, if it has one, is the last; else SL_EINVAL.
enum sl_err build_last_axis(const struct model_build *b);
// Sets the node's activation, and the alpha that it has by default, to the
// layer's, if it has one, and raises the edition. SL_EINVAL: there is none of
// that name.
enum sl_err build_act(const struct model_build *b);

// ---- model_encode.c

// Makes space for `count` numbers of the spec in b->node, zeroes, and a few
// more (MODEL_GIVEN_ALIGN), for so many `things` that are called `what`; once
// for a node. SL_EINVAL: they are too many, by themselves or with those of all
// layers; SL_ENOMEM.
enum sl_err build_given(struct model_build *b, uint64_t things,
                        const char *what, size_t count);

// ---- model_shape.c

// Sets *out to the product of the dimensions. SL_EINVAL, without a text and
// with *out untouched: one is 0, or the product is larger than
// MODEL_VARIABLE_MAX.
enum sl_err shape_product(uint64_t *out, const struct model_shape *s);

// Returns true if both have the same rank and dimensions.
bool shape_equal(const struct model_shape *a, const struct model_shape *b);

// Reads the window of a convolution that goes from the layer's output back to
// its input, as build_window does but without dilation, and sets the height and
// width of the output as Keras does: those of the input times the strides, and
// without padding what the window has beyond a stride. SL_EINVAL names the
// layer.
enum sl_err build_window_back(struct model_build *b);
// Sets out to `list`, one number for both axes or two (height, width). None: as
// `otherwise`. A layer of one axis has one number, and out[0] is 1. SL_EINVAL,
// with `field`: more, or one is 0; `out` may have changed.
enum sl_err build_pair(const struct model_build *b, uint32_t out[2],
                       const char *field, const uint32_t *list, size_t n,
                       const uint32_t otherwise[2]);
// Sets *out to the index of `word` among words[], which end with NULL; a word
// that is NULL leaves *out as it is. SL_EINVAL, with `field` and all words: it
// is none of them, and *out is as it was.
enum sl_err build_choice(const struct model_build *b, unsigned *out,
                         const char *field, const char *word,
                         const char *const *words);

// Reads window (size[n_size]), strides, dilation and padding of a convolution
// or pooling layer into b->node, and sets the height and width of its output. A
// list has 1 or 2 numbers, or none for the default: a window of 2, strides of
// the window in pools and of 1 in convolutions. SL_EINVAL names the layer.
enum sl_err build_window(struct model_build *b, const uint32_t *size,
                         size_t n_size, const uint32_t *strides,
                         size_t n_strides);

// ---- model_variables.c
//
// Functions here add the variables of b->layer to the model and to b->node, in
// Keras' order; biases only if use_bias is not false. b->node has its inputs
// and the shapes `in` and `out` before that, and what else its variables depend
// on: window and groups of a convolution, momentum of a batch normalization,
// heads, key_dim and value_dim of attention, whose inputs all have rank 2.
// SL_ENOMEM; SL_EINVAL: a variable or the model is too large, or an initializer
// or regularizer is wrong, or of a bias that the layer has not.
//
// Where b->shares is not 0 nothing is added, and b->node gets the variables of
// that node; SL_EINVAL if they have other shapes.

// Adds the filters, as the kernel, and the bias.
enum sl_err build_conv_variables(struct model_build *b);
// Adds the filters of each channel, as the kernel, and the bias.
enum sl_err build_depthwise_variables(struct model_build *b);
// Adds both kernels and the bias. The channels of the output are those between
// the kernels before it, and those of the layer's filters after it.
enum sl_err build_separable_variables(struct model_build *b);
// Adds the filters, which lead from the output to the input, and the bias.
enum sl_err build_transpose_variables(struct model_build *b);
// Adds alpha, of the shape `s`.
enum sl_err build_alpha_variable(struct model_build *b,
                                 const struct model_shape *s);
// Adds gamma, a number for each channel.
enum sl_err build_gamma_variable(struct model_build *b);
// Adds the kernel, last axis of `in` to last axis of `out`, and the bias.
enum sl_err build_dense_variables(struct model_build *b);
// Adds gamma and beta, as the layer has them, and the moving statistics.
enum sl_err build_norm_variables(struct model_build *b);
// Adds gamma and beta, as the layer has them.
enum sl_err build_layer_norm_variables(struct model_build *b);
// Adds the embeddings, input_dim x output_dim.
enum sl_err build_embedding_variables(struct model_build *b);
// Adds the kernel or, with a projection_dim, both kernels, and the bias.
enum sl_err build_cross_variables(struct model_build *b);
// Adds the kernel and the recurrent kernel of so many gates, and the bias, in
// `biases` vectors for the gates. `biases` is 1 or 2.
enum sl_err build_recurrent_variables(struct model_build *b, unsigned gates,
                                      unsigned biases);
// Adds the kernels of query, key, value and output, each with its bias.
enum sl_err build_attention_variables(struct model_build *b);

// Adds all variables of an external model, those of b->spec: there is no layer
// at hand. SL_EINVAL: it has neither variables nor tables, or a variable's
// name, shape or initializer is wrong.
enum sl_err build_external(struct model_build *b);

#endif
