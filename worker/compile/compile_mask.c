// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_mask.c -- which steps of a sequence count, as numbers:
// masking, and what the layers behind a mask compute with it.
//
// The node that says which steps count has two tensors [samples, steps], f32:
// 1 where a step counts and 0 elsewhere, and 1 less that. They are made where
// the first layer asks for them.
#include "worker/compile/compile_build.h"

enum { COUNTS, RESTS, FACTORS }; // in b->kept of that node

#define FAR 1e30F // what differs from 0 is beyond 1 after it

static void mask_emit(struct build *b, uint32_t i, struct kern_desc *d,
                      const struct build_ref *refs)
{
    compile_type(b, d, KERN_F32);
    compile_emit(b, i, d, refs);
}

static int64_t mask_steps(const struct build *b, uint32_t node)
{
    return (int64_t)b->model->nodes[node].out.dim[0];
}

// Returns the number of steps of all samples.
static int64_t mask_rows(const struct build *b, uint32_t node)
{
    return (int64_t)b->o->batch * mask_steps(b, node);
}

static uint32_t mask_tensor(struct build *b, int64_t count)
{
    return compile_tensor(b, (size_t)count * b->real);
}

// Turns the `count` numbers of x into 0 where they are 0, and elsewhere into 1
// or, of negative ones, -1.
static void mask_sign(struct build *b, uint32_t i, uint32_t x, int64_t count)
{
    struct kern_shape all = kern_shape(KERN_F32, 1, &count);
    struct kern_desc d;

    kern_desc_axpby(&d, &all, &all, FAR, 0);
    mask_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(x)});
    kern_desc_unary(&d, KERN_UNARY_FWD, KERN_UNARY_HARD_TANH, 0, 1, &count);
    mask_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(x)});
}

// Sets y, of `count` numbers, to a x + offset.
static void mask_line(struct build *b, uint32_t i, float a, uint32_t x,
                      float offset, uint32_t y, int64_t count,
                      enum kern_dtype from)
{
    struct kern_shape to = kern_shape(KERN_F32, 1, &count);
    struct kern_shape of = kern_shape(from, 1, &count);
    struct kern_desc d;

    if (offset != 0) {
        kern_desc_fill(&d, &to, offset);
        mask_emit(b, i, &d, (struct build_ref[]){WHOLE(y)});
    }
    kern_desc_axpby(&d, &of, &to, a, offset != 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
}

static void mask_multiply(struct build *b, uint32_t i, uint32_t x, uint32_t y,
                          uint32_t z, int64_t count, enum kern_dtype t)
{
    struct kern_desc d;

    kern_desc_binary(&d, KERN_MUL, 2, 1, &count);
    compile_type(b, &d, t);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(y), WHOLE(z)});
}

// Sets y to x, both of the type and channels of the input of node i, each of n
// rows times its number in by [n].
static void mask_weigh(struct build *b, uint32_t i, uint32_t x, uint32_t by,
                       uint32_t y, int64_t n)
{
    int64_t c = compile_channels(&b->model->nodes[i].in);
    struct kern_shape all = kern_shape(b->t, 2, (int64_t[]){n, c});
    struct kern_shape row = kern_shape(KERN_F32, 2, (int64_t[]){n, c});
    uint32_t each = compile_tensor(b, (size_t)(n * c) * b->act);
    struct kern_desc d;

    row.stride[0] = 1;
    row.stride[1] = 0;
    kern_desc_axpby(&d, &row, &all, 1, 0);
    compile_emit(b, i, &d, (struct build_ref[]){WHOLE(by), WHOLE(each)});
    mask_multiply(b, i, x, each, y, n * c, b->t);
}

// Sets y [rows] to the means of x [rows, columns].
static void mask_means(struct build *b, uint32_t i, uint32_t x, int64_t rows,
                       int64_t columns, uint32_t y)
{
    struct kern_window all = kern_window((int32_t)columns, 1, 1, 1);
    struct kern_desc d;

    kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_AVG,
                   (int64_t[]){rows, columns, 1, 1}, &all, 0);
    mask_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
}

// Returns 1 for each step of which a feature is not the value that masks, of
// the input of the masking `of`.
static uint32_t mask_of_features(struct build *b, uint32_t i, uint32_t of)
{
    const struct model_node *node = &b->model->nodes[of];
    int64_t rows = mask_rows(b, of);
    int64_t features = compile_channels(&node->in), count = rows * features;
    uint32_t apart = mask_tensor(b, count), any = mask_tensor(b, rows);

    mask_line(b, i, 1, b->value[node->input[0]], (float)-node->mask_value,
              apart, count, b->t);
    mask_sign(b, i, apart, count);
    mask_multiply(b, i, apart, apart, apart, count, KERN_F32);
    mask_means(b, i, apart, rows, features, any);
    mask_sign(b, i, any, rows);
    return any;
}

// Returns 1 for each number of the embedding `of` that is not 0.
static uint32_t mask_of_numbers(struct build *b, uint32_t i, uint32_t of)
{
    const struct model_node *node = &b->model->nodes[of];
    int64_t count = mask_rows(b, of);
    uint32_t y = mask_tensor(b, count);

    mask_line(b, i, 1, compile_numbers(b, i, node->input[0]), 0, y, count,
              KERN_F32);
    mask_sign(b, i, y, count);
    return y;
}

uint32_t compile_mask(struct build *b, uint32_t i, uint32_t of, bool rests)
{
    uint32_t *counts = compile_kept(b, of, COUNTS);
    uint32_t *rest = compile_kept(b, of, RESTS);
    int64_t count = mask_rows(b, of);

    if (*counts == NO_TENSOR)
        *counts = b->model->nodes[of].type == MODEL_MASKING
                      ? mask_of_features(b, i, of)
                      : mask_of_numbers(b, i, of);
    if (rests && *rest == NO_TENSOR) {
        *rest = mask_tensor(b, count);
        mask_line(b, i, -1, *counts, 1, *rest, count, KERN_F32);
    }
    return rests ? *rest : *counts;
}

void compile_mask_rows(struct build *b, uint32_t i, uint32_t of, uint32_t x,
                       uint32_t y)
{
    mask_weigh(b, i, x, compile_mask(b, i, of, false), y, mask_rows(b, of));
}

// Returns, for each sample, the number of its steps by that of the steps that
// count; 0 of a sample without any.
static uint32_t mask_factor(struct build *b, uint32_t i, uint32_t of)
{
    int64_t n = (int64_t)b->o->batch, steps = mask_steps(b, of);
    uint32_t *kept = compile_kept(b, of, FACTORS), count, power, one, zero;
    struct kern_desc d;

    if (*kept != NO_TENSOR)
        return *kept;
    count = mask_tensor(b, n);
    power = mask_tensor(b, n);
    one = mask_tensor(b, n);
    zero = mask_tensor(b, n);
    *kept = mask_tensor(b, n);
    // The mean times the steps; x / sqrt(x^4) is 1 / x.
    mask_means(b, i, compile_mask(b, i, of, false), n, steps, power);
    mask_line(b, i, (float)steps, power, 0, count, n, KERN_F32);
    mask_multiply(b, i, count, count, power, n, KERN_F32);
    mask_multiply(b, i, power, power, power, n, KERN_F32);
    mask_line(b, i, 0, count, 1, one, n, KERN_F32);
    mask_line(b, i, -1, one, 1, zero, n, KERN_F32);
    kern_desc_norm(&d, KERN_BN_INFER, 2, (int64_t[]){1, n}, 1e-12F, 0);
    mask_emit(b, i, &d,
              (struct build_ref[]){WHOLE(count), WHOLE(one), WHOLE(zero),
                                   WHOLE(zero), WHOLE(power), WHOLE(*kept)});
    mask_line(b, i, (float)steps, *kept, 0, power, n, KERN_F32);
    return *kept = power;
}

void compile_mask_mean(struct build *b, uint32_t i, uint32_t of, uint32_t y)
{
    mask_weigh(b, i, y, mask_factor(b, i, of), y, (int64_t)b->o->batch);
}

// ---- masking

static void masking_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    b->value[i] = compile_tensor(b, compile_bytes(b, &node->out));
    compile_mask_rows(b, i, i, b->value[node->input[0]], b->value[i]);
}

static void masking_backward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];

    if (!compile_wants_grad(b, node, 0))
        return;
    compile_mask_rows(b, i, i, b->grad[i], b->grad[i]);
    compile_pass(b, node->input[0], b->grad[i], true);
}

const struct compile_layer compile_masking = {.forward = masking_forward,
                                              .backward = masking_backward};
