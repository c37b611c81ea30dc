// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/quant_test.c -- the loops against their definition, an
// element at a time.
#include "kernels/quant.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "kernels/half.h"
#include "tests/harness/t.h"

#define MOST 70

static const struct quant_loops *const sets[] = {
    &quant_loops_base,
#ifdef __x86_64__
    &quant_loops_avx2,
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

// As quant.h says it.
static void define(size_t n, const float *in, uint8_t *out)
{
    float scale = 0;

    for (size_t i = 0; i < n; i++)
        scale = fmaxf(scale, fabsf(in[i]) / 127);
    if (scale < QUANT_LEAST)
        scale = 0;
    if (scale > QUANT_MOST)
        scale = QUANT_MOST;
    memcpy(out, &scale, 4);
    for (size_t i = 0; i < n; i++) {
        float q = scale == 0 ? 0 : rintf(in[i] / scale);

        out[4 + i] = (uint8_t)(int8_t)fmaxf(-127, fminf(127, q));
    }
}

// Rows begin anywhere, and nothing behind them is written.
static void check_row(size_t n, const float *in)
{
    uint8_t want[4 + MOST], got[1 + 4 + MOST + 1];
    float scale, wide[MOST + 1];

    define(n, in, want);
    memcpy(&scale, want, 4);
    for (unsigned s = 0; s < sets_here(); s++) {
        memset(got, 0x5a, sizeof(got));
        sets[s]->narrow(n, in, got + 1);
        T_MEM(got + 1, want, quant_row_bytes(n));
        T_EQ(got[1 + quant_row_bytes(n)], 0x5a);
        T_TRUE(quant_finite(got + 1));
        wide[n] = 7;
        sets[s]->widen(n, got + 1, wide);
        T_EQ(wide[n], 7);
        for (size_t i = 0; i < n; i++) {
            T_EQ(half_f32_bits(wide[i]),
                 half_f32_bits((float)(int8_t)want[4 + i] * scale));
            T_TRUE(isfinite(wide[i]));
        }
    }
}

TEST(quant, rows_are_what_they_are_defined_to_be)
{
    float in[MOST];
    struct rng rng;

    rng_init(&rng, t_seed(), 1);
    for (unsigned round = 0; round < 20000; round++) {
        size_t n = 1 + rng_below(&rng, MOST);
        int exponent = (int)rng_below(&rng, 250) - 125;

        for (size_t i = 0; i < n; i++)
            in[i] = ldexpf((float)rng_below(&rng, 1u << 24) - (1 << 23),
                           exponent - 23);
        check_row(n, in);
    }
}

// With a scale of 1 the halves between two whole numbers are exact.
TEST(quant, ties_go_to_the_even_number)
{
    float in[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f};
    static const int8_t want[] = {127, 0, 2, 2, 0, -2, -2, 126, -126};
    uint8_t out[4 + SL_COUNT(in)];

    check_row(SL_COUNT(in), in);
    quant_narrow(SL_COUNT(in), in, out);
    T_MEM(out + 4, want, sizeof(want));
}

TEST(quant, limits_of_a_row)
{
    static const float rows[][2] = {
        {0, -0.0f},
        {FLT_MAX, -FLT_MAX},
        {FLT_MAX, 1},
        {127 * QUANT_LEAST, -FLT_MIN},
        {nextafterf(127 * QUANT_LEAST, 0), FLT_MIN},
        {0x1p-149f, 0x1p-130f},
        {127 * QUANT_MOST, 3},
    };
    uint8_t out[4 + 2];

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        check_row(2, rows[i]);
    quant_narrow(2, rows[5], out);
    T_MEM(out, ((uint8_t[6]){0}), 6);
}

TEST(quant, what_is_not_finite_makes_its_row_nan)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN};

    for (size_t k = 0; k < SL_COUNT(odd); k++) {
        for (size_t at = 0; at < 11; at++) {
            float in[11] = {FLT_MAX}, wide[11];
            uint8_t out[4 + 11];

            in[at] = odd[k];
            for (unsigned s = 0; s < sets_here(); s++) {
                sets[s]->narrow(11, in, out);
                T_FALSE(quant_finite(out));
                sets[s]->widen(11, out, wide);
                for (size_t i = 0; i < 11; i++)
                    T_TRUE(isnan(wide[i]));
            }
        }
    }
}

// Whoever can send a message can send any scale and any byte.
TEST(quant, a_scale_of_finite_rows_makes_any_byte_finite)
{
    static const float bad[] = {-1,      INFINITY,   -INFINITY,    NAN,
                                FLT_MAX, -0x1p-149f, FLT_MAX / 127};
    uint8_t row[4 + 256];
    float wide[256], most = QUANT_MOST;

    memcpy(row, &most, 4);
    for (unsigned i = 0; i < 256; i++)
        row[4 + i] = (uint8_t)i;
    T_TRUE(quant_finite(row));
    quant_widen(256, row, wide);
    for (unsigned i = 0; i < 256; i++)
        T_TRUE(isfinite(wide[i]));
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        memcpy(row, &bad[i], 4);
        T_FALSE(quant_finite(row));
    }
}
