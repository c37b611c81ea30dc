// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_composed.c -- layers that are made of the ops of
// others: dropout of channels and of samples, products of two inputs, PReLU,
// a scale of each channel.
#include "worker/compile/compile_build.h"

// ---- dropout of wholes: a mask of one number per channel and sample, or per
// sample

// Returns the mask [n, c], or [n, 1], made from ones, at each element.
static uint32_t whole_mask(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    bool sample = node->type == MODEL_STOCHASTIC_DEPTH;
    int64_t n = b->o->batch, c = compile_channels(&node->in);
    int64_t each = sample ? 1 : c;
    int64_t places = (int64_t)model_shape_elements(&node->in) / c;
    struct kern_shape mask = kern_shape(b->t, 2, (int64_t[]){n, each});
    struct kern_shape all = kern_shape(b->t, 3, (int64_t[]){n, places, c});
    struct kern_shape from = all;
    uint32_t one = compile_tensor(b, (size_t)(n * each) * b->act);
    uint32_t whole = compile_tensor(b, compile_bytes(b, &node->in));
    struct kern_desc d;

    kern_desc_fill(&d, &mask, 1);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(one)});
    compile_drop(b, i, 2, (int64_t[]){n, each}, one, one);
    from.stride[0] = each;
    from.stride[1] = 0;
    from.stride[2] = sample ? 0 : 1;
    kern_desc_axpby(&d, &from, &all, 1, 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(one), WHOLE(whole)});
    return whole;
}

static void whole_dropout_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x = b->value[node->input[0]], mask;

    b->value[i] = x;
    if (!b->o->train || node->rate <= 0)
        return;
    mask = whole_mask(b, i);
    b->saved[i] = mask;
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_combine(b, i, KERN_MUL, (uint32_t[]){x, mask}, 2, b->value[i]);
}

static void whole_dropout_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];

    if (!compile_wants_grad(b, node, 0))
        return;
    if (b->saved[i] != NO_TENSOR)
        compile_combine(b, i, KERN_MUL, (uint32_t[]){dy, b->saved[i]}, 2, dy);
    compile_pass(b, node->input[0], dy, true);
}

const struct compile_layer compile_spatial_dropout = {
    .forward = whole_dropout_forward, .backward = whole_dropout_backward};
const struct compile_layer compile_stochastic_depth = {
    .forward = whole_dropout_forward, .backward = whole_dropout_backward};

// ---- dot: x [m, k] by y [k, n] of each sample

// The product's sizes; x is [k, m] with x_first, y is [k, n] with y_first.
struct dot {
    int64_t n, rows, columns, k;
    bool x_first, y_first;
};

static struct dot dot_of(const struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    bool vectors = node->in.rank == 1;

    return (struct dot){
        .n = b->o->batch,
        .rows = vectors ? 1 : (int64_t)node->out.dim[0],
        .columns = vectors ? 1 : (int64_t)node->out.dim[1],
        .k = (int64_t)node->in.dim[node->axis[0]],
        .x_first = !vectors && node->axis[0] == 0,
        .y_first = vectors || node->axis[1] == 0,
    };
}

static void inner_product_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct dot m = dot_of(b, i);

    b->value[i] = compile_products(
        b, i, b->value[node->input[0]], b->value[node->input[1]],
        (int64_t[]){m.n, m.rows, m.columns, m.k}, m.x_first, !m.y_first);
}

// Gives x dz y^T, or y dz^T where it lies the other way; and so y.
static void inner_product_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct dot m = dot_of(b, i);
    uint32_t x = b->value[node->input[0]], y = b->value[node->input[1]];
    uint32_t dz = b->grad[i];
    int64_t dx[4] = {m.n, m.rows, m.k, m.columns};
    int64_t dx_first[4] = {m.n, m.k, m.rows, m.columns};
    int64_t dy[4] = {m.n, m.columns, m.k, m.rows};
    int64_t dy_first[4] = {m.n, m.k, m.columns, m.rows};

    if (compile_wants_grad(b, node, 0))
        compile_pass(
            b, node->input[0],
            m.x_first
                ? compile_products(b, i, y, dz, dx_first, !m.y_first, true)
                : compile_products(b, i, dz, y, dx, false, m.y_first),
            true);
    if (compile_wants_grad(b, node, 1))
        compile_pass(
            b, node->input[1],
            m.y_first
                ? compile_products(b, i, x, dz, dy_first, !m.x_first, false)
                : compile_products(b, i, dz, x, dy, true, m.x_first),
            true);
}

const struct compile_layer compile_dot = {.forward = inner_product_forward,
                                          .backward = inner_product_backward};

// ---- PReLU: y = r + alpha (x - r), where r is ReLU of x

// Returns the map that multiplies with alpha.
static struct compile_affine prelu_slope(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_affine a = compile_unchanged(
        b, node,
        (int64_t)b->model->variables[node->weight[MODEL_ALPHA]].elements);

    a.gamma = compile_weight(b, node, MODEL_ALPHA, PROGRAM_PARAMS);
    return a;
}

// Appends ReLU of x, or its way back from r and dy.
static void prelu_relu(struct build *b, uint32_t i, enum kern_op op, uint32_t x,
                       uint32_t dy, uint32_t y)
{
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &b->model->nodes[i].in, dim);
    struct kern_desc d;

    kern_desc_unary(&d, op, KERN_UNARY_RELU, 0, nd, dim);
    compile_type(b, &d, b->t);
    if (op == KERN_UNARY_FWD)
        compile_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
    else
        compile_emit(b, i, &d,
                     (struct build_ref[]){WHOLE(x), WHOLE(dy), WHOLE(y)});
}

static void prelu_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    size_t bytes = compile_bytes(b, &node->in);
    uint32_t x = b->value[node->input[0]], r = compile_tensor(b, bytes);
    uint32_t below = compile_tensor(b, bytes), y = compile_tensor(b, bytes);
    struct compile_affine slope = prelu_slope(b, i);

    prelu_relu(b, i, KERN_UNARY_FWD, x, NO_TENSOR, r);
    compile_combine(b, i, KERN_SUB, (uint32_t[]){x, r}, 2, below);
    compile_affine(b, i, &slope, below, y);
    compile_combine(b, i, KERN_ADD, (uint32_t[]){r, y}, 2, y);
    b->saved[i] = r;
    b->aux[i] = below;
    b->value[i] = y;
}

// dx is alpha dy, plus (1 - alpha) dy where x is above 0.
static void prelu_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i], product, dx;
    struct compile_affine slope = prelu_slope(b, i);

    product = compile_tensor(b, compile_bytes(b, &node->in));
    compile_combine(b, i, KERN_MUL, (uint32_t[]){dy, b->aux[i]}, 2, product);
    compile_sum_rows(b, i, MODEL_ALPHA, slope.rows, product, b->t);
    if (!compile_wants_grad(b, node, 0))
        return;
    dx = compile_tensor(b, compile_bytes(b, &node->in));
    compile_affine(b, i, &slope, dy, dx);
    compile_combine(b, i, KERN_SUB, (uint32_t[]){dy, dx}, 2, dy);
    prelu_relu(b, i, KERN_UNARY_BWD, b->saved[i], dy, dy);
    compile_combine(b, i, KERN_ADD, (uint32_t[]){dy, dx}, 2, dy);
    compile_pass(b, node->input[0], dy, true);
}

const struct compile_layer compile_prelu = {.forward = prelu_forward,
                                            .backward = prelu_backward};

// ---- layer scale: y = gamma x

static struct compile_affine layer_scale_map(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_affine a =
        compile_unchanged(b, node, compile_channels(&node->in));

    a.gamma = compile_weight(b, node, MODEL_GAMMA, PROGRAM_PARAMS);
    return a;
}

static void layer_scale_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_affine map = layer_scale_map(b, i);

    b->value[i] = compile_tensor(b, compile_bytes(b, &node->in));
    compile_affine(b, i, &map, b->value[node->input[0]], b->value[i]);
}

static void layer_scale_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x = b->value[node->input[0]], dy = b->grad[i], product;
    struct compile_affine map = layer_scale_map(b, i);

    if (!node->frozen) {
        product = compile_tensor(b, compile_bytes(b, &node->in));
        compile_combine(b, i, KERN_MUL, (uint32_t[]){dy, x}, 2, product);
        compile_sum_rows(b, i, MODEL_GAMMA, map.rows, product, b->t);
    }
    if (!compile_wants_grad(b, node, 0))
        return;
    compile_affine(b, i, &map, dy, dy);
    compile_pass(b, node->input[0], dy, true);
}

const struct compile_layer compile_layer_scale = {
    .forward = layer_scale_forward, .backward = layer_scale_backward};
