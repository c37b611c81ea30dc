// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_batch_norm.c -- batch normalization.
#include "worker/compile/compile_build.h"

// Returns true if the layer normalizes by the statistics of the batch.
static bool batch_norm_learns(const struct build *b, uint32_t i)
{
    return b->o->train && !b->model->nodes[i].frozen;
}

// Returns where the statistics of the batch are written. In training they are
// pushed for the moving ones, so they go where gradients would. A frozen layer
// reads those that it has.
static uint32_t batch_norm_statistic(struct build *b, uint32_t i,
                                     enum model_weight w)
{
    return batch_norm_learns(b, i)
               ? compile_grad(b, i, w)
               : compile_weight(b, &b->model->nodes[i], w, PROGRAM_PARAMS);
}

static void batch_norm_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x = b->value[node->input[0]];
    uint32_t gamma = compile_scale_or_center(b, node, MODEL_GAMMA);
    uint32_t beta = compile_scale_or_center(b, node, MODEL_BETA);
    uint32_t mean = batch_norm_statistic(b, i, MODEL_MOVING_MEAN);
    uint32_t var = batch_norm_statistic(b, i, MODEL_MOVING_VARIANCE);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->in, dim);
    struct kern_desc d;
    uint32_t y = compile_tensor(b, compile_bytes(b, &node->out));
    bool learns = batch_norm_learns(b, i);

    b->value[i] = y;
    *compile_kept(b, i, 0) = mean;
    *compile_kept(b, i, 1) = var;
    kern_desc_norm(&d, learns ? KERN_BN_FWD : KERN_BN_INFER, nd, dim,
                   (float)node->epsilon, 0);
    compile_type(b, &d, b->t);
    if (learns) {
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

// Returns where dgamma or dbeta is written; scratch for a layer without them.
static uint32_t batch_norm_grad(struct build *b, uint32_t i,
                                enum model_weight w)
{
    const struct model_node *node = &b->model->nodes[i];

    if (node->weight[w] != MODEL_NONE)
        return compile_grad(b, i, w);
    return compile_tensor(b, (size_t)node->in.dim[node->in.rank - 1] * b->real);
}

static void batch_norm_grad_home(struct build *b, uint32_t i,
                                 enum model_weight w, uint32_t t)
{
    if (b->model->nodes[i].weight[w] != MODEL_NONE)
        compile_grad_home(b, i, w, t, KERN_F32);
}

// The way back of an affine map: the same without what it adds.
static void batch_norm_frozen_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_affine a =
        compile_unchanged(b, node, compile_channels(&node->in));

    if (!compile_wants_grad(b, node, 0))
        return;
    a.gamma = compile_scale_or_center(b, node, MODEL_GAMMA);
    a.var = batch_norm_statistic(b, i, MODEL_MOVING_VARIANCE);
    a.epsilon = (float)node->epsilon;
    compile_affine(b, i, &a, b->grad[i], b->grad[i]);
    compile_pass(b, node->input[0], b->grad[i], true);
}

static void batch_norm_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i], x = b->value[node->input[0]];
    uint32_t dgamma = batch_norm_grad(b, i, MODEL_GAMMA);
    uint32_t dbeta = batch_norm_grad(b, i, MODEL_BETA);
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
    bias = compile_sums_for_bias(b, i, &with, &d);
    // Without a sum the last output is not used.
    db = bias ? compile_grad_at(b, node->input[0], MODEL_BIAS, KERN_F32) : x;
    compile_emit(b, i, bias ? &with : &d,
                 (struct build_ref[]){
                     WHOLE(x), WHOLE(dy),
                     WHOLE(compile_scale_or_center(b, node, MODEL_GAMMA)),
                     WHOLE(*compile_kept(b, i, 0)),
                     WHOLE(*compile_kept(b, i, 1)), WHOLE(dy), WHOLE(dgamma),
                     WHOLE(dbeta), WHOLE(db)});
    if (bias)
        compile_bias_home(b, node->input[0], db);
    batch_norm_grad_home(b, i, MODEL_GAMMA, dgamma);
    batch_norm_grad_home(b, i, MODEL_BETA, dbeta);
    if (compile_wants_grad(b, node, 0))
        compile_pass(b, node->input[0], dy, true);
}

static void batch_norm_any_backward(struct build *b, uint32_t i)
{
    if (b->model->nodes[i].frozen)
        batch_norm_frozen_backward(b, i);
    else
        batch_norm_backward(b, i);
}

const struct compile_layer compile_batch_norm = {
    .forward = batch_norm_forward, .backward = batch_norm_any_backward};
