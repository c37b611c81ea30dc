// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudart.c -- what the CUDA module calls of libcudart, over the
// emulator. Everything has happened when a call returns; a stream that records
// keeps copies of the calls.
//
// emul_fail() makes a later call fail, as a device would.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emul/cudart.h"
#include "tests/emul/emul.h"

const unsigned char cuda_fatbin[1]; // there is no machine code here

static cudaError_t last, broken; // broken: sticky

static struct {
    const char *what;
    unsigned nth;
    cudaError_t code;
    bool sticky;
} fault;

void emul_fail(const char *what, unsigned nth, cudaError_t code, bool sticky)
{
    fault.what = what;
    fault.nth = nth;
    fault.code = code;
    fault.sticky = sticky;
}

void emul_heal(void)
{
    last = broken = cudaSuccess;
    fault.what = NULL;
}

static cudaError_t done(cudaError_t rc)
{
    if (rc != cudaSuccess)
        last = rc;
    return rc;
}

// Every call begins here: has the device broken, or is it this call's turn?
static cudaError_t enter(const char *what)
{
    if (broken != cudaSuccess)
        return broken;
    if (!fault.what || strcmp(fault.what, what) != 0 || --fault.nth > 0)
        return cudaSuccess;
    fault.what = NULL;
    if (fault.sticky)
        broken = fault.code;
    return done(fault.code);
}

// ---- Device ---------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return enter("count");
}

cudaError_t cudaSetDevice(int device)
{
    return enter("set");
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof(*prop));
    snprintf(prop->name, sizeof(prop->name), "emulated");
    prop->major = 9;
    prop->totalGlobalMem = 1u << 30;
    return enter("properties");
}

const char *cudaGetErrorName(cudaError_t rc)
{
    static char text[32];

    snprintf(text, sizeof(text), "error %d", (int)rc);
    return text;
}

const char *cudaGetErrorString(cudaError_t rc)
{
    return rc == cudaErrorMemoryAllocation ? "out of memory"
           : rc == cudaErrorLaunchFailure  ? "unspecified launch failure"
                                           : "emulated error";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t rc = broken != cudaSuccess ? broken : last;

    last = cudaSuccess;
    return rc;
}

// ---- Memory ---------------------------------------------------------------

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    cudaError_t rc = enter("malloc");

    if (rc != cudaSuccess)
        return rc;
    *at = emul_alloc(bytes);
    return *at ? cudaSuccess : done(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *at)
{
    cudaError_t rc = enter("free");

    if (rc != cudaSuccess)
        return rc;
    return emul_free(at) ? cudaSuccess : done(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags)
{
    cudaError_t rc = enter("host_alloc");

    if (rc != cudaSuccess)
        return rc;
    *at = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *at ? cudaSuccess : done(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *at)
{
    free(at);
    return enter("free_host");
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
                                     const void *at)
{
    memset(out, 0, sizeof(*out));
    out->type = emul_is_device(at) ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    return enter("attributes");
}

// ---- Recording ------------------------------------------------------------

struct node {
    struct node *next;
    enum { COPY, FILL, LAUNCH } kind;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    enum cudaMemcpyKind dir;
    struct emul_kernel *kernel;
    struct dim3 grid, block;
    char args[]; // of a launch
};

struct CUgraph_st {
    struct node *first, **end;
};

struct CUstream_st {
    struct CUgraph_st *recording;
};

// True if the call was kept instead of run.
static struct node *keep(cudaStream_t s, size_t args_bytes)
{
    struct node *n;

    if (!s || !s->recording)
        return NULL;
    n = calloc(1, sizeof(*n) + args_bytes);
    *s->recording->end = n;
    s->recording->end = &n->next;
    return n;
}

static cudaError_t copy_now(const struct node *n)
{
    bool from_device = n->dir != cudaMemcpyHostToDevice;
    bool to_device = n->dir != cudaMemcpyDeviceToHost;

    if ((from_device && !emul_readable(n->from, n->bytes, "a copy")) ||
        (to_device && !emul_written(n->to, n->bytes, "a copy")))
        return done(cudaErrorInvalidValue);
    memmove(n->to, n->from, n->bytes);
    return cudaSuccess;
}

static cudaError_t fill_now(const struct node *n)
{
    if (!emul_written(n->to, n->bytes, "a fill"))
        return done(cudaErrorInvalidValue);
    memset(n->to, n->byte, n->bytes);
    return cudaSuccess;
}

static cudaError_t launch_now(struct emul_kernel *k, struct dim3 grid,
                              struct dim3 block, const void *args)
{
    if (emul_launch(k, grid, block, args))
        return cudaSuccess;
    broken = cudaErrorLaunchFailure;
    return done(broken);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s,
                                   enum cudaStreamCaptureMode mode)
{
    cudaError_t rc = enter("capture");

    if (rc != cudaSuccess)
        return rc;
    if (s->recording)
        return done(cudaErrorIllegalState);
    s->recording = calloc(1, sizeof(*s->recording));
    s->recording->end = &s->recording->first;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    if (!s->recording)
        return done(cudaErrorIllegalState);
    *out = s->recording;
    s->recording = NULL;
    return enter("end_capture");
}

// The executable is the graph itself: ours to free once.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags)
{
    struct CUgraph_st *copy = calloc(1, sizeof(*copy));

    *copy = *graph;
    graph->first = NULL;
    *out = (cudaGraphExec_t)copy;
    return enter("instantiate");
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    cudaError_t rc = enter("graph");

    for (struct node *n = ((struct CUgraph_st *)exec)->first;
         n && rc == cudaSuccess; n = n->next)
        rc = n->kind == COPY ? copy_now(n)
             : n->kind == FILL
                 ? fill_now(n)
                 : launch_now(n->kernel, n->grid, n->block, n->args);
    return rc;
}

static void free_nodes(struct CUgraph_st *g)
{
    while (g->first) {
        struct node *n = g->first;

        g->first = n->next;
        free(n);
    }
    free(g);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free_nodes(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    free_nodes((struct CUgraph_st *)exec);
    return cudaSuccess;
}

// ---- Streams and events ---------------------------------------------------

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -1;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                         int priority)
{
    cudaError_t rc = enter("stream");

    if (rc == cudaSuccess)
        *out = calloc(1, sizeof(**out));
    return rc;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    return enter("sync");
}

struct CUevent_st {
    int unused;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t rc = enter("event");

    if (rc == cudaSuccess)
        *out = calloc(1, sizeof(**out));
    return rc;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    return enter("event_record");
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    return enter("event_query");
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    return enter("event_sync");
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    return enter("event_wait");
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind dir, cudaStream_t s)
{
    struct node now = {.to = to, .from = from, .bytes = bytes, .dir = dir};
    struct node *n;
    cudaError_t rc = enter("copy");

    if (rc != cudaSuccess)
        return rc;
    n = keep(s, 0);
    if (!n)
        return copy_now(&now);
    now.next = n->next;
    now.kind = COPY;
    *n = now;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t s)
{
    struct node now = {.kind = FILL, .to = to, .byte = byte, .bytes = bytes};
    struct node *n;
    cudaError_t rc = enter("fill");

    if (rc != cudaSuccess)
        return rc;
    n = keep(s, 0);
    if (!n)
        return fill_now(&now);
    *n = now;
    return cudaSuccess;
}

// ---- Kernels --------------------------------------------------------------

cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code,
                                enum cudaJitOption *jit, void **jit_values,
                                unsigned jits, enum cudaLibraryOption *options,
                                void **values, unsigned n)
{
    *out = (cudaLibrary_t)emul_table;
    return enter("load");
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library,
                                 const char *name)
{
    for (struct emul_kernel *k = emul_table; k->name; k++)
        if (strcmp(k->name, name) == 0) {
            *out = (cudaKernel_t)k;
            return enter("kernel");
        }
    return done(cudaErrorSymbolNotFound);
}

cudaError_t cudaLaunchKernel(const void *kernel, struct dim3 grid,
                             struct dim3 block, void **args, size_t shared,
                             cudaStream_t s)
{
    struct emul_kernel *k = (struct emul_kernel *)(uintptr_t)kernel;
    cudaError_t rc = enter("launch");
    struct node *n;

    if (rc != cudaSuccess)
        return rc;
    if (grid.x == 0 || grid.y == 0 || grid.y > 65535 || shared > 0)
        return done(cudaErrorInvalidConfiguration);
    n = keep(s, k->args_bytes);
    if (!n)
        return launch_now(k, grid, block, args[0]);
    n->kind = LAUNCH;
    n->kernel = k;
    n->grid = grid;
    n->block = block;
    memcpy(n->args, args[0], k->args_bytes);
    return cudaSuccess;
}
