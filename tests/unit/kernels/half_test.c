// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/half_test.c -- f16 and bf16: every value, every tie.
#include <math.h>

#include "common/base/mem.h"
#include "kernels/cpu/loops.h"
#include "kernels/half.h"
#include "tests/harness/t.h"

TEST(half, every_value_comes_back)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f16 = half_from_f16((uint16_t)h);
        float bf16 = half_from_bf16((uint16_t)h);

        if (isnan(f16))
            T_TRUE(isnan(half_from_f16(half_to_f16(f16))));
        else
            T_EQ(half_to_f16(f16), h);
        if (isnan(bf16))
            T_TRUE(isnan(half_from_bf16(half_to_bf16(bf16))));
        else
            T_EQ(half_to_bf16(bf16), h);
    }
}

TEST(half, known_values)
{
    T_TRUE(half_from_f16(0x3c00) == 1 && half_from_f16(0xc000) == -2);
    T_TRUE(half_from_f16(0x7bff) == 65504 && half_from_f16(1) == 0x1p-24f);
    T_TRUE(half_from_f16(0x0400) == 0x1p-14f);
    T_TRUE(half_from_bf16(0x3f80) == 1 && half_from_bf16(0xc040) == -3);
    T_EQ(half_to_f16(-0.0f), 0x8000);
    T_EQ(half_to_bf16(INFINITY), 0x7f80);
}

// Between two neighbours: below the middle down, above it up, and the middle
// itself to the even one.
static void between(uint16_t low, float (*from)(uint16_t),
                    uint16_t (*to)(float))
{
    float a = from(low), b = from((uint16_t)(low + 1)), mid = a + (b - a) / 2;

    T_EQ(to(mid), low + (low & 1));
    T_EQ(to(nextafterf(mid, a)), low);
    T_EQ(to(nextafterf(mid, b)), low + 1);
}

TEST(half, rounds_to_nearest_even)
{
    for (uint16_t h = 0; h < 0x7bff; h++) {
        between(h, half_from_f16, half_to_f16);
        between((uint16_t)(h | 0x8000), half_from_f16, half_to_f16);
    }
    for (uint16_t h = 0; h < 0x7f7f; h++) {
        between(h, half_from_bf16, half_to_bf16);
        between((uint16_t)(h | 0x8000), half_from_bf16, half_to_bf16);
    }
}

TEST(half, too_large_is_infinite)
{
    T_EQ(half_to_f16(65519.99f), 0x7bff);
    T_EQ(half_to_f16(65520), 0x7c00); // the middle to 65536
    T_EQ(half_to_f16(-1e9f), 0xfc00);
    T_EQ(half_to_bf16(3.4028235e38f), 0x7f80);
}

// The vector code against the scalar one, which the tests above hold.
static void same_bits(const struct loops_half *h)
{
    enum { N = 0x10000 };
    uint16_t *half = sl_malloc_array(N, sizeof(*half));
    uint32_t *wide = sl_malloc_array(N, sizeof(*wide));

    for (int f16 = 0; f16 < 2; f16++) {
        for (uint32_t i = 0; i < N; i++)
            half[i] = (uint16_t)i;
        h->widen((float *)wide, half, N - 1, f16); // not whole vectors
        for (uint32_t i = 0; i + 1 < N; i++)
            T_EQ(wide[i], half_f32_bits(f16 ? half_from_f16((uint16_t)i)
                                            : half_from_bf16((uint16_t)i)));
        // Every upper half with two lower ones: ties, and drawn.
        for (uint32_t i = 0; i < N; i++)
            wide[i] = i << 16 | (i & 1 ? 0x8000 : (uint32_t)t_below(N));
        h->narrow(half, (float *)wide, N - 1, f16);
        for (uint32_t i = 0; i + 1 < N; i++) {
            float x = half_bits_f32(wide[i]);

            T_EQ(half[i], f16 ? half_to_f16(x) : half_to_bf16(x));
        }
    }
    sl_free(half);
    sl_free(wide);
}

TEST(half, vectors_give_the_same_bits)
{
    same_bits(&loops_base_half);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        same_bits(&loops_avx2_half);
    if (__builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        same_bits(&loops_avx512_half);
#endif
}
