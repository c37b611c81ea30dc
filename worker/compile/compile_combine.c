// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_combine.c -- layers of several inputs of one shape:
// sum, difference, product, mean, maximum, minimum.
#include "worker/compile/compile_build.h"

static enum kern_binary_kind kind_of(const struct model_node *node)
{
    switch (node->type) {
    case MODEL_SUBTRACT:
        return KERN_SUB;
    case MODEL_MULTIPLY:
        return KERN_MUL;
    case MODEL_MAXIMUM:
        return KERN_MAX;
    case MODEL_MINIMUM:
        return KERN_MIN;
    default: // add, average
        return KERN_ADD;
    }
}

static void describe(struct build *b, const struct model_node *node,
                     struct kern_desc *d)
{
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    kern_desc_binary(d, kind_of(node), node->inputs, nd, dim);
    compile_type(b, d, b->t);
}

void compile_combine_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct build_ref refs[MODEL_INPUTS_MAX + 1];
    struct kern_desc d;

    for (uint32_t k = 0; k < node->inputs; k++)
        refs[k] = WHOLE(b->value[node->input[k]]);
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    refs[node->inputs] = WHOLE(b->value[i]);
    describe(b, node, &d);
    compile_emit(b, i, &d, refs);
    if (node->type == MODEL_AVERAGE)
        compile_scale(b, i, b->value[i], 1 / (float)node->inputs);
}

// The last input that wants it gets the buffer itself; the others, copies.
static void pass_to_all(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t last = node->inputs;

    for (uint32_t k = 0; k < node->inputs; k++) {
        if (compile_wants_grad(b, node, k))
            last = k;
    }
    for (uint32_t k = 0; k < node->inputs; k++) {
        if (compile_wants_grad(b, node, k))
            compile_pass(b, node->input[k], b->grad[i], k == last);
    }
}

// What is taken away gets -dy.
static void subtract(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    if (compile_wants_grad(b, node, 0))
        compile_pass(b, node->input[0], b->grad[i], false);
    if (compile_wants_grad(b, node, 1)) {
        compile_scale(b, i, b->grad[i], -1);
        compile_pass(b, node->input[1], b->grad[i], true);
    }
}

// Input k gets dy times all the others.
static void multiply(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct build_ref refs[MODEL_INPUTS_MAX + 1];
    struct kern_desc d;

    for (uint32_t k = 0; k < node->inputs; k++) {
        uint32_t dx;

        if (!compile_wants_grad(b, node, k))
            continue;
        for (uint32_t j = 0; j < node->inputs; j++)
            refs[j] = WHOLE(j == k ? b->grad[i] : b->value[node->input[j]]);
        dx = compile_target(b, node->input[k]);
        refs[node->inputs] = WHOLE(dx);
        describe(b, node, &d);
        compile_emit(b, i, &d, refs);
        compile_took(b, node->input[k], dx);
    }
}

// Who was the first to be the largest, or smallest, gets dy.
static void pick(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct build_ref refs[MODEL_INPUTS_MAX + 2];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);
    struct kern_desc d;

    refs[0] = WHOLE(b->grad[i]);
    for (uint32_t k = 0; k < node->inputs; k++)
        refs[k + 1] = WHOLE(b->value[node->input[k]]);
    for (uint32_t k = 0; k < node->inputs; k++) {
        uint32_t dx;

        if (!compile_wants_grad(b, node, k))
            continue;
        dx = compile_target(b, node->input[k]);
        refs[node->inputs + 1] = WHOLE(dx);
        kern_desc_pick(&d, kind_of(node), node->inputs, k, nd, dim);
        compile_type(b, &d, b->t);
        compile_emit(b, i, &d, refs);
        compile_took(b, node->input[k], dx);
    }
}

void compile_combine_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    if (node->type == MODEL_MULTIPLY) {
        multiply(b, i);
    } else if (node->type == MODEL_MAXIMUM || node->type == MODEL_MINIMUM) {
        pick(b, i);
    } else if (node->type == MODEL_SUBTRACT) {
        subtract(b, i);
    } else {
        if (node->type == MODEL_AVERAGE)
            compile_scale(b, i, b->grad[i], 1 / (float)node->inputs);
        pass_to_all(b, i);
    }
}
