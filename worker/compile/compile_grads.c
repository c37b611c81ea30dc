// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_grads.c -- how gradients go back from layer to layer,
// and how those of kernels and biases are computed.
#include "worker/compile/compile_build.h"

bool compile_wants_grad(const struct build *b, const struct model_node *node,
                        uint32_t k)
{
    return b->model->nodes[node->input[k]].learns;
}

void compile_pass_on(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    if (compile_wants_grad(b, node, 0))
        compile_pass(b, node->input[0], b->grad[i], true);
}

void compile_axpby(struct build *b, uint32_t node, float alpha, uint32_t x,
                   float beta, uint32_t y)
{
    int64_t n = b->rc == SL_OK ? (int64_t)(b->tensors[x].bytes / b->act) : 0;
    struct kern_shape flat = kern_shape(b->t, 1, &n);
    struct kern_desc d;

    kern_desc_axpby(&d, &flat, &flat, alpha, beta);
    compile_emit(b, node, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
}

void compile_scale(struct build *b, uint32_t node, uint32_t x, float a)
{
    compile_axpby(b, node, a, x, 0, x);
}

// Returns the node's own buffer the first time, else one that compile_took adds
// to it.
uint32_t compile_target(struct build *b, uint32_t node)
{
    uint32_t t = compile_tensor(b, compile_value_bytes(b, node));

    if (b->grad[node] == NO_TENSOR)
        b->grad[node] = t;
    return t;
}

void compile_took(struct build *b, uint32_t node, uint32_t t)
{
    if (b->rc == SL_OK && t != b->grad[node])
        compile_axpby(b, node, 1, t, 1, b->grad[node]);
}

void compile_pass(struct build *b, uint32_t node, uint32_t dy, bool away)
{
    uint32_t t;

    if (b->rc != SL_OK)
        return;
    if (b->grad[node] == NO_TENSOR && away) {
        b->grad[node] = dy;
    } else if (b->grad[node] == NO_TENSOR) {
        t = compile_target(b, node);
        compile_axpby(b, node, 1, dy, 0, t);
    } else {
        compile_axpby(b, node, 1, dy, 1, b->grad[node]);
    }
}

void compile_sum_rows(struct build *b, uint32_t i, enum model_weight w,
                      int64_t rows, uint32_t x, enum kern_dtype t)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_desc d;
    int64_t each;
    uint32_t sum;

    if (node->weight[w] == MODEL_NONE || node->frozen)
        return;
    each = (int64_t)b->model->variables[node->weight[w]].elements;
    sum = compile_grad(b, i, w);
    kern_desc_reduce(&d, 2, (int64_t[]){rows, each}, 0);
    compile_type(b, &d, t);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(sum)});
    compile_grad_home(b, i, w, sum, KERN_F32);
}

void compile_bias_grad(struct build *b, uint32_t i)
{
    const struct model_shape *out = &b->model->nodes[i].out;
    int64_t elements = compile_elements(b, out);

    compile_sum_rows(b, i, MODEL_BIAS, elements / compile_channels(out),
                     b->grad[i], b->t);
}

bool compile_wants_bias_grad(const struct build *b, uint32_t i)
{
    return b->model->nodes[i].weight[MODEL_BIAS] != MODEL_NONE &&
           !b->model->nodes[i].frozen && !b->bias_done[i];
}

bool compile_fuses_bias(struct build *b, uint32_t i,
                        const struct kern_desc *with,
                        const struct kern_desc *without)
{
    return compile_wants_bias_grad(b, i) && compile_fuses(b, with, without);
}

void compile_weight_grads(struct build *b, uint32_t i, enum model_weight w,
                          struct kern_desc *with, struct kern_desc *without,
                          struct build_ref first, struct build_ref second)
{
    bool bias = w != MODEL_DEPTHWISE_KERNEL && compile_wants_bias_grad(b, i),
         both;
    enum kern_dtype given;
    uint32_t dw, db;

    if (b->model->nodes[i].frozen)
        return;
    compile_type(b, with, b->t);
    compile_type(b, without, b->t);
    given = compile_grad_dtype(b, with, without);
    both = bias && with->outputs > without->outputs &&
           compile_fuses_bias(b, i, with, without);
    dw = compile_grad_at(b, i, w, given);
    if (both) {
        db = compile_grad_at(b, i, MODEL_BIAS, KERN_F32);
        compile_emit(b, i, with,
                     (struct build_ref[]){first, second, WHOLE(dw), WHOLE(db)});
        compile_grad_home(b, i, MODEL_BIAS, db, KERN_F32);
    } else {
        compile_emit(b, i, without,
                     (struct build_ref[]){first, second, WHOLE(dw)});
    }
    compile_grad_home(b, i, w, dw, given);
    if (bias && !both)
        compile_bias_grad(b, i);
}

void compile_input_grad(struct build *b, uint32_t i, struct kern_desc *d,
                        uint32_t dy, enum model_weight w)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dx;

    if (!compile_wants_grad(b, node, 0))
        return;
    dx = compile_target(b, node->input[0]);
    compile_type(b, d, b->t);
    compile_emit(b, i, d,
                 (struct build_ref[]){
                     WHOLE(dy), WHOLE(compile_operand(b, i, w)), WHOLE(dx)});
    compile_took(b, node->input[0], dx);
}

// ---- products of a batch, and with kernels

uint32_t compile_products(struct build *b, uint32_t node, uint32_t x,
                          uint32_t y, const int64_t bmnk[4], bool trans_x,
                          bool trans_y)
{
    size_t elements = (size_t)(bmnk[0] * bmnk[1] * bmnk[2]);
    uint32_t z = compile_tensor(b, elements * b->act);
    struct kern_desc d;

    kern_desc_matmul_batch(&d, bmnk[0], bmnk[1], bmnk[2], bmnk[3], trans_x,
                           trans_y, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, node, &d,
                 (struct build_ref[]){WHOLE(x), WHOLE(y), WHOLE(z)});
    return z;
}

uint32_t compile_project(struct build *b, uint32_t i,
                         const struct compile_projection *p, uint32_t x)
{
    bool bias = b->model->nodes[i].weight[p->kernel + 1] != MODEL_NONE;
    uint32_t y = compile_tensor(b, (size_t)(p->rows * p->units) * b->act);
    struct build_ref refs[4];
    struct kern_desc d;
    unsigned n = 0;

    kern_desc_matmul(&d, p->rows, p->units, p->k, false, true,
                     bias ? KERN_BIAS : 0);
    compile_type(b, &d, b->t);
    refs[n++] = WHOLE(x);
    refs[n++] = WHOLE(compile_operand(b, i, p->kernel));
    if (bias)
        refs[n++] = WHOLE(compile_operand(b, i, p->kernel + 1));
    refs[n] = WHOLE(y);
    compile_emit(b, i, &d, refs);
    return y;
}

void compile_project_input(struct build *b, uint32_t i,
                           const struct compile_projection *p, uint32_t dy,
                           uint32_t dx)
{
    struct kern_desc d;

    kern_desc_matmul(&d, p->rows, p->k, p->units, false, false, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(dy),
                                      WHOLE(compile_operand(b, i, p->kernel)),
                                      WHOLE(dx)});
}

void compile_project_grads(struct build *b, uint32_t i,
                           const struct compile_projection *p, uint32_t x,
                           uint32_t dy)
{
    bool bias = b->model->nodes[i].weight[p->kernel + 1] != MODEL_NONE &&
                !p->bias_apart;
    bool both;
    struct kern_desc with, without;
    enum kern_dtype given;
    uint32_t dw, db = NO_TENSOR;

    if (b->model->nodes[i].frozen)
        return;
    kern_desc_matmul(&with, p->units, p->k, p->rows, true, false, KERN_BGRAD);
    kern_desc_matmul(&without, p->units, p->k, p->rows, true, false, 0);
    compile_type(b, &with, b->t);
    compile_type(b, &without, b->t);
    given = compile_grad_dtype(b, &with, &without);
    both = bias && compile_fuses(b, &with, &without);
    dw = compile_grad_at(b, i, p->kernel, given);
    if (both)
        db = compile_grad_at(b, i, p->kernel + 1, KERN_F32);
    compile_emit(
        b, i, both ? &with : &without,
        (struct build_ref[]){WHOLE(dy), WHOLE(x), WHOLE(dw), WHOLE(db)});
    compile_grad_home(b, i, p->kernel, dw, given);
    if (both)
        compile_grad_home(b, i, p->kernel + 1, db, KERN_F32);
    else if (bias)
        compile_sum_rows(b, i, p->kernel + 1, p->rows, dy, b->t);
}

// A max pool sums what is still small, a batch norm what it writes anyway. On a
// host the sum costs as much as it saves.
bool compile_sums_for_bias(struct build *b, uint32_t i,
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

void compile_bias_home(struct build *b, uint32_t conv, uint32_t db)
{
    compile_grad_home(b, conv, MODEL_BIAS, db, KERN_F32);
    b->bias_done[conv] = true;
}
