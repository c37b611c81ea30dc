// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_combine.c -- layers of several inputs of one shape, or
// of a row of it: sum, difference, product, mean, maximum, minimum.
#include "worker/compile/compile_build.h"

#define COMBINE_AT_ONCE 8 // inputs of a BINARY

// ---- inputs that are a row, (1, ..., 1, c), of the output's shape

static bool repeats(const struct build *b, const struct model_node *node,
                    uint32_t k)
{
    const struct model_shape *s = &b->model->nodes[node->input[k]].out;

    return model_shape_elements(s) < model_shape_elements(&node->out);
}

// Returns the k-th input in the output's shape.
static uint32_t operand(struct build *b, uint32_t i, uint32_t k)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t *kept = compile_kept(b, i, k);
    struct kern_shape row, all;
    int64_t dim[KERN_DIMS];
    struct kern_desc d;

    if (!repeats(b, node, k))
        return b->value[node->input[k]];
    if (*kept != NO_TENSOR)
        return *kept;
    all = kern_shape(b->t, compile_dims(b, &node->out, dim), dim);
    row = all;
    for (unsigned axis = 1; axis + 1 < row.nd; axis++)
        row.stride[axis] = 0;
    row.stride[0] = dim[row.nd - 1];
    *kept = compile_tensor(b, compile_bytes(b, &node->out));
    kern_desc_axpby(&d, &row, &all, 1, 0);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(b->value[node->input[k]]), WHOLE(*kept)});
    return *kept;
}

// Gives the k-th input its gradient, from `dx` in the output's shape: a row
// gets the sum over all its places, which is their mean times their number.
static void combine_grad_pass(struct build *b, uint32_t i, uint32_t k,
                              uint32_t dx, bool away)
{
    const struct model_node *node = &b->model->nodes[i];
    const struct model_shape *in = &b->model->nodes[node->input[k]].out;
    int64_t c = (int64_t)in->dim[in->rank - 1];
    int64_t places = (int64_t)model_shape_elements(&node->out) / c;
    struct kern_window all = kern_window((int32_t)places, 1, 1, 1);
    struct kern_desc d;
    uint32_t sum;

    if (!repeats(b, node, k)) {
        compile_pass(b, node->input[k], dx, away);
        return;
    }
    sum = compile_tensor(b, compile_bytes(b, in));
    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG,
                   (int64_t[]){b->o->batch, places, 1, c}, &all, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(dx), WHOLE(sum)});
    compile_scale(b, i, sum, (float)places);
    compile_pass(b, node->input[k], sum, true);
}

// Returns where an op may write the k-th input's gradient in the output's
// shape; combine_grad_done() is told when it has.
static uint32_t combine_grad_begin(struct build *b, uint32_t i, uint32_t k)
{
    const struct model_node *node = &b->model->nodes[i];

    if (repeats(b, node, k))
        return compile_tensor(b, compile_bytes(b, &node->out));
    return compile_target(b, node->input[k]);
}

static void combine_grad_done(struct build *b, uint32_t i, uint32_t k,
                              uint32_t dx)
{
    const struct model_node *node = &b->model->nodes[i];

    if (repeats(b, node, k))
        combine_grad_pass(b, i, k, dx, true);
    else
        compile_took(b, node->input[k], dx);
}

// ---- the layers

// Combines as many inputs as an op takes, then their result with the next
// inputs.
void compile_combine(struct build *b, uint32_t i, enum kern_binary_kind kind,
                     const uint32_t *x, uint32_t count, uint32_t y)
{
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &b->model->nodes[i].out, dim);

    for (uint32_t at = 0; at < count;) {
        struct build_ref refs[COMBINE_AT_ONCE + 1];
        struct kern_desc d;
        uint32_t n = 0;

        if (at > 0)
            refs[n++] = WHOLE(y);
        while (n < COMBINE_AT_ONCE && at < count)
            refs[n++] = WHOLE(x[at++]);
        refs[n] = WHOLE(y);
        kern_desc_binary(&d, kind, n, nd, dim);
        compile_type(b, &d, b->t);
        compile_emit(b, i, &d, refs);
    }
}

// Computes all inputs, combined by an op.
static void combine_forward(struct build *b, uint32_t i,
                            enum kern_binary_kind kind)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x[MODEL_INPUTS_MAX];

    for (uint32_t k = 0; k < node->inputs; k++)
        x[k] = operand(b, i, k);
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_combine(b, i, kind, x, node->inputs, b->value[i]);
}

static void add_forward(struct build *b, uint32_t i)
{
    combine_forward(b, i, KERN_ADD);
}

// Passes dy to all inputs: the last one that wants it gets the buffer itself,
// the others copies.
static void add_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t last = node->inputs;

    for (uint32_t k = 0; k < node->inputs; k++) {
        if (compile_wants_grad(b, node, k))
            last = k;
    }
    for (uint32_t k = 0; k < node->inputs; k++) {
        if (compile_wants_grad(b, node, k))
            combine_grad_pass(b, i, k, b->grad[i], k == last);
    }
}

const struct compile_layer compile_add = {.forward = add_forward,
                                          .backward = add_backward};

static void average_forward(struct build *b, uint32_t i)
{
    combine_forward(b, i, KERN_ADD);
    compile_scale(b, i, b->value[i], 1 / (float)b->model->nodes[i].inputs);
}

static void average_backward(struct build *b, uint32_t i)
{
    compile_scale(b, i, b->grad[i], 1 / (float)b->model->nodes[i].inputs);
    add_backward(b, i);
}

const struct compile_layer compile_average = {.forward = average_forward,
                                              .backward = average_backward};

static void subtract_forward(struct build *b, uint32_t i)
{
    combine_forward(b, i, KERN_SUB);
}

// Passes dy to the first input, -dy to the one that is subtracted.
static void subtract_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    if (compile_wants_grad(b, node, 0))
        combine_grad_pass(b, i, 0, b->grad[i], false);
    if (compile_wants_grad(b, node, 1)) {
        compile_scale(b, i, b->grad[i], -1);
        combine_grad_pass(b, i, 1, b->grad[i], true);
    }
}

const struct compile_layer compile_subtract = {.forward = subtract_forward,
                                               .backward = subtract_backward};

static void multiply_forward(struct build *b, uint32_t i)
{
    combine_forward(b, i, KERN_MUL);
}

// Gives input k dy times all the other inputs.
static void multiply_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x[MODEL_INPUTS_MAX];

    for (uint32_t k = 0; k < node->inputs; k++) {
        uint32_t dx;

        if (!compile_wants_grad(b, node, k))
            continue;
        for (uint32_t j = 0; j < node->inputs; j++)
            x[j] = j == k ? b->grad[i] : operand(b, i, j);
        dx = combine_grad_begin(b, i, k);
        compile_combine(b, i, KERN_MUL, x, node->inputs, dx);
        combine_grad_done(b, i, k, dx);
    }
}

const struct compile_layer compile_multiply = {.forward = multiply_forward,
                                               .backward = multiply_backward};

// Gives dy to the first input that was the largest, or smallest.
static void combine_pick_backward(struct build *b, uint32_t i,
                                  enum kern_binary_kind kind)
{
    const struct model_node *node = &b->model->nodes[i];
    struct build_ref refs[MODEL_PICKS_MAX + 2];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);
    struct kern_desc d;

    refs[0] = WHOLE(b->grad[i]);
    for (uint32_t k = 0; k < node->inputs; k++)
        refs[k + 1] = WHOLE(operand(b, i, k));
    for (uint32_t k = 0; k < node->inputs; k++) {
        uint32_t dx;

        if (!compile_wants_grad(b, node, k))
            continue;
        dx = combine_grad_begin(b, i, k);
        refs[node->inputs + 1] = WHOLE(dx);
        kern_desc_pick(&d, kind, node->inputs, k, nd, dim);
        compile_type(b, &d, b->t);
        compile_emit(b, i, &d, refs);
        combine_grad_done(b, i, k, dx);
    }
}

static void maximum_forward(struct build *b, uint32_t i)
{
    combine_forward(b, i, KERN_MAX);
}

static void maximum_backward(struct build *b, uint32_t i)
{
    combine_pick_backward(b, i, KERN_MAX);
}

const struct compile_layer compile_maximum = {.forward = maximum_forward,
                                              .backward = maximum_backward};

static void minimum_forward(struct build *b, uint32_t i)
{
    combine_forward(b, i, KERN_MIN);
}

static void minimum_backward(struct build *b, uint32_t i)
{
    combine_pick_backward(b, i, KERN_MIN);
}

const struct compile_layer compile_minimum = {.forward = minimum_forward,
                                              .backward = minimum_backward};
