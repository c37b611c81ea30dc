// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_interact.c -- layers of recommendation models, made of
// the ops that other layers have: vectors that are multiplied with each other,
// and cross layers.
//
// dot_interaction and fm read f vectors of d numbers per sample. They lie side
// by side: x [n, f, d].
#include "worker/compile/compile_build.h"

// Indices in b->kept of the tensors that the backward pass wants.
enum interact {
    VECTORS, // dot_interaction: x
    OTHERS,  // fm: of each vector the sum of the others
    BETWEEN, // cross: what its second kernel reads
    FACTOR,  // cross: what x0 is multiplied with
};

struct vectors {
    int64_t n, f, d;
};

static struct vectors vectors_of(const struct build *b, uint32_t i)
{
    const struct model_node *nodes = b->model->nodes;
    const struct model_node *node = &nodes[i];
    struct vectors v = {.n = b->o->batch,
                        .d = (int64_t)node->in.dim[node->in.rank - 1]};

    for (uint32_t k = 0; k < node->inputs; k++)
        v.f += (int64_t)model_shape_elements(&nodes[node->input[k]].out) / v.d;
    return v;
}

// ---- dot_interaction: the lower triangle of x x^T, row behind row

enum triangle { PACK, UNPACK };

// Copies the lower triangle of `square` [n, f, f] to `packed`, the layer's
// output or its gradient, or back: a row of all samples at a time.
static void dot_copy_triangle(struct build *b, uint32_t i, uint32_t square,
                              uint32_t packed, enum triangle way)
{
    const struct model_node *node = &b->model->nodes[i];
    struct vectors v = vectors_of(b, i);
    int64_t at = 0;

    for (int64_t row = node->self_interaction ? 0 : 1; row < v.f; row++) {
        int64_t dim[2] = {v.n, node->self_interaction ? row + 1 : row};
        struct kern_shape wide = kern_shape(b->t, 2, dim), narrow = wide;
        struct build_ref in = {square, (size_t)(row * v.f) * b->act};
        struct build_ref out = {packed, (size_t)at * b->act};
        bool pack = way == PACK;
        struct kern_desc d;

        wide.stride[0] = v.f * v.f;
        narrow.stride[0] = (int64_t)node->out.dim[0];
        kern_desc_axpby(&d, pack ? &wide : &narrow, pack ? &narrow : &wide, 1,
                        0);
        compile_emit(b, i, &d,
                     (struct build_ref[]){pack ? in : out, pack ? out : in});
        at += dim[1];
    }
}

static void dot_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct vectors v = vectors_of(b, i);
    uint32_t x = compile_join(b, i, v.n);
    uint32_t square = compile_products(
        b, i, x, x, (int64_t[]){v.n, v.f, v.f, v.d}, false, true);

    *compile_kept(b, i, VECTORS) = x;
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    dot_copy_triangle(b, i, square, b->value[i], PACK);
}

// With the gradient of x x^T in `lower`, and zeroes above its diagonal, that of
// x is (lower + lower^T) x.
static void dot_backward(struct build *b, uint32_t i)
{
    struct vectors v = vectors_of(b, i);
    struct kern_shape square = kern_shape(b->t, 3, (int64_t[]){v.n, v.f, v.f});
    uint32_t lower =
        compile_tensor(b, (size_t)kern_shape_count(&square) * b->act);
    uint32_t x = *compile_kept(b, i, VECTORS), dx, more;
    int64_t dims[4] = {v.n, v.f, v.d, v.f};
    struct kern_desc d;

    kern_desc_fill(&d, &square, 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(lower)});
    dot_copy_triangle(b, i, lower, b->grad[i], UNPACK);
    dx = compile_products(b, i, lower, x, dims, false, false);
    more = compile_products(b, i, lower, x, dims, true, false);
    compile_axpby(b, i, 1, more, 1, dx);
    compile_split(b, i, v.n, dx);
}

const struct compile_layer compile_dot_interaction = {.forward = dot_forward,
                                                      .backward = dot_backward};

// ---- fm: half the sum of each vector's product with the sum of the others

// Returns of each vector the sum of the others: of all, by their mean, less
// itself. In 16 bits that loses less than the difference of two large squares.
static uint32_t fm_others(struct build *b, uint32_t i, const struct vectors *v,
                          uint32_t x)
{
    struct kern_window all = kern_window((int32_t)v->f, 1, 1, 1);
    struct kern_shape to = kern_shape(b->t, 3, (int64_t[]){v->n, v->f, v->d}),
                      from = to;
    uint32_t mean = compile_tensor(b, (size_t)(v->n * v->d) * b->act);
    uint32_t others = compile_tensor(b, (size_t)kern_shape_count(&to) * b->act);
    struct kern_desc d;

    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG,
                   (int64_t[]){v->n, v->f, 1, v->d}, &all, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(mean)});
    from.stride[0] = v->d;
    from.stride[1] = 0;
    kern_desc_axpby(&d, &from, &to, (float)v->f, 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(mean), WHOLE(others)});
    compile_axpby(b, i, -1, x, 1, others);
    return others;
}

static void fm_forward(struct build *b, uint32_t i)
{
    struct vectors v = vectors_of(b, i);
    uint32_t x = compile_join(b, i, v.n), others = fm_others(b, i, &v, x);

    *compile_kept(b, i, OTHERS) = others;
    b->value[i] = compile_products(
        b, i, x, others, (int64_t[]){v.n, 1, 1, v.f * v.d}, false, true);
    compile_scale(b, i, b->value[i], 0.5f);
}

// The slope by a vector is the sum of the others.
static void fm_backward(struct build *b, uint32_t i)
{
    struct vectors v = vectors_of(b, i);

    compile_split(
        b, i, v.n,
        compile_products(b, i, b->grad[i], *compile_kept(b, i, OTHERS),
                         (int64_t[]){v.n, 1, v.f * v.d, 1}, false, false));
}

const struct compile_layer compile_fm = {.forward = fm_forward,
                                         .backward = fm_backward};

// ---- cross: y = x0 factor + x, factor = kernel (u_kernel x) + bias + scale x

// Returns the product with MODEL_KERNEL or, of what is between them,
// MODEL_U_KERNEL.
static struct compile_projection
cross_projection(const struct build *b, uint32_t i, enum model_weight kernel)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t all = (int64_t)node->in.dim[node->in.rank - 1];
    int64_t between =
        node->projection_dim > 0 ? (int64_t)node->projection_dim : all;
    int64_t rows = compile_elements(b, &node->in) / all;

    if (kernel == MODEL_U_KERNEL)
        return (struct compile_projection){
            .kernel = kernel, .rows = rows, .k = all, .units = between};
    return (struct compile_projection){
        .kernel = kernel, .rows = rows, .k = between, .units = all};
}

static void cross_multiply(struct build *b, uint32_t i, uint32_t x, uint32_t y,
                           uint32_t z)
{
    compile_combine(b, i, KERN_MUL, (uint32_t[]){x, y}, 2, z);
}

static void cross_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_projection u = cross_projection(b, i, MODEL_U_KERNEL);
    struct compile_projection p = cross_projection(b, i, MODEL_KERNEL);
    uint32_t x0 = b->value[node->input[0]];
    uint32_t x = b->value[node->input[node->inputs - 1]], between = x, factor;

    if (node->projection_dim > 0)
        between = compile_project(b, i, &u, x);
    factor = compile_project(b, i, &p, between);
    if (node->diag_scale > 0)
        compile_axpby(b, i, (float)node->diag_scale, x, 1, factor);
    *compile_kept(b, i, BETWEEN) = between;
    *compile_kept(b, i, FACTOR) = factor;
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    cross_multiply(b, i, x0, factor, b->value[i]);
    compile_axpby(b, i, 1, x, 1, b->value[i]);
}

// Computes the kernels' gradients from the factor's, and in dx, if it is a
// tensor, what x gets through them.
static void cross_products_backward(struct build *b, uint32_t i, uint32_t x,
                                    uint32_t dfactor, uint32_t dx)
{
    struct compile_projection u = cross_projection(b, i, MODEL_U_KERNEL);
    struct compile_projection p = cross_projection(b, i, MODEL_KERNEL);
    uint32_t dbetween;

    compile_project_grads(b, i, &p, *compile_kept(b, i, BETWEEN), dfactor);
    if (b->model->nodes[i].projection_dim == 0) {
        if (dx != NO_TENSOR)
            compile_project_input(b, i, &p, dfactor, dx);
        return;
    }
    dbetween = compile_tensor(b, (size_t)(p.rows * p.k) * b->act);
    compile_project_input(b, i, &p, dfactor, dbetween);
    compile_project_grads(b, i, &u, x, dbetween);
    if (dx != NO_TENSOR)
        compile_project_input(b, i, &u, dbetween, dx);
}

static void cross_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t from = node->input[node->inputs - 1], x0 = node->input[0];
    uint32_t dy = b->grad[i], dx;
    uint32_t dfactor = compile_tensor(b, compile_bytes(b, &node->out));

    cross_multiply(b, i, dy, b->value[x0], dfactor);
    if (b->model->nodes[x0].learns) {
        dx = compile_target(b, x0);
        cross_multiply(b, i, dy, *compile_kept(b, i, FACTOR), dx);
        compile_took(b, x0, dx);
    }
    if (!b->model->nodes[from].learns) {
        cross_products_backward(b, i, b->value[from], dfactor, NO_TENSOR);
        return;
    }
    dx = compile_target(b, from);
    cross_products_backward(b, i, b->value[from], dfactor, dx);
    if (node->diag_scale > 0)
        compile_axpby(b, i, (float)node->diag_scale, dfactor, 1, dx);
    compile_took(b, from, dx);
    compile_pass(b, from, dy, true);
}

static void cross_product(const struct build *b, uint32_t i,
                          struct kern_desc *d)
{
    struct compile_projection p = cross_projection(b, i, MODEL_KERNEL);

    kern_desc_matmul(d, p.rows, p.units, p.k, false, true, 0);
}

const struct compile_layer compile_cross = {.forward = cross_forward,
                                            .backward = cross_backward,
                                            .product = cross_product};
