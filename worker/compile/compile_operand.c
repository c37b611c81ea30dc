// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_operand.c -- parameters in the form that products
// read, and their gradients back.
//
// The flat vectors are f32, and a variable may begin at any element. A product
// in 16 bits reads 16 bits; on a device it reads operands that begin at a
// multiple of KERN_ALIGN; over an image with padded channels it reads a filter
// that has them too. Where the variable itself does not fit, its product gets a
// copy in the arena, made once per step before its first use. Its gradient goes
// the same way back: to f32, unpadded, and divided by the loss scale.
//
// So it is the copying op that reads a variable's parameters and the last op
// of compile_grad_home that writes its gradient: overlap.h sees it by itself.
#include <string.h>

#include "worker/compile/compile_build.h"

bool compile_is_wide(const struct build *b, uint32_t i)
{
    const struct model *m = b->model;

    if (b->t == KERN_F32 || m->nodes[i].users != 1)
        return false;
    for (uint32_t k = 0; k < m->outputs; k++)
        if (m->output[k] == i)
            return true;
    return false;
}

enum kern_dtype compile_dtype(const struct build *b, uint32_t i)
{
    return compile_is_wide(b, i) ? KERN_F32 : b->t;
}

void compile_type(struct build *b, struct kern_desc *d, enum kern_dtype t)
{
    bool product = d->op == KERN_MATMUL || d->op == KERN_CONV_FWD ||
                   d->op == KERN_CONV_DGRAD || d->op == KERN_CONV_WGRAD;

    if (t != KERN_F32)
        kern_desc_dtype(d, t);
    else if (product)
        d->math = (uint8_t)b->o->math;
}

// Copies x to y, from one dtype to another.
static void operand_copy(struct build *b, uint32_t node, uint32_t x,
                         const struct kern_shape *from, uint32_t y,
                         const struct kern_shape *to)
{
    struct kern_desc d;

    kern_desc_axpby(&d, from, to, 1, 0);
    compile_emit(b, node, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
}

uint32_t compile_cast(struct build *b, uint32_t node, uint32_t x, int64_t count,
                      enum kern_dtype from, enum kern_dtype to)
{
    struct kern_shape in = kern_shape(from, 1, &count);
    struct kern_shape out = kern_shape(to, 1, &count);
    uint32_t y;

    if (from == to)
        return x;
    y = compile_tensor(b, kern_shape_bytes(&out));
    operand_copy(b, node, x, &in, y, &out);
    return y;
}

// ---- operands that need a copy

static int64_t elements(const struct build *b, uint32_t i, enum model_weight w)
{
    uint32_t v = b->model->nodes[i].weight[w];

    return (int64_t)b->model->variables[v].elements;
}

static bool is_askew(const struct build *b, uint32_t t)
{
    return b->device && b->rc == SL_OK && b->tensors[t].offset % KERN_ALIGN > 0;
}

static bool is_padded(const struct build *b, uint32_t i, enum model_weight w)
{
    return w == MODEL_KERNEL && b->x_channels > 0 &&
           b->model->nodes[i].input[0] == 0;
}

void compile_conv_dims(const struct build *b, const struct model_node *node,
                       int64_t dim[KERN_DIMS])
{
    compile_dims(b, &node->in, dim);
    if (b->x_channels > 0 && node->input[0] == 0)
        dim[3] = b->x_channels;
}

// Returns a dense f32 shape of the same dims.
static struct kern_shape dense_like(const struct kern_shape *s)
{
    return kern_shape(KERN_F32, s->nd, s->dim);
}

// Returns the view of a padded tensor that is without the padding.
static struct kern_shape operand_without_padding(struct kern_shape all,
                                                 int64_t channels)
{
    all.dim[3] = channels;
    return all;
}

uint32_t compile_pad(struct build *b, uint32_t node, uint32_t x,
                     const int64_t dim[4])
{
    int64_t wide[4] = {dim[0], dim[1], dim[2], b->x_channels};
    struct kern_shape all = kern_shape(b->t, 4, wide);
    struct kern_shape view = operand_without_padding(all, dim[3]),
                      plain = dense_like(&view);
    uint32_t t = compile_tensor(b, kern_shape_bytes(&all));
    struct kern_desc d;

    kern_desc_fill(&d, &all, 0);
    compile_emit(b, node, &d, (struct build_ref[]){WHOLE(t)});
    operand_copy(b, node, x, &plain, t, &view);
    return t;
}

static void filter_dims(const struct build *b, uint32_t i, int64_t dim[4])
{
    const struct model_node *node = &b->model->nodes[i];
    struct kern_window win = compile_window(node);

    dim[0] = compile_channels(&node->out);
    dim[1] = win.size[0];
    dim[2] = win.size[1];
    dim[3] = (int64_t)node->in.dim[2];
}

// Returns the shape of a filter with padded channels.
static struct kern_shape padded(const struct build *b, uint32_t i)
{
    int64_t dim[4];

    filter_dims(b, i, dim);
    dim[3] = b->x_channels;
    return kern_shape(b->t, 4, dim);
}

static uint32_t aligned(struct build *b, uint32_t i, uint32_t t, int64_t n)
{
    struct kern_shape from = kern_shape(KERN_F32, 1, &n);
    struct kern_shape to = kern_shape(b->t, 1, &n);
    uint32_t y = compile_tensor(b, kern_shape_bytes(&to));

    operand_copy(b, i, t, &from, y, &to);
    return y;
}

uint32_t compile_operand(struct build *b, uint32_t i, enum model_weight w)
{
    uint32_t *kept = &b->copy[b->model->nodes[i].weight[w]];
    int64_t n = elements(b, i, w), dim[4];
    uint32_t t;

    if (*kept != NO_TENSOR)
        return *kept;
    t = compile_weight(b, &b->model->nodes[i], w, PROGRAM_PARAMS);
    if (is_padded(b, i, w)) {
        filter_dims(b, i, dim);
        t = compile_pad(b, i, t, dim);
    } else if (is_askew(b, t)) {
        t = aligned(b, i, t, n);
    } else {
        t = compile_cast(b, i, t, n, KERN_F32, b->t);
    }
    *kept = t;
    return t;
}

// ---- gradients

uint32_t compile_grad_at(struct build *b, uint32_t i, enum model_weight w,
                         enum kern_dtype given)
{
    uint32_t home = compile_grad(b, i, w);
    size_t count = (size_t)elements(b, i, w);
    struct kern_shape all;

    if (is_padded(b, i, w)) {
        all = padded(b, i);
        count = (size_t)kern_shape_count(&all);
    } else if (given == KERN_F32 && !is_askew(b, home)) {
        return home;
    }
    return compile_tensor(b, count * kern_dtype_bytes(given));
}

static bool is_home(const struct build *b, uint32_t t, uint32_t home)
{
    return b->rc != SL_OK || t == home || b->tensors[t].place == PROGRAM_GRADS;
}

// Sets to = from / loss scale.
static void unscale(struct build *b, uint32_t i, int64_t count, uint32_t from,
                    enum kern_dtype given, uint32_t to)
{
    uint32_t inverse = compile_at(b, PROGRAM_UNSCALE, 0, sizeof(float));
    // Its counts are not used.
    uint32_t stats = compile_tensor(b, 2 * sizeof(double));
    struct kern_desc d;

    kern_desc_unscale_check(&d, 1, &count, 0);
    d.io[0].dtype = (uint8_t)given;
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(from), WHOLE(inverse), WHOLE(to),
                                      WHOLE(stats)});
}

void compile_grad_home(struct build *b, uint32_t i, enum model_weight w,
                       uint32_t t, enum kern_dtype given)
{
    uint32_t home = compile_grad(b, i, w);
    int64_t n = elements(b, i, w);
    struct kern_shape to = kern_shape(KERN_F32, 1, &n), from = to;

    if (is_padded(b, i, w)) {
        from = operand_without_padding(padded(b, i),
                                       (int64_t)b->model->nodes[i].in.dim[2]);
        to = dense_like(&from);
    }
    from.dtype = (uint8_t)given;
    if (!is_home(b, t, home) && (!b->scaled || is_padded(b, i, w))) {
        operand_copy(b, i, t, &from, home, &to);
        t = home;
        given = KERN_F32;
    }
    if (b->scaled)
        unscale(b, i, n, t, given, home);
    if (!b->written[b->model->nodes[i].weight[w]])
        compile_penalize(b, i, w, 0, n, home);
    compile_grad_add(b, i, w, 1);
}

enum kern_dtype compile_grad_dtype(struct build *b, struct kern_desc *with,
                                   struct kern_desc *without)
{
    struct kern_desc wide = *without;

    if (b->t == KERN_F32)
        return KERN_F32;
    wide.io[wide.inputs].dtype = KERN_F32;
    if (!compile_fuses(b, &wide, without))
        return b->t;
    with->io[with->inputs].dtype = KERN_F32;
    without->io[without->inputs].dtype = KERN_F32;
    return KERN_F32;
}

size_t compile_value_bytes(const struct build *b, uint32_t i)
{
    size_t bytes = compile_is_wide(b, i) ? b->real : b->act;

    return (size_t)compile_elements(b, &b->model->nodes[i].out) * bytes;
}

// ---- numbers that layers are given

size_t compile_given_begin(const struct build *b)
{
    return model_given_aligned(2 * b->constants + b->mask * b->mask);
}

uint32_t compile_given(struct build *b, uint32_t i, size_t first, size_t count)
{
    size_t at = compile_given_begin(b) + first;

    for (uint32_t k = 1; k < i; k++)
        at += b->model->nodes[k].given_count;
    return compile_at(b, PROGRAM_CONSTANTS, at * b->real, count * b->real);
}
