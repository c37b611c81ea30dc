// SPDX-License-Identifier: Apache-2.0
// worker/compile/compile_dense.c -- large dense layers, cut by their units.
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

#define PART_BYTES ((int64_t)1 << 20) // about a shard of such a model
#define PARTS_LEAST 4
#define PARTS_MOST 16 // each part reads all of x
#define UNITS_LEAST 64
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

struct dense_dims compile_dense_dims(const struct build *b, uint32_t i)
{
    const struct model_node *node = &b->model->nodes[i];
    int64_t k = (int64_t)node->in.dim[node->in.rank - 1];
    int64_t units = (int64_t)node->out.dim[node->out.rank - 1];
    int64_t elements = (int64_t)(b->o->batch * model_shape_elements(&node->in));
    int64_t bytes = b->o->part_bytes ? (int64_t)b->o->part_bytes : PART_BYTES;
    struct dense_dims m = {elements / k, k, units, units};

    // A device gets all ops at once; 16 bits are converted in one go.
    if (!b->device && b->t == KERN_F32 && b->o->train)
        m.part = part_units(bytes, k * (int64_t)sizeof(float), units);
    return m;
}

int64_t compile_part_units(const struct dense_dims *m, int64_t first)
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

uint32_t compile_part(struct build *b, uint32_t node,
                      const struct dense_dims *m, uint32_t y, int64_t first)
{
    int64_t units = compile_part_units(m, first);
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
    int64_t units = compile_part_units(m, first);
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

uint32_t compile_dense_in_parts(struct build *b, uint32_t i,
                                const struct dense_dims *m, uint32_t x)
{
    uint32_t y = dense_units_tensor(b, m, m->units);

    for (int64_t at = 0; at < m->units; at += m->part)
        dense_put_part(b, i, m, x, y, at);
    if (b->model->nodes[i].weight[MODEL_BIAS] != MODEL_NONE)
        dense_add_bias(b, i, m, y);
    return y;
}
