// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cuda_device.cuh -- what the kernels share: types, packs, sums.
//
// Device code only. All .cu files are one translation unit (all.cu), for nvcc
// and for the emulator of tests/emul, so everything here is static.
//
// A thread's work is a *pack*: as many elements as 16 bytes hold, in f32 in
// registers. At the end of a row or tensor m of them are there; where
// addresses allow it (wide) a whole pack is one 16-byte access. The cut into
// packs does not depend on addresses, so neither do the bits of a sum.
//
// Order    No atomics. Sums go lane by lane in a fixed tree, then block by
//          block in order: equal bits every time.
#ifndef KERNELS_CUDA_CUDA_DEVICE_CUH
#define KERNELS_CUDA_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/args.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;

#define DEV static __device__ __forceinline__
#define ALL_LANES 0xffffffffu

// A kernel, in one or in all dtypes: name##_of<T>(a) is its body.
#define ENTRY(name, body, args)                                                \
    extern "C" __global__ void __launch_bounds__(CUDA_THREADS)                 \
        name(const __grid_constant__ struct args_##args a)                     \
    {                                                                          \
        body(a);                                                               \
    }
#define TYPED_ENTRY(name, args)                                                \
    ENTRY(name##_f32, name##_of<float>, args)                                  \
    ENTRY(name##_f16, name##_of<f16>, args)                                    \
    ENTRY(name##_bf16, name##_of<bf16>, args)

// ---- Numbers --------------------------------------------------------------

// Returns the value of an element, exactly.
DEV float elem_float(float x)
{
    return x;
}
DEV float elem_float(f16 x)
{
    return __half2float(x);
}
DEV float elem_float(bf16 x)
{
    return __bfloat162float(x);
}

// Stores x, rounded to nearest even; an f16 may become infinite.
DEV void elem_store(float *to, float x)
{
    *to = x;
}
DEV void elem_store(f16 *to, float x)
{
    *to = __float2half_rn(x);
}
DEV void elem_store(bf16 *to, float x)
{
    *to = __float2bfloat16_rn(x);
}

// Returns what elem_store of x to a T leaves to be read back.
template <class T> DEV float as_stored(float x)
{
    T r;

    elem_store(&r, x);
    return elem_float(r);
}

// ---- Packs ----------------------------------------------------------------

// Number of elements in a pack of T.
template <class T> struct pack {
    static const int n = 16 / sizeof(T);
};

// V elements that are read or written by one access.
template <class T, int V> struct __align__(sizeof(T) * V) run
{
    T at[V];
};

// Loads the m elements at `from`, with zeros behind them, as f32. `wide`: the
// address allows one access for all V.
template <int V, class T>
DEV void pack_load(float (&to)[V], const T *from, int m, bool wide)
{
    if (wide && m == V) {
        const run<T, V> r = *(const run<T, V> *)from;

        for (int l = 0; l < V; l++)
            to[l] = elem_float(r.at[l]);
        return;
    }
    for (int l = 0; l < V; l++)
        to[l] = l < m ? elem_float(from[l]) : 0;
}

// Returns the pack at `from` as it lies in memory; what is beyond its m
// elements is 0. WIDE: by one access, which reads all of them.
template <bool WIDE, class T> DEV run<T, pack<T>::n> fetch(const T *from, int m)
{
    run<T, pack<T>::n> r;

    if constexpr (WIDE) {
        r = *(const run<T, pack<T>::n> *)from;
    } else {
        for (int l = 0; l < pack<T>::n; l++)
            if (l < m)
                r.at[l] = from[l];
            else
                elem_store(&r.at[l], 0);
    }
    return r;
}

// Stores the first m elements, rounded to T. `wide` as for pack_load.
template <int V, class T>
DEV void pack_store(T *to, const float (&from)[V], int m, bool wide)
{
    if (wide && m == V) {
        run<T, V> r;

        for (int l = 0; l < V; l++)
            elem_store(&r.at[l], from[l]);
        *(run<T, V> *)to = r;
        return;
    }
    for (int l = 0; l < V; l++)
        if (l < m)
            elem_store(to + l, from[l]);
}

// Loads m elements of a max-pool's aux, from element `at` on; `wide` as for
// pack_load, of u8. No tap, and what is beyond m, comes as -1 (i32) or 255
// (u8).
template <int V>
DEV void load_aux(int (&tap)[V], const void *aux, bool i32, int64_t at, int m,
                  bool wide)
{
    if (i32) {
        for (int l = 0; l < V; l++)
            tap[l] = l < m ? ((const int32_t *)aux)[at + l] : -1;
        return;
    }
    if (wide && m == V) {
        const run<uint8_t, V> r =
            *(const run<uint8_t, V> *)((const uint8_t *)aux + at);

        for (int l = 0; l < V; l++)
            tap[l] = r.at[l];
        return;
    }
    for (int l = 0; l < V; l++)
        tap[l] = l < m ? ((const uint8_t *)aux)[at + l] : 255;
}

// Returns the number of this thread in a grid of one dimension.
DEV int64_t thread_number(void)
{
    return (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x;
}

// Returns how many of n elements the pack at `from`, below n, has.
template <int V> DEV int pack_part(int64_t n, int64_t from)
{
    return n - from < V ? (int)(n - from) : V;
}

// Divides *i by d and returns the rest. Most numbers fit in 32 bits, where it
// is cheap.
DEV uint32_t index_split(uint64_t *i, uint32_t d)
{
    uint64_t whole;
    uint32_t rest;

    if (*i >> 32 == 0) {
        rest = (uint32_t)*i % d;
        *i = (uint32_t)*i / d;
        return rest;
    }
    whole = *i / d;
    rest = (uint32_t)(*i - whole * d);
    *i = whole;
    return rest;
}

// ---- Sums -----------------------------------------------------------------

// Returns the sum of x over the lanes of a warp, all of which call it; every
// lane gets the same bits, since each step adds the same two numbers on both
// sides.
template <class N> DEV N warp_sum(N x)
{
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

// Sums a and b over the threads of a block, to partial[2 * blockIdx.x] and the
// one behind it. All threads call it, once per kernel.
DEV void block_stats(double *partial, double a, double b)
{
    __shared__ double scratch[2][CUDA_THREADS / 32];
    int warp = threadIdx.x / 32;

    a = warp_sum(a);
    b = warp_sum(b);
    if (threadIdx.x % 32 == 0) {
        scratch[0][warp] = a;
        scratch[1][warp] = b;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        double sum = 0;

        for (int w = 0; w < CUDA_THREADS / 32; w++)
            sum += scratch[threadIdx.x][w];
        partial[2 * (int64_t)blockIdx.x + threadIdx.x] = sum;
    }
}

// ---- Tables of rows and columns -------------------------------------------

// Where this thread stands in a table (struct args_table).
struct table_place {
    int64_t col;        // the first of its pack
    int64_t row, below; // rows [row, below), every `step`th
    int step, m;        // m: columns of its pack; 0: none
};

// Returns the place of this thread if its block is at (bx, by) of the table.
template <int V>
DEV struct table_place place_at(const struct args_table &t, int64_t bx,
                                int64_t by)
{
    int x = threadIdx.x % t.across, y = threadIdx.x / t.across;
    struct table_place p;

    p.col = (bx * t.across + x) * V;
    p.row = by * t.chunk + y;
    p.below = (by + 1) * t.chunk;
    if (p.below > t.rows)
        p.below = t.rows;
    p.step = CUDA_THREADS / t.across;
    p.m = p.col < t.cols ? pack_part<V>(t.cols, p.col) : 0;
    return p;
}

// Returns the place of this thread, its block being where the grid has it.
template <int V> DEV struct table_place place_of(const struct args_table &t)
{
    return place_at<V>(t, blockIdx.x, blockIdx.y);
}

// Calls `use` for ROWS rows of a thread from `row` on: all are loaded before
// the first is used.
template <int ROWS, bool WIDE, int N, class T, class F>
DEV void table_walk_rows(const struct args_table &t,
                         const struct table_place &p, int64_t row,
                         const T *const (&from)[N], F use)
{
    const int V = pack<T>::n;
    int m = WIDE ? V : p.m;
    int64_t at = row * t.cols + p.col, apart = p.step * t.cols;
    run<T, V> raw[ROWS][N];
    float x[N][V];

#pragma unroll
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < N; k++)
            raw[r][k] = fetch<WIDE>(from[k] + at + r * apart, m);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < N; k++)
            for (int l = 0; l < V; l++)
                x[k][l] = elem_float(raw[r][k].at[l]);
        use(at + r * apart, m, WIDE, x);
    }
}

// Does what table_walk does, with accesses that are WIDE or not.
template <int FLIGHT, bool WIDE, int N, class T, class F>
DEV void table_walk_as(const struct args_table &t, const struct table_place &p,
                       const T *const (&from)[N], F use)
{
    int64_t row = p.row;

    for (; row + (FLIGHT - 1) * p.step < p.below; row += FLIGHT * p.step)
        table_walk_rows<FLIGHT, WIDE>(t, p, row, from, use);
    for (; row < p.below; row += p.step)
        table_walk_rows<1, WIDE>(t, p, row, from, use);
}

// Walks over all rows of a thread, in order, through N tensors of the same
// shape, and calls use(element, columns, wide, packs) for each: where its pack
// begins, how many columns it has, and the N packs there in f32. Does nothing
// for a thread without columns or rows. FLIGHT rows are loaded before the first
// is used, where accesses are wide.
template <int FLIGHT, int N, class T, class F>
DEV void table_walk(const struct args_table &t, const struct table_place &p,
                    const T *const (&from)[N], F use)
{
    if (p.m == 0)
        return;
    if (t.wide)
        table_walk_as<FLIGHT, true>(t, p, from, use);
    else
        table_walk_as<1, false>(t, p, from, use);
}

// Adds up what the threads of a block have for the same columns, and leaves it
// in partial[blockIdx.y][which of sums][col]. All threads of the block come
// here; t.across is a power of two.
template <int SUMS, int V>
DEV void table_sums(const struct args_table &t, const struct table_place &p,
                    float *partial, const float (&sum)[SUMS][V])
{
    __shared__ float scratch[V][CUDA_THREADS];
    int me = threadIdx.x;

    for (int s = 0; s < SUMS; s++) {
        for (int l = 0; l < V; l++)
            scratch[l][me] = sum[s][l];
        __syncthreads();
        for (int half = CUDA_THREADS / 2; half >= t.across; half /= 2) {
            if (me < half)
                for (int l = 0; l < V; l++)
                    scratch[l][me] += scratch[l][me + half];
            __syncthreads();
        }
        if (me < t.across)
            for (int l = 0; l < V; l++)
                if (l < p.m)
                    partial[((int64_t)blockIdx.y * SUMS + s) * t.cols + p.col +
                            l] = scratch[l][me];
        __syncthreads();
    }
}

// ---- The second pass over partial sums ------------------------------------

// A block adds the partial sums of END_COLS columns, 32 threads each.
#define END_COLS 8

// Returns the column that this thread adds for.
DEV int64_t end_col(void)
{
    return (int64_t)blockIdx.x * END_COLS + threadIdx.x % END_COLS;
}

// Adds the partial sums that `blocks` blocks left for this thread's column; all
// threads of the block call it. Returns true in the one thread for each column
// that then has them in sum[].
template <int SUMS>
DEV bool end_sums(const float *partial, int blocks, int64_t cols,
                  float (&sum)[SUMS])
{
    __shared__ float scratch[SUMS][CUDA_THREADS];
    int me = threadIdx.x, first = me / END_COLS;
    int64_t col = end_col();

    for (int s = 0; s < SUMS; s++) {
        float mine = 0;

        for (int b = first; b < blocks && col < cols;
             b += CUDA_THREADS / END_COLS)
            mine += partial[((int64_t)b * SUMS + s) * cols + col];
        scratch[s][me] = mine;
    }
    __syncthreads();
    for (int half = CUDA_THREADS / 2; half >= END_COLS; half /= 2) {
        if (me < half)
            for (int s = 0; s < SUMS; s++)
                scratch[s][me] += scratch[s][me + half];
        __syncthreads();
    }
    for (int s = 0; s < SUMS; s++)
        sum[s] = scratch[s][me];
    return me < END_COLS && col < cols;
}

#endif
