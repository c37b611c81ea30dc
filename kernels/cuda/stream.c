// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/stream.c -- streams, copies, events, recording.
#include "common/base/mem.h"
#include "kernels/cuda/cuda.h"

enum sl_err cuda_stream_new(struct kern_stream **out, struct kern_dev *base,
                            int priority)
{
    struct cuda_dev *dev = cuda_dev(base);
    struct cuda_stream *s = sl_calloc(1, sizeof(*s));
    int least = 0, greatest = 0;
    cudaError_t rc = cudaSetDevice(dev->ordinal);
    enum sl_err code;

    if (!s)
        return SL_ENOMEM;
    if (rc == cudaSuccess)
        rc = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithPriority(&s->at, cudaStreamNonBlocking,
                                          priority > 0 ? greatest : least);
    code = cuda_result(dev, rc, "creating a stream");
    if (code != SL_OK) {
        sl_free(s);
        return code;
    }
    s->base.dev = base;
    *out = &s->base;
    return SL_OK;
}

void cuda_stream_free(struct kern_stream *s)
{
    struct cuda_dev *dev;

    if (!s)
        return;
    dev = cuda_dev(s->dev);
    if (dev->stream_ends)
        dev->stream_ends(dev, cuda_stream(s));
    cuda_result(dev, cudaStreamDestroy(cuda_stream(s)), "ending a stream");
    sl_free(s);
}

enum sl_err cuda_stream_sync(struct kern_stream *s)
{
    return cuda_result(cuda_dev(s->dev), cudaStreamSynchronize(cuda_stream(s)),
                       "waiting for a stream");
}

enum sl_err cuda_copy(struct kern_stream *s, void *to, const void *from,
                      size_t bytes, enum kern_dir dir)
{
    enum cudaMemcpyKind kind = dir == KERN_TO_DEVICE ? cudaMemcpyHostToDevice
                               : dir == KERN_TO_HOST ? cudaMemcpyDeviceToHost
                                                     : cudaMemcpyDeviceToDevice;

    return cuda_result(cuda_dev(s->dev),
                       cudaMemcpyAsync(to, from, bytes, kind, cuda_stream(s)),
                       "copying");
}

enum sl_err cuda_fill(struct kern_stream *s, void *to, int byte, size_t bytes)
{
    return cuda_result(cuda_dev(s->dev),
                       cudaMemsetAsync(to, byte, bytes, cuda_stream(s)),
                       "filling memory");
}

// ---- Events ---------------------------------------------------------------

enum sl_err cuda_event_new(struct cuda_event **out, struct kern_dev *base)
{
    struct cuda_dev *dev = cuda_dev(base);
    struct cuda_event *e = sl_calloc(1, sizeof(*e));
    cudaError_t rc = cudaSetDevice(dev->ordinal);
    enum sl_err code;

    if (!e)
        return SL_ENOMEM;
    if (rc == cudaSuccess) // without times they are cheaper
        rc = cudaEventCreateWithFlags(&e->at, cudaEventDisableTiming);
    code = cuda_result(dev, rc, "creating an event");
    if (code != SL_OK) {
        sl_free(e);
        return code;
    }
    e->dev = dev;
    *out = e;
    return SL_OK;
}

void cuda_event_free(struct cuda_event *e)
{
    if (!e)
        return;
    cuda_result(e->dev, cudaEventDestroy(e->at), "ending an event");
    sl_free(e);
}

enum sl_err cuda_event_record(struct cuda_event *e, struct kern_stream *s)
{
    return cuda_result(e->dev, cudaEventRecord(e->at, cuda_stream(s)),
                       "recording an event");
}

enum sl_err cuda_event_wait(struct kern_stream *s, struct cuda_event *e)
{
    return cuda_result(cuda_dev(s->dev),
                       cudaStreamWaitEvent(cuda_stream(s), e->at, 0),
                       "letting a stream wait");
}

enum sl_err cuda_event_query(struct cuda_event *e)
{
    cudaError_t rc = cudaEventQuery(e->at);

    if (rc == cudaErrorNotReady) {
        cudaGetLastError(); // else a library blames its next launch for it
        return SL_EBUSY;
    }
    return cuda_result(e->dev, rc, "asking for an event");
}

enum sl_err cuda_event_sync(struct cuda_event *e)
{
    return cuda_result(e->dev, cudaEventSynchronize(e->at),
                       "waiting for an event");
}

// ---- Recording ------------------------------------------------------------

struct recording {
    struct cuda_plan base;
    cudaGraphExec_t at;
};

static enum sl_err replay(struct cuda_plan *plan, cudaStream_t s,
                          void *const *io, void *workspace)
{
    struct recording *r = (struct recording *)plan;

    return cuda_result(plan->dev, cudaGraphLaunch(r->at, s),
                       "running a recorded step");
}

static void recording_free(struct cuda_plan *plan)
{
    struct recording *r = (struct recording *)plan;

    cuda_result(plan->dev, cudaGraphExecDestroy(r->at),
                "freeing a recorded step");
    sl_free(r);
}

// Other threads may use the runtime meanwhile.
enum sl_err cuda_record_begin(struct kern_stream *s)
{
    return cuda_result(cuda_dev(s->dev),
                       cudaStreamBeginCapture(cuda_stream(s),
                                              cudaStreamCaptureModeThreadLocal),
                       "beginning to record a step");
}

enum sl_err cuda_record_end(struct kern_plan **out, struct kern_stream *s)
{
    struct cuda_dev *dev = cuda_dev(s->dev);
    cudaGraphExec_t at = NULL;
    cudaGraph_t graph = NULL;
    cudaError_t rc = cudaStreamEndCapture(cuda_stream(s), &graph);
    struct recording *r;
    enum sl_err code;

    if (rc == cudaSuccess)
        rc = cudaGraphInstantiate(&at, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    code = cuda_result(dev, rc, "recording a step");
    if (code != SL_OK)
        return code;
    r = sl_calloc(1, sizeof(*r));
    if (!r) {
        cudaGraphExecDestroy(at);
        return SL_ENOMEM;
    }
    r->at = at;
    cuda_plan_init(&r->base, dev, "recorded", replay, recording_free);
    *out = &r->base.base;
    return SL_OK;
}
