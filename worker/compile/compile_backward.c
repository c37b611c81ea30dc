// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_backward.c -- the layers in reverse.
//
// When node i's turn comes, all nodes that read it are done, so b->grad[i] is
// whole; it then belongs to node i alone, which may overwrite it or give it
// away. The gradient of a variable is written by exactly one op, straight into
// the flat gradient vector.
#include "worker/compile/compile_build.h"

// Computes dw and db of one part of the units; dy is copied so that the part's
// columns lie together.
static void part_grads(struct build *b, uint32_t i, const struct dense_dims *m,
                       int64_t first, bool bias)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t units = compile_part_units(m, first);
    uint32_t part = compile_part(b, i, m, b->grad[i], first);
    uint32_t dw =
        compile_grad_rows(b, i, MODEL_KERNEL, first * m->k, units * m->k);
    uint32_t db = NO_TENSOR;
    struct build_ref refs[4];
    struct kern_desc d;
    unsigned n = 0;

    kern_desc_matmul(&d, units, m->k, m->rows, true, false,
                     bias ? KERN_BGRAD : 0);
    compile_type(b, &d, b->t);
    refs[n++] = WHOLE(part);
    refs[n++] = WHOLE(b->value[node->input[0]]);
    refs[n++] = WHOLE(dw);
    if (bias) {
        db = compile_grad_rows(b, i, MODEL_BIAS, first, units);
        refs[n++] = WHOLE(db);
    }
    compile_emit(b, i, &d, refs);
    compile_grad_rows_add(b, i, MODEL_KERNEL, first * m->k, units * m->k, dw);
    if (bias)
        compile_grad_rows_add(b, i, MODEL_BIAS, first, units, db);
}

// Computes the gradients of a large layer in parts, so that the first leave
// while the last are computed.
static void dense_grads_in_parts(struct build *b, uint32_t i,
                                 const struct dense_dims *m,
                                 struct kern_desc *with,
                                 struct kern_desc *without)
{
    const struct model_node *node = &b->model->nodes[i];
    bool bias;

    compile_type(b, with, b->t);
    compile_type(b, without, b->t);
    bias = compile_fuses_bias(b, i, with, without);
    for (int64_t at = 0; at < m->units; at += m->part)
        part_grads(b, i, m, at, bias);
    if (!bias && node->weight[MODEL_BIAS] != MODEL_NONE)
        compile_bias_grad(b, i);
}

static void backward_dense(struct build *b, uint32_t i)
{
    uint32_t input = b->model->nodes[i].input[0], dy = b->grad[i];
    struct dense_dims m = compile_dense_dims(b, i);
    struct kern_desc with, without, d;

    kern_desc_matmul(&with, m.units, m.k, m.rows, true, false, KERN_BGRAD);
    kern_desc_matmul(&without, m.units, m.k, m.rows, true, false, 0);
    if (m.part < m.units)
        dense_grads_in_parts(b, i, &m, &with, &without);
    else
        compile_weight_grads(b, i, MODEL_KERNEL, &with, &without, WHOLE(dy),
                             WHOLE(b->value[input]));
    kern_desc_matmul(&d, m.rows, m.k, m.units, false, false, 0);
    compile_input_grad(b, i, &d, dy, MODEL_KERNEL);
}

// Returns true if the sum of this node's dx is taken as the bias gradient of
// the convolution in front: no other node reads the convolution, and its
// activation's backward is done. A max pool sums what is still small, a batch
// norm what it writes anyway. On a host the sum costs as much as it saves.
static bool sums_for_bias(struct build *b, uint32_t i,
                          const struct kern_desc *with,
                          const struct kern_desc *without)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t input = node->input[0];
    const struct model_node *conv = &b->model->nodes[input];

    return (b->device || b->o->f64) &&
           (node->type == MODEL_MAX_POOLING2D ||
            node->type == MODEL_BATCH_NORMALIZATION) &&
           conv->type == MODEL_CONV2D && conv->users == 1 &&
           compile_wants_bias_grad(b, input) &&
           (conv->act == MODEL_ACT_LINEAR || b->act_done[input]) &&
           compile_fuses(b, with, without);
}

// Takes the gradient of a convolution's bias that the layer behind it has
// summed.
static void bias_home(struct build *b, uint32_t conv, uint32_t db)
{
    compile_grad_home(b, conv, MODEL_BIAS, db, KERN_F32);
    b->bias_done[conv] = true;
}

static void backward_pool(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    bool max = node->type == MODEL_MAX_POOLING2D ||
               node->type == MODEL_GLOBAL_MAX_POOLING2D;
    bool bias;
    struct kern_window w = compile_window(node);
    uint32_t input = node->input[0], dx, db = NO_TENSOR;
    struct build_ref refs[4];
    unsigned n = 0;
    int64_t x[KERN_DIMS];
    struct kern_desc d, with;

    if (!compile_wants_grad(b, node, 0))
        return;
    compile_dims(b, &node->in, x);
    kern_desc_pool(&d, KERN_POOL_BWD, max ? KERN_POOL_MAX : KERN_POOL_AVG, x,
                   &w, 0);
    kern_desc_pool(&with, KERN_POOL_BWD, KERN_POOL_MAX, x, &w, KERN_BGRAD);
    compile_type(b, &d, b->t);
    compile_type(b, &with, b->t);
    bias = sums_for_bias(b, i, &with, &d);
    if (bias)
        d = with;
    dx = compile_target(b, input);
    refs[n++] = WHOLE(b->grad[i]);
    if (max)
        refs[n++] = WHOLE(b->aux[i]);
    refs[n++] = WHOLE(dx);
    if (bias) {
        db = compile_grad_at(b, input, MODEL_BIAS, KERN_F32);
        refs[n] = WHOLE(db);
    }
    compile_emit(b, i, &d, refs);
    if (bias)
        bias_home(b, input, db);
    compile_took(b, input, dx);
}

// Returns where dgamma or dbeta is written; scratch for a layer without them.
static uint32_t norm_grad(struct build *b, uint32_t i, enum model_weight w)
{
    const struct model_node *node = &b->model->nodes[i];

    if (node->weight[w] != MODEL_NONE)
        return compile_grad(b, i, w);
    return compile_tensor(b, (size_t)node->in.dim[node->in.rank - 1] * b->real);
}

static void norm_grad_home(struct build *b, uint32_t i, enum model_weight w,
                           uint32_t t)
{
    if (b->model->nodes[i].weight[w] != MODEL_NONE)
        compile_grad_home(b, i, w, t, KERN_F32);
}

static void backward_batch_norm(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i], x = b->value[node->input[0]];
    uint32_t dgamma = norm_grad(b, i, MODEL_GAMMA);
    uint32_t dbeta = norm_grad(b, i, MODEL_BETA);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->in, dim);
    struct kern_desc d, with;
    uint32_t db;
    bool bias;

    kern_desc_norm(&d, KERN_BN_BWD, nd, dim, (float)node->epsilon, 0);
    compile_type(b, &d, b->t);
    compile_fuse_drelu(b, node, &d);
    kern_desc_norm(&with, KERN_BN_BWD, nd, dim, (float)node->epsilon,
                   d.epilogue | KERN_BGRAD);
    compile_type(b, &with, b->t);
    bias = sums_for_bias(b, i, &with, &d);
    // Without a sum the last output is not used.
    db = bias ? compile_grad_at(b, node->input[0], MODEL_BIAS, KERN_F32) : x;
    compile_emit(b, i, bias ? &with : &d,
                 (struct build_ref[]){
                     WHOLE(x), WHOLE(dy),
                     WHOLE(compile_scale_or_center(b, node, MODEL_GAMMA)),
                     WHOLE(compile_grad(b, i, MODEL_MOVING_MEAN)),
                     WHOLE(compile_grad(b, i, MODEL_MOVING_VARIANCE)),
                     WHOLE(dy), WHOLE(dgamma), WHOLE(dbeta), WHOLE(db)});
    if (bias)
        bias_home(b, node->input[0], db);
    norm_grad_home(b, i, MODEL_GAMMA, dgamma);
    norm_grad_home(b, i, MODEL_BETA, dbeta);
    if (compile_wants_grad(b, node, 0))
        compile_pass(b, node->input[0], dy, true);
}

// Applies the mask of the forward pass: it is a function of (seed, step, layer,
// element).
static void backward_dropout(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    if (!compile_wants_grad(b, node, 0))
        return;
    if (b->aux[i] != NO_TENSOR)
        compile_drop(b, i, nd, dim, dy, dy);
    compile_pass(b, node->input[0], dy, true);
}

static void backward_concatenate(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t all = (int64_t)node->out.dim[node->out.rank - 1];
    int64_t rows =
        (int64_t)(b->o->batch * model_shape_elements(&node->out)) / all;
    size_t at = 0;

    for (uint32_t k = 0; k < node->inputs; k++) {
        const struct model_shape *in = &b->model->nodes[node->input[k]].out;
        int64_t dim[2] = {rows, (int64_t)in->dim[in->rank - 1]};
        struct kern_shape to = kern_shape(b->t, 2, dim), from = to;
        struct kern_desc d;
        uint32_t dx;

        from.stride[0] = all;
        if (compile_wants_grad(b, node, k)) {
            dx = compile_target(b, node->input[k]);
            kern_desc_axpby(&d, &from, &to, 1, 0);
            compile_emit(
                b, i, &d,
                (struct build_ref[]){{b->grad[i], at * b->act}, WHOLE(dx)});
            compile_took(b, node->input[k], dx);
        }
        at += (size_t)dim[1];
    }
}

static void backward_layer(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    switch (node->type) {
    case MODEL_DENSE:
        backward_dense(b, i);
        return;
    case MODEL_CONV2D:
    case MODEL_DEPTHWISE_CONV2D:
    case MODEL_SEPARABLE_CONV2D:
        compile_conv_backward(b, i);
        return;
    case MODEL_MAX_POOLING2D:
    case MODEL_GLOBAL_MAX_POOLING2D:
    case MODEL_AVERAGE_POOLING2D:
    case MODEL_GLOBAL_AVERAGE_POOLING2D:
        backward_pool(b, i);
        return;
    case MODEL_BATCH_NORMALIZATION:
        backward_batch_norm(b, i);
        return;
    case MODEL_DROPOUT:
        backward_dropout(b, i);
        return;
    case MODEL_ADD:
    case MODEL_MAXIMUM:
    case MODEL_MINIMUM:
    case MODEL_SUBTRACT:
    case MODEL_MULTIPLY:
    case MODEL_AVERAGE:
        compile_combine_backward(b, i);
        return;
    case MODEL_ZERO_PADDING2D:
    case MODEL_PERMUTE:
    case MODEL_RESCALING:
        compile_view_backward(b, i);
        return;
    case MODEL_LAYER_NORMALIZATION:
        compile_layer_norm_backward(b, i);
        return;
    case MODEL_EMBEDDING:
        compile_embedding_backward(b, i);
        return;
    case MODEL_MULTI_HEAD_ATTENTION:
        compile_attention_backward(b, i);
        return;
    case MODEL_CONCATENATE:
        backward_concatenate(b, i);
        return;
    default: // flatten, reshape, activation
        if (compile_wants_grad(b, node, 0))
            compile_pass(b, node->input[0], b->grad[i], true);
    }
}

void compile_backward(struct build *b)
{
    for (uint32_t i = b->model->nodes_count; i-- > 1 && b->rc == SL_OK;) {
        if (b->grad[i] == NO_TENSOR || !b->needs_grad[i])
            continue;
        compile_unactivate(b, i);
        compile_narrow(b, i);
        backward_layer(b, i);
    }
}
