// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_act.c -- the activation of a node, both directions,
// and the layers' end with a kernel, which may take ReLU with it.
#include "worker/compile/compile_build.h"

static void compile_apply_act(struct build *b, uint32_t i, uint32_t z, bool own)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);
    enum kern_unary_kind kind;
    struct kern_desc d;
    float a;
    uint32_t y = z;

    b->value[i] = z;
    if (node->act == MODEL_ACT_LINEAR || b->loss_act[i])
        return;
    if (node->act == MODEL_ACT_SOFTMAX) {
        if (!own)
            y = compile_tensor(b, compile_value_bytes(b, i));
        kern_desc_softmax(&d, KERN_SOFTMAX_FWD, nd, dim);
        b->saved[i] = y;
    } else {
        kind = compile_unary(node, &a);
        if (!own || kern_unary_saves_input(kind))
            y = compile_tensor(b, compile_value_bytes(b, i));
        kern_desc_unary(&d, KERN_UNARY_FWD, kind, a, nd, dim);
        b->saved[i] = kern_unary_saves_input(kind) ? z : y;
    }
    compile_type(b, &d, compile_dtype(b, i));
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(z), WHOLE(y)});
    b->value[i] = y;
}

void compile_activate(struct build *b, uint32_t i, uint32_t z, bool own)
{
    b->value[i] = z;
    if (!compile_is_wide(b, i))
        compile_apply_act(b, i, z, own);
}

void compile_widen(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t n = compile_elements(b, &node->out);

    if (compile_is_wide(b, i) && b->rc == SL_OK)
        compile_apply_act(
            b, i, compile_cast(b, i, b->value[i], n, b->t, KERN_F32), true);
}

// Puts ReLU into the op and returns true, if the backend likes it there.
static bool fuse_relu(struct build *b, uint32_t i, struct kern_desc *d)
{
    return b->model->nodes[i].act == MODEL_ACT_RELU && !compile_is_wide(b, i) &&
           compile_try_epilogue(b, d, KERN_RELU);
}

void compile_weighted(struct build *b, uint32_t i, struct kern_desc *d,
                      uint32_t x, enum model_weight w)
{
    const struct model_node *node = &b->model->nodes[i];
    struct build_ref refs[4];
    unsigned n = 0;
    bool fused;
    uint32_t y;

    compile_type(b, d, b->t);
    fused = fuse_relu(b, i, d);
    refs[n++] = WHOLE(x);
    refs[n++] = WHOLE(compile_operand(b, i, w));
    if (node->weight[MODEL_BIAS] != MODEL_NONE)
        refs[n++] = WHOLE(compile_operand(b, i, MODEL_BIAS));
    y = compile_tensor(b, compile_bytes(b, &node->out));
    refs[n] = WHOLE(y);
    compile_emit(b, i, d, refs);
    if (fused) {
        b->value[i] = y;
        b->saved[i] = y;
    } else {
        compile_activate(b, i, y, true);
    }
}

uint32_t compile_bias_bit(const struct model_node *node)
{
    return node->weight[MODEL_BIAS] != MODEL_NONE ? KERN_BIAS : 0;
}

void compile_unactivate(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);
    enum kern_unary_kind kind;
    struct kern_desc d;
    float a;

    if (node->act == MODEL_ACT_LINEAR || b->act_done[i] || b->loss_act[i])
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

void compile_narrow(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t n = compile_elements(b, &node->out);

    if (compile_is_wide(b, i) && b->rc == SL_OK)
        b->grad[i] = compile_cast(b, i, b->grad[i], n, KERN_F32, b->t);
}

static void activation_forward(struct build *b, uint32_t i)
{
    compile_activate(b, i, b->value[b->model->nodes[i].input[0]], false);
}

// compile_unactivate has made dy what the input's gradient is.
const struct compile_layer compile_activation = {.forward = activation_forward,
                                                 .backward = compile_pass_on};
