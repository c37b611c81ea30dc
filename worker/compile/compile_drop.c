// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_drop.c -- dropout, of a layer or within one. Masks are
// a function of (seed, step, layer, element), so the same op goes back.
#include "common/base/rng.h"
#include "worker/compile/compile_build.h"

static void compile_drop_make_key(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t k = b->dropouts++;

    b->p->seeds[k] = sl_mix64(b->o->seed) ^ sl_mix64(~node->seed);
    b->aux[i] = compile_at(b, PROGRAM_KEYS, 2 * k * sizeof(int64_t),
                           2 * sizeof(int64_t));
}

void compile_drop(struct build *b, uint32_t i, unsigned nd, const int64_t *dim,
                  uint32_t x, uint32_t y)
{
    uint64_t elements = 1;
    struct kern_desc d;

    if (b->rc != SL_OK)
        return;
    if (b->aux[i] == NO_TENSOR)
        compile_drop_make_key(b, i);
    kern_desc_dropout(&d, (float)b->model->nodes[i].rate, i, nd, dim);
    for (unsigned k = 0; k < nd; k++)
        elements *= (uint64_t)dim[k];
    // A part of a batch has its mask behind those of the parts before it.
    d.u.dropout.first = elements / b->o->batch * b->o->first;
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(x), WHOLE(b->aux[i]), WHOLE(y)});
}

static void dropout_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t x = b->value[node->input[0]];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    b->value[i] = x;
    if (!b->o->train || node->rate <= 0)
        return;
    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_drop(b, i, nd, dim, x, b->value[i]);
}

// Applies the mask of the forward pass: it is a function of (seed, step, layer,
// element).
static void dropout_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    uint32_t dy = b->grad[i];
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, &node->out, dim);

    if (!compile_wants_grad(b, node, 0))
        return;
    if (b->aux[i] != NO_TENSOR)
        compile_drop(b, i, nd, dim, dy, dy);
    compile_pass(b, node->input[0], dy, true);
}

const struct compile_layer compile_dropout = {.forward = dropout_forward,
                                              .backward = dropout_backward};
