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
// given away. A variable's gradient is written once: compile_grad_at, the op
// that writes there, compile_grad_home.
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
    uint32_t *value;  // tensor of the node's output; NO_TENSOR before
    uint32_t *grad;   // tensor of its output's gradient; NO_TENSOR before
    uint32_t *aux;    // max pool: winners; dropout: its key; separable: between
    uint32_t *kept;   // COMPILE_KEPT per node: by layer; repeated inputs
    uint32_t *saved;  // tensor that the activation's backward wants
    bool *needs_grad; // something trainable lies at or before it
    bool *act_done;   // another layer does its activation's backward
    bool *bias_done;  // another layer computes its bias's gradient
    bool loss_has_act; // the output's softmax or sigmoid is in the loss

    // Arrays by variable; NO_TENSOR before.
    uint32_t *copy; // the variable as products read it
    uint32_t *own;  // its gradient before it is added (o->add)

    // Precision.
    enum kern_dtype t;  // type of activations and products: f32, bf16, f16
    size_t act;         // bytes of an activation's element
    bool scaled;        // the loss is scaled, so gradients are unscaled: f16,
                        // also where f32 computes it
    bool device;        // tensors of products are aligned, images padded
    int64_t x_channels; // padded channels of images; 0: not padded

    // Constants: ones first, then as many zeroes, then the causal mask.
    size_t constants;  // number of ones; as many zeroes
    size_t mask;       // rows, and columns, of the mask
    uint32_t dropouts; // dropouts that have a key
    size_t real;       // bytes of a real number

    bool lacks_workspace; // memory failed for want of workspace
    enum sl_err rc;
    struct sl_error err;
};

// ---- compile_emit.c

// Fails the build with an error about a node; the first failure counts.
void compile_fail(struct build *b, uint32_t node, enum sl_err code,
                  const char *what);

// Returns a new tensor in the arena.
uint32_t compile_tensor(struct build *b, size_t bytes);
// Returns a new tensor at a given place.
uint32_t compile_at(struct build *b, enum program_place place, size_t offset,
                    size_t bytes);
// Returns the variable of a node in the flat parameter or gradient vector. The
// node has it.
uint32_t compile_weight(struct build *b, const struct model_node *node,
                        enum model_weight w, enum program_place vector);

// Fills in [batch of the options, dims of the shape] and returns how many
// dimensions they are, 1 + s->rank; elements beyond them stay as they were. The
// rank must be below KERN_DIMS.
unsigned compile_dims(const struct build *b, const struct model_shape *s,
                      int64_t dim[KERN_DIMS]);
// Returns the bytes of a batch of that shape as an activation.
size_t compile_bytes(const struct build *b, const struct model_shape *s);

// Plans an op and appends it. `refs` has one entry per input and output of the
// desc. Both are read during the call; with o->f64 *d becomes one of f64.
void compile_emit(struct build *b, uint32_t node, struct kern_desc *d,
                  const struct build_ref *refs);

// Returns in *out the plan of an op, owned by the program: a new one, or that
// of an op with the same description. Raises the program's workspace. On
// failure b->err says why; b->rc is the caller's to set (compile_plans.c).
enum sl_err compile_plan(struct build *b, const struct kern_desc *d,
                         struct kern_plan **out);

// Returns true if the backend does `fused` at least as well as `plain`. Always
// true with o->f64. May be slow. Both have their dtypes (compile_type), here
// and in the functions below that choose between two descriptions.
bool compile_fuses(struct build *b, const struct kern_desc *fused,
                   const struct kern_desc *plain);
// Frees what is known of plans; the program keeps its own.
void compile_plans_release(struct build *b);

// Adds `epilogue` to an op and returns true, if the backend does it at least as
// well with it; else returns false, and *d stays.
bool compile_try_epilogue(struct build *b, struct kern_desc *d,
                          uint32_t epilogue);

// Lets the op `d` of a layer do the backward of the ReLU before it, if the
// program trains, no other layer reads the ReLU's output and the backend likes
// it there; then act_done of the ReLU's node is set. *d has its dtypes.
void compile_fuse_drelu(struct build *b, const struct model_node *node,
                        struct kern_desc *d);

// Returns the tensor of a normalization's MODEL_GAMMA or MODEL_BETA, which `w`
// names; if it has none, that of constant ones or zeroes, one per channel.
uint32_t compile_scale_or_center(struct build *b, const struct model_node *node,
                                 enum model_weight w);

// Returns a node's activation as a kernel's kind, with its number in *a;
// KERN_UNARY_NONE for softmax.
enum kern_unary_kind compile_unary(const struct model_node *node, float *a);

// Returns the window of a convolution or pool, with its pads; a global pool's
// is the whole image.
struct kern_window compile_window(const struct model_node *node);

// ---- compile_operand.c

// Returns true for the model's output if only the loss reads it: its activation
// is computed in f32 although the layers are in 16 bits.
bool compile_is_wide(const struct build *b, uint32_t i);
// Returns the dtype of node i's value and gradient.
enum kern_dtype compile_dtype(const struct build *b, uint32_t i);
// Returns the bytes of node i's value.
size_t compile_value_bytes(const struct build *b, uint32_t i);
// Gives a described op the dtype `t` (kern_desc_dtype); if that is f32, an op
// stays as it was described, and a product gets the options' mathematics.
void compile_type(struct build *b, struct kern_desc *d, enum kern_dtype t);
// Returns `count` elements of x in another dtype: x itself if it has that
// already. Else a new tensor.
uint32_t compile_cast(struct build *b, uint32_t node, uint32_t x, int64_t count,
                      enum kern_dtype from, enum kern_dtype to);

// Fills in the dimensions of a convolution's input, with padded channels.
void compile_conv_dims(const struct build *b, const struct model_node *node,
                       int64_t dim[KERN_DIMS]);
// Returns a copy of an f32 image or filter of dimensions `dim` (n, h, w, c) in
// the arena, with b->x_channels channels, as type b->t.
uint32_t compile_pad(struct build *b, uint32_t node, uint32_t x,
                     const int64_t dim[4]);
// Returns a kernel or bias as its node's products read it. The node has it. The
// same tensor each time.
uint32_t compile_operand(struct build *b, uint32_t i, enum model_weight w);
// Returns the dtype in which the backend gives a weight gradient: f32, which it
// sets in both descriptions, if the backend is not worse at that; else b->t,
// and both stay. Both have the dtype b->t (compile_type); `without` alone is
// asked about.
enum kern_dtype compile_grad_dtype(struct build *b, struct kern_desc *with,
                                   struct kern_desc *without);
// Returns where an op writes a variable's gradient, as type `given`: its place
// in the vector if that will do, else a new tensor. For batch norm's, too.
uint32_t compile_grad_at(struct build *b, uint32_t i, enum model_weight w,
                         enum kern_dtype given);
// Brings that gradient, which an op has written to `t` as type `given`, to its
// place in the vector: casts, unscales, adds the penalty's part. A program that
// adds adds it there. Once per variable.
void compile_grad_home(struct build *b, uint32_t i, enum model_weight w,
                       uint32_t t, enum kern_dtype given);

// ---- compile_penalty.c

// Adds the penalties on the variables' sizes to the loss. `stats` is the tensor
// of the loss's two sums.
void compile_penalties(struct build *b, uint32_t stats);
// Adds the penalty's part to `grad`, elements [first, first + count) of a
// variable's gradient. Does nothing for a variable without a penalty.
void compile_penalize(struct build *b, uint32_t i, enum model_weight w,
                      int64_t first, int64_t count, uint32_t grad);

// ---- compile_add.c

// Returns where to write a whole f32 gradient, or a statistic of the batch: in
// the vector; or in the arena for a program that adds, and for a statistic that
// has to be scaled (o->share, or an unbiased variance). The same place each
// time.
uint32_t compile_grad(struct build *b, uint32_t i, enum model_weight w);
// Adds that gradient to the vector, which keeps `kept` times its elements; a
// program that does not add writes a statistic there that has to be scaled, and
// else does nothing.
void compile_grad_add(struct build *b, uint32_t i, enum model_weight w,
                      double kept);
// Returns where to write elements [first, first + elements) of the gradient of
// a variable that is computed in parts: in the vector, or for a program that
// adds in a new tensor each time.
uint32_t compile_grad_rows(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements);
// Adds the penalty's part to these elements, and them to the vector in a
// program that adds; `t` is what compile_grad_rows returned.
void compile_grad_rows_add(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements, uint32_t t);

// ---- compile_grads.c

// Returns true if the node's k-th input wants a gradient.
bool compile_wants_grad(const struct build *b, const struct model_node *node,
                        uint32_t k);
// Returns where an op may write the gradient of a node's output: a new tensor.
// compile_took follows.
uint32_t compile_target(struct build *b, uint32_t node);
// Takes that gradient, which an op has written to `t`, over: it is the node's,
// or is added to what other ops gave.
void compile_took(struct build *b, uint32_t node, uint32_t t);
// Passes dy on to `node` unchanged. `away`: the caller does not use dy any more
// after this, and it may become the node's gradient itself.
void compile_pass(struct build *b, uint32_t node, uint32_t dy, bool away);
// Passes node i's gradient on to its only input; a layer's backward.
void compile_pass_on(struct build *b, uint32_t i);
// Sets y = alpha x + beta y over all elements, which have the type of
// activations. y may be x.
void compile_axpby(struct build *b, uint32_t node, float alpha, uint32_t x,
                   float beta, uint32_t y);
// Scales x by a, in place. All of x has the type of activations.
void compile_scale(struct build *b, uint32_t node, uint32_t x, float a);
// Computes the bias gradient of node i, the sum of its dy (b->grad) over all
// but its channels, and brings it home. The node has a bias.
void compile_bias_grad(struct build *b, uint32_t i);
// Returns true if node i has a bias, and no other layer has computed its
// gradient.
bool compile_wants_bias_grad(const struct build *b, uint32_t i);
// Returns true if the op that computes the kernel's gradient gives the bias's,
// too.
bool compile_fuses_bias(struct build *b, uint32_t i,
                        const struct kern_desc *with,
                        const struct kern_desc *without);
// Returns true if the sum of this node's dx is taken as the bias gradient of
// the convolution in front: no other node reads the convolution, and its
// activation's backward is done. `with` is the op that computes both.
bool compile_sums_for_bias(struct build *b, uint32_t i,
                           const struct kern_desc *with,
                           const struct kern_desc *without);
// Brings home the gradient of a convolution's bias that the layer behind it has
// summed into `db`, in f32: the convolution computes none then (bias_done).
void compile_bias_home(struct build *b, uint32_t conv, uint32_t db);
// Computes the gradients of kernel `w` and, except for MODEL_DEPTHWISE_KERNEL,
// of the bias. `with` computes both in one op; if the backend is worse at that,
// `without` and a sum do. Both read `first` and `second`, and write the
// kernel's gradient, `with` the bias's behind it; both get their dtypes here.
void compile_weight_grads(struct build *b, uint32_t i, enum model_weight w,
                          struct kern_desc *with, struct kern_desc *without,
                          struct build_ref first, struct build_ref second);
// Returns a batch of products [m, n], of x [m, k], or [k, m] with trans_x, and
// y [k, n], or [n, k] with trans_y: a new tensor. bmnk: the batch, m, n, k.
uint32_t compile_products(struct build *b, uint32_t node, uint32_t x,
                          uint32_t y, const int64_t bmnk[4], bool trans_x,
                          bool trans_y);

// A product of [rows, k] with a kernel [units, k] other than MODEL_KERNEL; its
// bias, if there is one, is the next weight.
struct compile_projection {
    enum model_weight kernel;
    int64_t rows, k, units;
};
// Computes x kernel^T + bias; returns y [rows, units], a new tensor.
uint32_t compile_project(struct build *b, uint32_t i,
                         const struct compile_projection *p, uint32_t x);
// Computes dx = dy kernel, [rows, k].
void compile_project_input(struct build *b, uint32_t i,
                           const struct compile_projection *p, uint32_t dy,
                           uint32_t dx);
// Computes the gradients of that kernel and bias from x and dy, and brings them
// home.
void compile_project_grads(struct build *b, uint32_t i,
                           const struct compile_projection *p, uint32_t x,
                           uint32_t dy);
// Computes dx by `d`, from dy and kernel `w`, in this order, and gives it to
// the node's first input (compile_took), if that wants a gradient. *d gets its
// dtypes here.
void compile_input_grad(struct build *b, uint32_t i, struct kern_desc *d,
                        uint32_t dy, enum model_weight w);

// ---- compile_act.c

// Applies the activation of node i to z, and sets b->value of the node. `own`:
// no other op reads z, so it may be overwritten where the backward pass does
// not want it. A wide node's activation comes when the layer is done:
// compile_widen.
void compile_activate(struct build *b, uint32_t i, uint32_t z, bool own);
// Casts a wide node's value to f32 and applies its activation there; does
// nothing for another node.
void compile_widen(struct build *b, uint32_t i);
// Ends a layer with a kernel: x, kernel `w`, (bias) -> y, activation. *d has
// the bias if the node has one (compile_bias_bit), and gets its dtypes and
// perhaps a ReLU here. Sets b->value of the node.
void compile_weighted(struct build *b, uint32_t i, struct kern_desc *d,
                      uint32_t x, enum model_weight w);
// Returns KERN_BIAS if the node has a bias, else 0.
uint32_t compile_bias_bit(const struct model_node *node);
// Goes back through the activation: dy becomes the gradient of its input. Does
// nothing where the loss or another layer does that (act_done).
void compile_unactivate(struct build *b, uint32_t i);
// Narrows a wide node's gradient for the layer itself. Does nothing for another
// node.
void compile_narrow(struct build *b, uint32_t i);

// ---- layers

// A layer as a copy from a view of its input to a view of its output, both of
// the same dimensions, `at` elements behind the output's start.
struct compile_view {
    struct kern_shape from, to;
    size_t at;
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
    X(ACTIVATION, compile_activation)

#define COMPILE_LAYER_DECLARE(code, layer)                                     \
    extern const struct compile_layer layer;
COMPILE_LAYER_MAP(COMPILE_LAYER_DECLARE)
#undef COMPILE_LAYER_DECLARE

// ---- compile_view.c: layers that move elements

// Appends the ops that copy the input of node i, a layer that is a view, to its
// output, a new tensor (b->value).
void compile_view_forward(struct build *b, uint32_t i, compile_view_fn *view);
// Appends the op that copies such a node's gradient back, if its input wants
// one.
void compile_view_backward(struct build *b, uint32_t i, compile_view_fn *view);

// Returns the inputs of node i side by side, each as [rows, what it has of a
// row]: a new tensor, or the only input itself.
uint32_t compile_join(struct build *b, uint32_t i, int64_t rows);
// Gives each input of node i that wants it its part of dy, the gradient of what
// compile_join returned. dy is not used any more after this.
void compile_split(struct build *b, uint32_t i, int64_t rows, uint32_t dy);

// ---- compile_combine.c

// Combines `count` tensors of the shape of node i's output, at least two, in y.
void compile_combine(struct build *b, uint32_t i, enum kern_binary_kind kind,
                     const uint32_t *x, uint32_t count, uint32_t y);

// ---- compile_drop.c

// Sets y to x with the node's dropout applied; the first call, in the forward
// pass, makes its key. y may be x.
void compile_drop(struct build *b, uint32_t i, unsigned nd, const int64_t *dim,
                  uint32_t x, uint32_t y);

// ---- the passes

// Returns true if the device computes at least half of the forward products'
// multiplications no worse in 16 bits (the options' type) than in f32, or there
// are none. Backward products are alike. May be slow.
bool compile_half_pays(struct build *b); // compile_layers.c
// Appends the ops of the forward pass: sets b->value of all nodes.
void compile_forward(struct build *b); // compile_layers.c
// Appends the ops of the loss, behind the forward pass: sets b->grad of the
// output's node.
void compile_loss(struct build *b); // compile_loss.c
// Appends the ops of the backward pass, behind those of the loss.
void compile_backward(struct build *b); // compile_layers.c

// Returns true if the loss computes the output's softmax or sigmoid itself.
bool compile_loss_takes_act(const struct model *m,
                            const struct compile_options *o);

#endif
