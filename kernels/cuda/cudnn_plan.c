// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_plan.c -- plans: from a choice or from text, and running.
#include "kernels/cuda/cudnn_inner.h"

#include <string.h>

static enum sl_err new_plan(cudnnBackendDescriptor_t *out,
                            const struct graph_target *t, struct sl_error *err)
{
    cudnnBackendDescriptor_t d = NULL;
    enum sl_err rc;

    rc = cudnn_fail(cudnnBackendCreateDescriptor(
                        CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &d),
                    "making a plan", err);
    if (rc != SL_OK)
        return rc;
    if (t->handle)
        rc = cudnn_set(d, CUDNN_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &t->handle,
                       err);
    else
        rc = cudnn_set(d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t->described, err);
    if (rc != SL_OK) {
        cudnnBackendDestroyDescriptor(d);
        return rc;
    }
    *out = d;
    return SL_OK;
}

// Ends the making of a plan, in success or failure.
static enum sl_err graph_plan_finish(struct graph_plan *out,
                                     cudnnBackendDescriptor_t d, enum sl_err rc,
                                     int64_t engine, struct sl_error *err)
{
    int64_t one = 0, bytes = 0;

    if (rc == SL_OK)
        rc = cudnn_fail(cudnnBackendFinalize(d), "an engine declined", err);
    if (rc == SL_OK)
        rc = cudnn_fail(cudnnBackendGetAttribute(
                            d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                            CUDNN_TYPE_INT64, 1, &one, &bytes),
                        "asking for a workspace", err);
    if (rc != SL_OK) {
        cudnnBackendDestroyDescriptor(d);
        return rc;
    }
    *out = (struct graph_plan){
        .at = d,
        .workspace_bytes = ((size_t)bytes + 63) & ~(size_t)63,
        .engine = engine,
    };
    return SL_OK;
}

enum sl_err graph_plan_make(struct graph_plan *out,
                            const struct graph_target *t,
                            const struct graph_choice *c, struct sl_error *err)
{
    cudnnBackendDescriptor_t d = NULL;
    enum sl_err rc = new_plan(&d, t, err);

    if (rc != SL_OK)
        return rc;
    rc = cudnn_set(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c->config, err);
    rc = graph_plan_finish(out, d, rc, c->engine, err);
    if (rc == SL_OK)
        out->tensor_cores = c->tensor_cores;
    return rc;
}

void graph_plan_forget(struct graph_plan *p)
{
    if (p->at && !p->ran)
        cudnnBackendDestroyDescriptor(p->at);
    *p = (struct graph_plan){0};
}

enum sl_err graph_plan_write(struct buf *out, const struct graph_plan *p,
                             struct sl_error *err)
{
    const cudnnBackendAttributeName_t json =
        CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t n = 0, got = 0;
    uint8_t *to;
    enum sl_err rc;

    rc = cudnn_fail(
        cudnnBackendGetAttribute(p->at, json, CUDNN_TYPE_CHAR, 0, &n, NULL),
        "the length of a plan as text", err);
    if (rc != SL_OK)
        return rc;
    if (buf_reserve(out, (size_t)n + 1) != SL_OK)
        return sl_no_memory(err);
    to = buf_extend(out, (size_t)n);
    rc = cudnn_fail(
        cudnnBackendGetAttribute(p->at, json, CUDNN_TYPE_CHAR, n, &got, to),
        "a plan as text", err);
    // Its length may count the NUL behind.
    out->len = rc == SL_OK
                   ? out->len - (size_t)n + strnlen((char *)to, (size_t)n)
                   : out->len - (size_t)n;
    return rc;
}

enum sl_err graph_plan_read(struct graph_plan *out,
                            const struct graph_target *t, const char *json,
                            struct sl_error *err)
{
    cudnnBackendDescriptor_t d = NULL;
    enum sl_err rc = new_plan(&d, t, err);

    if (rc != SL_OK)
        return rc;
    rc = cudnn_set(d, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                   CUDNN_TYPE_CHAR, (int64_t)strlen(json), json, err);
    return graph_plan_finish(out, d, rc, -1, err);
}

// The pack of addresses is made anew for each run: a sealed one cannot change,
// and a step is recorded once.
enum sl_err graph_plan_run(const struct graph_plan *p, cudnnHandle_t handle,
                           unsigned n, const int64_t *uids, void *const *at,
                           void *workspace)
{
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t rc = cudnnBackendCreateDescriptor(
        CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);

    if (rc != CUDNN_STATUS_SUCCESS)
        return cudnn_code(rc);
    rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                  CUDNN_TYPE_INT64, n, uids);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = cudnnBackendSetAttribute(pack,
                                      CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                      CUDNN_TYPE_VOID_PTR, n, at);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                      CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = cudnnBackendFinalize(pack);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = cudnnBackendExecute(handle, p->at, pack);
    cudnnBackendDestroyDescriptor(pack);
    return cudnn_code(rc);
}
