// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_view.c -- layers that put elements in other places:
// each is a copy between two views. Rescaling is a copy that scales.
#include "worker/compile/compile_build.h"

static struct compile_view zero_padding(const struct build *b,
                                        const struct model_node *node,
                                        struct compile_view v)
{
    int64_t dim[KERN_DIMS];

    compile_image_dims(b, &node->out, dim);
    v.at =
        (size_t)((node->pad_before[0] * dim[2] + node->pad_before[1]) * dim[3]);
    v.to = kern_shape(b->t, 4, dim);
    for (int axis = 1; axis <= 2; axis++)
        v.to.dim[axis] = v.from.dim[axis];
    v.fills = true;
    return v;
}

const struct compile_layer compile_zero_padding = {.view = zero_padding};

static struct compile_view cropping(const struct build *b,
                                    const struct model_node *node,
                                    struct compile_view v)
{
    struct model_shape out = node->out;
    int64_t dim[KERN_DIMS];

    if (out.rank == 1) // a slice: a row of one channel
        out = (struct model_shape){3, {1, out.dim[0], 1}};
    compile_image_dims(b, &out, dim);
    v.to = kern_shape(b->t, 4, dim);
    v.from_at =
        (size_t)((node->pad_before[0] * v.from.dim[2] + node->pad_before[1]) *
                 v.from.dim[3]);
    for (int axis = 1; axis <= 2; axis++)
        v.from.dim[axis] = dim[axis];
    v.crops = true;
    return v;
}

const struct compile_layer compile_cropping = {.view = cropping};

// Each element comes to a window of the output: [n, h, size, w, size, c].
static struct compile_view up_sampling(const struct build *b,
                                       const struct model_node *node,
                                       struct compile_view v)
{
    int64_t c = v.from.dim[3], w = v.from.dim[2], h = v.from.dim[1];
    int64_t dim[6] = {b->o->batch, h, node->window[0], w, node->window[1], c};
    int64_t stride[6] = {h * w * c, w * c, 0, c, 0, 1};

    v.to = v.from = kern_shape(b->t, 6, dim);
    for (int axis = 0; axis < 6; axis++)
        v.from.stride[axis] = stride[axis];
    return v;
}

static void up_sampling_forward(struct build *b, uint32_t i)
{
    compile_view_forward(b, i, up_sampling);
}

// Each element gets the sum of its window, which is the mean times the window's
// elements.
static void up_sampling_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_window w = compile_window(node);
    int64_t dim[KERN_DIMS];
    struct kern_desc d;
    uint32_t dx;

    if (!compile_wants_grad(b, node, 0))
        return;
    dx = compile_target(b, node->input[0]);
    compile_image_dims(b, &node->out, dim);
    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG, dim, &w, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(b->grad[i]), WHOLE(dx)});
    compile_scale(b, i, dx, (float)node->window[0] * (float)node->window[1]);
    compile_took(b, node->input[0], dx);
}

const struct compile_layer compile_up_sampling = {
    .forward = up_sampling_forward, .backward = up_sampling_backward};

// Permutes axes: axis i of the output is axis order[i] of the input.
static struct compile_view permute(const struct build *b,
                                   const struct model_node *node,
                                   struct compile_view v)
{
    struct kern_shape in = v.from;
    int64_t dim[KERN_DIMS];

    v.to = kern_shape(b->t, compile_dims(b, &node->out, dim), dim);
    for (uint32_t i = 0; i < node->out.rank; i++) {
        v.from.dim[1 + i] = in.dim[1 + node->order[i]];
        v.from.stride[1 + i] = in.stride[1 + node->order[i]];
    }
    return v;
}

const struct compile_layer compile_permute = {.view = permute};

static struct compile_view rescaling(const struct build *b,
                                     const struct model_node *node,
                                     struct compile_view v)
{
    v.scale = (float)node->factor;
    v.offset = (float)node->offset;
    v.fills = v.adds = v.offset != 0;
    return v;
}

const struct compile_layer compile_rescaling = {.view = rescaling};

// ---- all views

static struct compile_view view_of(const struct build *b,
                                   const struct model_node *node,
                                   compile_view_fn *view)
{
    struct compile_view v = {.scale = 1};
    int64_t dim[KERN_DIMS];

    v.to = v.from = kern_shape(b->t, compile_dims(b, &node->in, dim), dim);
    return view(b, node, v);
}

// Returns the tensor of which node i is a view.
static uint32_t view_input(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    return node->ids ? compile_numbers(b, i, node->input[0])
                     : b->value[node->input[0]];
}

void compile_view_forward(struct build *b, uint32_t i, compile_view_fn *view)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_view v = view_of(b, node, view);
    size_t each = node->ids ? b->real : b->act;
    uint32_t x = view_input(b, i);
    uint32_t y = compile_tensor(b, (size_t)b->o->batch * each *
                                       model_shape_elements(&node->out));
    int64_t dim[KERN_DIMS];
    struct kern_shape all =
        kern_shape(b->t, compile_dims(b, &node->out, dim), dim);
    struct kern_desc d;

    if (node->ids)
        v.from.dtype = v.to.dtype = KERN_F32;
    if (v.fills) {
        kern_desc_fill(&d, &all, v.offset);
        compile_emit(b, i, &d, (struct build_ref[]){WHOLE(y)});
    }
    kern_desc_axpby(&d, &v.from, &v.to, v.scale, v.adds);
    compile_emit(b, i, &d,
                 (struct build_ref[]){{x, v.from_at * each}, {y, v.at * each}});
    b->value[i] = y;
}

void compile_view_backward(struct build *b, uint32_t i, compile_view_fn *view)
{
    const struct model_node *node = &b->model->nodes[i];
    struct compile_view v = view_of(b, node, view);
    struct kern_desc d;
    uint32_t dx;

    if (!compile_wants_grad(b, node, 0))
        return;
    dx = compile_target(b, node->input[0]);
    if (v.crops) {
        int64_t dim[KERN_DIMS];
        struct kern_shape all =
            kern_shape(b->t, compile_dims(b, &node->in, dim), dim);

        kern_desc_fill(&d, &all, 0);
        compile_emit(b, i, &d, (struct build_ref[]){WHOLE(dx)});
    }
    kern_desc_axpby(&d, &v.to, &v.from, v.scale, 0);
    compile_emit(b, i, &d,
                 (struct build_ref[]){{b->grad[i], v.at * b->act},
                                      {dx, v.from_at * b->act}});
    compile_took(b, node->input[0], dx);
}

// ---- concatenate, and views that copy nothing

// Returns the columns of input k of node i as [rows, columns].
static int64_t view_columns(const struct build *b, uint32_t i, uint32_t k,
                            int64_t rows)
{
    const struct model_node *nodes = b->model->nodes;

    return compile_elements(b, &nodes[nodes[i].input[k]].out) / rows;
}

// Describes the copy of columns of a tensor that is `all` wide to a tensor of
// their own, or back.
static void view_copy_columns(struct build *b, struct kern_desc *d,
                              int64_t rows, int64_t columns, int64_t all,
                              bool back)
{
    struct kern_shape own = kern_shape(b->t, 2, (int64_t[]){rows, columns});
    struct kern_shape part = own;

    part.stride[0] = all;
    kern_desc_axpby(d, back ? &own : &part, back ? &part : &own, 1, 0);
}

uint32_t compile_join(struct build *b, uint32_t i, int64_t rows)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t all = 0;
    size_t at = 0;
    uint32_t y;

    if (node->inputs == 1)
        return b->value[node->input[0]];
    for (uint32_t k = 0; k < node->inputs; k++)
        all += view_columns(b, i, k, rows);
    y = compile_tensor(b, (size_t)(rows * all) * b->act);
    for (uint32_t k = 0; k < node->inputs; k++) {
        int64_t columns = view_columns(b, i, k, rows);
        struct kern_desc d;

        view_copy_columns(b, &d, rows, columns, all, true);
        compile_emit(b, i, &d,
                     (struct build_ref[]){WHOLE(b->value[node->input[k]]),
                                          {y, at * b->act}});
        at += (size_t)columns;
    }
    return y;
}

void compile_split(struct build *b, uint32_t i, int64_t rows, uint32_t dy)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t all = 0;
    size_t at = 0;

    if (node->inputs == 1) {
        compile_pass(b, node->input[0], dy, true);
        return;
    }
    for (uint32_t k = 0; k < node->inputs; k++)
        all += view_columns(b, i, k, rows);
    for (uint32_t k = 0; k < node->inputs; k++) {
        int64_t columns = view_columns(b, i, k, rows);
        struct kern_desc d;
        uint32_t dx;

        if (compile_wants_grad(b, node, k)) {
            dx = compile_target(b, node->input[k]);
            view_copy_columns(b, &d, rows, columns, all, false);
            compile_emit(b, i, &d,
                         (struct build_ref[]){{dy, at * b->act}, WHOLE(dx)});
            compile_took(b, node->input[k], dx);
        }
        at += (size_t)columns;
    }
}

// Returns the rows of a concatenation along the last axis.
static int64_t concatenate_rows(const struct build *b, uint32_t i)
{
    const struct model_shape *out = &b->model->nodes[i].out;

    return (int64_t)(b->o->batch * model_shape_elements(out) /
                     out->dim[out->rank - 1]);
}

static void concatenate_forward(struct build *b, uint32_t i)
{
    b->value[i] = compile_join(b, i, concatenate_rows(b, i));
}

static void concatenate_backward(struct build *b, uint32_t i)
{
    compile_split(b, i, concatenate_rows(b, i), b->grad[i]);
}

const struct compile_layer compile_concatenate = {
    .forward = concatenate_forward, .backward = concatenate_backward};

// The elements stay where they are.
static void reshape_forward(struct build *b, uint32_t i)
{
    b->value[i] = view_input(b, i);
}

const struct compile_layer compile_reshape = {.forward = reshape_forward,
                                              .backward = compile_pass_on};
