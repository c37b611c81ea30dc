// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_conv.c -- convolutions. A depthwise convolution has as
// many groups as channels; a separable one is that, without a bias, and then a
// product over the channels of each pixel.
#include "worker/compile/compile_build.h"

static bool is_separable(const struct model_node *node)
{
    return node->type == MODEL_SEPARABLE_CONV2D;
}

// Returns the shape between the two halves of a separable layer.
static struct model_shape conv_middle_shape(const struct build *b,
                                            const struct model_node *node)
{
    const struct model_variable *v =
        &b->model->variables[node->weight[MODEL_DEPTHWISE_KERNEL]];
    struct model_shape s = node->out;

    s.dim[s.rank - 1] = v->shape.dim[0] * v->shape.dim[1];
    return s;
}

// Describes the convolution: the whole layer, or a separable one's first half.
static void conv_describe(const struct build *b, const struct model_node *node,
                          struct kern_desc *d, enum kern_op op,
                          uint32_t epilogue)
{
    struct model_shape out =
        is_separable(node) ? conv_middle_shape(b, node) : node->out;
    struct kern_window w = compile_window(node);
    int64_t x[KERN_DIMS];

    compile_conv_dims(b, node, x);
    kern_desc_conv(d, op, x, compile_channels(&out), &w, (int32_t)node->groups,
                   epilogue);
}

static void separable_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct model_shape middle = conv_middle_shape(b, node);
    int64_t k = compile_channels(&middle);
    int64_t units = compile_channels(&node->out);
    int64_t rows = compile_elements(b, &middle) / k;
    uint32_t t = compile_tensor(b, compile_bytes(b, &middle));
    struct kern_desc d;

    conv_describe(b, node, &d, KERN_CONV_FWD, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){
                     WHOLE(b->value[node->input[0]]),
                     WHOLE(compile_operand(b, i, MODEL_DEPTHWISE_KERNEL)),
                     WHOLE(t)});
    b->aux[i] = t;
    kern_desc_matmul(&d, rows, units, k, false, true, compile_bias_bit(node));
    compile_weighted(b, i, &d, t, MODEL_POINTWISE_KERNEL);
}

static void conv_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_desc d;

    if (is_separable(node)) {
        separable_forward(b, i);
        return;
    }
    conv_describe(b, node, &d, KERN_CONV_FWD, compile_bias_bit(node));
    compile_weighted(b, i, &d, b->value[node->input[0]], MODEL_KERNEL);
}

// Goes back through the product; returns the gradient of its input.
static uint32_t pointwise_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct model_shape middle = conv_middle_shape(b, node);
    int64_t k = compile_channels(&middle);
    int64_t units = compile_channels(&node->out);
    int64_t rows = compile_elements(b, &middle) / k;
    uint32_t dy = b->grad[i], dt;
    struct kern_desc with, without, d;

    kern_desc_matmul(&with, units, k, rows, true, false, KERN_BGRAD);
    kern_desc_matmul(&without, units, k, rows, true, false, 0);
    compile_weight_grads(b, i, MODEL_POINTWISE_KERNEL, &with, &without,
                         WHOLE(dy), WHOLE(b->aux[i]));
    dt = compile_tensor(b, compile_bytes(b, &middle));
    kern_desc_matmul(&d, rows, k, units, false, false, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){
                     WHOLE(dy),
                     WHOLE(compile_operand(b, i, MODEL_POINTWISE_KERNEL)),
                     WHOLE(dt)});
    return dt;
}

static void conv_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    enum model_weight w =
        is_separable(node) ? MODEL_DEPTHWISE_KERNEL : MODEL_KERNEL;
    uint32_t dy = is_separable(node) ? pointwise_backward(b, i) : b->grad[i];
    struct kern_desc with, without, d;

    conv_describe(b, node, &with, KERN_CONV_WGRAD, KERN_BGRAD);
    conv_describe(b, node, &without, KERN_CONV_WGRAD, 0);
    compile_weight_grads(b, i, w, &with, &without,
                         WHOLE(b->value[node->input[0]]), WHOLE(dy));
    conv_describe(b, node, &d, KERN_CONV_DGRAD, 0);
    compile_input_grad(b, i, &d, dy, w);
}

static void conv_product(const struct build *b, uint32_t i, struct kern_desc *d)
{
    conv_describe(b, &b->model->nodes[i], d, KERN_CONV_FWD, 0);
}

// ---- transposed: the way back of a convolution that makes the input of the
// output

static void transpose_describe(const struct build *b,
                               const struct model_node *node,
                               struct kern_desc *d, enum kern_op op,
                               uint32_t epilogue)
{
    struct kern_window w = compile_window(node);
    int64_t y[KERN_DIMS];

    compile_image_dims(b, &node->out, y);
    kern_desc_conv(d, op, y, compile_channels(&node->in), &w, 1, epilogue);
}

// Adds the bias to each pixel of y.
static void transpose_add_bias(struct build *b, uint32_t i, uint32_t y)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t dim[KERN_DIMS];
    struct kern_shape all =
        kern_shape(b->t, compile_dims(b, &node->out, dim), dim);
    struct kern_shape bias = all;
    struct kern_desc d;

    for (unsigned axis = 0; axis + 1 < bias.nd; axis++)
        bias.stride[axis] = 0;
    kern_desc_axpby(&d, &bias, &all, 1, 1);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(compile_operand(b, i, MODEL_BIAS)),
                                      WHOLE(y)});
}

static void transpose_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t y = compile_tensor(b, compile_bytes(b, &node->out));
    struct kern_desc d;

    transpose_describe(b, node, &d, KERN_CONV_DGRAD, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){
                     WHOLE(b->value[node->input[0]]),
                     WHOLE(compile_operand(b, i, MODEL_KERNEL)), WHOLE(y)});
    if (node->weight[MODEL_BIAS] != MODEL_NONE)
        transpose_add_bias(b, i, y);
    compile_activate(b, i, y, true);
}

static void transpose_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];
    struct kern_desc with, without, d;

    transpose_describe(b, node, &with, KERN_CONV_WGRAD, 0);
    transpose_describe(b, node, &without, KERN_CONV_WGRAD, 0);
    compile_weight_grads(b, i, MODEL_KERNEL, &with, &without, WHOLE(dy),
                         WHOLE(b->value[node->input[0]]));
    transpose_describe(b, node, &d, KERN_CONV_FWD, 0);
    compile_input_grad(b, i, &d, dy, MODEL_KERNEL);
}

static void transpose_product(const struct build *b, uint32_t i,
                              struct kern_desc *d)
{
    transpose_describe(b, &b->model->nodes[i], d, KERN_CONV_DGRAD, 0);
}

const struct compile_layer compile_transpose = {.forward = transpose_forward,
                                                .backward = transpose_backward,
                                                .product = transpose_product};

const struct compile_layer compile_conv = {.forward = conv_forward,
                                           .backward = conv_backward,
                                           .product = conv_product};
