// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_encode.c -- numbers that become indexes, and indexes
// that become rows of zeroes and ones.
//
// A comparison is the way back of a maximum of two (PICK), which gives what it
// passes on to the first of the largest. All of it is f32 whatever the layers
// compute in, and exact. No gradient goes through an index.
#include "worker/compile/compile_build.h"

static void encode_emit(struct build *b, uint32_t i, struct kern_desc *d,
                        const struct build_ref *refs)
{
    if (d->op == KERN_MATMUL)
        d->math = KERN_MATH_F32; // an index has more bits than TF32 keeps
    compile_emit(b, i, d, refs);
}

static uint32_t encode_tensor(struct build *b, int64_t count)
{
    return compile_tensor(b, (size_t)count * b->real);
}

// ---- f32 beside b->t

uint32_t compile_numbers(struct build *b, uint32_t i, uint32_t node)
{
    int64_t count = compile_elements(b, &b->model->nodes[node].out);

    if (b->exact[node] != NO_TENSOR)
        return b->exact[node];
    return compile_cast(b, i, b->value[node], count, b->t, KERN_F32);
}

void compile_keep_exact(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t count = compile_elements(b, &node->out);

    if (!node->ids)
        return;
    b->exact[i] = b->value[i];
    if (node->mixed)
        b->value[i] = compile_cast(b, i, b->exact[i], count, KERN_F32, b->t);
}

// ---- comparisons

// A matrix of `rows` numbers and `columns` numbers that are given.
struct encode_table {
    int64_t rows, columns;
};

// Returns x, one number for each row, or for each column, at all places.
static uint32_t encode_spread(struct build *b, uint32_t i,
                              const struct encode_table *t, uint32_t x,
                              bool by_row)
{
    struct kern_shape all =
        kern_shape(KERN_F32, 2, (int64_t[]){t->rows, t->columns});
    struct kern_shape one = all;
    uint32_t y = encode_tensor(b, t->rows * t->columns);
    struct kern_desc d;

    one.stride[0] = by_row;
    one.stride[1] = !by_row;
    kern_desc_axpby(&d, &one, &all, 1, 0);
    encode_emit(b, i, &d, (struct build_ref[]){WHOLE(x), WHOLE(y)});
    return y;
}

// Keeps y where x >= z or x is NaN, or with `second` where x < z; elsewhere it
// becomes 0.
static void encode_keep(struct build *b, uint32_t i,
                        const struct encode_table *t, uint32_t x, uint32_t z,
                        bool second, uint32_t y)
{
    struct kern_desc d;

    kern_desc_pick(&d, KERN_MAX, 2, second, 2,
                   (int64_t[]){t->rows, t->columns});
    encode_emit(b, i, &d,
                (struct build_ref[]){WHOLE(y), WHOLE(x), WHOLE(z), WHOLE(y)});
}

// Returns 1 where a row's number x is in the column's class, else 0. Classes
// begin at the numbers `from` and end before `to`; NO_TENSOR: they do not end.
static uint32_t within(struct build *b, uint32_t i,
                       const struct encode_table *t, uint32_t x, uint32_t from,
                       uint32_t to)
{
    int64_t count = t->rows * t->columns;
    struct kern_shape all = kern_shape(KERN_F32, 1, &count);
    uint32_t y = encode_tensor(b, count),
             each = encode_spread(b, i, t, x, true);
    struct kern_desc d;

    kern_desc_fill(&d, &all, 1);
    encode_emit(b, i, &d, (struct build_ref[]){WHOLE(y)});
    encode_keep(b, i, t, each, encode_spread(b, i, t, from, false), false, y);
    if (to != NO_TENSOR)
        encode_keep(b, i, t, each, encode_spread(b, i, t, to, false), true, y);
    return y;
}

// ---- the layers

// Returns numbers of a part that the node is given, from the `skip`th on.
static uint32_t part(struct build *b, uint32_t i, enum model_encode_part which,
                     size_t skip, int64_t count)
{
    const struct model_encode *e = &b->model->nodes[i].encode;

    return compile_given(b, i, model_encode_part(e, which) + skip,
                         (size_t)count);
}

// Returns the indexes of the `rows` numbers in x: of each, the sum of what its
// classes add.
static uint32_t encode_index(struct build *b, uint32_t i, uint32_t x,
                             int64_t rows)
{
    const struct model_encode *e = &b->model->nodes[i].encode;
    struct encode_table t = {rows, e->classes};
    uint32_t in, y;
    struct kern_desc d;

    if (e->classes == 0)
        return x;
    in =
        within(b, i, &t, x, part(b, i, MODEL_ENCODE_FROM, 0, t.columns),
               e->open ? NO_TENSOR : part(b, i, MODEL_ENCODE_TO, 0, t.columns));
    y = encode_tensor(b, rows);
    kern_desc_matmul(&d, rows, 1, t.columns, false, true, KERN_BIAS);
    encode_emit(b, i, &d,
                (struct build_ref[]){
                    WHOLE(in),
                    WHOLE(part(b, i, MODEL_ENCODE_INDEX, 0, t.columns)),
                    WHOLE(part(b, i, MODEL_ENCODE_OTHERWISE, 0, 1)), WHOLE(y)});
    return y;
}

// Makes one row of the `each` rows of a sample: of each column the largest, or
// the sum.
static uint32_t encode_sample(struct build *b, uint32_t i, uint32_t rows,
                              int64_t each)
{
    const struct model_encode *e = &b->model->nodes[i].encode;
    int64_t n = (int64_t)b->o->batch, columns = e->tokens, all = n * each;
    struct kern_window w = kern_window((int32_t)each, 1, 1, 1);
    struct kern_shape ones_shape = kern_shape(KERN_F32, 1, &all);
    uint32_t y = encode_tensor(b, n * columns), ones;
    struct kern_desc d;

    if (e->how == MODEL_MULTI_HOT) {
        kern_desc_pool(&d, KERN_POOL_FWD, KERN_POOL_MAX,
                       (int64_t[]){n, each, 1, columns}, &w, 0);
        encode_emit(b, i, &d, (struct build_ref[]){WHOLE(rows), WHOLE(y)});
        return y;
    }
    ones = encode_tensor(b, all);
    kern_desc_fill(&d, &ones_shape, 1);
    encode_emit(b, i, &d, (struct build_ref[]){WHOLE(ones)});
    kern_desc_matmul_batch(&d, n, 1, columns, each, false, false, 0);
    encode_emit(b, i, &d,
                (struct build_ref[]){WHOLE(ones), WHOLE(rows), WHOLE(y)});
    return y;
}

static void encoding_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    const struct model_encode *e = &node->encode;
    int64_t each = (int64_t)model_shape_elements(&node->in);
    struct encode_table t = {(int64_t)b->o->batch * each, e->tokens};
    int64_t count = compile_elements(b, &node->out);
    uint32_t y =
        encode_index(b, i, compile_numbers(b, i, node->input[0]), t.rows);

    if (e->how != MODEL_INDEX)
        y = within(b, i, &t, y, part(b, i, MODEL_ENCODE_TOKENS, 0, t.columns),
                   part(b, i, MODEL_ENCODE_TOKENS, 1, t.columns));
    if (e->how == MODEL_MULTI_HOT || e->how == MODEL_COUNT)
        y = encode_sample(b, i, y, each);
    b->value[i] = node->ids ? y : compile_cast(b, i, y, count, KERN_F32, b->t);
}

// Nothing at or before such a layer is trained, so there is no way back.
const struct compile_layer compile_encoding = {.forward = encoding_forward};
