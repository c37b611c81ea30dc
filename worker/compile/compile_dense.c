// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_dense.c -- dense layers; large ones are cut by their
// units.
//
// Most bytes of many models lie in one dense layer. As one product, none of its
// gradient could leave before all of it was computed, and no part of the next
// step's could be computed before the last of its parameters had come. A part
// of the units is a range of the kernel's rows, so of the flat vectors, and
// each number of a part is the same sum as it was in the whole.
//
// Products want dense tensors: a part of y or dy, which has scattered columns,
// is copied; that costs nothing against a product.
#include "worker/compile/compile_build.h"

// A dense layer's products: [rows, k] by [units, k]. A large layer is computed
// in parts of `part` units, which are rows of its kernel: a shard's part of it
// is then ready before the rest, and needed after the rest was used.
struct dense_dims {
    int64_t rows, k, units;
    int64_t part; // >= units: not cut
};

#define PART_BYTES ((int64_t)1 << 20) // about a shard of such a model
#define PARTS_LEAST 4
#define PARTS_MOST 16     // each part reads all of x
#define UNITS_LEAST 64    // products of few units are slow
#define UNITS_MULTIPLE 16 // floats of a vector register

// Returns the units per part for a kernel of `units` rows.
static int64_t part_units(int64_t part_bytes, int64_t unit_bytes, int64_t units)
{
    int64_t part = part_bytes / unit_bytes, least = units / PARTS_MOST;

    if (units * unit_bytes < PARTS_LEAST * part_bytes)
        return units;
    if (part < least)
        part = least;
    if (part < UNITS_LEAST)
        part = UNITS_LEAST;
    return (part + UNITS_MULTIPLE - 1) / UNITS_MULTIPLE * UNITS_MULTIPLE;
}

// Returns the dimensions of node i's products.
static struct dense_dims dense_dims_of(const struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t k = (int64_t)node->in.dim[node->in.rank - 1];
    int64_t units = (int64_t)node->out.dim[node->out.rank - 1];
    int64_t elements = compile_elements(b, &node->in);
    int64_t bytes = b->o->part_bytes ? (int64_t)b->o->part_bytes : PART_BYTES;
    struct dense_dims m = {elements / k, k, units, units};

    // A device gets all ops at once; 16 bits are converted in one go, and
    // scaled gradients unscaled. A kernel that layers share leaves when the
    // last of them is done.
    if (!b->device && b->t == KERN_F32 && !b->scaled && b->o->train &&
        b->model->variables[node->weight[MODEL_KERNEL]].calls == 1)
        m.part = part_units(bytes, k * (int64_t)sizeof(float), units);
    return m;
}

// Returns the units of the part that begins at `first`.
static int64_t dense_part_units(const struct dense_dims *m, int64_t first)
{
    return m->units - first < m->part ? m->units - first : m->part;
}

// Returns the shape of columns of a [rows, units] tensor in a space where they
// lie together.
static struct kern_shape together(const struct dense_dims *m, int64_t units)
{
    return kern_shape(KERN_F32, 2, (int64_t[]){m->rows, units});
}

static uint32_t dense_units_tensor(struct build *b, const struct dense_dims *m,
                                   int64_t units)
{
    return compile_tensor(b, (size_t)(m->rows * units) * b->real);
}

// Returns the shape of such columns within the whole tensor.
static struct kern_shape columns(const struct dense_dims *m, int64_t units)
{
    struct kern_shape s = together(m, m->units);

    s.dim[1] = units;
    return s;
}

static struct build_ref dense_ref_behind(const struct build *b, uint32_t t,
                                         int64_t elements)
{
    return (struct build_ref){t, (size_t)elements * b->real};
}

// Returns elements of a variable as a tensor of their own, so that an op's args
// name just those.
static uint32_t dense_variable_elements(struct build *b, uint32_t vector,
                                        int64_t first, int64_t elements)
{
    struct tensor t;

    if (b->rc != SL_OK)
        return vector;
    t = b->tensors[vector];
    return compile_at(b, t.place, t.offset + (size_t)first * b->real,
                      (size_t)elements * b->real);
}

// Returns a copy of that part's columns of y [rows, m->units].
static uint32_t dense_part(struct build *b, uint32_t node,
                           const struct dense_dims *m, uint32_t y,
                           int64_t first)
{
    int64_t units = dense_part_units(m, first);
    struct kern_shape from = columns(m, units), to = together(m, units);
    uint32_t part = dense_units_tensor(b, m, units);
    struct kern_desc d;

    kern_desc_axpby(&d, &from, &to, 1, 0);
    compile_emit(
        b, node, &d,
        (struct build_ref[]){dense_ref_behind(b, y, first), WHOLE(part)});
    return part;
}

static void dense_put_part(struct build *b, uint32_t i,
                           const struct dense_dims *m, uint32_t x, uint32_t y,
                           int64_t first)
{
    int64_t units = dense_part_units(m, first);
    uint32_t w = dense_variable_elements(b, compile_operand(b, i, MODEL_KERNEL),
                                         first * m->k, units * m->k);
    struct kern_shape from = together(m, units), to = columns(m, units);
    uint32_t part = dense_units_tensor(b, m, units);
    struct kern_desc d;

    kern_desc_matmul(&d, m->rows, units, m->k, false, true, 0);
    compile_type(b, &d, b->t);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(x), WHOLE(w), WHOLE(part)});
    kern_desc_axpby(&d, &from, &to, 1, 0);
    compile_emit(
        b, i, &d,
        (struct build_ref[]){WHOLE(part), dense_ref_behind(b, y, first)});
}

// Adds the bias to each row of y, last: it lies behind all of the kernel.
static void dense_add_bias(struct build *b, uint32_t i,
                           const struct dense_dims *m, uint32_t y)
{
    struct kern_shape all = together(m, m->units), bias = all;
    struct kern_desc d;

    bias.stride[0] = 0;
    kern_desc_axpby(&d, &bias, &all, 1, 1);
    compile_emit(b, i, &d,
                 (struct build_ref[]){WHOLE(compile_operand(b, i, MODEL_BIAS)),
                                      WHOLE(y)});
}

// Computes y = x kernel^T in parts, adds the bias, and returns y.
static uint32_t dense_in_parts(struct build *b, uint32_t i,
                               const struct dense_dims *m, uint32_t x)
{
    uint32_t y = dense_units_tensor(b, m, m->units);

    for (int64_t at = 0; at < m->units; at += m->part)
        dense_put_part(b, i, m, x, y, at);
    if (b->model->nodes[i].weight[MODEL_BIAS] != MODEL_NONE)
        dense_add_bias(b, i, m, y);
    return y;
}

static void dense_forward(struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    struct dense_dims m = dense_dims_of(b, i);
    struct kern_desc d;

    if (m.part < m.units) {
        compile_activate(
            b, i, dense_in_parts(b, i, &m, b->value[node->input[0]]), true);
        return;
    }
    kern_desc_matmul(&d, m.rows, m.units, m.k, false, true,
                     compile_bias_bit(node));
    compile_weighted(b, i, &d, b->value[node->input[0]], MODEL_KERNEL);
}

// Computes dw and db of one part of the units; dy is copied so that the part's
// columns lie together.
static void dense_part_grads(struct build *b, uint32_t i,
                             const struct dense_dims *m, int64_t first,
                             bool bias)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t units = dense_part_units(m, first);
    uint32_t part = dense_part(b, i, m, b->grad[i], first);
    uint32_t dw =
        compile_grad_rows(b, i, MODEL_KERNEL, first * m->k, units * m->k);
    uint32_t db = NO_TENSOR;
    struct build_ref refs[4];
    struct kern_desc d;
    unsigned n = 0;

    kern_desc_matmul(&d, units, m->k, m->rows, true, false,
                     bias ? KERN_BGRAD : 0);
    compile_type(b, &d, b->t);
    refs[n++] = WHOLE(part);
    refs[n++] = WHOLE(b->value[node->input[0]]);
    refs[n++] = WHOLE(dw);
    if (bias) {
        db = compile_grad_rows(b, i, MODEL_BIAS, first, units);
        refs[n++] = WHOLE(db);
    }
    compile_emit(b, i, &d, refs);
    compile_grad_rows_add(b, i, MODEL_KERNEL, first * m->k, units * m->k, dw);
    if (bias)
        compile_grad_rows_add(b, i, MODEL_BIAS, first, units, db);
}

// Computes the gradients of a large layer in parts, so that the first leave
// while the last are computed.
static void dense_grads_in_parts(struct build *b, uint32_t i,
                                 const struct dense_dims *m,
                                 struct kern_desc *with,
                                 struct kern_desc *without)
{
    const struct model_node *node = &b->model->nodes[i];
    bool bias;

    compile_type(b, with, b->t);
    compile_type(b, without, b->t);
    bias = compile_fuses_bias(b, i, with, without);
    for (int64_t at = 0; at < m->units; at += m->part)
        dense_part_grads(b, i, m, at, bias);
    if (!bias && node->weight[MODEL_BIAS] != MODEL_NONE)
        compile_bias_grad(b, i);
}

static void dense_backward(struct build *b, uint32_t i)
{
    uint32_t input = b->model->nodes[i].input[0], dy = b->grad[i];
    struct dense_dims m = dense_dims_of(b, i);
    struct kern_desc with, without, d;

    kern_desc_matmul(&with, m.units, m.k, m.rows, true, false, KERN_BGRAD);
    kern_desc_matmul(&without, m.units, m.k, m.rows, true, false, 0);
    if (m.part < m.units && !b->model->nodes[i].frozen)
        dense_grads_in_parts(b, i, &m, &with, &without);
    else
        compile_weight_grads(b, i, MODEL_KERNEL, &with, &without, WHOLE(dy),
                             WHOLE(b->value[input]));
    kern_desc_matmul(&d, m.rows, m.k, m.units, false, false, 0);
    compile_input_grad(b, i, &d, dy, MODEL_KERNEL);
}

static void dense_product(const struct build *b, uint32_t i,
                          struct kern_desc *d)
{
    struct dense_dims m = dense_dims_of(b, i);

    kern_desc_matmul(d, m.rows, m.units, m.k, false, true, 0);
}

const struct compile_layer compile_dense = {.forward = dense_forward,
                                            .backward = dense_backward,
                                            .product = dense_product};
