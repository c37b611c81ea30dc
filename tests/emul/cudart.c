// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudart.c -- what the CUDA module calls of libcudart, over the
// emulator. Streams, events and recordings: streams.c.
//
// emul_fail() makes a later call fail, as a device would.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emul/cudart.h"
#include "tests/emul/emul.h"
#include "tests/emul/streams.h"

#define ARGS_MOST 1024 // of a kernel

const unsigned char cuda_fatbin[1]; // there is no machine code here

#define DEVICES 8

static int devices = 1;
static _Thread_local int current;
static _Thread_local cudaError_t last;
static cudaError_t breaks[DEVICES]; // sticky, of each
#define broken breaks[current]

void emul_devices(int count)
{
    devices = count < DEVICES ? count : DEVICES;
}

int emul_current(void)
{
    return current;
}

void emul_choose(int device)
{
    current = device;
}

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
    last = cudaSuccess;
    memset(breaks, 0, sizeof(breaks));
    fault.what = NULL;
}

static cudaError_t done(cudaError_t rc)
{
    if (rc != cudaSuccess)
        last = rc;
    return rc;
}

cudaError_t emul_done(cudaError_t rc)
{
    return done(rc);
}

void emul_broke(cudaError_t rc)
{
    broken = done(rc);
}

#define NAMES 32
static struct {
    const char *name;
    unsigned n;
} calls[NAMES];

unsigned emul_calls(const char *what)
{
    for (unsigned i = 0; i < NAMES && calls[i].name; i++)
        if (strcmp(calls[i].name, what) == 0)
            return calls[i].n;
    return 0;
}

static void count(const char *what)
{
    unsigned i = 0;

    while (i < NAMES - 1 && calls[i].name && strcmp(calls[i].name, what) != 0)
        i++;
    calls[i].name = what;
    calls[i].n++;
}

// Every call begins here: has the device broken, or is it this call's turn?
static cudaError_t enter(const char *what)
{
    count(what);
    if (broken != cudaSuccess)
        return broken;
    if (!fault.what || strcmp(fault.what, what) != 0 || --fault.nth > 0)
        return cudaSuccess;
    fault.what = NULL;
    if (fault.sticky)
        broken = fault.code;
    return done(fault.code);
}

cudaError_t emul_enter(const char *what)
{
    return enter(what);
}

// ---- Device ---------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices;
    return enter("count");
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= devices)
        return done(cudaErrorInvalidDevice);
    current = device;
    return enter("set");
}

static int capability = 90;

void emul_capability(int sm)
{
    capability = sm;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof(*prop));
    snprintf(prop->name, sizeof(prop->name), "emulated");
    prop->major = capability / 10;
    prop->minor = capability % 10;
    prop->totalGlobalMem = 1u << 30;
    prop->multiProcessorCount = 1;
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

cudaError_t cudaPeekAtLastError(void)
{
    return broken != cudaSuccess ? broken : last;
}

// ---- Memory ---------------------------------------------------------------

// Pinned memory that there is: copies of other memory wait.
static struct pinned {
    struct pinned *next;
    char *at;
    size_t bytes;
} * all_pinned;

static unsigned on_device; // allocations

static bool is_pinned(const void *at)
{
    for (struct pinned *p = all_pinned; p; p = p->next)
        if ((const char *)at >= p->at && (const char *)at < p->at + p->bytes)
            return true;
    return false;
}

unsigned emul_alive(void)
{
    unsigned n = on_device + emul_streams_alive();

    for (struct pinned *p = all_pinned; p; p = p->next)
        n++;
    return n;
}

// What allocates or frees waits for the device, or is refused.
static cudaError_t enter_memory(const char *what)
{
    cudaError_t rc = enter(what);

    return rc == cudaSuccess && emul_recording() ? emul_forbidden() : rc;
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    cudaError_t rc = enter_memory("malloc");

    if (rc != cudaSuccess)
        return rc;
    *at = emul_alloc(bytes);
    on_device += *at != NULL;
    return *at ? cudaSuccess : done(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *at)
{
    cudaError_t rc = enter_memory("free");

    if (rc != cudaSuccess)
        return rc;
    if (emul_drain())
        enter("busy_free");
    if (!emul_free(at))
        return done(cudaErrorInvalidValue);
    on_device--;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags)
{
    cudaError_t rc = enter_memory("host_alloc");
    struct pinned *p;

    if (rc != cudaSuccess)
        return rc;
    p = calloc(1, sizeof(*p));
    *p = (struct pinned){.next = all_pinned,
                         .at = aligned_alloc(256, (bytes + 255) & ~(size_t)255),
                         .bytes = bytes};
    all_pinned = p;
    *at = p->at;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *at)
{
    cudaError_t rc = enter_memory("free_host");
    struct pinned **p = &all_pinned, *gone;

    if (rc != cudaSuccess)
        return rc;
    if (emul_drain())
        enter("busy_free");
    while (*p && (*p)->at != at)
        p = &(*p)->next;
    gone = *p;
    if (!gone)
        return done(cudaErrorInvalidValue);
    *p = gone->next;
    free(gone->at);
    free(gone);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
                                     const void *at)
{
    memset(out, 0, sizeof(*out));
    out->type = emul_is_device(at) ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    return enter("attributes");
}

// ---- Copies ---------------------------------------------------------------

struct copy {
    void *to;
    const void *from;
    size_t bytes;
    enum cudaMemcpyKind dir;
};

static uint64_t copied[cudaMemcpyDefault + 1];

uint64_t emul_copied(enum cudaMemcpyKind dir)
{
    return copied[dir];
}

static cudaError_t copy_now(void *args)
{
    const struct copy *c = args;
    bool from_device = c->dir != cudaMemcpyHostToDevice;
    bool to_device = c->dir != cudaMemcpyDeviceToHost;

    if ((from_device && !emul_readable(c->from, c->bytes, "a copy")) ||
        (to_device && !emul_written(c->to, c->bytes, "a copy")))
        return done(cudaErrorInvalidValue);
    memmove(c->to, c->from, c->bytes);
    return cudaSuccess;
}

static bool pinned(const struct copy *c)
{
    return c->dir == cudaMemcpyDeviceToDevice ||
           is_pinned(c->dir == cudaMemcpyHostToDevice ? c->from : c->to);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind dir, cudaStream_t s)
{
    static const struct emul_work work = {copy_now, NULL};
    struct copy c = {to, from, bytes, dir};
    cudaError_t rc = enter("copy");

    if (rc != cudaSuccess)
        return rc;
    copied[dir] += bytes;
    if (pinned(&c) || emul_records(s))
        return emul_enqueue(s, &work, &c, sizeof(c));
    emul_drain(); // memory that is not pinned: the call waits
    rc = enter("unpinned");
    return rc == cudaSuccess ? copy_now(&c) : rc;
}

// ---- Several devices ------------------------------------------------------

// Who reaches whom, by bits: two neighbours each, as on boards with two
// sockets.
static unsigned reach[DEVICES];

static bool can_reach(int device, int peer)
{
    return device != peer && device / 2 == peer / 2;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (device < 0 || device >= devices || peer < 0 || peer >= devices)
        return done(cudaErrorInvalidDevice);
    *can = can_reach(device, peer);
    return enter("can_access_peer");
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    cudaError_t rc = enter("enable_peer");

    if (rc != cudaSuccess)
        return rc;
    if (flags != 0 || peer < 0 || peer >= devices)
        return done(cudaErrorInvalidValue);
    if (!can_reach(current, peer))
        return done(cudaErrorPeerAccessUnsupported);
    if (reach[current] & 1u << peer)
        return done(cudaErrorPeerAccessAlreadyEnabled);
    reach[current] |= 1u << peer;
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                int from_device, size_t bytes, cudaStream_t s)
{
    static const struct emul_work work = {copy_now, NULL};
    struct copy c = {to, from, bytes, cudaMemcpyDeviceToDevice};
    cudaError_t rc = enter("copy_peer");

    if (rc == cudaSuccess &&
        (to_device != current || from_device < 0 || from_device >= devices))
        return done(cudaErrorInvalidDevice);
    return rc == cudaSuccess ? emul_enqueue(s, &work, &c, sizeof(c)) : rc;
}

struct filling {
    void *to;
    int byte;
    size_t bytes;
};

static cudaError_t fill_now(void *args)
{
    const struct filling *f = args;

    if (!emul_written(f->to, f->bytes, "a fill"))
        return done(cudaErrorInvalidValue);
    memset(f->to, f->byte, f->bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t s)
{
    static const struct emul_work work = {fill_now, NULL};
    struct filling f = {to, byte, bytes};
    cudaError_t rc = enter("fill");

    return rc == cudaSuccess ? emul_enqueue(s, &work, &f, sizeof(f)) : rc;
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

struct launch {
    struct emul_kernel *kernel;
    struct dim3 grid, block;
    _Alignas(16) char args[ARGS_MOST];
};

static const char *skipped;

void emul_skip(const char *kernel)
{
    skipped = kernel;
}

static cudaError_t launch_now(void *args)
{
    struct launch *l = args;

    if (skipped && strcmp(l->kernel->name, skipped) == 0)
        return cudaSuccess;
    if (emul_launch(l->kernel, l->grid, l->block, l->args))
        return cudaSuccess;
    broken = cudaErrorLaunchFailure;
    return done(broken);
}

cudaError_t cudaLaunchKernel(const void *kernel, struct dim3 grid,
                             struct dim3 block, void **args, size_t shared,
                             cudaStream_t s)
{
    static const struct emul_work work = {launch_now, NULL};
    struct emul_kernel *k = (struct emul_kernel *)(uintptr_t)kernel;
    struct launch l = {.kernel = k, .grid = grid, .block = block};
    cudaError_t rc = enter("launch");

    if (rc != cudaSuccess)
        return rc;
    if (grid.x == 0 || grid.y == 0 || grid.y > 65535 || shared > 0 ||
        k->args_bytes > ARGS_MOST)
        return done(cudaErrorInvalidConfiguration);
    memcpy(l.args, args[0], k->args_bytes);
    return emul_enqueue(s, &work, &l, sizeof(l));
}
