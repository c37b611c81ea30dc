// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudnn_rules.c -- what the stand-in for cuDNN refuses, and which
// engines it has for a graph.
//
// unit.kernels.planted asks the real cuDNN the same. Sizes of workspaces follow
// what it says for sm_90: tensor cores want channels that fill 16 bytes, and
// tensors without them are copied; engines without tensor cores turn all
// tensors into NCHW.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/emul/cudnn_desc.h"

#define BAD CUDNN_STATUS_BAD_PARAM
#define OK CUDNN_STATUS_SUCCESS

cudnnStatus_t cudnn_refuse(cudnnStatus_t rc, const char *fmt, ...)
{
    char text[200];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    emul_products_say(text);
    return rc;
}

// ---- Attributes -----------------------------------------------------------

#define ATTR(name, type, of)                                                   \
    {                                                                          \
        CUDNN_ATTR_##name, CUDNN_TYPE_##type, CUDNN_BACKEND_##of##_DESCRIPTOR  \
    }

// The handle's two by number: they are marked as deprecated.
static const struct known {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    cudnnBackendDescriptorType_t of;
} known[] = {
    ATTR(TENSOR_DATA_TYPE, DATA_TYPE, TENSOR),
    ATTR(TENSOR_DIMENSIONS, INT64, TENSOR),
    ATTR(TENSOR_STRIDES, INT64, TENSOR),
    ATTR(TENSOR_UNIQUE_ID, INT64, TENSOR),
    ATTR(TENSOR_BYTE_ALIGNMENT, INT64, TENSOR),
    ATTR(TENSOR_IS_VIRTUAL, BOOLEAN, TENSOR),
    ATTR(CONVOLUTION_COMP_TYPE, DATA_TYPE, CONVOLUTION),
    ATTR(CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, CONVOLUTION),
    ATTR(CONVOLUTION_SPATIAL_DIMS, INT64, CONVOLUTION),
    ATTR(CONVOLUTION_PRE_PADDINGS, INT64, CONVOLUTION),
    ATTR(CONVOLUTION_POST_PADDINGS, INT64, CONVOLUTION),
    ATTR(CONVOLUTION_DILATIONS, INT64, CONVOLUTION),
    ATTR(CONVOLUTION_FILTER_STRIDES, INT64, CONVOLUTION),
    ATTR(POINTWISE_MODE, POINTWISE_MODE, POINTWISE),
    ATTR(POINTWISE_MATH_PREC, DATA_TYPE, POINTWISE),
    ATTR(OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR,
         OPERATION_POINTWISE),
    ATTR(OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, OPERATION_POINTWISE),
    ATTR(OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, OPERATION_POINTWISE),
    ATTR(OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, OPERATION_POINTWISE),
    ATTR(OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, OPERATIONGRAPH),
    {800, CUDNN_TYPE_HANDLE, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    ATTR(ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, ENGINEHEUR),
    ATTR(ENGINEHEUR_MODE, HEUR_MODE, ENGINEHEUR),
    {400, CUDNN_TYPE_HANDLE, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR},
    ATTR(EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, EXECUTION_PLAN),
    ATTR(VARIANT_PACK_UNIQUE_IDS, INT64, VARIANT_PACK),
    ATTR(VARIANT_PACK_DATA_POINTERS, VOID_PTR, VARIANT_PACK),
    ATTR(VARIANT_PACK_WORKSPACE, VOID_PTR, VARIANT_PACK),
};

static cudnnStatus_t wrong_type(void)
{
    return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                        "the type of an attribute");
}

cudnnStatus_t cudnn_judge_attribute(const struct desc *d,
                                    cudnnBackendAttributeName_t name,
                                    cudnnBackendAttributeType_t type)
{
    const struct direction *way = cudnn_direction(d);

    if (way && (name == way->alpha || name == way->beta))
        return type == CUDNN_TYPE_FLOAT ? OK : wrong_type();
    if (way && (name == way->shape || name == way->x || name == way->w ||
                name == way->y))
        return type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? OK : wrong_type();
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].name == name && known[i].of == d->type)
            return known[i].type == type ? OK : wrong_type();
    return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED,
                        "no attribute of this descriptor");
}

static bool has(const struct desc *d, cudnnBackendAttributeName_t name,
                int64_t count)
{
    const struct attr *a = cudnn_find(d, name);

    return a && a->count == count;
}

// ---- Tensors and shapes ---------------------------------------------------

static cudnnStatus_t judge_tensor(const struct desc *d)
{
    struct tensor t;
    int64_t bytes;

    if (!has(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 1) ||
        !has(d, CUDNN_ATTR_TENSOR_DIMENSIONS, 4) ||
        !has(d, CUDNN_ATTR_TENSOR_STRIDES, 4) ||
        !has(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1) ||
        !has(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1))
        return cudnn_refuse(BAD, "a tensor lacks an attribute");
    cudnn_tensor(&t, d);
    bytes = (int64_t)kern_dtype_bytes(t.t);
    for (int i = 0; i < 4; i++)
        if (t.dim[i] < 1)
            return cudnn_refuse(BAD, "the shape of a tensor");
    return t.align > 0 && t.align % bytes == 0
               ? OK
               : cudnn_refuse(BAD, "the alignment of a tensor");
}

static cudnnStatus_t judge_shape(const struct desc *d)
{
    const struct attr *axes =
        cudnn_find(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    int64_t n = axes ? *(const int64_t *)axes->data : 0;

    if (!has(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1))
        return cudnn_refuse(BAD, "a convolution lacks the type of its sums");
    return n == 2 && has(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, n) &&
                   has(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, n) &&
                   has(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, n) &&
                   has(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, n)
               ? OK
               : cudnn_refuse(BAD, "the axes of a convolution");
}

// Every place is one element's, and none is left between.
static bool packed(const struct tensor *t)
{
    int64_t n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];

    for (int i = 0; i < 4; i++)
        if (t->stride[i] < 1)
            return false;
    return cudnn_extent(t) == n;
}

static int64_t axis(const struct desc *shape, cudnnBackendAttributeName_t name,
                    int i)
{
    return ((const int64_t *)cudnn_find(shape, name)->data)[i];
}

static bool channels_fit(const struct tensor *x, const struct tensor *w,
                         const struct tensor *y)
{
    return x->dim[0] == y->dim[0] && w->dim[0] == y->dim[1] &&
           x->dim[1] % w->dim[1] == 0 &&
           w->dim[0] % (x->dim[1] / w->dim[1]) == 0;
}

static bool axes_fit(const struct desc *shape, const struct tensor *x,
                     const struct tensor *w, const struct tensor *y)
{
    for (int i = 0; i < 2; i++) {
        int64_t far = axis(shape, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) *
                          (w->dim[2 + i] - 1) +
                      1;
        int64_t room = x->dim[2 + i] +
                       axis(shape, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) +
                       axis(shape, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);

        if (room < far ||
            (room - far) /
                        axis(shape, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i) +
                    1 !=
                y->dim[2 + i])
            return false;
    }
    return true;
}

static cudnnStatus_t judge_conv(const struct desc *d,
                                const struct direction *way)
{
    const struct desc *shape = cudnn_part(d, way->shape);
    struct tensor x, w, y;

    if (!shape || !cudnn_part(d, way->x) || !cudnn_part(d, way->w) ||
        !cudnn_part(d, way->y))
        return cudnn_refuse(BAD, "a convolution lacks a part");
    cudnn_tensor(&x, cudnn_part(d, way->x));
    cudnn_tensor(&w, cudnn_part(d, way->w));
    cudnn_tensor(&y, cudnn_part(d, way->y));
    if (!channels_fit(&x, &w, &y))
        return cudnn_refuse(BAD, "the shapes of a convolution");
    if (!packed(&x) || !packed(&w) || !packed(&y))
        return cudnn_refuse(BAD, "the strides of a tensor");
    return axes_fit(shape, &x, &w, &y)
               ? OK
               : cudnn_refuse(BAD, "the shapes of a convolution");
}

static bool spreads(const struct tensor *b, const struct tensor *y)
{
    for (int i = 0; i < 4; i++)
        if (b->dim[i] != y->dim[i] && b->dim[i] != 1)
            return false;
    return true;
}

static int mode_of(const struct desc *d)
{
    const struct desc *how =
        cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);

    return *(const int *)cudnn_find(how, CUDNN_ATTR_POINTWISE_MODE)->data;
}

static cudnnStatus_t judge_pointwise(const struct desc *d)
{
    const struct desc *x = cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const struct desc *b = cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const struct desc *y = cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    struct tensor at_x, at_b, at_y;

    if (!cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR) || !x ||
        !y || (mode_of(d) == CUDNN_POINTWISE_ADD) != (b != NULL))
        return cudnn_refuse(BAD, "the parts of a pointwise operation");
    cudnn_tensor(&at_x, x);
    cudnn_tensor(&at_y, y);
    if (b)
        cudnn_tensor(&at_b, b);
    return memcmp(at_x.dim, at_y.dim, sizeof(at_x.dim)) == 0 &&
                   (!b || spreads(&at_b, &at_y))
               ? OK
               : cudnn_refuse(BAD, "the shapes of a pointwise operation");
}

// ---- Graphs ---------------------------------------------------------------

struct tensors {
    struct tensor at[CUDNN_TENSORS];
    unsigned count;
};

static void take(struct tensors *to, const struct desc *d)
{
    if (d && to->count < CUDNN_TENSORS)
        cudnn_tensor(&to->at[to->count++], d);
}

// What an op names, the written one last.
static void tensors_of(struct tensors *to, const struct desc *op)
{
    const struct direction *way = cudnn_direction(op);

    if (!way) {
        take(to, cudnn_part(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
        take(to, cudnn_part(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
        take(to, cudnn_part(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
        return;
    }
    take(to, cudnn_part(op, way->x));
    take(to, cudnn_part(op, way->w));
    take(to, cudnn_part(op, way->y));
}

static const struct desc *op_of(const struct desc *graph, int64_t i)
{
    const struct attr *ops = cudnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);

    return ops && i < ops->count ? ((struct desc *const *)ops->data)[i] : NULL;
}

// One op's result is the next one's first tensor; the others are different
// ones.
static cudnnStatus_t judge_graph(const struct desc *d)
{
    const struct desc *op = op_of(d, 0);
    struct tensors all = {.count = 0};

    if (!op)
        return cudnn_refuse(BAD, "a graph of no operation");
    tensors_of(&all, op);
    for (int64_t i = 1; (op = op_of(d, i)) != NULL; i++) {
        unsigned last = all.count - 1, from = all.count;

        tensors_of(&all, op);
        if (all.at[from].uid != all.at[last].uid)
            return cudnn_refuse(BAD, "the uids of a graph do not chain");
        for (unsigned k = from + 1; k < all.count; k++)
            for (unsigned j = 0; j < k; j++)
                if (all.at[k].uid == all.at[j].uid)
                    return cudnn_refuse(BAD, "a uid of a graph twice");
        if (!all.at[last].between)
            return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                                "the uid between two operations has memory");
    }
    return OK;
}

unsigned cudnn_tensors(struct tensor to[CUDNN_TENSORS],
                       const struct desc *graph)
{
    struct tensors all = {.count = 0};
    const struct desc *op;

    for (int64_t i = 0; (op = op_of(graph, i)) != NULL; i++)
        tensors_of(&all, op);
    memcpy(to, all.at, all.count * sizeof(*to));
    return all.count;
}

static enum kern_dtype type_of(const struct desc *graph)
{
    struct tensors all = {.count = 0};

    tensors_of(&all, op_of(graph, 0));
    return all.at[0].t;
}

// Whether there is any engine.
static cudnnStatus_t judge_support(const struct desc *graph)
{
    const struct desc *op = op_of(graph, 0), *next = op_of(graph, 1);
    const struct direction *way = cudnn_direction(op);
    struct tensor all[CUDNN_TENSORS];
    unsigned n = cudnn_tensors(all, graph);
    int sums = -1;

    if (!way)
        return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                            "a graph without a convolution");
    memcpy(
        &sums,
        cudnn_find(cudnn_part(op, way->shape), CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
            ->data,
        sizeof(sums));
    if (sums != CUDNN_DATA_FLOAT)
        return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                            "sums in another type than f32");
    if (next && !cudnn_part(next, CUDNN_ATTR_OPERATION_POINTWISE_BDESC))
        return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                            "ReLU behind a convolution without a bias");
    if (op_of(graph, 2) && cudnnGetVersion() < 91000)
        return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                            "ReLU behind a convolution, in this version");
    for (unsigned i = 0; i < n; i++)
        if (!all[i].between && all[i].t != all[0].t)
            return cudnn_refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                                "tensors of more than one type");
    return OK;
}

cudnnStatus_t cudnn_judge(const struct desc *d)
{
    const struct direction *way = cudnn_direction(d);

    if (way)
        return judge_conv(d, way);
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return judge_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return judge_shape(d);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return judge_pointwise(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return judge_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return cudnn_graph_of(d) ? judge_support(cudnn_graph_of(d)) : BAD;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return cudnn_part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                   ? OK
                   : cudnn_refuse(BAD, "a plan lacks its engine");
    default:
        return OK;
    }
}

// ---- Engines --------------------------------------------------------------

// Channels of 16 bytes; else tensor cores are given a copy that has them.
static int64_t fill(const struct tensor *t, int64_t n)
{
    int64_t by = 16 / (int64_t)kern_dtype_bytes(t->t);

    return (n + by - 1) / by * by;
}

static int64_t bytes_of(const struct tensor *t)
{
    return cudnn_extent(t) * (int64_t)kern_dtype_bytes(t->t);
}

// The bytes of t with channels filled up, or 0 if they are.
static int64_t copy_bytes(const struct tensor *t, bool filter)
{
    int64_t first = filter ? fill(t, t->dim[0]) : t->dim[0];
    int64_t c = fill(t, t->dim[1]);

    return first == t->dim[0] && c == t->dim[1]
               ? 0
               : first * c * t->dim[2] * t->dim[3] *
                     (int64_t)kern_dtype_bytes(t->t);
}

// Tensor cores read 16 bytes at a time. Sums in 16 bits are there for f16
// alone.
bool cudnn_engine_has(int64_t engine, const struct desc *graph)
{
    struct tensor all[CUDNN_TENSORS];
    unsigned n = cudnn_tensors(all, graph);
    bool aligned = true;

    for (unsigned i = 0; i < n; i++)
        aligned = aligned && (all[i].between || all[i].align % 16 == 0);
    switch (engine) {
    case CUDNN_TENSOR:
        return aligned;
    case CUDNN_REDUCED:
        return aligned && type_of(graph) == KERN_F16 &&
               op_of(graph, 0)->type ==
                   CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    case CUDNN_SCATTERED: // fuses nothing
        return !op_of(graph, 1);
    default:
        return true;
    }
}

int64_t cudnn_workspace(int64_t engine, const struct desc *graph)
{
    struct tensors all = {.count = 0};
    int64_t copies = 0, whole = 0;

    tensors_of(&all, op_of(graph, 0));
    for (unsigned i = 0; i < all.count; i++) {
        copies += copy_bytes(&all.at[i], i == 1);
        whole += bytes_of(&all.at[i]);
    }
    return 61 + (engine == CUDNN_PLAIN       ? whole
                 : engine == CUDNN_SCATTERED ? bytes_of(&all.at[1])
                                             : copies);
}
