// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_build.h -- a program in the making. Only compile*.c
// include it.
//
// A tensor is named by its number. Those in the arena get their places at the
// end, all others at once. compile_emit() plans an op and appends it. The first
// failure is kept in b->rc and makes every later call do nothing (a tensor that
// it returns is of no use), so the layers' functions read straight down. Those
// that only compute from the model (dimensions, bytes, dtypes, windows) cannot
// fail and answer as well after a failure.
//
// A layer's forward sets b->value of its node. When its backward is called
// b->grad of the node is whole and the node's own: it may be overwritten or
// given away. A variable's gradient is written once by each node that has it:
// compile_grad_at, the op that writes there, compile_grad_home. The first
// writes it, those of layers that share it add to it.
//
// Threads  as compile.h: the compute thread.
// Memory   build_release. Arrays of dimensions are the caller's.
// Errors   in b->rc and b->err, which compile() hands on.
#ifndef WORKER_COMPILE_COMPILE_BUILD_H
#define WORKER_COMPILE_COMPILE_BUILD_H

#include "common/base/map.h"
#include "worker/compile/arena.h"
#include "worker/compile/compile.h"

#define NO_TENSOR UINT32_MAX
#define COMPILE_KEPT MODEL_INPUTS_MAX

struct tensor {
    enum program_place place;
    size_t offset, bytes;
};

// A tensor, or a view of it that begins `offset` bytes behind its start.
struct build_ref {
    uint32_t tensor;
    size_t offset;
};
#define WHOLE(t) ((struct build_ref){(t), 0})

struct build_op {
    struct build_ref ref[KERN_IO];
};

struct build {
    const struct model *model;
    const struct compile_options *o;
    struct kern_dev *dev;
    struct program *p;

    struct tensor *tensors;
    uint32_t tensors_count, tensors_capacity;
    struct build_op *ops; // arguments of p->ops, by the same index
    struct map plans;     // struct build_plan by hash of a kern_desc
    size_t cap;           // most workspace of a plan; 0: the device's limit
    size_t least;         // workspace that earlier programs need

    // Arrays by node.
    uint32_t *value; // tensor of the node's output; NO_TENSOR before
    uint32_t *exact; // the same in f32, where the node's output is ids
    uint32_t *grad;  // tensor of its output's gradient; NO_TENSOR before
    uint32_t *aux;   // max pool: winners; dropout: its key; separable: between
    uint32_t *kept;  // COMPILE_KEPT per node: by layer; repeated inputs
    uint32_t *saved; // tensor that the activation's backward wants
    bool *act_done;  // another layer does its activation's backward
    bool *bias_done; // another layer computes its bias's gradient
    bool *loss_act;  // the node's softmax or sigmoid is in the loss

    // Arrays by variable; NO_TENSOR before.
    uint32_t *copy; // the variable as products read it
    uint32_t *own;  // its gradient before it is added
    bool *written;  // its gradient is in the vector: what comes is added

    // Precision.
    enum kern_dtype t;  // type of activations and products: f32, bf16, f16
    size_t act;         // bytes of an activation's element
    bool scaled;        // the loss is scaled, so gradients are unscaled: f16,
                        // also where f32 computes it
    bool device;        // tensors of products are aligned, images padded
    int64_t x_channels; // padded channels of images; 0: not padded

    // Constants: ones first, then as many zeroes, then the causal mask, then
    // what layers are given.
    size_t constants;  // number of ones; as many zeroes
    size_t mask;       // rows, and columns, of the mask
    uint32_t dropouts; // dropouts that have a key
    size_t real;       // bytes of a real number

    size_t given; // numbers that layers are given, behind the mask

    uint32_t penalties; // head of the penalties: the loss's, if that is one

    bool lacks_workspace; // memory failed for want of workspace
    enum sl_err rc;
    struct sl_error err;
};

// ---- compile_emit.c

// Fails the build with error `code` and the text `what` about layer `node`,
// unless it has failed before.
void compile_fail(struct build *b, uint32_t node, enum sl_err code,
                  const char *what);

// Returns a new tensor with the two sums of a head of the loss.
uint32_t compile_stats_of(struct build *b, uint32_t head);
// Returns a new tensor with the factor of the gradient of a head of the loss.
uint32_t compile_scale_of(struct build *b, uint32_t head);
// Returns a new tensor in the arena.
uint32_t compile_tensor(struct build *b, size_t bytes);
// Returns a new tensor of `bytes` bytes at byte `offset` of a place.
uint32_t compile_at(struct build *b, enum program_place place, size_t offset,
                    size_t bytes);
// Returns a new tensor for variable `w` of a node, which the node must have, in
// the flat vector of parameters or of gradients (`vector`: PROGRAM_PARAMS or
// PROGRAM_GRADS).
uint32_t compile_weight(struct build *b, const struct model_node *node,
                        enum model_weight w, enum program_place vector);

// Returns where node i keeps tensor `which`, below COMPILE_KEPT, for its
// backward pass; NO_TENSOR before. The first three of a node that says which
// steps count (model_node.mask) are taken by compile_mask.c.
static inline uint32_t *compile_kept(const struct build *b, uint32_t i,
                                     unsigned which)
{
    return &b->kept[(size_t)COMPILE_KEPT * i + which];
}

// Sets dim to [batch of the options, dims of the shape] and returns how many
// they are, 1 + s->rank; further elements of dim stay as they were. s->rank
// must be below KERN_DIMS.
unsigned compile_dims(const struct build *b, const struct model_shape *s,
                      int64_t dim[KERN_DIMS]);
// Returns the elements of the shape's last axis.
static inline int64_t compile_channels(const struct model_shape *s)
{
    return (int64_t)s->dim[s->rank - 1];
}
// Sets dim as compile_dims does, to [batch, height, width, channels] for the
// output of a layer of images; a layer of one axis (shape [steps, channels])
// has the height 1.
void compile_image_dims(const struct build *b, const struct model_shape *s,
                        int64_t dim[KERN_DIMS]);
// Returns the bytes of an activation of that shape for the whole batch.
size_t compile_bytes(const struct build *b, const struct model_shape *s);
// Returns the elements of the shape, for all samples of a batch.
int64_t compile_elements(const struct build *b, const struct model_shape *s);

// Plans the op *d of layer `node` and appends it to the program. `refs` has one
// entry per input and output of *d, in this order. Both are read during the
// call; with o->f64 the reals in *d become doubles.
void compile_emit(struct build *b, uint32_t node, struct kern_desc *d,
                  const struct build_ref *refs);

// Sets *out to the plan of the op *d, owned by the program: that of an op with
// the same description, or a new one. For a new one, raises the program's
// workspace to what it needs, and notes in the program the kernels that are
// left out for the op. On failure b->err says why, and the caller sets b->rc
// (compile_plans.c).
enum sl_err compile_plan(struct build *b, const struct kern_desc *d,
                         struct kern_plan **out);

// Returns true if the backend computes `fused` at least as well as `plain`;
// false if it cannot compute `fused`. Always true with o->f64. May be slow, as
// it may try both. Both must have their dtypes (compile_type), here and in the
// functions below that choose between two descriptions.
bool compile_fuses(struct build *b, const struct kern_desc *fused,
                   const struct kern_desc *plain);
// Frees what the build has noted of plans (b->plans); the program keeps the
// plans.
void compile_plans_release(struct build *b);

// Adds `epilogue` (bits such as KERN_BIAS) to *d and returns true, if the
// backend computes the op at least as well with it; else returns false, with *d
// as it was.
bool compile_try_epilogue(struct build *b, struct kern_desc *d,
                          uint32_t epilogue);

// Adds the backward of the ReLU in front of `node` to its op *d (KERN_DRELU),
// and sets act_done of the ReLU's node, if the program trains, the ReLU's node
// needs a gradient, no other layer reads its output, and the backend computes
// that at least as well. *d has its dtypes.
void compile_fuse_drelu(struct build *b, const struct model_node *node,
                        struct kern_desc *d);

// Returns a tensor with one number per channel of a normalization: its variable
// `w` (MODEL_GAMMA or MODEL_BETA) or, if it has none, constant ones for
// MODEL_GAMMA and zeroes for MODEL_BETA: compile.c (ones_of) makes as many as
// the layer's type reads.
uint32_t compile_scale_or_center(struct build *b, const struct model_node *node,
                                 enum model_weight w);

// Returns a node's activation as a kernel's kind, and sets *a to the
// activation's alpha. KERN_UNARY_LINEAR if the node has no activation;
// KERN_UNARY_NONE for softmax alone, which is an op of its own.
enum kern_unary_kind compile_unary(const struct model_node *node, float *a);

// Returns the window of a convolution, pool or up-sampling, with its pads; a
// global pool's is the whole image, with strides of 1. That of a transposed
// convolution goes over its output.
struct kern_window compile_window(const struct model_node *node);

// ---- compile_operand.c

// Returns true if node i is *wide*: it is an output of the model, only the loss
// reads it, and the layers compute in 16 bits. Its activation is then computed
// in f32.
bool compile_is_wide(const struct build *b, uint32_t i);
// Returns the dtype of node i's value and gradient: f32 if it is wide, else
// b->t.
enum kern_dtype compile_dtype(const struct build *b, uint32_t i);
// Returns the bytes of node i's value.
size_t compile_value_bytes(const struct build *b, uint32_t i);
// Gives the described op *d the dtype `t` (kern_desc_dtype). If `t` is
// KERN_F32, an op stays as it was described, but a product gets the mathematics
// of the options.
void compile_type(struct build *b, struct kern_desc *d, enum kern_dtype t);
// Returns a tensor with the `count` elements of x, which have dtype `from`, in
// dtype `to`: x itself if they are equal, else a new one, written by an op that
// is appended.
uint32_t compile_cast(struct build *b, uint32_t node, uint32_t x, int64_t count,
                      enum kern_dtype from, enum kern_dtype to);

// Sets dim to the dimensions of a convolution's input, with padded channels if
// that is the model's input and images are padded (b->x_channels).
void compile_conv_dims(const struct build *b, const struct model_node *node,
                       int64_t dim[KERN_DIMS]);
// Returns a tensor with a copy of x, an f32 image or filter of dimensions `dim`
// (n, h, w, c), with b->x_channels channels, those behind its own zeroes, as
// type b->t.
uint32_t compile_pad(struct build *b, uint32_t node, uint32_t x,
                     const int64_t dim[4]);
// Returns a tensor with variable `w` of node i, a kernel or bias, as the node's
// products read it: cast to b->t, padded or aligned if they need that. The node
// has the variable. Returns the same tensor each time.
uint32_t compile_operand(struct build *b, uint32_t i, enum model_weight w);
// Returns the dtype in which the backend is to give a weight's gradient:
// KERN_F32, which is then set in both descriptions, if the backend computes
// `without` at least as well with it; else b->t, and both stay. Both have the
// dtype b->t (compile_type).
enum kern_dtype compile_grad_dtype(struct build *b, struct kern_desc *with,
                                   struct kern_desc *without);
// Returns the tensor to which an op writes the gradient of variable `w` of node
// i in dtype `given`: the variable's place in the gradient vector if possible,
// else a new tensor. Also for batch norm's. compile_grad_home follows the op.
uint32_t compile_grad_at(struct build *b, uint32_t i, enum model_weight w,
                         enum kern_dtype given);
// Brings the gradient that an op has written to `t`, from compile_grad_at, in
// dtype `given`, to its place in the gradient vector: casts it, divides it by
// the loss scale, adds the penalty's part, once per variable; adds it there if
// it is not the first. Once per variable and node.
void compile_grad_home(struct build *b, uint32_t i, enum model_weight w,
                       uint32_t t, enum kern_dtype given);

// Returns the constant at which the numbers begin that layers are given:
// aligned, as they may be operands of products.
size_t compile_given_begin(const struct build *b);
// Returns the tensor of the numbers that node i is given (model_node.given),
// `count` of them from `first` on.
uint32_t compile_given(struct build *b, uint32_t i, size_t first, size_t count);

// ---- compile_penalty.c

// Returns true if a variable of the model has a penalty on its size.
bool compile_has_penalties(const struct model *m);
// Appends ops that add the penalties on the variables' sizes to the loss, to
// the sums of the head b->penalties.
void compile_penalties(struct build *b);
// Adds the penalty's part to `grad`, which has elements [first, first + count)
// of the gradient of variable `w` of node i, in f32 and without the loss scale.
// Does nothing for a variable without a penalty.
void compile_penalize(struct build *b, uint32_t i, enum model_weight w,
                      int64_t first, int64_t count, uint32_t grad);

// ---- compile_add.c

// Returns the tensor in which the whole f32 gradient of variable `w` of node i,
// or a statistic of the batch, is to be written: its place in the gradient
// vector; or a tensor in the arena, for one that is to be added (by a program
// that adds, or to that of another layer with the variable), and for a
// statistic that has to be scaled (o->share, an unbiased variance) or that
// another layer replaces. The same place each time until compile_grad_add,
// which follows.
uint32_t compile_grad(struct build *b, uint32_t i, enum model_weight w);
// Adds what was written to compile_grad's tensor to the gradient vector, the
// elements of which are multiplied by `kept` before. The first in a program
// that does not add is written there, and is there already if it was not
// scaled.
void compile_grad_add(struct build *b, uint32_t i, enum model_weight w,
                      double kept);
// Returns the tensor to which to write elements [first, first + elements) of
// the gradient of a variable that is computed in parts, each element in one of
// them: their place in the gradient vector, or, in a program that adds, a new
// tensor each time. compile_grad_rows_add follows. Not for a variable that
// several layers share, as it does not add to what another has written, nor
// for one of a frozen node or a statistic.
uint32_t compile_grad_rows(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements);
// Adds the penalty's part to the elements in `t`, which compile_grad_rows
// returned and an op has written in f32; in a program that adds, adds them to
// the gradient vector. Does not divide by the loss scale: not for gradients
// that are scaled (b->scaled).
void compile_grad_rows_add(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements, uint32_t t);

// ---- compile_grads.c

// Returns true if the gradient of the node's k-th input has to be computed, as
// something at or before that input is trained.
bool compile_wants_grad(const struct build *b, const struct model_node *node,
                        uint32_t k);
// Returns a new tensor for a gradient of the output of `node`, which an op then
// writes; compile_took follows the op, and comes before any other gradient is
// given to the node. The first one of a node is its b->grad from now on.
uint32_t compile_target(struct build *b, uint32_t node);
// Takes over `t`, from compile_target, after an op has written it: it is the
// node's gradient (b->grad), or is added to what other ops gave. The caller
// does not use t any more.
void compile_took(struct build *b, uint32_t node, uint32_t t);
// Gives `dy` to `node` as a gradient of its output, unchanged. `away`: the
// caller does not use dy any more, so that it may become the node's gradient
// itself; else it is copied or added.
void compile_pass(struct build *b, uint32_t node, uint32_t dy, bool away);
// Gives node i's gradient to its only input (compile_pass), if that wants one;
// the whole backward of some layers.
void compile_pass_on(struct build *b, uint32_t i);
// Appends y = alpha x + beta y over all elements of x. Both have the dtype of
// activations. y may be x. `node` is for errors, here and below.
void compile_axpby(struct build *b, uint32_t node, float alpha, uint32_t x,
                   float beta, uint32_t y);
// Multiplies x by a, in place. All of x has the dtype of activations.
void compile_scale(struct build *b, uint32_t node, uint32_t x, float a);
// Computes the gradient of the vector `w` of node i, the sum of the rows of x,
// each as long as the vector, and brings it home (compile_grad_home). Elements
// of x are `t`. Does nothing if the node has no `w`, or is frozen.
void compile_sum_rows(struct build *b, uint32_t i, enum model_weight w,
                      int64_t rows, uint32_t x, enum kern_dtype t);
// Computes the gradient of node i's bias from its b->grad (compile_sum_rows).
// Does nothing without a bias, or for a frozen node; but it does not look
// whether another layer has done that (compile_wants_bias_grad).
void compile_bias_grad(struct build *b, uint32_t i);
// Returns true if node i has a bias that is trained, the gradient of which no
// other layer has computed.
bool compile_wants_bias_grad(const struct build *b, uint32_t i);
// Returns true if the op that computes the kernel's gradient should compute the
// bias's too: node i wants one, and the backend computes `with`, both, at least
// as well as `without`.
bool compile_fuses_bias(struct build *b, uint32_t i,
                        const struct kern_desc *with,
                        const struct kern_desc *without);
// Returns true if the layer i, a max pool or batch norm, should compute the
// bias gradient of the convolution in front of it, as the sum of its own dx, by
// the op `with` in place of `without`: no other node reads the convolution, its
// bias is trained, the backward of its activation is done, and the backend does
// it at least as well. False on a host (but with o->f64 or o->as_device), and
// behind any other layer than MODEL_CONV2D.
bool compile_sums_for_bias(struct build *b, uint32_t i,
                           const struct kern_desc *with,
                           const struct kern_desc *without);
// Brings home (compile_grad_home) the gradient of a convolution's bias that
// compile_sums_for_bias has allowed and the layer behind has written to `db`,
// in f32; sets bias_done of the node `conv`.
void compile_bias_home(struct build *b, uint32_t conv, uint32_t db);
// Computes the gradients of kernel `w` of node i and, except for
// MODEL_DEPTHWISE_KERNEL, of its bias, and brings them home. `with` describes
// one op for both; if the backend is worse at that, or if `with` has no output
// for the bias, `without` and a sum are used. A frozen layer gets none. Both
// ops read `first` and `second`, and write the kernel's gradient, `with` the
// bias's as well; both get their dtypes here.
void compile_weight_grads(struct build *b, uint32_t i, enum model_weight w,
                          struct kern_desc *with, struct kern_desc *without,
                          struct build_ref first, struct build_ref second);
// Appends a batch of products [m, n] of x and y, and returns their tensor, a
// new one. bmnk: the batch's size, m, n, k. x is [m, k], or [k, m] with
// trans_x; y is [k, n], or [n, k] with trans_y.
uint32_t compile_products(struct build *b, uint32_t node, uint32_t x,
                          uint32_t y, const int64_t bmnk[4], bool trans_x,
                          bool trans_y);

// A product of [rows, k] with a kernel [units, k]; its bias, if there is one,
// is the next weight, or the first `units` elements of that.
struct compile_projection {
    enum model_weight kernel;
    int64_t rows, k, units;
    bool bias_apart; // the caller computes the bias's gradient
};
// Appends y = x kernel^T + bias, and returns y [rows, units], a new tensor; x
// is [rows, k].
uint32_t compile_project(struct build *b, uint32_t i,
                         const struct compile_projection *p, uint32_t x);
// Appends dx = dy kernel; dy is [rows, units], and dx, the caller's tensor,
// [rows, k].
void compile_project_input(struct build *b, uint32_t i,
                           const struct compile_projection *p, uint32_t dy,
                           uint32_t dx);
// Computes the gradients of the projection's kernel and, unless bias_apart, of
// its bias from x and dy, and brings them home (compile_grad_home). A frozen
// layer gets none.
void compile_project_grads(struct build *b, uint32_t i,
                           const struct compile_projection *p, uint32_t x,
                           uint32_t dy);
// Computes the gradient of the node's first input, if that wants one, by the op
// *d from dy and kernel `w`, in this order, and gives it to the input
// (compile_took). *d gets its dtypes here.
void compile_input_grad(struct build *b, uint32_t i, struct kern_desc *d,
                        uint32_t dy, enum model_weight w);

// ---- compile_encode.c

// Returns the tensor with the output of `node` in f32, for node i: what no 16
// bits have rounded where the output is ids, else perhaps a cast, by an op that
// is appended.
uint32_t compile_numbers(struct build *b, uint32_t i, uint32_t node);
// Makes b->value of node i, if its output is ids, what layers read that compute
// in b->t, when the layer is done; does nothing for another node.
void compile_keep_exact(struct build *b, uint32_t i);

// ---- compile_norms.c

// Appends y = (x - mean) gamma / sqrt(var) + beta per channel, of which there
// are `channels` in a row of x. A tensor of NO_TENSOR is ones for gamma and
// var, zeroes for beta and mean: constants, as compile_scale_or_center has
// them. y may be x.
struct compile_affine {
    uint32_t gamma, beta, mean, var;
    float epsilon; // is added to var
    int64_t channels, rows;
};
void compile_affine(struct build *b, uint32_t i, const struct compile_affine *a,
                    uint32_t x, uint32_t y);
// Returns the affine map of rows of `channels` numbers that changes nothing, of
// as many elements as the node's input has.
struct compile_affine compile_unchanged(const struct build *b,
                                        const struct model_node *node,
                                        int64_t channels);

// ---- compile_act.c

// Sets b->value of node i to its activation of z, and b->saved to what the
// activation's backward wants. `own`: no other op reads z, so that it may be
// overwritten unless the backward pass needs it. The activation of a wide node
// is left to compile_widen; none is applied that the loss computes
// (loss_has_act).
void compile_activate(struct build *b, uint32_t i, uint32_t z, bool own);
// Casts a wide node's value to f32 and applies its activation, when the layer
// is done; does nothing for another node.
void compile_widen(struct build *b, uint32_t i);
// Appends the op *d of a layer with a kernel, from x, kernel `w` and the bias
// if there is one, and the activation behind it; sets b->value and b->saved of
// node i, as compile_activate does. *d has KERN_BIAS if the node has a bias
// (compile_bias_bit), and gets its dtypes, and perhaps a ReLU, here.
void compile_weighted(struct build *b, uint32_t i, struct kern_desc *d,
                      uint32_t x, enum model_weight w);
// Returns KERN_BIAS if the node has a bias, else 0.
uint32_t compile_bias_bit(const struct model_node *node);
// Turns b->grad of node i, the gradient of its output, into the gradient of its
// activation's input, in place. Does nothing for a linear activation, or where
// the loss or another layer does that (act_done).
void compile_unactivate(struct build *b, uint32_t i);
// Casts the gradient of a wide node to b->t, for the layer's own backward. Does
// nothing for another node.
void compile_narrow(struct build *b, uint32_t i);

// ---- layers

// A layer as a copy from a view of its input to a view of its output, both of
// the same dimensions, `at` elements behind the output's start.
struct compile_view {
    struct kern_shape from, to;
    size_t at;
    size_t from_at; // elements that the input's view begins behind its start
    bool crops;     // it leaves elements of the input out
    float scale, offset; // offset: the output's elements before the copy
    bool fills;          // the copy leaves elements that are `offset`
    bool adds;           // the copy adds to `offset`
};
// Returns the node's view; `whole` is that of a copy of the whole input.
typedef struct compile_view compile_view_fn(const struct build *b,
                                            const struct model_node *node,
                                            struct compile_view whole);

// What a type of layers is compiled to. forward appends the ops that compute
// the value of node i from its inputs' values; backward those that pass its
// gradient on to its inputs and to its variables' gradients. Or `view` alone.
// product describes the forward product of node i in f32; NULL: the layer has
// none, or none that counts beside others.
struct compile_layer {
    void (*forward)(struct build *b, uint32_t i);
    void (*backward)(struct build *b, uint32_t i);
    compile_view_fn *view;
    void (*product)(const struct build *b, uint32_t i, struct kern_desc *d);
};

// X(CODE of layers.def, layer): the layers, each defined in a compile_*.c. An
// activation's node is MODEL_ACTIVATION, whatever type its layer had.
#define COMPILE_LAYER_MAP(X)                                                   \
    X(DENSE, compile_dense)                                                    \
    X(CONV2D, compile_conv)                                                    \
    X(DEPTHWISE_CONV2D, compile_conv)                                          \
    X(SEPARABLE_CONV2D, compile_conv)                                          \
    X(MAX_POOLING2D, compile_max_pool)                                         \
    X(GLOBAL_MAX_POOLING2D, compile_max_pool)                                  \
    X(AVERAGE_POOLING2D, compile_average_pool)                                 \
    X(GLOBAL_AVERAGE_POOLING2D, compile_average_pool)                          \
    X(FLATTEN, compile_reshape)                                                \
    X(RESHAPE, compile_reshape)                                                \
    X(ZERO_PADDING2D, compile_zero_padding)                                    \
    X(PERMUTE, compile_permute)                                                \
    X(CROPPING2D, compile_cropping)                                            \
    X(UP_SAMPLING2D, compile_up_sampling)                                      \
    X(CONV2D_TRANSPOSE, compile_transpose)                                     \
    X(SPATIAL_DROPOUT2D, compile_spatial_dropout)                              \
    X(GROUP_NORMALIZATION, compile_group_norm)                                 \
    X(UNIT_NORMALIZATION, compile_unit_norm)                                   \
    X(NORMALIZATION, compile_normalization)                                    \
    X(DOT, compile_dot)                                                        \
    X(PRELU, compile_prelu)                                                    \
    X(STOCHASTIC_DEPTH, compile_stochastic_depth)                              \
    X(LAYER_SCALE, compile_layer_scale)                                        \
    X(RESCALING, compile_rescaling)                                            \
    X(DROPOUT, compile_dropout)                                                \
    X(BATCH_NORMALIZATION, compile_batch_norm)                                 \
    X(LAYER_NORMALIZATION, compile_layer_norm)                                 \
    X(ADD, compile_add)                                                        \
    X(AVERAGE, compile_average)                                                \
    X(SUBTRACT, compile_subtract)                                              \
    X(MULTIPLY, compile_multiply)                                              \
    X(MAXIMUM, compile_maximum)                                                \
    X(MINIMUM, compile_minimum)                                                \
    X(CONCATENATE, compile_concatenate)                                        \
    X(EMBEDDING, compile_embedding)                                            \
    X(MULTI_HEAD_ATTENTION, compile_attention)                                 \
    X(DOT_INTERACTION, compile_dot_interaction)                                \
    X(FM, compile_fm)                                                          \
    X(CROSS, compile_cross)                                                    \
    X(LSTM, compile_recurrent)                                                 \
    X(GRU, compile_recurrent)                                                  \
    X(SIMPLE_RNN, compile_recurrent)                                           \
    X(CATEGORY_ENCODING, compile_encoding)                                     \
    X(DISCRETIZATION, compile_encoding)                                        \
    X(INTEGER_LOOKUP, compile_encoding)                                        \
    X(MASKING, compile_masking)                                                \
    X(ACTIVATION, compile_activation)

#define COMPILE_LAYER_DECLARE(code, layer)                                     \
    extern const struct compile_layer layer;
COMPILE_LAYER_MAP(COMPILE_LAYER_DECLARE)
#undef COMPILE_LAYER_DECLARE

// ---- compile_view.c: layers that move elements

// Appends the ops that copy the input of node i, a layer that is a view, to its
// output, a new tensor (b->value).
void compile_view_forward(struct build *b, uint32_t i, compile_view_fn *view);
// Appends the op that copies the gradient of node i, a layer that is a view,
// back to its input, if that wants one.
void compile_view_backward(struct build *b, uint32_t i, compile_view_fn *view);

// Returns a tensor with the inputs of node i side by side, each as a matrix
// with `rows` rows; the input itself if there is only one.
uint32_t compile_join(struct build *b, uint32_t i, int64_t rows);
// Gives each input of node i that wants a gradient its columns of `dy`, the
// gradient of what compile_join returned with the same `rows`. dy must not be
// used after this.
void compile_split(struct build *b, uint32_t i, int64_t rows, uint32_t dy);

// ---- compile_combine.c

// Appends y = x[0] op x[1] op ..., for the operation `kind` and `count`
// tensors, at least two, of the shape of node i's output. y may be one of x if
// they are at most 8.
void compile_combine(struct build *b, uint32_t i, enum kern_binary_kind kind,
                     const uint32_t *x, uint32_t count, uint32_t y);

// ---- compile_mask.c

// Returns the tensor [samples, steps], f32, that is 1 for the steps that count
// by node `of` (model_node.mask), and 0 for the others; with `rests` 1 for the
// others. The first call makes it, for node i, with what node `of` reads.
uint32_t compile_mask(struct build *b, uint32_t i, uint32_t of, bool rests);
// Sets y to x, of the shape of node i's input, with zeroes for the steps that
// do not count by node `of`; y may be x.
void compile_mask_rows(struct build *b, uint32_t i, uint32_t of, uint32_t x,
                       uint32_t y);
// Makes of the means of all steps in y [samples, channels], to which steps that
// do not count by node `of` gave zeroes, the means of those that count; zeroes
// of a sample without any. The same takes their gradient back.
void compile_mask_mean(struct build *b, uint32_t i, uint32_t of, uint32_t y);

// ---- compile_drop.c

// Sets y to x, of the `nd` dimensions `dim`, with the dropout of node i
// applied; y may be x. The first call, in the forward pass, makes the node's
// key. Only in a program that trains, for a node with a rate above 0. The
// backward pass calls it with the gradient: the mask is the same.
void compile_drop(struct build *b, uint32_t i, unsigned nd, const int64_t *dim,
                  uint32_t x, uint32_t y);

// ---- the passes

// Returns true if 16 bits (o->compute) are worth it: the device computes at
// least half of the multiplications of the forward products no worse in them
// than in f32, or there are none. Backward products are alike. May be slow.
bool compile_half_pays(struct build *b);
// Appends the ops of the forward pass: sets b->value of all nodes.
void compile_forward(struct build *b); // compile_layers.c
// ---- compile_loss.c

// Sets b->loss_act of the outputs whose softmax or sigmoid their loss op
// computes itself. Before the forward pass.
void compile_loss_take_acts(struct build *b);
// Appends the ops of the losses and of the penalties, behind the forward pass:
// sets b->grad of the outputs' nodes, and what the program says of its losses
// and outputs. With o->outputs, of one output, it allocates p->outputs, and an
// op copies the outputs there. Fails with SL_ENOTSUP where a loss does not fit
// its output, and with o->f64 where samples have weights.
void compile_losses(struct build *b);

// Appends the ops of the backward pass, behind those of the loss: first those
// that make the gradients of frozen variables zeroes.
void compile_backward(struct build *b); // compile_layers.c

#endif
