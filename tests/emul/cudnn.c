// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudnn.c -- a stand-in for cuDNN's graph API, as far as
// cudnn_*.c use it: descriptors that are kept as they were said, and graphs
// that are computed by their definition, in double.
//
// What unit.kernels.cudnn asks the real cuDNN (is such a graph known?) is not
// asked here; here they run. Three engines are offered, in this order: 7 uses
// tensor cores (and reads f32 as TF32), 5 is nondeterministic, 2 is neither.
// Setting what is sealed, and using what is not, is refused.
#include <cudnn_graph.h>
#include <stdlib.h>

#include "tests/emul/products.h"
#include "tests/emul/typed.h"

#define ATTRS 12
#define WORKSPACE 64
#define ENGINES 3

static const int64_t engines[ENGINES] = {7, 5, 2};

struct cudnnContext {
    cudaStream_t stream;
};

struct attr {
    cudnnBackendAttributeName_t name;
    int64_t count;
    char data[64]; // of what fits; addresses of others are counted
};

struct desc {
    cudnnBackendDescriptorType_t type;
    int refs;
    bool sealed;
    unsigned count;
    struct attr attr[ATTRS];
    int64_t engine; // of a configuration, an engine or a plan
};

// ---- Life -----------------------------------------------------------------

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t rc)
{
    return rc == CUDNN_STATUS_SUCCESS ? "success" : "refused by the stand-in";
}

void cudnnGetLastErrorString(char *text, size_t n)
{
    if (n > 0)
        text[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    *out = calloc(1, sizeof(**out));
    return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    h->stream = s;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    struct desc *d = calloc(1, sizeof(*d));

    if (!d)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    d->type = type;
    d->refs = 1;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

static bool holds_descriptors(const struct attr *a);

static void drop(struct desc *d)
{
    if (--d->refs > 0)
        return;
    for (unsigned i = 0; i < d->count; i++)
        for (int64_t k = 0;
             holds_descriptors(&d->attr[i]) && k < d->attr[i].count; k++)
            drop(((struct desc **)d->attr[i].data)[k]);
    free(d);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    drop(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t at)
{
    struct desc *d = at;

    if (d->sealed)
        return CUDNN_STATUS_BAD_PARAM;
    d->sealed = true;
    return CUDNN_STATUS_SUCCESS;
}

// ---- Attributes -----------------------------------------------------------

static size_t width(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    default: // enums and floats
        return 4;
    }
}

// By name, since an attribute's type is not kept.
static bool holds_descriptors(const struct attr *a)
{
    switch (a->name) {
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY:
    case CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR:
    case CUDNN_ATTR_OPERATION_POINTWISE_XDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_BDESC:
    case CUDNN_ATTR_OPERATION_POINTWISE_YDESC:
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        return true;
    default:
        return false;
    }
}

static struct attr *find(const struct desc *d, cudnnBackendAttributeName_t name)
{
    for (unsigned i = 0; i < d->count; i++)
        if (d->attr[i].name == name)
            return (struct attr *)(uintptr_t)&d->attr[i];
    return NULL;
}

static cudnnStatus_t store(struct desc *d, cudnnBackendAttributeName_t name,
                           size_t bytes, int64_t count, const void *from)
{
    struct attr *a = &d->attr[d->count];

    if (bytes > sizeof(a->data) || d->count == ATTRS || find(d, name))
        return CUDNN_STATUS_BAD_PARAM;
    *a = (struct attr){.name = name, .count = count};
    memcpy(a->data, from, bytes);
    if (holds_descriptors(a))
        for (int64_t i = 0; i < count; i++)
            ((struct desc *const *)from)[i]->refs++;
    d->count++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t at,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *from)
{
    struct desc *d = at;
    struct attr as = {.name = name};

    if (!d || d->sealed)
        return CUDNN_STATUS_BAD_PARAM;
    for (int64_t i = 0; holds_descriptors(&as) && i < count; i++) {
        const struct desc *part = ((struct desc *const *)from)[i];

        if (!part ||
            (!part->sealed && part->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))
            return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    }
    return store(d, name, (size_t)count * width(type), count, from);
}

// ---- What heuristics, engines and plans answer ----------------------------

// Mode A has the first two engines, FALLBACK the last.
static cudnnStatus_t results(const struct desc *h, int64_t room, int64_t *count,
                             cudnnBackendDescriptor_t *to)
{
    const struct attr *mode = find(h, CUDNN_ATTR_ENGINEHEUR_MODE);
    const struct attr *graph = find(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    bool best = *(const int *)mode->data == CUDNN_HEUR_MODE_A;
    int64_t first = best ? 0 : 2, last = best ? 2 : ENGINES;

    *count = 0;
    for (int64_t i = first; i < last && *count < room; i++) {
        struct desc *config = to[(*count)++];

        config->engine = engines[i];
        store(config, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, sizeof(void *), 1,
              graph->data);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t notes(const struct desc *engine, int64_t *count, int *to)
{
    *count = engine->engine == 2 ? 0 : 1;
    to[0] = engine->engine == 7 ? CUDNN_NUMERICAL_NOTE_TENSOR_CORE
                                : CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const at,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t room, int64_t *count, void *to)
{
    const struct desc *d = at;

    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return results(d, room, count, to);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        (*(struct desc **)to)->engine = d->engine;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)to = d->engine;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        return notes(d, count, to);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)to = WORKSPACE - 3; // callers round it up
        return d->sealed ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

// ---- Running --------------------------------------------------------------

struct tensor {
    enum kern_dtype t;
    int64_t dim[4], stride[4], uid;
    void *at;
};

struct run {
    const struct desc *pack;
    bool tf32;
    struct {
        int64_t uid;
        float *at;
    } between[4]; // of what is only inside the graph; owned
};

static const struct desc *part(const struct desc *d,
                               cudnnBackendAttributeName_t name)
{
    const struct attr *a = find(d, name);

    return a ? *(struct desc *const *)a->data : NULL;
}

static int64_t extent(const struct tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < 4; i++)
        n += (t->dim[i] - 1) * t->stride[i];
    return n;
}

static float *between(struct run *r, const struct tensor *t)
{
    for (int i = 0; i < 4; i++) {
        if (r->between[i].at && r->between[i].uid == t->uid)
            return r->between[i].at;
        if (!r->between[i].at) {
            r->between[i].uid = t->uid;
            r->between[i].at = calloc((size_t)extent(t), sizeof(float));
            return r->between[i].at;
        }
    }
    return NULL;
}

// False if the tensor has no address, or one that is not aligned as it said.
static bool tensor_of(struct tensor *out, struct run *r, const struct desc *d)
{
    const struct attr *uids = find(r->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attr *ptrs =
        find(r->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    int type = *(int *)find(d, CUDNN_ATTR_TENSOR_DATA_TYPE)->data;

    *out = (struct tensor){.t = type == CUDNN_DATA_HALF       ? KERN_F16
                                : type == CUDNN_DATA_BFLOAT16 ? KERN_BF16
                                                              : KERN_F32};
    memcpy(out->dim, find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->data, 32);
    memcpy(out->stride, find(d, CUDNN_ATTR_TENSOR_STRIDES)->data, 32);
    memcpy(&out->uid, find(d, CUDNN_ATTR_TENSOR_UNIQUE_ID)->data, 8);
    if (*(bool *)find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL)->data)
        out->at = between(r, out);
    for (int64_t i = 0; !out->at && i < uids->count; i++)
        if (((const int64_t *)uids->data)[i] == out->uid)
            out->at = ((void *const *)ptrs->data)[i];
    return out->at && (uintptr_t)out->at % KERN_ALIGN == 0;
}

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
    int64_t n = extent(t); // dense, in some order

    for (int64_t i = 0; i < n; i++) {
        double was =
            beta != 0 ? (double)beta * (double)typed_get(t->t, t->at, i) : 0;

        typed_put(t->t, t->at, i, (float)((double)alpha * c->sum[i] + was));
    }
}

static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, shape, x, w, y;
} directions[] = {
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

static bool run_conv(struct run *r, const struct desc *d, unsigned way)
{
    const struct desc *shape = part(d, directions[way].shape);
    struct conv c = {.tf32 = r->tf32};

    if (!tensor_of(&c.x, r, part(d, directions[way].x)) ||
        !tensor_of(&c.w, r, part(d, directions[way].w)) ||
        !tensor_of(&c.y, r, part(d, directions[way].y)))
        return false;
    memcpy(c.pre, find(shape, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)->data, 16);
    memcpy(c.dilation, find(shape, CUDNN_ATTR_CONVOLUTION_DILATIONS)->data, 16);
    memcpy(c.step, find(shape, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)->data,
           16);
    c.out = way == 0 ? &c.y : way == 1 ? &c.x : &c.w;
    c.sum = calloc((size_t)extent(c.out), sizeof(double));
    if (!c.sum)
        return false;
    conv_loops(&c);
    conv_write(&c, *(float *)find(d, directions[way].alpha)->data,
               *(float *)find(d, directions[way].beta)->data);
    free(c.sum);
    return true;
}

static bool run_pointwise(struct run *r, const struct desc *d)
{
    const struct desc *b = part(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const struct desc *how =
        part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    int mode = *(int *)find(how, CUDNN_ATTR_POINTWISE_MODE)->data;
    struct tensor x, y, bias;

    if (!tensor_of(&x, r, part(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)) ||
        !tensor_of(&y, r, part(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)) ||
        (b && !tensor_of(&bias, r, b)))
        return false;
    if ((mode == CUDNN_POINTWISE_ADD) != (b != NULL))
        return false;
    for (int64_t i = 0, n = extent(&y); i < n; i++) {
        float v = typed_get(x.t, x.at, i);

        if (b) // along the channels, which lie side by side
            v += typed_get(bias.t, bias.at, i % y.dim[1]);
        else
            v = v < 0 ? 0 : v;
        typed_put(y.t, y.at, i, v);
    }
    return true;
}

static bool run_op(struct run *r, const struct desc *d)
{
    for (unsigned i = 0; i < 3; i++)
        if (d->type == directions[i].type)
            return run_conv(r, d, i);
    return run_pointwise(r, d);
}

// What execute was given; the descriptors are held.
struct execution {
    struct desc *plan, *pack;
};

static cudaError_t execute_now(void *args)
{
    const struct execution *e = args;
    const struct desc *config =
        part(e->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct desc *graph =
        part(config, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const struct attr *ops = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const struct attr *workspace =
        find(e->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    struct run r = {.pack = e->pack, .tf32 = config->engine == 7};
    bool good = true;

    memset(*(void *const *)workspace->data, 0xff, WORKSPACE - 3);
    for (int64_t i = 0; good && i < ops->count; i++)
        good = run_op(&r, ((struct desc *const *)ops->data)[i]);
    for (int i = 0; i < 4; i++)
        free(r.between[i].at);
    return good ? cudaSuccess : cudaErrorInvalidValue;
}

static void execute_drop(void *args)
{
    const struct execution *e = args;

    drop(e->plan);
    drop(e->pack);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t at,
                                  cudnnBackendDescriptor_t pack)
{
    static const struct emul_work work = {execute_now, execute_drop};
    struct execution e = {at, pack};
    const struct desc *config =
        part(at, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct attr *workspace =
        find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);

    if (emul_products_fail || emul_products_bad == (uint64_t)config->engine ||
        cudaPeekAtLastError() != cudaSuccess)
        return CUDNN_STATUS_EXECUTION_FAILED;
    if (!e.pack->sealed)
        return CUDNN_STATUS_BAD_PARAM;
    if (!*(void *const *)workspace->data)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    e.plan->refs++;
    e.pack->refs++;
    return emul_enqueue(h->stream, &work, &e, sizeof(e)) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
}
