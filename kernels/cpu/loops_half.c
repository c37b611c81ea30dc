// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_half.c -- f16 and bf16 to f32 and back, in vectors.
//
// The same bits as half.h gives, which takes what is left over: to f32 exact,
// back to nearest even, f16 overflowing to infinity.
#include "kernels/cpu/loops.h"
#include "kernels/half.h"

typedef uint16_t vh __attribute__((vector_size(2 * VL), aligned(2), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * VL), aligned(4), may_alias));

static inline vu vu_pick(vi mask, vu a, vu b)
{
    return ((vu)mask & a) | (~(vu)mask & b);
}

static inline vu vu_all(uint32_t x)
{
    return x - (vu){0};
}

static inline vu widened(const uint16_t *from)
{
    return __builtin_convertvector(*(const vh *)from, vu);
}

static inline void cpu_half_store(uint16_t *to, vu bits)
{
    *(vh *)to = __builtin_convertvector(bits, vh);
}

static void from_bf16(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL)
        *(vf *)(to + i) = (vf)(widened(from + i) << 16);
    for (; i < n; i++)
        to[i] = half_from_bf16(from[i]);
}

static void to_bf16(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vu u = (vu) * (const vf *)(from + i);
        vu even = (u + 0x7fff + (u >> 16 & 1)) >> 16;

        cpu_half_store(to + i, vu_pick((u & 0x7fffffffu) > 0x7f800000u,
                                       (u >> 16) | 0x40, even));
    }
    for (; i < n; i++)
        to[i] = half_to_bf16(from[i]);
}

static void from_f16(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vu h = widened(from + i), low = h & 0x7fff, sign = (h & 0x8000) << 16;
        vu number = (vu)((vf)(sign | low << 13) * 0x1p112f);
        vu special = sign | 0x7f800000u | (low & 0x3ff) << 13;

        *(vf *)(to + i) = (vf)vu_pick(low >= 0x7c00, special, number);
    }
    for (; i < n; i++)
        to[i] = half_from_f16(from[i]);
}

static void to_f16(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vu u = (vu) * (const vf *)(from + i), sign = u >> 16 & 0x8000;
        vu low, steps, bits;

        u &= 0x7fffffffu;
        low = u - 0x38000000u;
        bits = (low + 0xfff + (low >> 13 & 1)) >> 13;
        steps = (vu)((vf)u + 0.5f) - 0x3f000000u;
        bits = vu_pick(u < 0x38800000u, steps, bits);
        bits = vu_pick(u >= 0x47800000u, vu_all(0x7c00), bits); // 65536
        bits = vu_pick(u > 0x7f800000u, vu_all(0x7e00), bits);  // NaN
        cpu_half_store(to + i, sign | bits);
    }
    for (; i < n; i++)
        to[i] = half_to_f16(from[i]);
}

static void cpu_half_widen(float *to, const uint16_t *from, int64_t n, bool f16)
{
    if (f16)
        from_f16(to, from, n);
    else
        from_bf16(to, from, n);
}

static void cpu_half_narrow(uint16_t *to, const float *from, int64_t n,
                            bool f16)
{
    if (f16)
        to_f16(to, from, n);
    else
        to_bf16(to, from, n);
}

const struct loops_half LOOPS(half) = {cpu_half_widen, cpu_half_narrow};
