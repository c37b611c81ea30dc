// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_build.h -- a program in the making. Only compile*.c
// include it.
//
// Tensors are numbers; what is not in the arena has its place at once. emit()
// plans an op and appends it. The first failure is kept in b->rc and makes
// every later call do nothing, so the layers' functions read straight down.
//
// Threads  as compile.h. Memory: build_release.
#ifndef WORKER_COMPILE_COMPILE_BUILD_H
#define WORKER_COMPILE_COMPILE_BUILD_H

#include "common/base/map.h"
#include "worker/compile/arena.h"
#include "worker/compile/compile.h"

#define NO_TENSOR UINT32_MAX

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
    struct build_op *ops; // beside p->ops: what their arguments are
    struct map plans;     // by hash of a kern_desc: what is known of it
    size_t cap;           // most workspace of a plan; 0: what the device says
    size_t least;         // workspace that must be there in the end

    // By node.
    uint32_t *value;   // tensor of its output; NO_TENSOR before
    uint32_t *grad;    // tensor of its output's gradient; NO_TENSOR before
    uint32_t *aux;     // max pool: winners; dropout: its key
    uint32_t *saved;   // what its activation's backward wants
    bool *needs_grad;  // something trainable lies at or before it
    bool *act_done;    // its activation's backward is somebody else's
    bool *bias_done;   // its bias's gradient is, too
    bool loss_has_act; // the output's softmax or sigmoid is in the loss

    // By variable; NO_TENSOR before.
    uint32_t *copy; // it as products read it
    uint32_t *own;  // its gradient, of a program that adds, before it is added

    // Precision.
    enum kern_dtype t;  // of activations and products: f32, bf16, f16
    size_t act;         // bytes of an activation's element
    bool scaled;        // the loss is scaled, so gradients are unscaled: f16
    bool device;        // tensors of products are aligned, images padded
    int64_t x_channels; // of images that are padded; 0: they are not

    // Constants: ones first, then as many zeroes.
    size_t constants; // elements of each
    size_t real;      // bytes of a real number

    bool lacks_workspace; // of all, that is what there was no memory for
    enum sl_err rc;
    struct sl_error err;
};

// ---- compile_emit.c

// Sets b->rc, once.
void compile_fail(struct build *b, uint32_t node, enum sl_err code,
                  const char *what);

// A new tensor in the arena.
uint32_t compile_tensor(struct build *b, size_t bytes);
// One at a given place.
uint32_t compile_at(struct build *b, enum program_place place, size_t offset,
                    size_t bytes);
// The variable of a node in the flat parameter or gradient vector.
uint32_t compile_weight(struct build *b, const struct model_node *node,
                        enum model_weight w, enum program_place vector);

// [batch, dims of the shape]: how many dimensions.
unsigned compile_dims(const struct build *b, const struct model_shape *s,
                      int64_t dim[KERN_DIMS]);
// As an activation.
size_t compile_bytes(const struct build *b, const struct model_shape *s);

// Plans and appends. `refs` has one entry per input and output of the desc.
void compile_emit(struct build *b, uint32_t node, struct kern_desc *d,
                  const struct build_ref *refs);

// compile_plans.c. The plan of an op, the program's: new, or that of one which
// is described alike. Raises the program's workspace.
enum sl_err compile_plan(struct build *b, const struct kern_desc *d,
                         struct kern_plan **out);

// True if the backend does `fused` at least as well as `plain`.
bool compile_fuses(struct build *b, const struct kern_desc *fused,
                   const struct kern_desc *plain);
void compile_plans_release(struct build *b);

// Adds `epilogue` to an op if the backend does it at least as well so: true.
bool compile_try_epilogue(struct build *b, struct kern_desc *d,
                          uint32_t epilogue);

// For a layer whose input is a ReLU's output that nobody else reads: if the
// backend likes it there, the ReLU's backward goes into the layer's op `d`.
void compile_fuse_drelu(struct build *b, const struct model_node *node,
                        struct kern_desc *d);

// gamma or beta of a normalization, or ones or zeroes if it has none.
uint32_t compile_scale_or_center(struct build *b, const struct model_node *node,
                                 enum model_weight w);

// The activation of a node as a kernel's; 0 for linear and softmax.
enum kern_unary_kind compile_unary(const struct model_node *node, float *a);

// The window of a convolution or pool, with its pads; of a global pool, all.
struct kern_window compile_window(const struct model_node *node);

// ---- compile_dense.c

// A dense layer's products: [rows, k] by [units, k]. A large one is computed in
// parts of so many units, which are rows of its kernel: what a shard has of it
// is then ready before the rest, and needed after the rest was used.
struct dense_dims {
    int64_t rows, k, units;
    int64_t part; // >= units: it is not cut
};

struct dense_dims compile_dense_dims(const struct build *b, uint32_t i);
// Of the part that begins at `first`.
int64_t compile_part_units(const struct dense_dims *m, int64_t first);
// A copy of that part's columns of y [rows, m->units].
uint32_t compile_part(struct build *b, uint32_t node,
                      const struct dense_dims *m, uint32_t y, int64_t first);
// y = x kernel^T in parts, and then the bias.
uint32_t compile_dense_in_parts(struct build *b, uint32_t i,
                                const struct dense_dims *m, uint32_t x);

// ---- compile_operand.c

// The output, if only the loss reads it: its activation is computed in f32
// although the layers are in 16 bits.
bool compile_is_wide(const struct build *b, uint32_t i);
// The dtype of node i's value and gradient.
enum kern_dtype compile_dtype(const struct build *b, uint32_t i);
// The bytes of node i's value.
size_t compile_value_bytes(const struct build *b, uint32_t i);
// Describes the dropout of a node, forward or backward.
void compile_dropout(struct build *b, struct kern_desc *d, uint32_t i);

// Gives a described op its dtypes, and a product its mathematics.
void compile_type(struct build *b, struct kern_desc *d, enum kern_dtype t);
// `count` elements in another dtype: x itself if it has it already.
uint32_t compile_cast(struct build *b, uint32_t node, uint32_t x, int64_t count,
                      enum kern_dtype from, enum kern_dtype to);

// Of a convolution's input, with padded channels.
void compile_conv_dims(const struct build *b, const struct model_node *node,
                       int64_t dim[KERN_DIMS]);
// An f32 image or filter (n, h, w, c) in the arena, with padded channels.
uint32_t compile_pad(struct build *b, uint32_t node, uint32_t x,
                     const int64_t dim[4]);
// A kernel or bias as its node's products read it.
uint32_t compile_operand(struct build *b, uint32_t i, enum model_weight w);
// The dtype in which the backend gives a weight gradient: f32 if it is not
// worse at that. Both descriptions get it.
enum kern_dtype compile_grad_dtype(struct build *b, struct kern_desc *with,
                                   struct kern_desc *without);
// Where an op writes the gradient of a variable that it gives as `given`; then
// the gradient is brought to where it belongs. Batch norm's, too.
uint32_t compile_grad_at(struct build *b, uint32_t i, enum model_weight w,
                         enum kern_dtype given);
void compile_grad_home(struct build *b, uint32_t i, enum model_weight w,
                       uint32_t t, enum kern_dtype given);

// ---- compile_add.c

// A gradient in f32, or a statistic of the batch, whole: in the vector, or of a
// program that adds in the arena.
uint32_t compile_grad(struct build *b, uint32_t i, enum model_weight w);
// Then it is added to the vector, which keeps `kept` of what is there. Nothing
// of a program that does not add.
void compile_grad_add(struct build *b, uint32_t i, enum model_weight w,
                      double kept);
// The same of elements [first, first + elements) of one that is computed in
// parts: where the op writes them, and then `t` is that.
uint32_t compile_grad_rows(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements);
void compile_grad_rows_add(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements, uint32_t t);

// ----

void compile_forward(struct build *b);  // compile_forward.c
void compile_loss(struct build *b);     // compile_loss.c
void compile_backward(struct build *b); // compile_backward.c

// True if the loss computes the output's softmax or sigmoid itself.
bool compile_loss_takes_act(const struct model *m,
                            const struct compile_options *o);

#endif
