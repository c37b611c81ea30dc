// SPDX-License-Identifier: Apache-2.0
// tests/emul/planted.cu -- small kernels, each with one mistake of the kinds
// that device code has. planted_test.c says what must be reported of each; the
// first ones are right, and nothing may be.
#include "kernels/cuda/cuda_device.cuh"
#include "tests/emul/planted.h"

#define PLANTED(name)                                                          \
    extern "C" __global__ void name(const struct args_planted a)

// The sum of n elements by one block, in the usual tree.
DEV void tree(const struct args_planted &a, bool load_barrier,
              bool step_barrier)
{
    __shared__ float scratch[PLANTED_THREADS];
    int me = threadIdx.x;

    scratch[me] = me < a.n ? a.x[me] : 0;
    if (load_barrier)
        __syncthreads();
    for (int half = PLANTED_THREADS / 2; half > 0; half /= 2) {
        if (me < half)
            scratch[me] += scratch[me + half];
        if (step_barrier)
            __syncthreads();
    }
    if (me == 0)
        a.y[0] = scratch[0];
}

PLANTED(good_sum)
{
    tree(a, true, true);
}

PLANTED(good_warp)
{
    float x = (int)threadIdx.x < a.n ? a.x[threadIdx.x] : 0;

    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        a.y[threadIdx.x / 32] = x;
}

PLANTED(good_packs)
{
    int64_t at = thread_number() * 4;
    float x[4];

    if (at >= a.n)
        return;
    int m = pack_part<4>(a.n, at);

    pack_load(x, a.x + at, m, true);
    pack_store(a.y + at, x, m, true);
}

PLANTED(no_barrier_after_load)
{
    tree(a, false, true);
}

PLANTED(no_barrier_in_step)
{
    tree(a, true, false);
}

PLANTED(returns_before_barrier)
{
    __shared__ float scratch[PLANTED_THREADS];

    if ((int)threadIdx.x >= a.n)
        return;
    scratch[threadIdx.x] = a.x[threadIdx.x];
    __syncthreads();
    a.y[threadIdx.x] = scratch[a.n - 1 - threadIdx.x];
}

PLANTED(barriers_at_two_places)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    a.y[threadIdx.x] = 0;
}

PLANTED(shuffle_names_the_gone)
{
    float x = 1;

    if ((int)threadIdx.x >= a.n)
        return;
    a.y[threadIdx.x] = warp_sum(x);
}

PLANTED(shuffle_reads_the_unnamed)
{
    unsigned low = 0xffff;

    if (threadIdx.x < 16)
        a.y[threadIdx.x] = __shfl_down_sync(low, a.x[threadIdx.x], 8);
}

PLANTED(guard_is_one_off)
{
    int64_t i = thread_number();

    if (i <= a.n)
        a.y[i] = 1;
}

PLANTED(reads_past_the_end)
{
    int64_t i = thread_number();

    if (i < a.n)
        a.y[i] = a.x[i + 1];
}

PLANTED(wide_without_asking)
{
    float x[4];

    pack_load(x, a.x + 1, 4, true);
    pack_store(a.y, x, 4, true);
}

PLANTED(lost_update)
{
    if ((int)threadIdx.x < a.n && a.x[threadIdx.x] > 0)
        a.y[0] += 1;
}

PLANTED(adds_to_nothing)
{
    if ((int)threadIdx.x < a.n)
        a.y[threadIdx.x] += a.x[threadIdx.x];
}

PLANTED(blocks_overlap)
{
    a.y[blockIdx.x * (PLANTED_THREADS - 1) + threadIdx.x] = 1;
}

PLANTED(shared_past_the_end)
{
    __shared__ float scratch[PLANTED_THREADS];

    scratch[threadIdx.x + (threadIdx.x == PLANTED_THREADS - 1)] = 1;
    __syncthreads();
    a.y[threadIdx.x] = scratch[threadIdx.x];
}

PLANTED(shared_never_written)
{
    __shared__ float scratch[PLANTED_THREADS];

    if (threadIdx.x > 0)
        scratch[threadIdx.x] = 1;
    __syncthreads();
    a.y[threadIdx.x] = scratch[threadIdx.x];
}

PLANTED(no_syncwarp)
{
    __shared__ float scratch[PLANTED_THREADS];
    int me = threadIdx.x;

    scratch[me] = a.x[me % a.n];
    a.y[me] = scratch[me ^ 1];
}

PLANTED(with_syncwarp)
{
    __shared__ float scratch[PLANTED_THREADS];
    int me = threadIdx.x;

    scratch[me] = a.x[me % a.n];
    __syncwarp();
    a.y[me] = scratch[me ^ 1];
}

PLANTED(in_place_shift)
{
    if ((int)threadIdx.x + 1 < a.n)
        ((float *)a.x)[threadIdx.x + 1] = a.x[threadIdx.x];
}
