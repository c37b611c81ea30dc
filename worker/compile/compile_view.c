// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_view.c -- layers that put elements in other places:
// each is a copy between two views. Rescaling is a copy that scales.
#include "worker/compile/compile_build.h"

// A layer as a copy from a view of its input to a view of its output, both of
// the same dimensions, `at` elements behind the output's start.
struct layer_view {
    struct kern_shape from, to;
    size_t at;
    float scale, offset; // offset: the output's elements before the copy
    bool adds;           // the copy adds to `offset`
};

static void zero_padding(struct layer_view *v, const struct build *b,
                         const struct model_node *node)
{
    int64_t dim[KERN_DIMS];

    compile_dims(b, &node->out, dim);
    v->at =
        (size_t)((node->pad_before[0] * dim[2] + node->pad_before[1]) * dim[3]);
    v->to = kern_shape(b->t, 4, dim);
    for (int axis = 1; axis <= 2; axis++)
        v->to.dim[axis] = v->from.dim[axis];
}

// Permutes axes: axis i of the output is axis order[i] of the input.
static void permute(struct layer_view *v, const struct build *b,
                    const struct model_node *node)
{
    struct kern_shape in = v->from;
    int64_t dim[KERN_DIMS];

    v->to = kern_shape(b->t, compile_dims(b, &node->out, dim), dim);
    for (uint32_t i = 0; i < node->out.rank; i++) {
        v->from.dim[1 + i] = in.dim[1 + node->order[i]];
        v->from.stride[1 + i] = in.stride[1 + node->order[i]];
    }
}

static struct layer_view layer_view_of(const struct build *b,
                                       const struct model_node *node)
{
    struct layer_view v = {.scale = 1};
    int64_t dim[KERN_DIMS];

    v.to = v.from = kern_shape(b->t, compile_dims(b, &node->in, dim), dim);
    if (node->type == MODEL_ZERO_PADDING2D) {
        zero_padding(&v, b, node);
    } else if (node->type == MODEL_PERMUTE) {
        permute(&v, b, node);
    } else {
        v.scale = (float)node->factor;
        v.offset = (float)node->offset;
        v.adds = v.offset != 0;
    }
    return v;
}

void compile_view_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct layer_view v = layer_view_of(b, node);
    uint32_t y = compile_tensor(b, compile_bytes(b, &node->out));
    int64_t dim[KERN_DIMS];
    struct kern_shape all =
        kern_shape(b->t, compile_dims(b, &node->out, dim), dim);
    struct kern_desc d;

    if (v.adds || node->type == MODEL_ZERO_PADDING2D) {
        kern_desc_fill(&d, &all, v.offset);
        compile_emit(b, i, &d, (struct build_ref[]){WHOLE(y)});
    }
    kern_desc_axpby(&d, &v.from, &v.to, v.scale, v.adds);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(b->value[node->input[0]]),
                                      {y, v.at * b->act}});
    b->value[i] = y;
}

void compile_view_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct layer_view v = layer_view_of(b, node);
    struct kern_desc d;
    uint32_t dx;

    if (!compile_wants_grad(b, node, 0))
        return;
    dx = compile_target(b, node->input[0]);
    kern_desc_axpby(&d, &v.to, &v.from, v.scale, 0);
    compile_emit(b, i, &d,
                 (struct build_ref[]){{b->grad[i], v.at * b->act}, WHOLE(dx)});
    compile_took(b, node->input[0], dx);
}
