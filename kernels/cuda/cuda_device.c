// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cuda_device.c -- the device: errors, memory, launches.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "kernels/cuda/cuda.h"

// ---- Errors ---------------------------------------------------------------

// Returns true for errors after which every call on the context fails.
static bool sticky(cudaError_t rc)
{
    switch (rc) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

static void note_fault(struct cuda_dev *dev, cudaError_t rc, const char *what)
{
    if (dev->lost)
        return; // the first one is the cause
    snprintf(dev->fault, sizeof(dev->fault), "GPU %d (%s): %s: %s (%s)",
             dev->ordinal, dev->name, what, cudaGetErrorString(rc),
             cudaGetErrorName(rc));
    dev->lost = sticky(rc);
}

enum sl_err cuda_result(struct cuda_dev *dev, cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess)
        return dev->lost ? SL_ELOST : SL_OK;
    note_fault(dev, rc, what);
    if (dev->lost)
        return SL_ELOST;
    cudaGetLastError(); // not sticky: forget it, or the next call reports it
    return rc == cudaErrorMemoryAllocation ? SL_ENOMEM : SL_EINTERNAL;
}

enum sl_err cuda_fail(struct cuda_dev *dev, cudaError_t rc, const char *what,
                      struct sl_error *err)
{
    enum sl_err code = cuda_result(dev, rc, what);

    if (code == SL_OK)
        return SL_OK;
    if (code == SL_ENOMEM)
        return sl_fail(err, code,
                       "%s; use a smaller batch, or free memory of the GPU",
                       dev->fault);
    return sl_fail(err, code, "%s", dev->fault);
}

// ---- Opening --------------------------------------------------------------

int cuda_probe(char *why, size_t n)
{
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);

    if (rc == cudaSuccess && count > 0)
        return count;
    snprintf(why, n, "%s",
             rc == cudaSuccess || rc == cudaErrorNoDevice
                 ? "no device"
                 : cudaGetErrorString(rc));
    return 0;
}

static enum sl_err find_kernels(struct cuda_dev *dev, struct sl_error *err)
{
    static const char *const name[] = {
#define KERNEL(name, args, kinds) #name,
#include "kernels/cuda/kernels.def"
    };
    enum sl_err rc =
        cuda_fail(dev,
                  cudaLibraryLoadData(&dev->library, cuda_fatbin, NULL, NULL, 0,
                                      NULL, NULL, 0),
                  "loading our kernels", err);

    for (unsigned i = 0; i < CUDA_KERNELS && rc == SL_OK; i++)
        rc = cuda_fail(
            dev, cudaLibraryGetKernel(&dev->kernel[i], dev->library, name[i]),
            name[i], err);
    return rc;
}

// Machine code runs on its major version from its minor one on, PTX on
// everything that is as new.
enum cuda_code cuda_code_for(int sm)
{
    static const int arches[] = {CUDA_ARCHES}; // in order; PTX of the last

    for (unsigned i = 0; i < SL_COUNT(arches); i++)
        if (arches[i] / 10 == sm / 10 && arches[i] <= sm)
            return CUDA_CODE_MACHINE;
    if (sm < arches[0])
        return CUDA_CODE_TOO_OLD;
    return sm >= arches[SL_COUNT(arches) - 1] ? CUDA_CODE_PTX : CUDA_CODE_NONE;
}

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)

// An older device, or one that fell between those that this was built for, is
// of no use. A newer one works: its driver compiles what we bring.
static enum sl_err check_code(const struct cuda_dev *dev, struct sl_error *err)
{
    enum cuda_code code = cuda_code_for(dev->sm);

    if (code == CUDA_CODE_PTX)
        LOG(INFO,
            "GPU is newer than this build; its driver compiles our kernels, "
            "once",
            "device=%d name=%s sm=%d built_for=%s", dev->ordinal, dev->name,
            dev->sm, TEXT(CUDA_ARCHES));
    if (code == CUDA_CODE_MACHINE || code == CUDA_CODE_PTX)
        return SL_OK;
    return sl_fail(err, SL_ENOTSUP,
                   "GPU %d (%s) has compute capability %d.%d%s; this build has "
                   "code for %s (90 is 9.0), and for what is newer than the "
                   "last",
                   dev->ordinal, dev->name, dev->sm / 10, dev->sm % 10,
                   code == CUDA_CODE_TOO_OLD ? ", which is too old" : "",
                   TEXT(CUDA_ARCHES));
}

static enum sl_err cuda_dev_set_up(struct cuda_dev *dev, struct sl_error *err)
{
    struct cudaDeviceProp prop;
    enum sl_err rc =
        cuda_fail(dev, cudaSetDevice(dev->ordinal), "choosing the device", err);

    if (rc == SL_OK)
        rc = cuda_fail(dev, cudaGetDeviceProperties(&prop, dev->ordinal),
                       "asking for its properties", err);
    if (rc != SL_OK)
        return rc;
    snprintf(dev->name, sizeof(dev->name), "%.63s", prop.name);
    dev->bytes = prop.totalGlobalMem;
    dev->sm = prop.major * 10 + prop.minor;
    dev->multiprocessors = prop.multiProcessorCount;
    rc = check_code(dev, err);
    return rc == SL_OK ? find_kernels(dev, err) : rc;
}

enum sl_err cuda_dev_open(struct cuda_dev **out,
                          const struct kern_backend *backend, int ordinal,
                          struct sl_error *err)
{
    struct cuda_dev *dev = sl_calloc(1, sizeof(*dev));
    char why[160] = "";
    int count = cuda_probe(why, sizeof(why));
    enum sl_err rc;

    if (!dev)
        return sl_fail(err, SL_ENOMEM, "backend cuda: out of memory");
    dev->base.backend = backend;
    dev->ordinal = ordinal;
    if (count == 0)
        rc = sl_fail(err, SL_ENOTSUP, "backend cuda: %s", why);
    else if (ordinal < 0 || ordinal >= count)
        rc = sl_fail(err, SL_ENOENT,
                     "there is no GPU %d: this host has %d, counted from 0",
                     ordinal, count);
    else
        rc = cuda_dev_set_up(dev, err);
    if (rc != SL_OK) {
        cuda_close(&dev->base);
        return rc;
    }
    *out = dev;
    return SL_OK;
}

void cuda_close(struct kern_dev *base)
{
    struct cuda_dev *dev = cuda_dev(base);

    if (!dev)
        return;
    if (dev->library && !dev->lost)
        cudaLibraryUnload(dev->library);
    sl_free(dev);
}

void cuda_info(struct kern_info *out, struct kern_dev *base)
{
    struct cuda_dev *dev = cuda_dev(base);

    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "cuda:%d: %.40s, sm_%d",
             dev->ordinal, dev->name, dev->sm);
    out->bytes = dev->bytes;
    out->dtypes = 1u << KERN_F32 | 1u << KERN_F16 | 1u << KERN_BF16;
}

// ---- Memory ---------------------------------------------------------------

enum sl_err cuda_alloc(struct kern_mem *out, struct kern_dev *base,
                       size_t bytes, enum kern_place place)
{
    struct cuda_dev *dev = cuda_dev(base);
    size_t some = bytes ? bytes : 1; // an empty buffer has its own address, too
    void *at = NULL;
    cudaError_t rc = cudaSetDevice(dev->ordinal);
    enum sl_err code;

    if (rc == cudaSuccess) // pinned: for the other devices of a team, too
        rc = place == KERN_HOST
                 ? cudaHostAlloc(&at, some, cudaHostAllocPortable)
                 : cudaMalloc(&at, some);
    code = cuda_result(dev, rc, "allocating memory");
    if (code == SL_OK)
        *out = (struct kern_mem){.at = at, .bytes = bytes};
    return code;
}

// A kern_mem does not say which place it is of; the runtime knows.
void cuda_release(struct kern_dev *base, struct kern_mem *mem)
{
    struct cudaPointerAttributes where;
    struct cuda_dev *dev = cuda_dev(base);
    cudaError_t rc;

    if (!mem->at)
        return;
    rc = cudaPointerGetAttributes(&where, mem->at);
    if (rc == cudaSuccess && where.type == cudaMemoryTypeHost)
        rc = cudaFreeHost(mem->at);
    else if (rc == cudaSuccess)
        rc = cudaFree(mem->at);
    cuda_result(dev, rc, "freeing memory"); // no remedy; noted
    *mem = (struct kern_mem){0};
}

// ---- Plans and launches ---------------------------------------------------

void cuda_plan_free(struct kern_plan *plan)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;

    if (p)
        p->free(p);
}

enum sl_err cuda_run(struct kern_plan *plan, struct kern_stream *s,
                     void *const *io, void *workspace)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;

    if (p->dev->lost)
        return SL_ELOST;
    return p->run(p, cuda_stream(s), io, workspace);
}

enum sl_err cuda_launch_bytes(struct cuda_dev *dev, cudaStream_t s,
                              enum cuda_kernel kernel, int64_t gx, int64_t gy,
                              const void *args, size_t bytes)
{
    static const struct {
        const char *name;
        size_t bytes;
    } table[] = {
#define KERNEL(name, args, kinds) {#name, sizeof(struct args_##args)},
#include "kernels/cuda/kernels.def"
    };
    void *list[1] = {(void *)(uintptr_t)args};
    struct dim3 grid = {.x = (unsigned)gx, .y = (unsigned)gy, .z = 1};
    struct dim3 block = {.x = CUDA_THREADS, .y = 1, .z = 1};

    assert(bytes == table[kernel].bytes);
    if (gx == 0 || gy == 0)
        return SL_OK;
    return cuda_result(dev,
                       cudaLaunchKernel((const void *)dev->kernel[kernel], grid,
                                        block, list, 0, s),
                       table[kernel].name);
}
