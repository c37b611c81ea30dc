// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudnn.c -- a stand-in for cuDNN's graph API, as far as
// cudnn_*.c use it: descriptors that are kept as they were said (cudnn_rules.c
// refuses, cudnn_run.c computes).
//
// Engines are offered in this order: mode A has tensor cores (for the weight
// gradient of f16 only such as sum in 16 bits) and one that is
// nondeterministic, mode B the tensor cores in any case, FALLBACK one that is
// neither. Setting what is sealed, and using what is not, is refused.
#include <cudnn_graph.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emul/cudnn_desc.h"

struct cudnnContext {
    cudaStream_t stream;
    unsigned number; // of that stream, not of another at its address
};

// ---- Life -----------------------------------------------------------------

size_t cudnnGetVersion(void)
{
    return emul_dnn_version != 0 ? emul_dnn_version : CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t rc)
{
    return rc == CUDNN_STATUS_SUCCESS ? "success" : "refused by the stand-in";
}

void cudnnGetLastErrorString(char *text, size_t n)
{
    if (n > 0) {
        text[0] = '\0';
        strncat(text, emul_products_why(), n - 1);
    }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    if (emul_products_records("a handle of cuDNN is made"))
        return CUDNN_STATUS_INTERNAL_ERROR;
    *out = calloc(1, sizeof(**out));
    return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    if (emul_products_records("a handle of cuDNN is ended"))
        return CUDNN_STATUS_INTERNAL_ERROR;
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    if (!h)
        return CUDNN_STATUS_NOT_INITIALIZED;
    h->stream = s;
    h->number = emul_stream_number(s);
    return CUDNN_STATUS_SUCCESS;
}

bool cudnn_stream(cudaStream_t *out, cudnnHandle_t h)
{
    *out = h->stream;
    return !h->stream ||
           (h->number > 0 && emul_stream_number(h->stream) == h->number);
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

void cudnn_drop(struct desc *d)
{
    if (--d->refs > 0)
        return;
    for (unsigned i = 0; i < d->count; i++)
        for (int64_t k = 0; d->attr[i].parts && k < d->attr[i].count; k++)
            cudnn_drop(((struct desc **)d->attr[i].data)[k]);
    free(d);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    cudnn_drop(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t at)
{
    struct desc *d = at;
    cudnnStatus_t rc;

    if (d->sealed)
        return cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "sealed already");
    rc = cudnn_judge(d);
    d->sealed = rc == CUDNN_STATUS_SUCCESS;
    return rc;
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

const struct attr *cudnn_find(const struct desc *d,
                              cudnnBackendAttributeName_t name)
{
    for (unsigned i = 0; i < d->count; i++)
        if (d->attr[i].name == name)
            return &d->attr[i];
    return NULL;
}

const struct desc *cudnn_part(const struct desc *d,
                              cudnnBackendAttributeName_t name)
{
    const struct attr *a = cudnn_find(d, name);

    return a ? *(struct desc *const *)a->data : NULL;
}

static cudnnStatus_t store(struct desc *d, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t count,
                           const void *from)
{
    struct attr *a = &d->attr[d->count];
    size_t bytes = (size_t)count * width(type);

    if (count < 1 || bytes > sizeof(a->data) || d->count == CUDNN_ATTRS ||
        cudnn_find(d, name))
        return cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "an attribute twice");
    *a = (struct attr){.name = name,
                       .count = count,
                       .parts = type == CUDNN_TYPE_BACKEND_DESCRIPTOR};
    memcpy(a->data, from, bytes);
    for (int64_t i = 0; a->parts && i < count; i++)
        ((struct desc *const *)from)[i]->refs++;
    d->count++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t at,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *from)
{
    bool parts = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
    struct desc *d = at;
    cudnnStatus_t rc;

    if (!d || d->sealed)
        return cudnn_refuse(CUDNN_STATUS_BAD_PARAM, "set when it was sealed");
    rc = cudnn_judge_attribute(d, name, type);
    if (rc != CUDNN_STATUS_SUCCESS)
        return rc;
    for (int64_t i = 0; parts && i < count; i++) {
        const struct desc *part = ((struct desc *const *)from)[i];

        if (!part ||
            (!part->sealed && part->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))
            return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                                "a part that was not sealed");
    }
    return store(d, name, type, count, from);
}

// ---- What heuristics, engines and plans answer ----------------------------

// The engines of a way of asking, best first; a 0 ends them.
static const int64_t *asked(const struct desc *h)
{
    static const int64_t best[] = {CUDNN_TENSOR, CUDNN_SCATTERED, 0};
    static const int64_t reduced[] = {CUDNN_REDUCED, CUDNN_SCATTERED, 0};
    static const int64_t rest[] = {CUDNN_PLAIN, 0};
    const struct attr *mode = cudnn_find(h, CUDNN_ATTR_ENGINEHEUR_MODE);

    switch (*(const int *)mode->data) {
    case CUDNN_HEUR_MODE_A:
        return cudnn_engine_has(CUDNN_REDUCED, cudnn_graph_of(h)) ? reduced
                                                                  : best;
    case CUDNN_HEUR_MODE_B:
        return best;
    default:
        return rest;
    }
}

static cudnnStatus_t results(const struct desc *h, int64_t room, int64_t *count,
                             cudnnBackendDescriptor_t *to)
{
    const struct desc *graph = cudnn_graph_of(h);

    *count = 0;
    if (!h->sealed)
        return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                            "heuristics that were not sealed");
    for (const int64_t *e = asked(h); *e && *count < room; e++) {
        struct desc *config;

        if (!cudnn_engine_has(*e, graph))
            continue;
        config = to[(*count)++];
        config->engine = *e;
        store(config, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t notes(const struct desc *engine, int64_t *count, int *to)
{
    *count = 0;
    if (engine->engine == CUDNN_TENSOR || engine->engine == CUDNN_REDUCED)
        to[(*count)++] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (engine->engine == CUDNN_REDUCED)
        to[(*count)++] = CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    if (engine->engine == CUDNN_SCATTERED)
        to[(*count)++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t workspace(const struct desc *plan, int64_t *to)
{
    const struct desc *config;

    if (!plan->sealed)
        return cudnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                            "a plan that was not sealed");
    config = cudnn_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    *to = cudnn_workspace(config->engine, cudnn_graph_of(config));
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
        return workspace(d, to);
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
}
