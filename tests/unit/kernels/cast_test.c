// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/cast_test.c -- the loops against the scalars of half.h.
#include <math.h>

#include "common/base/mem.h"
#include "kernels/cast.h"
#include "kernels/half.h"
#include "tests/harness/t.h"

enum { ALL = 0x10000 };

static const struct cast_loops *const sets[] = {
    &cast_loops_base,
#ifdef __x86_64__
    &cast_loops_avx2,
#endif
};

// The sets that run here.
static unsigned sets_here(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") ? 2 : 1;
#else
    return 1;
#endif
}

static bool same(float a, float b)
{
    return isnan(a) ? isnan(b) : half_f32_bits(a) == half_f32_bits(b);
}

TEST(cast, every_pattern_is_widened)
{
    uint16_t *in = sl_malloc(ALL * sizeof(*in));
    float *out = sl_malloc(ALL * sizeof(*out));

    for (unsigned i = 0; i < ALL; i++)
        in[i] = (uint16_t)i;
    for (unsigned s = 0; s < sets_here(); s++) {
        sets[s]->widen_bf16(ALL, in, out);
        for (unsigned i = 0; i < ALL; i++)
            T_TRUE(same(out[i], half_from_bf16(in[i])));
        sets[s]->widen_f16(ALL, in, out);
        for (unsigned i = 0; i < ALL; i++)
            T_TRUE(same(out[i], half_from_f16(in[i])));
    }
    sl_free(in);
    sl_free(out);
}

// What a narrow one must be: nearest even, and finite if x is.
static uint16_t narrowed(float x, uint16_t (*to)(float), uint16_t inf)
{
    uint16_t h = to(x);

    return isfinite(x) && (h & 0x7fff) == inf ? h - 1 : h;
}

static void check_narrow(const struct cast_loops *set, const float *in,
                         size_t n, uint16_t *out)
{
    set->narrow_bf16(n, in, out);
    for (size_t i = 0; i < n; i++)
        T_EQ(out[i], narrowed(in[i], half_to_bf16, 0x7f80));
    set->narrow_f16(n, in, out);
    for (size_t i = 0; i < n; i++)
        T_EQ(out[i] & (isnan(in[i]) ? 0x7e00 : 0xffff),
             isnan(in[i]) ? 0x7e00 : narrowed(in[i], half_to_f16, 0x7c00));
}

// Each value of 16 bits and the middle to the next one, a step to both sides:
// the ties of both types, their largest, infinities and NaN are among them.
TEST(cast, every_pattern_and_tie_is_narrowed)
{
    static float (*const from[])(uint16_t) = {half_from_bf16, half_from_f16};
    float *in = sl_malloc(ALL * sizeof(*in));
    uint16_t *out = sl_malloc(ALL * sizeof(*out));

    for (unsigned t = 0; t < 2; t++) {
        for (int step = -1; step <= 3; step++) {
            for (unsigned i = 0; i < ALL; i++) {
                float a = from[t]((uint16_t)i);
                uint32_t half = t == 0 ? 0x8000 : 0x1000;
                uint32_t bits = half_f32_bits(a);

                bits += step == 3 ? 0 : half + (uint32_t)step;
                in[i] = half_bits_f32(bits);
            }
            for (unsigned s = 0; s < sets_here(); s++)
                check_narrow(sets[s], in, ALL, out);
        }
    }
    sl_free(in);
    sl_free(out);
}

// The ties of subnormal f16 lie elsewhere.
TEST(cast, subnormal_ties_are_narrowed)
{
    float in[3 * 1024];
    uint16_t out[3 * 1024];

    for (unsigned i = 0; i < 1024; i++) {
        float mid = half_from_f16((uint16_t)i) + 0x1p-25f;

        in[3 * i] = i % 2 ? mid : -mid;
        in[3 * i + 1] = nextafterf(mid, 0);
        in[3 * i + 2] = nextafterf(mid, 1);
    }
    for (unsigned s = 0; s < sets_here(); s++)
        check_narrow(sets[s], in, SL_COUNT(in), out);
}

TEST(cast, what_is_finite_stays_finite)
{
    static const float in[] = {65504,    65519.99f, 65520, -1e9f,
                               3.4e38f,  -3.4e38f,  1,     -0.0f,
                               INFINITY, -INFINITY, 65536};
    static const uint16_t f16[] = {0x7bff, 0x7bff, 0x7bff, 0xfbff,
                                   0x7bff, 0xfbff, 0x3c00, 0x8000,
                                   0x7c00, 0xfc00, 0x7bff};
    uint16_t out[SL_COUNT(in)];
    float big = 3.4028235e38f;

    cast_narrow(KERN_F16, SL_COUNT(in), in, out);
    T_MEM(out, f16, sizeof(f16));
    cast_narrow(KERN_BF16, 1, &big, out);
    T_EQ(out[0], 0x7f7f);
}

// Any length, any address, and not an element more.
TEST(cast, any_length_at_any_address)
{
    uint8_t narrow[200], wide[400], again[400];

    for (size_t n = 0; n <= 40; n++) {
        for (size_t shift = 0; shift < 4; shift++) {
            for (size_t i = 0; i < n; i++) {
                float x = (float)i - 3.5f;

                memcpy(wide + shift + 4 * i, &x, 4);
            }
            memset(narrow, 0xee, sizeof(narrow));
            memset(again, 0xee, sizeof(again));
            cast_narrow(KERN_F16, n, wide + shift, narrow + 3 - shift);
            T_EQ(narrow[3 - shift + 2 * n], 0xee);
            cast_widen(KERN_F16, n, narrow + 3 - shift, again + shift);
            T_MEM(again + shift, wide + shift, 4 * n);
            T_EQ(again[shift + 4 * n], 0xee);
            cast_widen(KERN_F32, n, wide + shift, again + 1);
            T_MEM(again + 1, wide + shift, 4 * n);
        }
    }
}
