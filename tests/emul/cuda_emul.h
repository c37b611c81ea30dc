// SPDX-License-Identifier: Apache-2.0
// tests/emul/cuda_emul.h -- CUDA's language for g++: forced in front of the .cu
// files, so that device code runs on the CPU as it stands.
//
// Types and conversions are the toolkit's own headers. Left out, so that their
// use is a compile error: atomics, __activemask, cooperative groups, inline
// PTX, and intrinsics of a speed that nobody here can check.
//
// A thread of a block is a fiber (emul.c); shared memory is one section of the
// program. Block and warp operations carry the line they are called from.
#ifndef TESTS_EMUL_CUDA_EMUL_H
#define TESTS_EMUL_CUDA_EMUL_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <vector_functions.h>

#include "tests/emul/emul.h"

#undef __shared__
#define __shared__ static __attribute__((section("emul_shared"), aligned(16)))
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

extern "C" {
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
}

// Two plain defaults name the caller; a struct of both would name this file.
#define EMUL_AT                                                                \
    const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()

static inline void __syncthreads(EMUL_AT)
{
    emul_sync_block(file_, line_);
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, EMUL_AT)
{
    emul_warp_op(EMUL_SYNCWARP, mask, 0, 0, file_, line_);
}

// Values travel as bits.
template <class T>
static inline T emul_shuffle(enum emul_op op, unsigned mask, T x, int arg,
                             const char *file, int line)
{
    uint64_t bits = 0;

    static_assert(sizeof(T) <= sizeof(bits), "a shuffle moves at most 8 bytes");
    __builtin_memcpy(&bits, &x, sizeof(T));
    bits = emul_warp_op(op, mask, bits, arg, file, line);
    __builtin_memcpy(&x, &bits, sizeof(T));
    return x;
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T x, int lanes, EMUL_AT)
{
    return emul_shuffle(EMUL_SHFL_XOR, mask, x, lanes, file_, line_);
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T x, int by, EMUL_AT)
{
    return emul_shuffle(EMUL_SHFL_DOWN, mask, x, by, file_, line_);
}

template <class T>
static inline T __shfl_sync(unsigned mask, T x, int lane, EMUL_AT)
{
    return emul_shuffle(EMUL_SHFL, mask, x, lane, file_, line_);
}

static inline unsigned __ballot_sync(unsigned mask, int yes, EMUL_AT)
{
    return (unsigned)emul_warp_op(EMUL_BALLOT, mask, yes != 0, 0, file_, line_);
}

// ---- Arithmetic that has a name of its own on the device -------------------

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

// Rounded by itself: this build contracts nothing (-ffp-contract=off).
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}

// ---- The table of kernels --------------------------------------------------

// Kernels take one struct by value; here it comes by address, as
// cudaLaunchKernel gets it.
template <class Args> struct emul_enter {
    __attribute__((no_sanitize("thread"))) static void go(emul_function kernel,
                                                          const void *args)
    {
        ((void (*)(Args))kernel)(*(const Args *)args);
    }
};

#endif
