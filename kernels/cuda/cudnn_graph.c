// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_graph.c -- making, sealing and describing graphs.
#include "kernels/cuda/cudnn_inner.h"

#include <string.h>

// ---- Calls and their errors -----------------------------------------------

enum sl_err cudnn_code(cudnnStatus_t rc)
{
    if (rc == CUDNN_STATUS_SUCCESS)
        return SL_OK;
    if (rc >= CUDNN_STATUS_EXECUTION_FAILED)
        return SL_ELOST; // a launch failed: nothing after it can be trusted
    if (rc == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        rc == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        return SL_ENOMEM;
    if (rc >= CUDNN_STATUS_NOT_SUPPORTED && rc < CUDNN_STATUS_INTERNAL_ERROR)
        return SL_ENOTSUP;
    return SL_EINTERNAL;
}

enum sl_err cudnn_fail(cudnnStatus_t rc, const char *what, struct sl_error *err)
{
    char text[256] = "";

    if (rc == CUDNN_STATUS_SUCCESS)
        return SL_OK;
    cudnnGetLastErrorString(text, sizeof(text));
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return sl_fail(err, cudnn_code(rc), "cuDNN %zu: %s: %s (%s)",
                   cudnnGetVersion(), what, cudnnGetErrorString(rc), text);
}

enum sl_err cudnn_set(cudnnBackendDescriptor_t d,
                      cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, int64_t n,
                      const void *values, struct sl_error *err)
{
    return cudnn_fail(cudnnBackendSetAttribute(d, name, type, n, values),
                      "setting an attribute", err);
}

// ---- Building -------------------------------------------------------------

void graph_init(struct graph *g, struct sl_error *err)
{
    *g = (struct graph){.rc = SL_OK, .err = err};
}

void graph_release(struct graph *g)
{
    if (g->sealed)
        cudnnBackendDestroyDescriptor(g->sealed);
    while (g->count > 0)
        cudnnBackendDestroyDescriptor(g->made[--g->count]);
    g->sealed = NULL;
}

static void graph_note_status(struct graph *g, cudnnStatus_t rc,
                              const char *what)
{
    if (g->rc == SL_OK)
        g->rc = cudnn_fail(rc, what, g->err);
}

static cudnnBackendDescriptor_t
graph_make_part(struct graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    if (g->rc == SL_OK && g->count == GRAPH_MADE)
        g->rc =
            sl_fail(g->err, SL_EINTERNAL, "a cuDNN graph of too many parts");
    if (g->rc != SL_OK)
        return NULL;
    graph_note_status(g, cudnnBackendCreateDescriptor(type, &d),
                      "making a descriptor");
    if (d)
        g->made[g->count++] = d;
    return d;
}

static void graph_set_attr(struct graph *g, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t n,
                           const void *values)
{
    if (g->rc == SL_OK)
        g->rc = cudnn_set(d, name, type, n, values, g->err);
}

static void graph_seal_part(struct graph *g, cudnnBackendDescriptor_t d,
                            const char *what)
{
    if (g->rc == SL_OK)
        graph_note_status(g, cudnnBackendFinalize(d), what);
}

static cudnnDataType_t graph_data_type(enum kern_dtype t)
{
    return t == KERN_F16    ? CUDNN_DATA_HALF
           : t == KERN_BF16 ? CUDNN_DATA_BFLOAT16
                            : CUDNN_DATA_FLOAT;
}

cudnnBackendDescriptor_t graph_tensor(struct graph *g,
                                      const struct graph_tensor *t)
{
    cudnnBackendDescriptor_t d =
        graph_make_part(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = graph_data_type(t->dtype);
    int64_t align = KERN_ALIGN;

    graph_set_attr(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                   &type);
    graph_set_attr(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
                   t->dim);
    graph_set_attr(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                   t->stride);
    graph_set_attr(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                   &t->uid);
    graph_set_attr(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                   &align);
    graph_set_attr(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                   &t->between);
    graph_seal_part(g, d, "a tensor");
    return d;
}

static cudnnBackendDescriptor_t conv_shape(struct graph *g,
                                           const struct kern_window *w)
{
    cudnnBackendDescriptor_t d =
        graph_make_part(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = 2;
    const struct {
        cudnnBackendAttributeName_t name;
        const int32_t *from;
    } axes[] = {
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, w->pad_before},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, w->pad_after},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, w->dilation},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, w->stride},
    };

    graph_set_attr(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                   1, &sums);
    graph_set_attr(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                   CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    graph_set_attr(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
                   1, &dims);
    for (unsigned i = 0; i < SL_COUNT(axes); i++) {
        int64_t two[2] = {axes[i].from[0], axes[i].from[1]};

        graph_set_attr(g, d, axes[i].name, CUDNN_TYPE_INT64, 2, two);
    }
    graph_seal_part(g, d, "the shape of a convolution");
    return d;
}

// The attributes of the three directions have the same order; only their
// numbers differ.
static const struct conv_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, shape, x, w, y;
} forward =
    {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
},
  dgrad =
      {
          CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
},
  wgrad = {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
};

static void graph_set_attr_part(struct graph *g, cudnnBackendDescriptor_t d,
                                cudnnBackendAttributeName_t name,
                                cudnnBackendDescriptor_t part)
{
    graph_set_attr(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

// Adds an operation that was sealed.
static void graph_add_op(struct graph *g, cudnnBackendDescriptor_t op)
{
    if (g->rc == SL_OK && g->op_count == SL_COUNT(g->ops))
        g->rc = sl_fail(g->err, SL_EINTERNAL,
                        "a cuDNN graph of too many operations");
    if (g->rc == SL_OK)
        g->ops[g->op_count++] = op;
}

void graph_conv(struct graph *g, enum kern_op op, const struct kern_window *win,
                cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                cudnnBackendDescriptor_t y, float beta)
{
    const struct conv_names *names = op == KERN_CONV_FWD     ? &forward
                                     : op == KERN_CONV_DGRAD ? &dgrad
                                                             : &wgrad;
    cudnnBackendDescriptor_t shape = conv_shape(g, win);
    cudnnBackendDescriptor_t d = graph_make_part(g, names->type);
    float alpha = 1;

    graph_set_attr(g, d, names->alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    graph_set_attr(g, d, names->beta, CUDNN_TYPE_FLOAT, 1, &beta);
    graph_set_attr_part(g, d, names->shape, shape);
    graph_set_attr_part(g, d, names->x, x);
    graph_set_attr_part(g, d, names->w, w);
    graph_set_attr_part(g, d, names->y, y);
    graph_seal_part(g, d, "a convolution");
    graph_add_op(g, d);
}

void graph_pointwise(struct graph *g, cudnnBackendDescriptor_t x,
                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
{
    cudnnBackendDescriptor_t how =
        graph_make_part(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t d =
        graph_make_part(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnnPointwiseMode_t mode =
        b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    cudnnDataType_t math = CUDNN_DATA_FLOAT;

    graph_set_attr(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                   1, &mode);
    graph_set_attr(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                   1, &math);
    graph_seal_part(g, how, "a pointwise step");
    graph_set_attr_part(g, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                        how);
    graph_set_attr_part(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        graph_set_attr_part(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    graph_set_attr_part(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    graph_seal_part(g, d, "a pointwise operation");
    graph_add_op(g, d);
}

enum sl_err graph_seal(struct graph *g, const struct graph_target *t)
{
    cudnnBackendDescriptor_t d;

    if (g->rc == SL_OK && g->sealed)
        g->rc = sl_fail(g->err, SL_EINTERNAL,
                        "a cuDNN graph that was finished already");
    d = graph_make_part(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (d) { // not among the parts: it goes first
        g->count--;
        g->sealed = d;
    }
    graph_set_attr(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, g->op_count, g->ops);
    if (t->handle)
        graph_set_attr(g, d, CUDNN_GRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                       &t->handle);
    graph_seal_part(g, d, "the graph of an operation");
    return g->rc;
}

// ---- Describing a device --------------------------------------------------

enum sl_err graph_describe(struct graph_target *out, const char *json,
                           struct sl_error *err)
{
    cudnnBackendDescriptor_t d = NULL;
    enum sl_err rc;

    rc = cudnn_fail(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d),
        "describing a device", err);
    if (rc != SL_OK)
        return rc;
    rc = cudnn_set(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                   CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json, err);
    if (rc == SL_OK)
        rc = cudnn_fail(cudnnBackendFinalize(d), "describing a device", err);
    if (rc != SL_OK) {
        cudnnBackendDestroyDescriptor(d);
        return rc;
    }
    *out = (struct graph_target){.described = d};
    return SL_OK;
}
