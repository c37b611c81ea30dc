// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_pool.c -- pooling layers.
#include "worker/compile/compile_build.h"

static void max_pool_forward(struct build *b, uint32_t i)
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
    refs[0] = WHOLE(b->value[node->input[0]]);
    refs[1] = WHOLE(b->value[i]);
    if (b->o->train) {
        b->aux[i] = compile_tensor(b, kern_shape_bytes(&d.io[d.inputs + 1]));
        refs[2] = WHOLE(b->aux[i]);
    }
    compile_emit(b, i, &d, refs);
}

static void average_pool_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_window w = compile_window(node);
    uint32_t from = b->value[node->input[0]];
    struct kern_desc d;
    int64_t x[KERN_DIMS];

    compile_dims(b, &node->in, x);
    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG, x, &w, 0);
    compile_type(b, &d, b->t);
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    if (node->mask != MODEL_NONE) {
        from = compile_tensor(b, compile_bytes(b, &node->in));
        compile_mask_rows(b, i, node->mask, b->value[node->input[0]], from);
    }
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(from), WHOLE(b->value[i])});
    if (node->mask != MODEL_NONE)
        compile_mask_mean(b, i, node->mask, b->value[i]);
}

static void pool_backward(struct build *b, uint32_t i, bool max)
{
    const struct model_node *node = &b->model->nodes[i];
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
    bias = compile_sums_for_bias(b, i, &with, &d);
    if (bias)
        d = with;
    if (node->mask != MODEL_NONE)
        compile_mask_mean(b, i, node->mask, b->grad[i]);
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
    if (node->mask != MODEL_NONE)
        compile_mask_rows(b, i, node->mask, dx, dx);
    if (bias)
        compile_bias_home(b, input, db);
    compile_took(b, input, dx);
}

static void max_pool_backward(struct build *b, uint32_t i)
{
    pool_backward(b, i, true);
}

static void average_pool_backward(struct build *b, uint32_t i)
{
    pool_backward(b, i, false);
}

const struct compile_layer compile_max_pool = {.forward = max_pool_forward,
                                               .backward = max_pool_backward};
const struct compile_layer compile_average_pool = {
    .forward = average_pool_forward, .backward = average_pool_backward};
