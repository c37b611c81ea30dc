// SPDX-License-Identifier: Apache-2.0
// proto/model.h -- from the layers of a spec to one checked graph.
//
// The same list for all programs: the coordinator places its variables, the
// worker compiles its nodes, the client checks before it submits. Names,
// defaults, shapes and initial values are those of Keras; layouts are ours
// (filters [out, h, w, in], dense [out, in]), and keras_order leads back.
//
// Node 0 is the sample ("input"); the others follow in an order in which each
// comes after its inputs. An activation given with a dense or convolution
// layer is a property of its node. The variables, in order, concatenated, row
// major, are the flat vector of the job.
//
// Threads  a model is read-only after model_make: any.
// Memory   model_free; nothing of the spec is kept. The names that functions
//          return are static.
// Units    shapes are elements, of one sample (no batch axis), channels last.
// Errors   SL_EINVAL names the layer, what it got and what it wants; SL_ENOMEM.
//          Outputs are then untouched. `err` may be NULL.
#ifndef PROTO_MODEL_H
#define PROTO_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/job.pb-c.h"

#define MODEL_RANK_MAX 8 // axes of a variable; samples have at most 4
#define MODEL_LAYERS_MAX 10000
#define MODEL_NAME_BYTES 150 // of a layer's name
#define MODEL_INPUTS_MAX 32  // inputs of a layer
#define MODEL_OUTPUTS_MAX 16 // outputs of a model
#define MODEL_PICKS_MAX 8    // of maximum, minimum: one op picks among all
// Means of a normalization; bins, numbers or tokens of a layer that encodes.
#define MODEL_GIVEN_MAX 65536
#define MODEL_GIVEN_ALL (1 << 20) // of all such layers
#define MODEL_GIVEN_ALIGN 4       // model_node.given_count is a multiple
#define MODEL_WHOLE_MAX (1 << 24) // all whole numbers up to this are exact
#define MODEL_INTERACT_MAX 128    // vectors of a dot_interaction
#define MODEL_STEPS_MAX 4096      // of a recurrent layer
#define MODEL_STEPS_ALL 16384     // of all recurrent layers
// Elements of an orthogonal matrix times its rows or columns, the fewer: what
// one thread multiplies for it.
#define MODEL_ORTHOGONAL_MOST (UINT64_C(1) << 33)
#define MODEL_ORTHOGONAL_ALL (UINT64_C(1) << 36) // all matrices
#define MODEL_VARIABLE_MAX UINT64_C(1000000000)  // elements
#define MODEL_ELEMENTS_MAX (UINT64_C(1) << 40)   // elements of all variables

// What there was to say of models grew. A model says which edition it needs, a
// worker which it knows (Hello.edition); one that knows less is leased nothing
// of the job, as it would refuse it or, worse, not see a field. A row of
// layers.def says the edition of a layer or activation. The others:
// 1  keys of layers and of losses that edition 0 lacks, mean_absolute_error
// 2  a ring with rounds that wait for callbacks (Rates.hold)
// 3  evaluate.metrics
// 4  a ring with an optimizer that has groups
// 5  batch_normalization's fused
// 8  a layer of more than MODEL_INPUTS_OLD inputs
// 9  tables, which psservers must know as well
// 10 layers with rows of tables
// 11 tables in mode sync, which psservers must know as well
// 12 tables in steps of several micro-batches, as those of groups are, which
//    psservers must know as well
// 13 rows that travel in 8 bits, which psservers must know as well
// 14 mode local
// 15 mode local with open rounds, which psservers must know as well
// 16 train.inner.up and down with codes, which psservers must know as well
// 17 audits of tables in mode async or hybrid, or in steps of several
//    micro-batches
// 19 pushes that count several closures, which psservers must know as well
// 21 train.inner.pace own
// 22 train.average, which psservers alone must know, and train.norm, which
//    workers must
// 23 tables alone: shards without variables, which psservers must know as well
// 24 train.fragments and train.overlap
// 25 tables in mode allreduce, of which psservers must know as well
// 26 train.inner.moments store, which psservers must know as well
// 27 shards that move, which both psservers must know
// 28 layers of one axis
// 29 initializers with arguments
// 30 layers that are made of the ops of others
// 31 layers that are not trained
// 32 data of several files behind one name
// 33 data of format tfrecord
// 34 data of format webdataset or tar
// 35 a shard that is fed to another psserver, and one that follows
// 37 recurrent layers, and orthogonal matrices, which psservers must know as
//    well
// 39 programs with tables in mode allreduce, which workers alone must know
// 42 stochastic_depth, layer_scale
// 43 shards with replicas, which psservers alone must know
// 44 data at places (common/base/remote.h), which workers alone must know
// 46 data.train.augment, which workers alone must know
// 47 an output with a label for each of its rows, which workers alone must know
// 48 data.validation, which workers alone must know
// 49 train.weight, which psservers alone must know, and train.norm of programs
// 50 masks of steps
// 53 weights of samples and classes, which workers alone must know
// 54 layers that share the variables of others
// 55 layers that encode numbers, slices, and numbers of rows that are a part of
//    the sample
// 56 replicas that follow behind the answers, which psservers alone must know
// 57 contributions of several closures of programs, which workers alone must
//    know
// 58 data of format libsvm, which workers alone must know
// 59 several outputs, and labels of several columns
#define MODEL_EDITION 1
#define MODEL_EDITION_HOLDS 2
#define MODEL_EDITION_METRICS 3
#define MODEL_EDITION_GROUPS 4
#define MODEL_EDITION_FUSED 5
#define MODEL_EDITION_INPUTS 8
#define MODEL_EDITION_TABLES 9
#define MODEL_EDITION_ROWS 10
#define MODEL_EDITION_ROUNDS 11
#define MODEL_EDITION_PARTS 12
#define MODEL_EDITION_INT8 13
#define MODEL_EDITION_LOCAL 14
#define MODEL_EDITION_OPEN 15
#define MODEL_EDITION_CODED 16
#define MODEL_EDITION_AUDITED 17
#define MODEL_EDITION_SETS 19
#define MODEL_EDITION_PACES 21
#define MODEL_EDITION_AVERAGES 22
#define MODEL_EDITION_BESIDE 23
#define MODEL_EDITION_FRAGMENTS 24
#define MODEL_EDITION_BESIDE_RINGS 25
#define MODEL_EDITION_MOMENTS 26
#define MODEL_EDITION_MOVES 27
#define MODEL_EDITION_FORMED 29
#define MODEL_EDITION_FROZEN 31
#define MODEL_EDITION_FILES 32
#define MODEL_EDITION_RECORDS 33
#define MODEL_EDITION_ARCHIVES 34
#define MODEL_EDITION_FEEDS 35
#define MODEL_EDITION_ORTHOGONAL 37
#define MODEL_EDITION_RING_PROGRAMS 39
#define MODEL_EDITION_REPLICAS 43
#define MODEL_EDITION_PLACES 44
#define MODEL_EDITION_AUGMENT 46
#define MODEL_EDITION_LABELS 47
#define MODEL_EDITION_VALIDATION 48
#define MODEL_EDITION_WEIGHTS 49
#define MODEL_EDITION_MASKS 50
#define MODEL_EDITION_WEIGHED 53
#define MODEL_EDITION_SHARES 54
#define MODEL_EDITION_ENCODES 55
#define MODEL_EDITION_FOLLOWS 56
#define MODEL_EDITION_PROGRAM_SETS 57
#define MODEL_EDITION_LIBSVM 58
#define MODEL_EDITION_OUTPUTS 59
#define MODEL_INPUTS_OLD 8

enum model_layer {
    MODEL_INPUT, // node 0 only
#define LAYER(code, ...) MODEL_##code,
#include "proto/layers.def"
    MODEL_LAYER_COUNT
};

enum model_act {
    MODEL_ACT_LINEAR,
#define ACTIVATION(code, ...) MODEL_ACT_##code,
#include "proto/layers.def"
    MODEL_ACT_COUNT
};

// What an embedding makes of the n rows of a bag; zeros of none.
enum model_combiner {
    MODEL_SUM,
    MODEL_MEAN,  // 1 / n of the sum
    MODEL_SQRTN, // 1 / sqrt(n) of the sum
    MODEL_COMBINERS
};

// What a layer that encodes makes of the index of each number.
enum model_encoding {
    MODEL_INDEX,     // the index itself
    MODEL_ONE_HOT,   // a row of zeroes with a 1 there
    MODEL_MULTI_HOT, // one row for all numbers: 1 for each index that is there
    MODEL_COUNT,     // one row for all numbers: how often each index is there
    MODEL_ENCODINGS
};

struct model_shape {
    uint32_t rank;
    uint64_t dim[MODEL_RANK_MAX];
};

// Which of a node's variables: index into model.variables, or MODEL_NONE.
#define MODEL_NONE UINT32_MAX
enum model_weight {
    MODEL_KERNEL,
    MODEL_BIAS,
    MODEL_RECURRENT_KERNEL, // lstm, gru, simple_rnn
    MODEL_U_KERNEL,         // cross: comes before the kernel, without a bias
    MODEL_GAMMA,
    MODEL_BETA,
    MODEL_MOVING_MEAN,
    MODEL_MOVING_VARIANCE,
    MODEL_DEPTHWISE_KERNEL, // separable_conv2d
    MODEL_POINTWISE_KERNEL,
    MODEL_EMBEDDINGS,
    MODEL_ALPHA,        // prelu
    MODEL_QUERY_KERNEL, // multi_head_attention: each bias behind its kernel
    MODEL_QUERY_BIAS,
    MODEL_KEY_KERNEL,
    MODEL_KEY_BIAS,
    MODEL_VALUE_KERNEL,
    MODEL_VALUE_BIAS,
    MODEL_ATTENTION_OUTPUT_KERNEL,
    MODEL_ATTENTION_OUTPUT_BIAS,
    MODEL_WEIGHTS
};

// How a layer encodes numbers: each gets an index, which becomes what `how`
// says. Classes are ranges of numbers. A number that is in none has the index
// `otherwise`, and each class that it is in adds to that. The parts of
// model_node.given, each of which begins at a multiple of MODEL_GIVEN_ALIGN:
// INDEX, what each class adds; OTHERWISE; FROM, where each class begins, and
// TO, where it ends, unless `open`; TOKENS, the numbers from 0 to `tokens`,
// unless `how` is MODEL_INDEX.
enum model_encode_part {
    MODEL_ENCODE_INDEX,
    MODEL_ENCODE_OTHERWISE,
    MODEL_ENCODE_FROM,
    MODEL_ENCODE_TO,
    MODEL_ENCODE_TOKENS,
    MODEL_ENCODE_END, // number of elements of model_node.given
    MODEL_ENCODE_PARTS
};
struct model_encode {
    enum model_encoding how;
    uint32_t classes; // 0: the number is the index
    bool open;        // classes have no end, and a number may be in several
    uint32_t tokens;  // length of a row
};

struct model_node {
    const char *name; // owned by the model
    // The layer's own type; activation layers by any of their names (relu,
    // softmax, activation ...) are MODEL_ACTIVATION with `act` set. A layer of
    // one axis is that of images, repeat_vector is up_sampling2d, and slice is
    // cropping2d.
    enum model_layer type;
    enum model_act act; // dense, convolutions, activation; else LINEAR
    // Recurrent layers: of what a step computes, and of the gates.
    enum model_act step_act, gate_act;
    double alpha; // elu, leaky_relu: factor below 0

    uint32_t inputs;                  // how many
    uint32_t input[MODEL_INPUTS_MAX]; // numbers of nodes before this node
    struct model_shape in; // shape of input[0]; an image of height 1 where a
                           // layer of one axis is one of images; `out` where
                           // there are no inputs
    struct model_shape out;
    bool frozen;    // its variables stay as they begin
    uint32_t users; // how many inputs of other nodes this node is, and 1 more
                    // if this node is an output of the model

    // convolutions and pooling: height, width; dilation and groups are 0 where
    // a layer has none
    uint32_t window[2], stride[2], dilation[2], groups;
    // SAME pads as TensorFlow does; zero_padding2d; what cropping2d takes away
    uint32_t pad_before[2], pad_after[2];
    uint32_t order[MODEL_RANK_MAX];     // permute: axes of the input, from 0
    double factor, offset;              // rescaling
    uint32_t heads, key_dim, value_dim; // multi_head_attention; `rate`, too
    bool causal;
    // Recurrent layers: the output is one row for each step; the last step is
    // the first; rows have the order of the input, not of the steps.
    bool sequences, backwards, keep_order;
    bool zero_masked; // steps that do not count give zeroes
    // The node, an embedding or a masking, that says which steps of the input
    // count, if this node makes use of that; and of the output. MODEL_NONE: all
    // do, or it makes none.
    uint32_t mask, mask_out;
    bool masks;              // embedding: the number 0 does not count
    double mask_value;       // masking
    bool self_interaction;   // dot_interaction
    uint32_t projection_dim; // cross; 0: it has one kernel
    double diag_scale;       // cross
    uint32_t axis[2];        // dot: of each input, from 0
    // Numbers of the spec, owned by the model; given_count of them, the last
    // ones zeroes. normalization: the means of all channels, then the
    // variances. Layers that encode: see model_encode. NULL in all other nodes.
    double *given;
    uint32_t given_count;
    struct model_encode encode; // layers that encode
    // embedding with rows of a table: its number among these, which is that of
    // its table; the column of ids, owned by the model. It has no inputs, and
    // `column` is NULL in all other nodes.
    uint32_t table;
    const char *column;
    enum model_combiner combiner;
    // Its output is numbers that another layer reads as whole ones, or
    // compares: no 16 bits can hold those. `mixed`: other layers read it, too.
    bool ids, mixed;
    bool learns; // a variable at or before it, or a row of a table, is trained
    double rate; // dropout, in [0, 1)
    uint64_t seed;            // dropout
    double momentum, epsilon; // normalizations
    bool unbiased; // batch_normalization: the moving variance moves by the
                   // variance of n values times n / (n - 1)
    uint32_t weight[MODEL_WEIGHTS]; // MODEL_NONE: it has none
};

enum model_kind {
    MODEL_TRAINABLE, // numbers are those of enum VariableKind
    MODEL_MOVING,
};

enum model_init_kind {
    MODEL_INIT_CONSTANT,         // a; numbers are those of enum InitKind
    MODEL_INIT_UNIFORM,          // values in [a, b)
    MODEL_INIT_NORMAL,           // mean a, standard deviation b
    MODEL_INIT_TRUNCATED_NORMAL, // redrawn beyond two deviations of b
    MODEL_INIT_ORTHOGONAL,       // a rows, b columns; the fewer are orthonormal
    MODEL_INIT_ONES_WITHIN,      // 1 for elements in [a, b), else 0
};

struct model_init {
    enum model_init_kind kind;
    double a, b;
};

struct model_variable {
    const char *name; // "conv2d/kernel"; owned by the model
    struct model_shape shape;
    enum model_kind kind;
    // MODEL_MOVING: of all calls of its layer in a step. 1, as a frozen layer's
    // variables have it: it stays, whatever is pushed. 0 in an external model
    double momentum;
    struct model_init init;
    double l1, l2; // factors of its absolute values and squares in the loss
    // keras_shape[i] = shape.dim[keras_order[i]]; the identity has rank 0 in
    // `keras_rank`.
    uint32_t keras_rank;
    uint32_t keras_order[MODEL_RANK_MAX];
    uint64_t first, elements; // its range of the flat vector
    uint32_t node;            // MODEL_NONE in an external model
    uint32_t calls; // nodes that have it: `node`, and those that share it
};

struct model {
    bool external; // no nodes: only variables
    struct model_node *nodes;
    uint32_t nodes_count;
    uint32_t outputs;                   // how many; 0 in an external model
    uint32_t output[MODEL_OUTPUTS_MAX]; // nodes, each once
    struct model_variable *variables;
    uint32_t variables_count;
    uint64_t elements;  // elements of all variables
    uint64_t trainable; // elements of those that an optimizer updates
    uint32_t tables;    // nodes with rows of a table
    uint32_t edition;   // edition that a program must know to compute it
};

// Makes a checked graph from `spec`, which need not be checked and is not
// changed; *out is for model_free. SL_EINVAL names the layer that is wrong;
// SL_ENOMEM.
enum sl_err model_make(struct model **out, const Sluice__V1__ModelSpec *spec,
                       struct sl_error *err);
// Frees a model with its nodes, variables and names. NULL is allowed.
void model_free(struct model *m);

// Returns the product of the dimensions; 1 for rank 0. Overflow is not checked:
// shapes of a model have none.
uint64_t model_shape_elements(const struct model_shape *s);

// Returns `count`, raised to the next multiple of MODEL_GIVEN_ALIGN.
size_t model_given_aligned(size_t count);
// Returns the index in model_node.given where a part of the numbers begins that
// a layer is given to encode; where a part is not there, that of the next one.
size_t model_encode_part(const struct model_encode *e,
                         enum model_encode_part part);

#define MODEL_SHAPE_TEXT 192
// Writes "(28, 28, 1)", "(10,)" or "()", as Python prints it, and returns
// `out`.
const char *model_shape_text(char out[MODEL_SHAPE_TEXT],
                             const struct model_shape *s);

// Returns the name that a spec has for a type of layers, "conv2d"; `type` is
// below MODEL_LAYER_COUNT. Static text.
const char *model_layer_name(enum model_layer type);
// Returns the name that a spec has for an activation, "relu"; `act` is below
// MODEL_ACT_COUNT. Static text.
const char *model_act_name(enum model_act act);
// Returns true if a layer of the type `name` goes step by step: lstm, gru,
// simple_rnn. NULL is allowed.
bool model_recurrent(const char *name);
// Returns the highest edition that this program knows.
unsigned model_edition_known(void);

#endif
