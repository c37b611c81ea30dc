// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/oracle.cu -- what products and convolutions are by definition,
// in f64, and how far from it others are.
//
// Nothing here is fast, and nothing is clever: an element is a loop over its
// terms, which one warp shares, or a block where the sum is long.
#include "kernels/cuda/cuda_device.cuh"

#define GROUPS_MOST (CUDA_THREADS / 32)

// Dtypes are kern.h's.
#define ORACLE_F16 2
#define ORACLE_BF16 3

DEV double oracle_load(const void *at, int dtype, int64_t i)
{
    if (dtype == ORACLE_F16)
        return elem_float(((const f16 *)at)[i]);
    if (dtype == ORACLE_BF16)
        return elem_float(((const bf16 *)at)[i]);
    return ((const float *)at)[i];
}

DEV void oracle_store(void *at, int dtype, int64_t i, double x)
{
    if (dtype == ORACLE_F16)
        elem_store((f16 *)at + i, (float)x);
    else if (dtype == ORACLE_BF16)
        elem_store((bf16 *)at + i, (float)x);
    else
        ((float *)at)[i] = (float)x;
}

DEV double oracle_rounded(int dtype, double x)
{
    if (dtype == ORACLE_F16)
        return as_stored<f16>((float)x);
    if (dtype == ORACLE_BF16)
        return as_stored<bf16>((float)x);
    return (float)x;
}

// ---- The terms of a sum -----------------------------------------------------

// Where an element stands: along four axes, the last one first.
struct oracle_place {
    int32_t last, third, second;
    int64_t first;
};

DEV struct oracle_place place_along(int64_t i, int64_t last, int64_t third,
                                    int64_t second)
{
    uint64_t rest = (uint64_t)i;
    struct oracle_place p;

    p.last = (int32_t)index_split(&rest, (uint32_t)last);
    p.third = (int32_t)index_split(&rest, (uint32_t)third);
    p.second = (int32_t)index_split(&rest, (uint32_t)second);
    p.first = (int64_t)rest;
    return p;
}

// Where tap `r` of the output at `o` reads along an axis; false: the padding.
DEV bool tap_reads(const struct args_oracle &a, int axis, int64_t o, int64_t r,
                   int size, int64_t *at)
{
    *at = o * a.stride[axis] - a.before[axis] + r * a.dilation[axis];
    return *at >= 0 && *at < size;
}

// The output whose tap `r` reads what is at `i` along an axis; false: none.
DEV bool tap_reaches(const struct args_oracle &a, int axis, int64_t i,
                     int64_t r, int size, int64_t *at)
{
    int64_t up = i + a.before[axis] - r * a.dilation[axis];

    *at = up / a.stride[axis];
    return up >= 0 && up % a.stride[axis] == 0 && *at < size;
}

// Each of these returns one product of the sum of the element at `p`; 0 where
// the padding is read.

DEV double matmul_term(const struct args_oracle &a,
                       const struct oracle_place &p, int64_t t)
{
    int64_t i = p.third, j = p.last, batch = p.second;
    int64_t x = a.trans_a ? t * a.m + i : i * a.k + t;
    int64_t y = a.trans_b ? j * a.k + t : t * a.n + j;

    return oracle_load(a.a, a.dtype, batch * a.m * a.k + x) *
           oracle_load(a.b, a.dtype, batch * a.k * a.n + y);
}

DEV double fwd_term(const struct args_oracle &a, const struct oracle_place &p,
                    int64_t t)
{
    int32_t each = a.ci / a.groups;
    struct oracle_place tap = place_along(t, each, a.kw, a.kh);
    int64_t group = p.last / (a.co / a.groups), h, w;

    if (!tap_reads(a, 0, p.second, tap.second, a.h, &h) ||
        !tap_reads(a, 1, p.third, tap.third, a.w, &w))
        return 0;
    return oracle_load(a.a, a.dtype,
                       ((p.first * a.h + h) * a.w + w) * a.ci + group * each +
                           tap.last) *
           oracle_load(a.b, a.dtype, (int64_t)p.last * a.terms + t);
}

DEV double dgrad_term(const struct args_oracle &a, const struct oracle_place &p,
                      int64_t t)
{
    int32_t each = a.ci / a.groups, filters = a.co / a.groups;
    struct oracle_place tap = place_along(t, filters, a.kw, a.kh);
    int64_t o = (int64_t)(p.last / each) * filters + tap.last, h, w;

    if (!tap_reaches(a, 0, p.second, tap.second, a.oh, &h) ||
        !tap_reaches(a, 1, p.third, tap.third, a.ow, &w))
        return 0;
    return oracle_load(a.a, a.dtype,
                       ((p.first * a.oh + h) * a.ow + w) * a.co + o) *
           oracle_load(a.b, a.dtype,
                       ((o * a.kh + tap.second) * a.kw + tap.third) * each +
                           p.last % each);
}

// Here the element is of a filter: (o, r, s, c).
DEV double wgrad_term(const struct args_oracle &a, const struct oracle_place &p,
                      int64_t t)
{
    struct oracle_place pixel = place_along(t, a.ow, a.oh, INT32_MAX);
    int64_t image = pixel.second, h, w;
    int32_t each = a.ci / a.groups;
    int64_t c = p.first / (a.co / a.groups) * each + p.last;

    if (!tap_reads(a, 0, pixel.third, p.second, a.h, &h) ||
        !tap_reads(a, 1, pixel.last, p.third, a.w, &w))
        return 0;
    return oracle_load(a.a, a.dtype, ((image * a.h + h) * a.w + w) * a.ci + c) *
           oracle_load(a.b, a.dtype, t * a.co + p.first);
}

template <int OP>
DEV double oracle_term(const struct args_oracle &a,
                       const struct oracle_place &p, int64_t t)
{
    if (OP == ORACLE_MATMUL)
        return matmul_term(a, p, t);
    if (OP == ORACLE_FWD)
        return fwd_term(a, p, t);
    if (OP == ORACLE_DGRAD)
        return dgrad_term(a, p, t);
    if (OP == ORACLE_WGRAD)
        return wgrad_term(a, p, t);
    return oracle_load(a.a, a.dtype, t * a.n + p.last);
}

template <int OP>
DEV struct oracle_place oracle_place_of(const struct args_oracle &a, int64_t i)
{
    if (OP == ORACLE_MATMUL)
        return place_along(i, a.n, a.m, INT32_MAX);
    if (OP == ORACLE_FWD)
        return place_along(i, a.co, a.ow, a.oh);
    if (OP == ORACLE_DGRAD)
        return place_along(i, a.ci, a.w, a.h);
    if (OP == ORACLE_WGRAD)
        return place_along(i, a.ci / a.groups, a.kw, a.kh);
    return place_along(i, a.n, 1, 1);
}

// ---- Sums -------------------------------------------------------------------

// What the epilogue makes of a sum, and of the one on absolute values.
DEV void oracle_finish(const struct args_oracle &a, int64_t number, int64_t i,
                       int64_t col, double sum, double all)
{
    if (a.bias) {
        double b = oracle_load(a.bias, a.bias_dtype, col);

        sum += b;
        all += fabs(b);
    }
    if (a.accum) {
        double was = oracle_load(a.y, a.y_dtype, i);

        sum += was;
        all += fabs(was);
    }
    if (a.relu && sum < 0)
        sum = 0;
    if (!a.at) {
        oracle_store(a.y, a.y_dtype, i, sum);
        return;
    }
    sum = oracle_rounded(a.y_dtype, sum);
    a.want[number] = sum;
    a.bound[number] = allow_sum(&a.allow, all, sum);
}

template <int OP> DEV void oracle_sum_as(const struct args_oracle &a)
{
    __shared__ double scratch[2][GROUPS_MOST];
    int lanes = 32 * a.warps, lane = threadIdx.x % lanes;
    int64_t number =
        (int64_t)blockIdx.x * (CUDA_THREADS / lanes) + threadIdx.x / lanes;
    bool mine = number < a.count;
    int64_t i = !mine ? 0 : a.at ? a.at[number] : number;
    struct oracle_place p = oracle_place_of<OP>(a, i);
    double sum = 0, all = 0;

    for (int64_t t = lane; mine && t < a.terms; t += lanes) {
        double x = oracle_term<OP>(a, p, t);

        sum += x;
        all += fabs(x);
    }
    sum = warp_sum(sum);
    all = warp_sum(all);
    if (threadIdx.x % 32 == 0) {
        scratch[0][threadIdx.x / 32] = sum;
        scratch[1][threadIdx.x / 32] = all;
    }
    __syncthreads();
    if (!mine || lane != 0)
        return;
    for (int w = 1; w < a.warps; w++) {
        sum += scratch[0][threadIdx.x / 32 + w];
        all += scratch[1][threadIdx.x / 32 + w];
    }
    oracle_finish(a, number, i, p.last, sum, all);
}

DEV void oracle_sum_of(const struct args_oracle &a)
{
    switch (a.op) {
    case ORACLE_MATMUL:
        oracle_sum_as<ORACLE_MATMUL>(a);
        break;
    case ORACLE_FWD:
        oracle_sum_as<ORACLE_FWD>(a);
        break;
    case ORACLE_DGRAD:
        oracle_sum_as<ORACLE_DGRAD>(a);
        break;
    case ORACLE_WGRAD:
        oracle_sum_as<ORACLE_WGRAD>(a);
        break;
    default:
        oracle_sum_as<ORACLE_SUMS>(a);
    }
}

// ---- Contents ---------------------------------------------------------------

// In [-1, 1), every 16th element 0: exact zeros are where masks and ties live.
DEV void oracle_fill_of(const struct args_oracle_fill &a)
{
    int64_t i = thread_number();
    uint64_t x = a.seed + (uint64_t)i * 0x9e3779b97f4a7c15u;

    if (i >= a.n)
        return;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    float y = (float)(uint32_t)(x >> 40) * 0x1p-23f - 1;

    if (x % 16 == 0)
        y = 0;
    if (a.dtype == ORACLE_F16)
        elem_store((f16 *)a.y + i, y);
    else if (a.dtype == ORACLE_BF16)
        elem_store((bf16 *)a.y + i, y);
    else
        ((float *)a.y)[i] = y;
}

// ---- Comparing --------------------------------------------------------------

// How bad an element is, in bounds; 0: it is right.
DEV double oracle_off(double got, double want, double bound)
{
    double far = fabs(got - want);

    if (got == want || far <= bound || (isnan(got) && isnan(want)))
        return 0;
    return far / bound < INFINITY ? far / bound : (double)INFINITY;
}

// One block: each thread finds its worst, and the first of them the worst of
// all.
DEV void oracle_compare_of(const struct args_oracle_compare &a)
{
    __shared__ double worst[CUDA_THREADS];
    __shared__ int64_t number[CUDA_THREADS];
    __shared__ int32_t wrong[CUDA_THREADS], beyond[CUDA_THREADS];
    int me = threadIdx.x;
    struct oracle_verdict v = {};

    worst[me] = 0;
    number[me] = wrong[me] = 0;
    for (int64_t k = me; k < a.count; k += CUDA_THREADS) {
        double off = oracle_off(oracle_load(a.y, a.dtype, a.at[k]), a.want[k],
                                a.bound[k]);

        wrong[me] += off > 0;
        if (off > worst[me]) {
            worst[me] = off;
            number[me] = k;
        }
    }
    beyond[me] = (a.before[me] != a.guard) + (a.behind[me] != a.guard);
    __syncthreads();
    if (me != 0)
        return;
    for (int t = 0; t < CUDA_THREADS; t++) {
        v.wrong += wrong[t];
        v.beyond += beyond[t];
        if (worst[t] > worst[0]) {
            worst[0] = worst[t];
            number[0] = number[t];
        }
    }
    v.element = a.at[number[0]];
    v.got = oracle_load(a.y, a.dtype, v.element);
    v.want = a.want[number[0]];
    v.bound = a.bound[number[0]];
    *a.out = v;
}

ENTRY(oracle_sum, oracle_sum_of, oracle)
ENTRY(oracle_fill, oracle_fill_of, oracle_fill)
ENTRY(oracle_compare, oracle_compare_of, oracle_compare)
