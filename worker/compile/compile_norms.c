// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_norms.c -- normalizations that are made of the ops of
// batch norm and layer norm, and what multiplies channels by numbers.
//
// Batch norm in inference is any affine map of channels, and its own way back
// without mean and beta.
#include <math.h>

#include "worker/compile/compile_build.h"

// ---- affine maps

// Returns constants: ones, or zeroes.
static uint32_t constants(struct build *b, bool ones, int64_t count)
{
    return compile_at(b, PROGRAM_CONSTANTS, ones ? 0 : b->constants * b->real,
                      (size_t)count * b->real);
}

void compile_affine(struct build *b, uint32_t i, const struct compile_affine *a,
                    uint32_t x, uint32_t y)
{
    uint32_t in[4] = {a->gamma, a->beta, a->mean, a->var};
    int64_t dim[2] = {a->rows, a->channels};
    struct build_ref refs[6] = {WHOLE(x)};
    struct kern_desc d;

    for (unsigned k = 0; k < 4; k++)
        refs[k + 1] = WHOLE(in[k] != NO_TENSOR
                                ? in[k]
                                : constants(b, k == 0 || k == 3, a->channels));
    refs[5] = WHOLE(y);
    kern_desc_norm(&d, KERN_BN_INFER, 2, dim, a->epsilon, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d, refs);
}

struct compile_affine compile_unchanged(const struct build *b,
                                        const struct model_node *node,
                                        int64_t channels)
{
    return (struct compile_affine){.gamma = NO_TENSOR,
                                   .beta = NO_TENSOR,
                                   .mean = NO_TENSOR,
                                   .var = NO_TENSOR,
                                   .channels = channels,
                                   .rows = compile_elements(b, &node->in) /
                                           channels};
}

// ---- normalization by numbers of the spec

// As in Keras: a deviation is at least 1e-7.
#define LEAST_VARIANCE 1e-14F

// Returns the numbers that the node is given: means, or variances.
static uint32_t given(struct build *b, uint32_t i, bool variance)
{
    size_t c = (size_t)compile_channels(&b->model->nodes[i].in);

    return compile_given(b, i, variance ? c : 0, c);
}

static void normalization_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_affine a =
        compile_unchanged(b, node, compile_channels(&node->in));

    a.mean = given(b, i, false);
    a.var = given(b, i, true);
    a.epsilon = LEAST_VARIANCE;
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_affine(b, i, &a, b->value[node->input[0]], b->value[i]);
}

static void normalization_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_affine a =
        compile_unchanged(b, node, compile_channels(&node->in));

    if (!compile_wants_grad(b, node, 0))
        return;
    a.var = given(b, i, true);
    a.epsilon = LEAST_VARIANCE;
    compile_affine(b, i, &a, b->grad[i], b->grad[i]);
    compile_pass(b, node->input[0], b->grad[i], true);
}

const struct compile_layer compile_normalization = {
    .forward = normalization_forward, .backward = normalization_backward};

// ---- group normalization: a layer norm of each group's elements, which are
// brought together for it

enum group { TOGETHER, NORMAL }; // in b->kept: x by group; normalized x

// Copies x [n, places, groups, each] to y [n, groups, places, each], or back.
static void group_move(struct build *b, uint32_t i, uint32_t x, uint32_t y,
                       bool back)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t g = node->groups, each = compile_channels(&node->in) / g;
    int64_t places = (int64_t)model_shape_elements(&node->in) / (g * each);
    struct kern_shape by =
        kern_shape(b->t, 4, (int64_t[]){b->o->batch, g, places, each});
    struct kern_shape plain = by;
    struct kern_desc d;

    plain.stride[1] = each;
    plain.stride[2] = g * each;
    kern_desc_axpby(&d, back ? &by : &plain, back ? &plain : &by, 1, 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
}

// Describes the layer norm of the groups.
static void group_describe(const struct build *b, const struct model_node *node,
                           struct kern_desc *d, enum kern_op op)
{
    int64_t rows = (int64_t)b->o->batch * node->groups;
    int64_t each = (int64_t)model_shape_elements(&node->in) / node->groups;

    kern_desc_ln(d, op, 2, (int64_t[]){rows, each}, (float)node->epsilon);
}

static void group_norm_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t each = (int64_t)model_shape_elements(&node->in) / node->groups;
    size_t bytes = compile_bytes(b, &node->in);
    uint32_t by = compile_tensor(b, bytes), done = compile_tensor(b, bytes);
    uint32_t normal = compile_tensor(b, bytes);
    struct compile_affine a =
        compile_unchanged(b, node, compile_channels(&node->in));
    struct kern_desc d;

    group_move(b, i, b->value[node->input[0]], by, false);
    group_describe(b, node, &d, KERN_LN_FWD);
    compile_type(b, &d, b->t);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(by), WHOLE(constants(b, true, each)),
                             WHOLE(constants(b, false, each)), WHOLE(done)});
    group_move(b, i, done, normal, true);
    *compile_kept(b, i, TOGETHER) = by;
    *compile_kept(b, i, NORMAL) = normal;
    a.gamma = compile_scale_or_center(b, node, MODEL_GAMMA);
    a.beta = compile_scale_or_center(b, node, MODEL_BETA);
    b->value[i] = compile_tensor(b, bytes);
    compile_affine(b, i, &a, normal, b->value[i]);
}

// The gradients of gamma and beta.
static void group_norm_grads(struct build *b, uint32_t i,
                             const struct compile_affine *a)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i], product;

    compile_sum_rows(b, i, MODEL_BETA, a->rows, dy, b->t);
    if (node->weight[MODEL_GAMMA] == MODEL_NONE || node->frozen)
        return;
    product = compile_tensor(b, compile_bytes(b, &node->in));
    compile_combine(b, i, KERN_MUL,
                    (uint32_t[]){dy, *compile_kept(b, i, NORMAL)}, 2, product);
    compile_sum_rows(b, i, MODEL_GAMMA, a->rows, product, b->t);
}

static void group_norm_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t each = (int64_t)model_shape_elements(&node->in) / node->groups;
    uint32_t dy = b->grad[i], by, dx, t;
    struct compile_affine a =
        compile_unchanged(b, node, compile_channels(&node->in));
    struct kern_desc d;

    group_norm_grads(b, i, &a);
    if (!compile_wants_grad(b, node, 0))
        return;
    a.gamma = compile_scale_or_center(b, node, MODEL_GAMMA);
    compile_affine(b, i, &a, dy, dy);
    by = compile_tensor(b, compile_bytes(b, &node->in));
    group_move(b, i, dy, by, false);
    t = compile_tensor(b, b->o->batch *
                              (size_t)model_shape_elements(&node->in) *
                              b->real); // gamma's gradient, which is none
    group_describe(b, node, &d, KERN_LN_BWD);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){
                     WHOLE(*compile_kept(b, i, TOGETHER)), WHOLE(by),
                     WHOLE(constants(b, true, each)), WHOLE(by), WHOLE(t)});
    dx = compile_target(b, node->input[0]);
    group_move(b, i, by, dx, true);
    compile_took(b, node->input[0], dx);
}

const struct compile_layer compile_group_norm = {
    .forward = group_norm_forward, .backward = group_norm_backward};

// ---- unit normalization: a layer norm of x beside -x, of which the mean is 0
// and the variance the mean square of x

#define LEAST_NORM 1e-12 // as Keras has it

struct doubled {
    int64_t rows, c;
    double root; // of c
};

static struct doubled doubled_of(const struct build *b,
                                 const struct model_node *node)
{
    int64_t c = compile_channels(&node->in);

    return (struct doubled){.rows = compile_elements(b, &node->in) / c,
                            .c = c,
                            .root = sqrt((double)c)};
}

// Sets one half of `wide` [rows, 2 c] to scale x [rows, c]; or, with `back`, x
// to scale times that half, plus `kept` times x.
static void unit_half(struct build *b, uint32_t i, uint32_t x, uint32_t wide,
                      bool second, double scale, bool back, double kept)
{
    struct doubled m = doubled_of(b, &b->model->nodes[i]);
    struct kern_shape own = kern_shape(b->t, 2, (int64_t[]){m.rows, m.c});
    struct kern_shape half = own;
    struct build_ref at = {wide, second ? (size_t)m.c * b->act : 0};
    struct kern_desc d;

    half.stride[0] = 2 * m.c;
    kern_desc_axpby(&d, back ? &half : &own, back ? &own : &half, (float)scale,
                    (float)kept);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){back ? at : WHOLE(x), back ? WHOLE(x) : at});
}

// Describes the layer norm of both halves.
static void unit_describe(const struct build *b, const struct model_node *node,
                          struct kern_desc *d, enum kern_op op)
{
    struct doubled m = doubled_of(b, node);

    kern_desc_ln(d, op, 2, (int64_t[]){m.rows, 2 * m.c},
                 (float)(LEAST_NORM * LEAST_NORM / (double)m.c));
}

static uint32_t unit_wide(struct build *b, const struct model_node *node,
                          size_t element)
{
    return compile_tensor(b,
                          2 * (size_t)compile_elements(b, &node->in) * element);
}

static void unit_norm_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct doubled m = doubled_of(b, node);
    uint32_t x = b->value[node->input[0]];
    uint32_t wide = unit_wide(b, node, b->act);
    uint32_t done = unit_wide(b, node, b->act);
    struct kern_desc d;

    unit_half(b, i, x, wide, false, 1, false, 0);
    unit_half(b, i, x, wide, true, -1, false, 0);
    unit_describe(b, node, &d, KERN_LN_FWD);
    compile_type(b, &d, b->t);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(wide), WHOLE(constants(b, true, 2 * m.c)),
                             WHOLE(constants(b, false, 2 * m.c)), WHOLE(done)});
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    unit_half(b, i, b->value[i], done, false, 1 / m.root, true, 0);
    b->aux[i] = wide;
}

static void unit_norm_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct doubled m = doubled_of(b, node);
    uint32_t wide, t, dx;
    struct kern_desc d;

    if (!compile_wants_grad(b, node, 0))
        return;
    wide = unit_wide(b, node, b->act);
    t = unit_wide(b, node, b->real); // gamma's gradient, which is none
    unit_half(b, i, b->grad[i], wide, false, 1 / m.root, false, 0);
    unit_half(b, i, b->grad[i], wide, true, 0, false, 0);
    unit_describe(b, node, &d, KERN_LN_BWD);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(b->aux[i]), WHOLE(wide),
                                      WHOLE(constants(b, true, 2 * m.c)),
                                      WHOLE(wide), WHOLE(t)});
    dx = compile_target(b, node->input[0]);
    unit_half(b, i, dx, wide, false, 1, true, 0);
    unit_half(b, i, dx, wide, true, -1, true, 1);
    compile_took(b, node->input[0], dx);
}

const struct compile_layer compile_unit_norm = {.forward = unit_norm_forward,
                                                .backward = unit_norm_backward};
