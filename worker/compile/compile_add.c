// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_add.c -- gradients of a step's second micro-batch and
// on, and of the second layer and on that has a variable: they are added to
// those before.
//
// Only one kind of op adds to its output, so such a gradient is in the arena
// first. It is added when it is whole and still in the cache, and
// the arena's space is then free for the next one: a program that adds needs as
// much more memory as its largest variable has. The op that adds is the last
// that writes the variable's elements of the vector, which is what overlap.h
// looks for.
//
// The statistics of a part of a batch go the same way: the layer is normalized
// by them, and their share in the mean of all parts is put into the vector, or
// added. So do those of a layer that is called several times in a step: each
// call moves the moving ones, as each micro-batch does (trainer/base/grad.c).
#include "worker/compile/compile_build.h"

static const struct model_variable *variable(const struct build *b, uint32_t i,
                                             enum model_weight w)
{
    return &b->model->variables[b->model->nodes[i].weight[w]];
}

// Returns elements of a variable's gradient, where they lie in the vector.
static uint32_t compile_grad_elements(struct build *b, uint32_t i,
                                      enum model_weight w, int64_t first,
                                      int64_t elements)
{
    size_t at = (size_t)variable(b, i, w)->first + (size_t)first;

    return compile_at(b, PROGRAM_GRADS, at * b->real,
                      (size_t)elements * b->real);
}

static uint32_t in_vector(struct build *b, uint32_t i, enum model_weight w)
{
    return compile_grad_elements(b, i, w, 0,
                                 (int64_t)variable(b, i, w)->elements);
}

// Sets to = share from + kept to.
static void compile_grad_add_scaled(struct build *b, uint32_t i, int64_t count,
                                    double share, uint32_t from, uint32_t to,
                                    double kept)
{
    struct kern_shape flat = kern_shape(KERN_F32, 1, &count);
    struct kern_desc d;

    kern_desc_axpby(&d, &flat, &flat, (float)share, (float)kept);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(from), WHOLE(to)});
}

// Returns n / (n - 1) where the variance of n values moves the moving variance
// unbiased; else 1.
static double bessel_of(const struct build *b, uint32_t i, enum model_weight w)
{
    const struct model_node *node = &b->model->nodes[i];
    double n = (double)b->o->batch * (double)(model_shape_elements(&node->in) /
                                              node->in.dim[node->in.rank - 1]);

    return w == MODEL_MOVING_VARIANCE && node->unbiased && n > 1 ? n / (n - 1)
                                                                 : 1;
}

// Returns the weight of a statistic of one of several calls. With momentum k
// two calls make k^2 w + (1 - k) (k s + t) of w; a shard has the momentum k^2
// and makes k^2 w + (1 - k^2) pushed.
static double call_share(const struct build *b, uint32_t i, enum model_weight w)
{
    const struct model_variable *v = variable(b, i, w);

    // A frozen one, with a momentum of 1, is not moved.
    return v->calls > 1 && v->momentum < 1
               ? (1 - b->model->nodes[i].momentum) / (1 - v->momentum)
               : 1;
}

static double share_of(const struct build *b, uint32_t i, enum model_weight w)
{
    if (variable(b, i, w)->kind != MODEL_MOVING)
        return 1;
    return (b->o->share > 0 ? b->o->share : 1) * bessel_of(b, i, w) *
           call_share(b, i, w);
}

// Returns true if what comes is added to what is in the vector.
static bool grad_adds(const struct build *b, uint32_t i, enum model_weight w)
{
    return b->o->add || b->written[b->model->nodes[i].weight[w]];
}

// Returns true if an op does not write to the vector itself. The backward pass
// of each call reads that call's statistics.
static bool grad_is_apart(const struct build *b, uint32_t i,
                          enum model_weight w)
{
    const struct model_variable *v = variable(b, i, w);

    return grad_adds(b, i, w) || share_of(b, i, w) != 1 ||
           (v->kind == MODEL_MOVING && v->calls > 1);
}

uint32_t compile_grad(struct build *b, uint32_t i, enum model_weight w)
{
    uint32_t *own = &b->own[b->model->nodes[i].weight[w]];

    if (!grad_is_apart(b, i, w))
        return in_vector(b, i, w);
    if (*own == NO_TENSOR)
        *own = compile_tensor(b, (size_t)variable(b, i, w)->elements * b->real);
    return *own;
}

void compile_grad_add(struct build *b, uint32_t i, enum model_weight w,
                      double kept)
{
    uint32_t v = b->model->nodes[i].weight[w];

    if (grad_is_apart(b, i, w))
        compile_grad_add_scaled(b, i, (int64_t)variable(b, i, w)->elements,
                                share_of(b, i, w), compile_grad(b, i, w),
                                in_vector(b, i, w),
                                grad_adds(b, i, w) ? kept : 0);
    b->own[v] = NO_TENSOR;
    b->written[v] = true;
}

uint32_t compile_grad_rows(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements)
{
    if (b->o->add)
        return compile_tensor(b, (size_t)elements * b->real);
    return compile_grad_elements(b, i, w, first, elements);
}

void compile_grad_rows_add(struct build *b, uint32_t i, enum model_weight w,
                           int64_t first, int64_t elements, uint32_t t)
{
    compile_penalize(b, i, w, first, elements, t);
    if (b->o->add)
        compile_grad_add_scaled(b, i, elements, 1, t,
                                compile_grad_elements(b, i, w, first, elements),
                                1);
}
