// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_layers.c -- the layers in the model's order, and in
// reverse.
//
// A forward function computes b->value of its node, and keeps what the backward
// pass will want: b->saved for the activation, b->aux for the layer.
//
// When node i's turn comes in the backward pass, all nodes that read it are
// done, so b->grad[i] is whole; it then belongs to node i alone, which may
// overwrite it or give it away. The gradient of a variable is written by
// exactly one op, straight into the flat gradient vector; the gradients that
// layers give a variable that they share are added there.
#include "worker/compile/compile_build.h"

#define IMAGE_CHANNELS 8

static const struct compile_layer *const layers[MODEL_LAYER_COUNT] = {
#define LAYER_ROW(code, layer) [MODEL_##code] = &layer,
    COMPILE_LAYER_MAP(LAYER_ROW)
#undef LAYER_ROW
};

static void layer_forward(struct build *b, uint32_t i)
{
    const struct compile_layer *layer = layers[b->model->nodes[i].type];

    if (layer == NULL)
        compile_fail(b, i, SL_ENOTSUP, "this worker does not know the layer");
    else if (layer->view != NULL)
        compile_view_forward(b, i, layer->view);
    else
        layer->forward(b, i);
}

static void layer_backward(struct build *b, uint32_t i)
{
    const struct compile_layer *layer = layers[b->model->nodes[i].type];

    if (layer->view != NULL)
        compile_view_backward(b, i, layer->view);
    else
        layer->backward(b, i);
}

bool compile_half_pays(struct build *b)
{
    double all = 0, half = 0;

    for (uint32_t i = 1; i < b->model->nodes_count; i++) {
        const struct compile_layer *layer = layers[b->model->nodes[i].type];
        struct kern_desc d, narrow;

        if (layer == NULL || layer->product == NULL)
            continue;
        layer->product(b, i, &d);
        narrow = d;
        kern_desc_dtype(&narrow, b->o->compute);
        all += kern_desc_products(&d);
        if (kern_score(b->dev, &narrow) >= kern_score(b->dev, &d))
            half += kern_desc_products(&d);
    }
    return half * 2 >= all;
}

// Pads an image's channels to a multiple of eight if convolutions read it in 16
// bits: libraries are fastest with those, and some support nothing else.
static void choose_channels(struct build *b)
{
    const struct model *m = b->model;
    const struct model_shape *in = &m->nodes[0].out;
    int64_t channels = (int64_t)in->dim[in->rank > 0 ? in->rank - 1 : 0];

    if (!b->device || b->t == KERN_F32 || in->rank != 3 ||
        channels % IMAGE_CHANNELS == 0)
        return;
    for (uint32_t i = 1; i < m->nodes_count; i++) {
        const struct model_node *node = &m->nodes[i];

        // Another layer that has the filter may read what is not padded.
        for (uint32_t k = 0; k < node->inputs; k++) {
            if (node->input[k] == 0 &&
                (node->type != MODEL_CONV2D || node->groups > 1 ||
                 m->variables[node->weight[MODEL_KERNEL]].calls > 1))
                return;
        }
    }
    b->x_channels =
        (channels + IMAGE_CHANNELS - 1) / IMAGE_CHANNELS * IMAGE_CHANNELS;
}

// Feeds the model with bytes, a quarter of the floats to read, keep and copy.
static void feed_bytes(struct build *b)
{
    const struct model_shape *in = &b->model->nodes[0].out;
    size_t elements = (size_t)compile_elements(b, in);
    int64_t dim[KERN_DIMS];
    unsigned nd = compile_dims(b, in, dim);
    uint32_t x = compile_at(b, PROGRAM_X, 0, elements);
    struct kern_desc d;

    kern_desc_image_u8(&d, nd, dim, (float)b->o->input_scale,
                       (float)b->o->input_offset);
    if (!b->model->nodes[0].ids)
        compile_type(b, &d, b->t);
    if (b->x_channels > 0) {
        elements = elements / in->dim[2] * (size_t)b->x_channels;
        kern_desc_image_pad(&d, b->x_channels);
    }
    b->value[0] = compile_tensor(
        b, elements * (b->model->nodes[0].ids ? b->real : b->act));
    compile_emit(b, 0, &d, (struct build_ref[]){WHOLE(x), WHOLE(b->value[0])});
}

// Makes the input's tensor.
static void forward_feed_input(struct build *b)
{
    const struct model_shape *in = &b->model->nodes[0].out;
    size_t elements = (size_t)compile_elements(b, in);
    int64_t dim[KERN_DIMS];
    uint32_t x;

    choose_channels(b);
    if (b->o->input == KERN_U8) {
        feed_bytes(b);
        return;
    }
    x = compile_at(b, PROGRAM_X, 0, elements * b->real);
    compile_dims(b, in, dim);
    if (b->model->nodes[0].ids)
        b->value[0] = x;
    else if (b->x_channels > 0)
        b->value[0] = compile_pad(b, 0, x, dim);
    else
        b->value[0] = compile_cast(b, 0, x, (int64_t)elements, KERN_F32, b->t);
}

void compile_forward(struct build *b)
{
    const struct model *m = b->model;

    forward_feed_input(b);
    compile_keep_exact(b, 0);
    for (uint32_t i = 1; i < m->nodes_count && b->rc == SL_OK; i++) {
        layer_forward(b, i);
        compile_keep_exact(b, i);
        compile_widen(b, i);
    }
}

// Writes the gradients of variables that are not trained: zeroes, before all
// else.
static void fill_frozen(struct build *b)
{
    const struct model *m = b->model;

    for (uint32_t i = 0; i < m->variables_count; i++) {
        const struct model_variable *v = &m->variables[i];
        struct kern_shape all =
            kern_shape(KERN_F32, 1, (int64_t[]){(int64_t)v->elements});
        struct kern_desc d;

        if (!m->nodes[v->node].frozen)
            continue;
        kern_desc_fill(&d, &all, 0);
        compile_emit(b, v->node, &d,
                     (struct build_ref[]){WHOLE(compile_at(
                         b, PROGRAM_GRADS, (size_t)v->first * b->real,
                         (size_t)v->elements * b->real))});
    }
}

void compile_backward(struct build *b)
{
    fill_frozen(b);
    for (uint32_t i = b->model->nodes_count; i-- > 1 && b->rc == SL_OK;) {
        if (b->grad[i] == NO_TENSOR || !b->model->nodes[i].learns)
            continue;
        compile_unactivate(b, i);
        compile_narrow(b, i);
        layer_backward(b, i);
    }
}
