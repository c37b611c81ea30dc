// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_forward.c -- the layers, in the model's order.
//
// Each function computes b->value of one node, and keeps what the backward
// pass will want: b->saved for the activation, b->aux for the layer.
#include <string.h>

#include "worker/compile/compile_build.h"

#define IMAGE_CHANNELS 8

static uint32_t input_of(const struct build *b, const struct model_node *node)
{
    return b->value[node->input[0]];
}

static void forward_dense(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct dense_dims m = compile_dense_dims(b, i);
    struct kern_desc d;

    if (m.part < m.units) {
        compile_activate(
            b, i, compile_dense_in_parts(b, i, &m, input_of(b, node)), true);
        return;
    }
    kern_desc_matmul(&d, m.rows, m.units, m.k, false, true,
                     compile_bias_bit(node));
    compile_weighted(b, i, &d, input_of(b, node), MODEL_KERNEL);
}

static void forward_max_pool(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_window w = compile_window(node);
    struct build_ref refs[3];
    int64_t x[KERN_DIMS];
    struct kern_desc d;

    compile_dims(b, &node->in, x);
    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_MAX, x, &w,
                   b->o->train ? KERN_AUX : 0);
    compile_type(b, &d, b->t);
    compile_fuse_drelu(b, node, &d);
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    refs[0] = WHOLE(input_of(b, node));
    refs[1] = WHOLE(b->value[i]);
    if (b->o->train) {
        b->aux[i] = compile_tensor(b, kern_shape_bytes(&d.io[d.inputs + 1]));
        refs[2] = WHOLE(b->aux[i]);
    }
    compile_emit(b, i, &d, refs);
}

static void forward_average_pool(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_window w = compile_window(node);
    struct kern_desc d;
    int64_t x[KERN_DIMS];

    compile_dims(b, &node->in, x);
    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG, x, &w, 0);
    compile_type(b, &d, b->t);
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(input_of(b, node)), WHOLE(b->value[i])});
}

// Returns where the statistics of the batch are written. In training they are
// pushed for the moving ones, so they go where gradients would.
static uint32_t statistic(struct build *b, uint32_t i, enum model_weight w)
{
    return b->o->train
               ? compile_grad(b, i, w)
               : compile_weight(b, &b->model->nodes[i], w, PROGRAM_PARAMS);
}

static void forward_batch_norm(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x = input_of(b, node);
    uint32_t gamma = compile_scale_or_center(b, node, MODEL_GAMMA);
    uint32_t beta = compile_scale_or_center(b, node, MODEL_BETA);
    uint32_t mean = statistic(b, i, MODEL_MOVING_MEAN);
    uint32_t var = statistic(b, i, MODEL_MOVING_VARIANCE);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->in, dim);
    struct kern_desc d;
    uint32_t y = compile_tensor(b, compile_bytes(b, &node->out));

    b->value[i] = y;
    kern_desc_norm(&d, b->o->train ? KERN_BN_FWD : KERN_BN_INFER, nd, dim,
                   (float)node->epsilon, 0);
    compile_type(b, &d, b->t);
    if (b->o->train) {
        compile_emit(b, i, &d,
                     (struct build_ref[]){WHOLE(x), WHOLE(gamma), WHOLE(beta),
                                          WHOLE(y), WHOLE(mean), WHOLE(var)});
        compile_grad_add(b, i, MODEL_MOVING_MEAN, node->momentum);
        compile_grad_add(b, i, MODEL_MOVING_VARIANCE, node->momentum);
    } else {
        compile_emit(b, i, &d,
                     (struct build_ref[]){WHOLE(x), WHOLE(gamma), WHOLE(beta),
                                          WHOLE(mean), WHOLE(var), WHOLE(y)});
    }
}

static void forward_dropout(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x = input_of(b, node);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    b->value[i] = x;
    if (!b->o->train || node->rate <= 0)
        return;
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_drop(b, i, nd, dim, x, b->value[i]);
}

// Joins the inputs along the last axis: each is copied into its columns.
static void forward_concatenate(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t all = (int64_t)node->out.dim[node->out.rank - 1];
    int64_t rows =
        (int64_t)(b->o->batch * model_shape_elements(&node->out)) / all;
    size_t at = 0;

    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    for (uint32_t k = 0; k < node->inputs; k++) {
        const struct model_shape *in = &b->model->nodes[node->input[k]].out;
        int64_t dim[2] = {rows, (int64_t)in->dim[in->rank - 1]};
        struct kern_shape from = kern_shape(b->t, 2, dim), to = from;
        struct kern_desc d;

        to.stride[0] = all;
        kern_desc_axpby(&d, &from, &to, 1, 0);
        compile_emit(b, i, &d,
                     (struct build_ref[]){WHOLE(b->value[node->input[k]]),
                                          {b->value[i], at * b->act}});
        at += (size_t)dim[1];
    }
}

static void forward_layer(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    switch (node->type) {
    case MODEL_DENSE:
        forward_dense(b, i);
        return;
    case MODEL_CONV2D:
    case MODEL_DEPTHWISE_CONV2D:
    case MODEL_SEPARABLE_CONV2D:
        compile_conv_forward(b, i);
        return;
    case MODEL_MAX_POOLING2D:
    case MODEL_GLOBAL_MAX_POOLING2D:
        forward_max_pool(b, i);
        return;
    case MODEL_AVERAGE_POOLING2D:
    case MODEL_GLOBAL_AVERAGE_POOLING2D:
        forward_average_pool(b, i);
        return;
    case MODEL_FLATTEN:
    case MODEL_RESHAPE:
        b->value[i] = input_of(b, node);
        return;
    case MODEL_ZERO_PADDING2D:
    case MODEL_PERMUTE:
    case MODEL_RESCALING:
        compile_view_forward(b, i);
        return;
    case MODEL_DROPOUT:
        forward_dropout(b, i);
        return;
    case MODEL_BATCH_NORMALIZATION:
        forward_batch_norm(b, i);
        return;
    case MODEL_ADD:
    case MODEL_MAXIMUM:
    case MODEL_MINIMUM:
    case MODEL_SUBTRACT:
    case MODEL_MULTIPLY:
    case MODEL_AVERAGE:
        compile_combine_forward(b, i);
        return;
    case MODEL_CONCATENATE:
        forward_concatenate(b, i);
        return;
    case MODEL_LAYER_NORMALIZATION:
        compile_layer_norm_forward(b, i);
        return;
    case MODEL_EMBEDDING:
        compile_embedding_forward(b, i);
        return;
    case MODEL_MULTI_HEAD_ATTENTION:
        compile_attention_forward(b, i);
        return;
    case MODEL_ACTIVATION:
        compile_activate(b, i, input_of(b, node), false);
        return;
    default:
        compile_fail(b, i, SL_ENOTSUP, "this worker does not know the layer");
    }
}

// Pads an image's channels to a multiple of eight if convolutions read it in 16
// bits: libraries are fastest with those, and some support nothing else.
static void choose_channels(struct build *b)
{
    const struct model *m = b->model;
    const struct model_shape *in = &m->nodes[0].out;
    int64_t channels = (int64_t)in->dim[in->rank > 0 ? in->rank - 1 : 0];

    if (!b->device || b->t == KERN_F32 || in->rank != 3 ||
        channels % IMAGE_CHANNELS == 0)
        return;
    for (uint32_t i = 1; i < m->nodes_count; i++) {
        for (uint32_t k = 0; k < m->nodes[i].inputs; k++) {
            if (m->nodes[i].input[k] == 0 &&
                (m->nodes[i].type != MODEL_CONV2D || m->nodes[i].groups > 1))
                return;
        }
    }
    b->x_channels =
        (channels + IMAGE_CHANNELS - 1) / IMAGE_CHANNELS * IMAGE_CHANNELS;
}

// Feeds the model with bytes, a quarter of the floats to read, keep and copy.
static void feed_bytes(struct build *b)
{
    const struct model_shape *in = &b->model->nodes[0].out;
    size_t elements = b->o->batch * (size_t)model_shape_elements(in);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, in, dim);
    uint32_t x = compile_at(b, PROGRAM_X, 0, elements);
    struct kern_desc d;

    kern_desc_image_u8(&d, nd, dim, (float)b->o->input_scale,
                       (float)b->o->input_offset);
    if (!b->model->nodes[0].ids)
        compile_type(b, &d, b->t);
    if (b->x_channels > 0) {
        elements = elements / in->dim[2] * (size_t)b->x_channels;
        kern_desc_image_pad(&d, b->x_channels);
    }
    b->value[0] = compile_tensor(
        b, elements * (b->model->nodes[0].ids ? b->real : b->act));
    compile_emit(b, 0, &d, (struct build_ref[]){WHOLE(x), WHOLE(b->value[0])});
}

// Makes the input's tensor.
static void forward_feed_input(struct build *b)
{
    const struct model_shape *in = &b->model->nodes[0].out;
    size_t elements = b->o->batch * (size_t)model_shape_elements(in);
    int64_t dim[KERN_DIMS];
    uint32_t x;

    choose_channels(b);
    if (b->o->input == KERN_U8) {
        feed_bytes(b);
        return;
    }
    x = compile_at(b, PROGRAM_X, 0, elements * b->real);
    compile_dims(b, in, dim);
    if (b->model->nodes[0].ids)
        b->value[0] = x;
    else if (b->x_channels > 0)
        b->value[0] = compile_pad(b, 0, x, dim);
    else
        b->value[0] = compile_cast(b, 0, x, (int64_t)elements, KERN_F32, b->t);
}

void compile_forward(struct build *b)
{
    const struct model *m = b->model;

    forward_feed_input(b);
    for (uint32_t i = 1; i < m->nodes_count && b->rc == SL_OK; i++) {
        forward_layer(b, i);
        compile_widen(b, i);
    }
}
