// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted_dnn_run.c -- calls of cuDNN that belong to running, with a
// mistake (planted_calls.h).
#include <cudnn_graph.h>

#include "tests/emul/planted_calls.h"
#include "tests/emul/streams.h"

cudnnStatus_t __real_cudnnSetStream(cudnnHandle_t h, cudaStream_t s);
cudnnStatus_t __wrap_cudnnSetStream(cudnnHandle_t h, cudaStream_t s);
cudnnStatus_t __real_cudnnBackendExecute(cudnnHandle_t h,
                                         cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack);
cudnnStatus_t __wrap_cudnnBackendExecute(cudnnHandle_t h,
                                         cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack);
cudnnStatus_t __real_cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t room, int64_t *count,
                                              void *to);
cudnnStatus_t __wrap_cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t room, int64_t *count,
                                              void *to);

cudnnStatus_t __wrap_cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    if (PLANTED(dnn_stream_forgotten) ||
        (PLANTED(dnn_stream_set_once) && !planted_first()))
        return CUDNN_STATUS_SUCCESS;
    return __real_cudnnSetStream(h, s);
}

cudnnStatus_t __wrap_cudnnBackendExecute(cudnnHandle_t h,
                                         cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack)
{
    cudnnHandle_t late = NULL;

    if (PLANTED(dnn_handle_while_recording) && emul_recording()) {
        if (cudnnCreate(&late) != CUDNN_STATUS_SUCCESS)
            return CUDNN_STATUS_NOT_INITIALIZED;
        h = late;
    }
    return __real_cudnnBackendExecute(h, plan, pack);
}

cudnnStatus_t __wrap_cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type,
                                              int64_t room, int64_t *count,
                                              void *to)
{
    cudnnStatus_t rc =
        __real_cudnnBackendGetAttribute(d, name, type, room, count, to);

    if (PLANTED(dnn_workspace_halved) &&
        name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)to /= 2;
    return rc;
}
