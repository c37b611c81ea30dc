// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_backward.c -- the layers in reverse.
//
// When node i's turn comes, all that read it have had theirs, so b->grad[i] is
// whole; it then belongs to node i alone, which may overwrite it or give it
// away. The gradient of a variable is written by exactly one op, straight into
// the flat gradient vector.
#include "worker/compile/compile_build.h"

static bool wants_grad(const struct build *b, const struct model_node *node,
                       uint32_t k)
{
    return b->needs_grad[node->input[k]];
}

// y = x + b y over all elements.
static void axpby(struct build *b, uint32_t node, uint32_t x, uint32_t y,
                  float beta)
{
    int64_t n = (int64_t)(b->tensors[x].bytes / b->act);
    struct kern_shape flat = kern_shape(b->t, 1, &n);
    struct kern_desc d;

    kern_desc_axpby(&d, &flat, &flat, 1, beta);
    compile_emit(b, node, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
}

// Where an op may write the gradient for a node: its own buffer the first
// time, else one to be added by took().
static uint32_t target(struct build *b, uint32_t node)
{
    uint32_t t = compile_tensor(b, compile_value_bytes(b, node));

    if (b->grad[node] == NO_TENSOR)
        b->grad[node] = t;
    return t;
}

static void took(struct build *b, uint32_t node, uint32_t t)
{
    if (b->rc == SL_OK && t != b->grad[node])
        axpby(b, node, t, b->grad[node], 1);
}

// Passes dy on to `node` as it is. `away`: dy is not used any more after this.
static void pass(struct build *b, uint32_t node, uint32_t dy, bool away)
{
    uint32_t t;

    if (b->rc != SL_OK)
        return;
    if (b->grad[node] == NO_TENSOR && away) {
        b->grad[node] = dy;
    } else if (b->grad[node] == NO_TENSOR) {
        t = target(b, node);
        axpby(b, node, dy, t, 0);
    } else {
        axpby(b, node, dy, b->grad[node], 1);
    }
}

static void unactivate(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);
    enum kern_unary_kind kind;
    struct kern_desc d;
    float a;

    if (node->act == MODEL_ACT_LINEAR || b->act_done[i] ||
        (i == b->model->output && b->loss_has_act))
        return;
    kind = compile_unary(node, &a);
    if (node->act == MODEL_ACT_SOFTMAX)
        kern_desc_softmax(&d, KERN_SOFTMAX_BWD, nd, dim);
    else
        kern_desc_unary(&d, KERN_UNARY_BWD, kind, a, nd, dim);
    compile_type(b, &d, compile_dtype(b, i));
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(b->saved[i]), WHOLE(dy), WHOLE(dy)});
}

// A wide node's gradient, for the layer itself.
static void narrow(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t n = (int64_t)(b->o->batch * model_shape_elements(&node->out));

    if (compile_is_wide(b, i) && b->rc == SL_OK)
        b->grad[i] = compile_cast(b, i, b->grad[i], n, KERN_F32, b->t);
}

// The sum of dy over all but its channels is the bias gradient.
static void bias_grad(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t db = compile_grad(b, i, MODEL_BIAS);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);
    struct kern_desc sum;

    kern_desc_reduce(&sum, nd, dim, 0);
    compile_type(b, &sum, b->t);
    compile_emit(b, i, &sum,
                 (struct build_ref[]){WHOLE(b->grad[i]), WHOLE(db)});
    compile_grad_home(b, i, MODEL_BIAS, db, KERN_F32);
}

// There is one, and no other layer has computed its gradient.
static bool wants_bias_grad(const struct build *b, uint32_t i)
{
    return b->model->nodes[i].weight[MODEL_BIAS] != MODEL_NONE &&
           !b->bias_done[i];
}

// Does a bias's gradient come from the op that computes the kernel's?
static bool fuses_bias(struct build *b, uint32_t i,
                       const struct kern_desc *with,
                       const struct kern_desc *without)
{
    return wants_bias_grad(b, i) && compile_fuses(b, with, without);
}

// dw and db. `with` computes both in one op; if the backend is worse at that,
// `without` and a sum.
static void weight_grads(struct build *b, uint32_t i, struct kern_desc *with,
                         struct kern_desc *without, struct build_ref first,
                         struct build_ref second)
{
    bool bias = wants_bias_grad(b, i), both;
    enum kern_dtype given;
    uint32_t dw, db;

    compile_type(b, with, b->t);
    compile_type(b, without, b->t);
    given = compile_grad_dtype(b, with, without);
    both = fuses_bias(b, i, with, without);
    dw = compile_grad_at(b, i, MODEL_KERNEL, given);
    if (both) {
        db = compile_grad_at(b, i, MODEL_BIAS, KERN_F32);
        compile_emit(b, i, with,
                     (struct build_ref[]){first, second, WHOLE(dw), WHOLE(db)});
        compile_grad_home(b, i, MODEL_BIAS, db, KERN_F32);
    } else {
        compile_emit(b, i, without,
                     (struct build_ref[]){first, second, WHOLE(dw)});
    }
    compile_grad_home(b, i, MODEL_KERNEL, dw, given);
    if (bias && !both)
        bias_grad(b, i);
}

// dx by `d`, from dy and the kernel, if somebody wants it.
static void input_grad(struct build *b, uint32_t i, struct kern_desc *d)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dx;

    if (!wants_grad(b, node, 0))
        return;
    dx = target(b, node->input[0]);
    compile_type(b, d, b->t);
    compile_emit(b, i, d,
                 (struct build_ref[]){
                     WHOLE(b->grad[i]),
                     WHOLE(compile_operand(b, i, MODEL_KERNEL)), WHOLE(dx)});
    took(b, node->input[0], dx);
}

// dw and db of some units; dy is copied so that theirs lies together.
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

// Large ones in parts, so that the first leave while the last are computed.
static void dense_grads_in_parts(struct build *b, uint32_t i,
                                 const struct dense_dims *m,
                                 struct kern_desc *with,
                                 struct kern_desc *without)
{
    const struct model_node *node = &b->model->nodes[i];
    bool bias;

    compile_type(b, with, b->t);
    compile_type(b, without, b->t);
    bias = fuses_bias(b, i, with, without);
    for (int64_t at = 0; at < m->units; at += m->part)
        part_grads(b, i, m, at, bias);
    if (!bias && node->weight[MODEL_BIAS] != MODEL_NONE)
        bias_grad(b, i);
}

static void dense(struct build *b, uint32_t i)
{
    uint32_t input = b->model->nodes[i].input[0], dy = b->grad[i];
    struct dense_dims m = compile_dense_dims(b, i);
    struct kern_desc with, without, d;

    kern_desc_matmul(&with, m.units, m.k, m.rows, true, false, KERN_BGRAD);
    kern_desc_matmul(&without, m.units, m.k, m.rows, true, false, 0);
    if (m.part < m.units)
        dense_grads_in_parts(b, i, &m, &with, &without);
    else
        weight_grads(b, i, &with, &without, WHOLE(dy), WHOLE(b->value[input]));
    kern_desc_matmul(&d, m.rows, m.k, m.units, false, false, 0);
    input_grad(b, i, &d);
}

static void conv2d(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_window w = compile_window(node);
    uint32_t input = node->input[0], dy = b->grad[i];
    int64_t co = (int64_t)node->out.dim[2], x[KERN_DIMS];
    struct kern_desc with, without, d;

    compile_conv_dims(b, node, x);
    kern_desc_conv(&with, KERN_CONV_WGRAD, x, co, &w, 1, KERN_BGRAD);
    kern_desc_conv(&without, KERN_CONV_WGRAD, x, co, &w, 1, 0);
    weight_grads(b, i, &with, &without, WHOLE(b->value[input]), WHOLE(dy));
    kern_desc_conv(&d, KERN_CONV_DGRAD, x, co, &w, 1, 0);
    input_grad(b, i, &d);
}

// Is the sum of this node's dx the bias gradient of the convolution in front?
// Nobody else reads that one, and its activation is done with. A max pool sums
// what is still small, a batch norm what it writes anyway. On a host the sum
// costs there what it saves.
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
           wants_bias_grad(b, input) &&
           (conv->act == MODEL_ACT_LINEAR || b->act_done[input]) &&
           compile_fuses(b, with, without);
}

// The gradient of a convolution's bias that somebody else has summed.
static void bias_home(struct build *b, uint32_t conv, uint32_t db)
{
    compile_grad_home(b, conv, MODEL_BIAS, db, KERN_F32);
    b->bias_done[conv] = true;
}

static void pool(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    bool max = node->type == MODEL_MAX_POOLING2D, bias;
    struct kern_window w = compile_window(node);
    uint32_t input = node->input[0], dx, db = NO_TENSOR;
    struct build_ref refs[4];
    unsigned n = 0;
    int64_t x[KERN_DIMS];
    struct kern_desc d, with;

    if (!wants_grad(b, node, 0))
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
    dx = target(b, input);
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
    took(b, input, dx);
}

// dgamma or dbeta; a layer without them writes into scratch.
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

static void batch_norm(struct build *b, uint32_t i)
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
    // Without a sum nobody looks at the last.
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
    if (wants_grad(b, node, 0))
        pass(b, node->input[0], dy, true);
}

// The same mask as forward: it is a function of (seed, step, layer, element).
static void dropout(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];
    struct kern_desc d;

    if (!wants_grad(b, node, 0))
        return;
    if (b->aux[i] != NO_TENSOR) {
        compile_dropout(b, &d, i);
        compile_emit(
            b, i, &d,
            (struct build_ref[]){WHOLE(dy), WHOLE(b->aux[i]), WHOLE(dy)});
    }
    pass(b, node->input[0], dy, true);
}

// The last input that wants it gets the buffer itself; the others, copies.
static void add(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t last = node->inputs;

    for (uint32_t k = 0; k < node->inputs; k++) {
        if (wants_grad(b, node, k))
            last = k;
    }
    for (uint32_t k = 0; k < node->inputs; k++) {
        if (wants_grad(b, node, k))
            pass(b, node->input[k], b->grad[i], k == last);
    }
}

static void concatenate(struct build *b, uint32_t i)
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
        if (wants_grad(b, node, k)) {
            dx = target(b, node->input[k]);
            kern_desc_axpby(&d, &from, &to, 1, 0);
            compile_emit(
                b, i, &d,
                (struct build_ref[]){{b->grad[i], at * b->act}, WHOLE(dx)});
            took(b, node->input[k], dx);
        }
        at += (size_t)dim[1];
    }
}

static void layer(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    switch (node->type) {
    case MODEL_DENSE:
        dense(b, i);
        return;
    case MODEL_CONV2D:
        conv2d(b, i);
        return;
    case MODEL_MAX_POOLING2D:
    case MODEL_AVERAGE_POOLING2D:
    case MODEL_GLOBAL_AVERAGE_POOLING2D:
        pool(b, i);
        return;
    case MODEL_BATCH_NORMALIZATION:
        batch_norm(b, i);
        return;
    case MODEL_DROPOUT:
        dropout(b, i);
        return;
    case MODEL_ADD:
        add(b, i);
        return;
    case MODEL_CONCATENATE:
        concatenate(b, i);
        return;
    default: // flatten, activation
        if (wants_grad(b, node, 0))
            pass(b, node->input[0], b->grad[i], true);
    }
}

void compile_backward(struct build *b)
{
    for (uint32_t i = b->model->nodes_count; i-- > 1 && b->rc == SL_OK;) {
        if (b->grad[i] == NO_TENSOR || !b->needs_grad[i])
            continue;
        unactivate(b, i);
        narrow(b, i);
        layer(b, i);
    }
}
