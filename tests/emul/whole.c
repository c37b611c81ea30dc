// SPDX-License-Identifier: Apache-2.0
// tests/emul/whole.c -- the whole CUDA module: our kernels on the emulator,
// products on stand-ins for NVIDIA's libraries.
//
// The backend is the module's own, "cuda", taken from kern_module without a
// dlopen; so every descriptor goes the way that it goes on a GPU.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/hostside.h"
#include "tests/emul/whole.h"

const struct kern_backend *kern_module(uint32_t abi,
                                       const struct kern_host *host);

// Memory and log are this program's already.
bool hostside_set(const struct kern_host *h)
{
    return true;
}

const struct kern_backend *emul_module(void)
{
    return kern_module(KERN_ABI, NULL);
}

// ---- What the stand-in for libcudart does not have ------------------------

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

float emul_slower;

// Every candidate is faster than the one before, so autotune takes the last;
// with emul_slower each time is so many times the one before.
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    static float next = 1e6f;

    next = emul_slower > 0 ? next * emul_slower : next - 1;
    *ms = next;
    return cudaSuccess;
}
