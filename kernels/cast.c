// SPDX-License-Identifier: Apache-2.0
// kernels/cast.c -- the conversions of f32 to f16 and bf16 and back, by vectors
// where the processor has them.
#include "kernels/cast.h"

#include <assert.h>
#include <string.h>

#include "common/base/copy.h"
#include "kernels/half.h"

#define INF_BITS 0x7f800000u // of an f32; above it is NaN
#define BF16_MAX 0x7f7f0000u // the largest bf16, as f32
#define F16_MAX 0x477fe000u  // 65504

typedef uint32_t u32_anywhere __attribute__((aligned(1), may_alias));
typedef uint16_t u16_anywhere __attribute__((aligned(1), may_alias));

// ---- an element at a time

static inline float clamped(uint32_t u, uint32_t max)
{
    uint32_t a = u & 0x7fffffffu, sign = u & ~0x7fffffffu;

    return half_bits_f32(a > max && a < INF_BITS ? sign | max : u);
}

static void widen_bf16(size_t n, const void *in, void *out)
{
    const u16_anywhere *from = in;
    u32_anywhere *to = out;

    for (size_t i = 0; i < n; i++)
        to[i] = (uint32_t)from[i] << 16;
}

static void widen_f16(size_t n, const void *in, void *out)
{
    const u16_anywhere *from = in;
    u32_anywhere *to = out;

    for (size_t i = 0; i < n; i++)
        to[i] = half_f32_bits(half_from_f16(from[i]));
}

static void narrow_bf16(size_t n, const void *in, void *out)
{
    const u32_anywhere *from = in;
    u16_anywhere *to = out;

    for (size_t i = 0; i < n; i++)
        to[i] = half_to_bf16(clamped(from[i], BF16_MAX));
}

static void narrow_f16(size_t n, const void *in, void *out)
{
    const u32_anywhere *from = in;
    u16_anywhere *to = out;

    for (size_t i = 0; i < n; i++)
        to[i] = half_to_f16(clamped(from[i], F16_MAX));
}

const struct cast_loops cast_loops_base = {widen_bf16, widen_f16, narrow_bf16,
                                           narrow_f16};

// ---- eight at a time

#ifdef __x86_64__

#include <immintrin.h>

#define VECTOR __attribute__((target("avx2,f16c")))

typedef int32_t w8 __attribute__((vector_size(32)));
typedef uint32_t v8 __attribute__((vector_size(32)));
typedef uint16_t h8 __attribute__((vector_size(16)));
typedef w8 w8_anywhere __attribute__((aligned(1), may_alias));
typedef h8 h8_anywhere __attribute__((aligned(1), may_alias));

VECTOR static inline w8 cast_select8(w8 mask, w8 a, w8 b)
{
    return (mask & a) | (~mask & b);
}

// Of magnitudes: without their signs, signed compares do.
VECTOR static inline w8 clamped8(w8 a, int32_t max)
{
    w8 over = (a > max) & (a < (int32_t)INF_BITS);

    return cast_select8(over, (w8){0} + max, a);
}

VECTOR static inline w8 widen8_bf16(h8 h)
{
    return (w8)(__builtin_convertvector(h, v8) << 16);
}

VECTOR static inline w8 widen8_f16(h8 h)
{
    return (w8)_mm256_cvtph_ps((__m128i)h);
}

VECTOR static inline h8 narrow8_bf16(w8 x)
{
    w8 a = x & 0x7fffffff, nan = a > (int32_t)INF_BITS, rounded;
    v8 sign = (v8)x >> 16 & 0x8000, u;

    u = (v8)clamped8(a, (int32_t)BF16_MAX);
    rounded = (w8)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    rounded = cast_select8(nan, a >> 16 | 0x40, rounded);
    return __builtin_convertvector((v8)rounded | sign, h8);
}

VECTOR static inline h8 narrow8_f16(w8 x)
{
    w8 a = clamped8(x & 0x7fffffff, (int32_t)F16_MAX);

    a |= x & ~0x7fffffff;
    return (h8)_mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT);
}

// The last ones go through the same lanes.
#define LOOP(name, step, In, Out)                                              \
    VECTOR static void name(size_t n, const void *in, void *out)               \
    {                                                                          \
        const size_t in_bytes = sizeof(In) / 8, out_bytes = sizeof(Out) / 8;   \
        const uint8_t *from = in;                                              \
        uint8_t *to = out;                                                     \
        In some = {0};                                                         \
        Out made;                                                              \
                                                                               \
        for (; n >= 8; n -= 8) {                                               \
            *(Out##_anywhere *)to = step(*(const In##_anywhere *)from);        \
            from += sizeof(In);                                                \
            to += sizeof(Out);                                                 \
        }                                                                      \
        memcpy(&some, from, n *in_bytes);                                      \
        made = step(some);                                                     \
        memcpy(to, &made, n *out_bytes);                                       \
    }

LOOP(widen_bf16_avx2, widen8_bf16, h8, w8)
LOOP(widen_f16_avx2, widen8_f16, h8, w8)
LOOP(narrow_bf16_avx2, narrow8_bf16, w8, h8)
LOOP(narrow_f16_avx2, narrow8_f16, w8, h8)

const struct cast_loops cast_loops_avx2 = {widen_bf16_avx2, widen_f16_avx2,
                                           narrow_bf16_avx2, narrow_f16_avx2};

#endif

// ---- those of this host

static const struct cast_loops *cast_host_loops(void)
{
#ifdef __x86_64__
    // All that have AVX2 have F16C. AVX512-BF16 is not used: it makes subnormal
    // numbers 0, so its bits would differ from those of the loops here.
    if (__builtin_cpu_supports("avx2"))
        return &cast_loops_avx2;
#endif
    return &cast_loops_base;
}

void cast_widen(enum kern_dtype type, size_t n, const void *in, void *out)
{
    assert(type == KERN_F32 || type == KERN_BF16 || type == KERN_F16);
    if (type == KERN_F32)
        sl_copy(out, in, n * sizeof(float));
    else if (type == KERN_BF16)
        cast_host_loops()->widen_bf16(n, in, out);
    else
        cast_host_loops()->widen_f16(n, in, out);
}

void cast_narrow(enum kern_dtype type, size_t n, const void *in, void *out)
{
    assert(type == KERN_F32 || type == KERN_BF16 || type == KERN_F16);
    if (type == KERN_F32)
        sl_copy(out, in, n * sizeof(float));
    else if (type == KERN_BF16)
        cast_host_loops()->narrow_bf16(n, in, out);
    else
        cast_host_loops()->narrow_f16(n, in, out);
}
