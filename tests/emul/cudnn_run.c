// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudnn_run.c -- the stand-in for cuDNN computes: graphs by their
// definition, in double.
//
// Addresses are held to what was said of them: within one allocation of the
// device, at the alignment of their tensor.
#include <stdlib.h>
#include <string.h>

#include "tests/emul/cudnn_desc.h"
#include "tests/emul/emul.h"
#include "tests/emul/typed.h"
#include "tests/emul/wrong.h"

// ---- Tensors --------------------------------------------------------------

void cudnn_tensor(struct tensor *out, const struct desc *d)
{
    const struct attr *between = cudnn_find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    int type = *(const int *)cudnn_find(d, CUDNN_ATTR_TENSOR_DATA_TYPE)->data;

    *out = (struct tensor){.t = type == CUDNN_DATA_HALF       ? KERN_F16
                                : type == CUDNN_DATA_BFLOAT16 ? KERN_BF16
                                                              : KERN_F32,
                           .between = between && *(const bool *)between->data};
    memcpy(out->dim, cudnn_find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->data, 32);
    memcpy(out->stride, cudnn_find(d, CUDNN_ATTR_TENSOR_STRIDES)->data, 32);
    memcpy(&out->uid, cudnn_find(d, CUDNN_ATTR_TENSOR_UNIQUE_ID)->data, 8);
    memcpy(&out->align, cudnn_find(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)->data,
           8);
}

int64_t cudnn_extent(const struct tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < 4; i++)
        n += (t->dim[i] - 1) * t->stride[i];
    return n;
}

struct run {
    const struct desc *pack;
    bool tf32, adds;   // adds: to what was there
    struct tensor out; // what was written last
    struct {
        int64_t uid;
        float *at;
    } between[4]; // of what is only inside the graph; owned
};

static float *between(struct run *r, const struct tensor *t)
{
    for (int i = 0; i < 4; i++) {
        if (r->between[i].at && r->between[i].uid == t->uid)
            return r->between[i].at;
        if (!r->between[i].at) {
            r->between[i].uid = t->uid;
            r->between[i].at = calloc((size_t)cudnn_extent(t), sizeof(float));
            return r->between[i].at;
        }
    }
    return NULL;
}

static void *address(const struct desc *pack, int64_t uid)
{
    const struct attr *uids =
        cudnn_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attr *ptrs =
        cudnn_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);

    for (int64_t i = 0; uids && ptrs && i < uids->count; i++)
        if (((const int64_t *)uids->data)[i] == uid && i < ptrs->count)
            return ((void *const *)ptrs->data)[i];
    return NULL;
}

static size_t bytes_of(const struct tensor *t)
{
    return (size_t)cudnn_extent(t) * kern_dtype_bytes(t->t);
}

// With its address; false if that is not of this device.
static bool tensor_of(struct tensor *out, struct run *r, const struct desc *d)
{
    cudnn_tensor(out, d);
    if (out->between) {
        out->at = between(r, out);
        return out->at != NULL;
    }
    out->at = address(r->pack, out->uid);
    return emul_readable(out->at, bytes_of(out), "a tensor of cuDNN");
}

static bool written(struct run *r, const struct tensor *t)
{
    r->out = *t;
    return t->between || emul_written(t->at, bytes_of(t), "a result of cuDNN");
}

// ---- Convolutions ---------------------------------------------------------

static int64_t place(const struct tensor *t, int64_t n, int64_t c, int64_t h,
                     int64_t w)
{
    return n * t->stride[0] + c * t->stride[1] + h * t->stride[2] +
           w * t->stride[3];
}

struct conv {
    struct tensor x, w, y;
    int64_t pre[2], dilation[2], step[2];
    bool tf32;
    double *sum; // of whichever is written, in its own order
    const struct tensor *out;
};

static double value(const struct conv *c, const struct tensor *t, int64_t i)
{
    float x = typed_get(t->t, t->at, i);

    return (double)(c->tf32 && t->t == KERN_F32 ? typed_tf32(x) : x);
}

// The same loops for all directions: y += x w, x += y w or w += x y.
static void conv_tap(const struct conv *c, const int64_t at[4], int64_t ci,
                     int64_t r, int64_t s)
{
    int64_t h = at[2] * c->step[0] - c->pre[0] + r * c->dilation[0];
    int64_t w = at[3] * c->step[1] - c->pre[1] + s * c->dilation[1];
    int64_t group = at[1] / (c->w.dim[0] / (c->x.dim[1] / c->w.dim[1]));
    int64_t x, f, y;

    if (h < 0 || w < 0 || h >= c->x.dim[2] || w >= c->x.dim[3])
        return;
    x = place(&c->x, at[0], group * c->w.dim[1] + ci, h, w);
    f = place(&c->w, at[1], ci, r, s);
    y = place(&c->y, at[0], at[1], at[2], at[3]);
    if (c->out == &c->y)
        c->sum[y] += value(c, &c->x, x) * value(c, &c->w, f);
    else if (c->out == &c->x)
        c->sum[x] += value(c, &c->y, y) * value(c, &c->w, f);
    else
        c->sum[f] += value(c, &c->x, x) * value(c, &c->y, y);
}

static void conv_loops(const struct conv *c)
{
    int64_t at[4];

    for (at[0] = 0; at[0] < c->y.dim[0]; at[0]++)
        for (at[1] = 0; at[1] < c->y.dim[1]; at[1]++)
            for (at[2] = 0; at[2] < c->y.dim[2]; at[2]++)
                for (at[3] = 0; at[3] < c->y.dim[3]; at[3]++)
                    for (int64_t i = 0; i < c->w.dim[1]; i++)
                        for (int64_t r = 0; r < c->w.dim[2]; r++)
                            for (int64_t s = 0; s < c->w.dim[3]; s++)
                                conv_tap(c, at, i, r, s);
}

// Writes alpha times the sums, and beta times what was there.
static void conv_write(const struct conv *c, float alpha, float beta)
{
    const struct tensor *t = c->out;
    int64_t n = cudnn_extent(t); // dense, in some order

    for (int64_t i = 0; i < n; i++) {
        double was =
            beta != 0 ? (double)beta * (double)typed_get(t->t, t->at, i) : 0;

        typed_put(t->t, t->at, i, (float)((double)alpha * c->sum[i] + was));
    }
}

static const struct direction directions[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

const struct direction *cudnn_direction(const struct desc *d)
{
    for (unsigned i = 0; i < 3; i++)
        if (d->type == directions[i].type)
            return &directions[i];
    return NULL;
}

static void read_axes(int64_t to[2], const struct desc *shape,
                      cudnnBackendAttributeName_t name)
{
    memcpy(to, cudnn_find(shape, name)->data, 2 * sizeof(*to));
}

static float number(const struct desc *d, cudnnBackendAttributeName_t name)
{
    return *(const float *)cudnn_find(d, name)->data;
}

static bool run_conv(struct run *r, const struct desc *d,
                     const struct direction *way)
{
    const struct desc *shape = cudnn_part(d, way->shape);
    struct conv c = {.tf32 = r->tf32};

    if (!tensor_of(&c.x, r, cudnn_part(d, way->x)) ||
        !tensor_of(&c.w, r, cudnn_part(d, way->w)) ||
        !tensor_of(&c.y, r, cudnn_part(d, way->y)))
        return false;
    read_axes(c.pre, shape, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    read_axes(c.dilation, shape, CUDNN_ATTR_CONVOLUTION_DILATIONS);
    read_axes(c.step, shape, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    c.out = way == &directions[0] ? &c.y : way == &directions[1] ? &c.x : &c.w;
    c.sum = calloc((size_t)cudnn_extent(c.out), sizeof(double));
    if (!c.sum)
        return false;
    conv_loops(&c);
    r->adds = number(d, way->beta) != 0;
    conv_write(&c, number(d, way->alpha), number(d, way->beta));
    free(c.sum);
    return written(r, c.out);
}

// ---- The rest of a graph --------------------------------------------------

static bool run_pointwise(struct run *r, const struct desc *d)
{
    const struct desc *b = cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    struct tensor x, y, bias;

    if (!tensor_of(&x, r,
                   cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)) ||
        !tensor_of(&y, r,
                   cudnn_part(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)) ||
        (b && !tensor_of(&bias, r, b)))
        return false;
    for (int64_t i = 0, n = cudnn_extent(&y); i < n; i++) {
        float v = typed_get(x.t, x.at, i);

        if (b) // along the channels, which lie side by side
            v += typed_get(bias.t, bias.at, i % y.dim[1]);
        else
            v = v < 0 ? 0 : v;
        typed_put(y.t, y.at, i, v);
    }
    return written(r, &y);
}

static bool run_graph(struct run *r, const struct desc *graph)
{
    const struct attr *ops = cudnn_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    bool good = true;

    for (int64_t i = 0; good && i < ops->count; i++) {
        const struct desc *op = ((struct desc *const *)ops->data)[i];
        const struct direction *way = cudnn_direction(op);

        good = way ? run_conv(r, op, way) : run_pointwise(r, op);
    }
    for (int i = 0; i < 4; i++)
        free(r->between[i].at);
    return good;
}

// ---- Executing ------------------------------------------------------------

// What execute was given; the descriptors are held.
struct execution {
    struct desc *plan, *pack;
};

static const struct desc *config_of(const struct execution *e)
{
    return cudnn_part(e->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
}

static void *workspace_of(const struct execution *e)
{
    const struct attr *a =
        cudnn_find(e->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);

    return a ? *(void *const *)a->data : NULL;
}

// Makes the mistake that a test wants, in what came out, which is NHWC.
static void spoil(const struct run *r, int64_t engine)
{
    const struct tensor *y = &r->out;

    emul_wrong_spoil((uint64_t)engine, y->t, y->at, cudnn_extent(y) / y->dim[1],
                     y->dim[1], y->dim[1], r->adds);
}

static cudaError_t execute_now(void *args)
{
    const struct execution *e = args;
    const struct desc *config = config_of(e), *graph = cudnn_graph_of(config);
    size_t bytes = (size_t)cudnn_workspace(config->engine, graph);
    struct run r = {.pack = e->pack, .tf32 = config->engine == CUDNN_TENSOR};
    bool good = emul_written(workspace_of(e), bytes, "a workspace of cuDNN");

    if (good) {
        memset(workspace_of(e), 0xff, bytes);
        good = run_graph(&r, graph);
    }
    if (good) {
        spoil(&r, config->engine);
        return cudaSuccess;
    }
    emul_products_say("an address is not within one allocation");
    emul_broke(cudaErrorIllegalAddress);
    return cudaErrorIllegalAddress;
}

static void execute_drop(void *args)
{
    const struct execution *e = args;

    cudnn_drop(e->plan);
    cudnn_drop(e->pack);
}

static cudnnStatus_t judge_pack(const struct execution *e)
{
    struct tensor all[CUDNN_TENSORS];
    unsigned n = cudnn_tensors(all, cudnn_graph_of(config_of(e)));

    for (unsigned i = 0; i < n; i++) {
        void *at = address(e->pack, all[i].uid);

        if (all[i].between)
            continue;
        if (!at)
            return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                                "a uid without an address");
        if ((uintptr_t)at % (uintptr_t)all[i].align != 0)
            return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                                "an address without its alignment");
    }
    return workspace_of(e) ? CUDNN_STATUS_SUCCESS
                           : cudnn_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                                          "a workspace without an address");
}

// What only shows when it is enqueued.
static cudnnStatus_t judge_moment(cudaStream_t *s, cudnnHandle_t h,
                                  int64_t engine)
{
    static const cudnnStatus_t words[REFUSALS] = {
        [REFUSES_FAILING] = CUDNN_STATUS_EXECUTION_FAILED,
        [REFUSES_UNSUPPORTED] = CUDNN_STATUS_NOT_SUPPORTED,
        [REFUSES_NO_MEMORY] =
            CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
    };

    // As libraries do: whatever went wrong before is taken for theirs.
    if (emul_products_fail || cudaPeekAtLastError() != cudaSuccess)
        return CUDNN_STATUS_EXECUTION_FAILED;
    if (emul_products_refuses((uint64_t)engine))
        return cudnn_refuse(words[emul_products_refusal],
                            "an engine that always fails");
    if (!cudnn_stream(s, h))
        return cudnn_refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                            "a stream that has ended");
    if ((uint64_t)engine == emul_products_unrecordable &&
        emul_products_records("an engine that cannot be recorded runs"))
        return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t at,
                                  cudnnBackendDescriptor_t pack)
{
    static const struct emul_work work = {execute_now, execute_drop};
    struct execution e = {at, pack};
    cudaStream_t s;
    cudnnStatus_t rc;

    if (!h)
        return cudnn_refuse(CUDNN_STATUS_NOT_INITIALIZED, "no handle");
    if (!e.pack->sealed || !e.plan->sealed)
        return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                            "a pack or plan that was not sealed");
    rc = judge_moment(&s, h, config_of(&e)->engine);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = judge_pack(&e);
    if (rc != CUDNN_STATUS_SUCCESS)
        return rc;
    e.plan->refs++;
    e.pack->refs++;
    return emul_enqueue(s, &work, &e, sizeof(e)) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}
