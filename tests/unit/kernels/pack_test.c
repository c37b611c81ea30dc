// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/pack_test.c -- blocks against their definition, an element
// at a time, and bytes of any kind.
#include "kernels/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "kernels/half.h"
#include "kernels/quant.h"
#include "tests/harness/t.h"

static const struct pack_loops *const sets[] = {
    &pack_loops_base,
#ifdef __x86_64__
    &pack_loops_avx2,
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

// Elements of very different sizes, some zero, some equal.
static void random_block(struct rng *r, size_t n, float *in)
{
    float unit = ldexpf(1, (int)rng_below(r, 60) - 30);

    for (size_t i = 0; i < n; i++) {
        in[i] = unit * ldexpf((float)(rng_below(r, 2001)) / 1000 - 1,
                              -(int)rng_below(r, 12));
        if (rng_below(r, 8) == 0)
            in[i] = rng_below(r, 2) ? 0 : unit;
    }
}

static size_t some_elements(struct rng *r, enum pack_code code)
{
    size_t block = pack_block(code);

    return rng_below(r, 3) == 0 ? block : 1 + rng_below(r, block);
}

static float largest_of(size_t n, const float *in)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(in[i]));
    return most;
}

// The number of e3m0 that is nearest, of which the larger one is taken of two.
static float nearest_e3m0(float x, float scale)
{
    float best = 0;

    for (int c = 1; c <= 7; c++) {
        float of = ldexpf(scale, c - 7);

        if (fabsf(of - fabsf(x)) <= fabsf(best - fabsf(x)))
            best = of;
    }
    return copysignf(best, best > 0 ? x : 1);
}

TEST(pack, e3m0_is_the_nearest_of_its_numbers)
{
    float in[256], out[257];
    uint8_t bytes[PACK_BYTES_MOST + 2];
    struct rng r;

    rng_init(&r, t_seed(), 1);
    for (int round = 0; round < 300; round++) {
        size_t n = some_elements(&r, PACK_E3M0);
        float scale;

        random_block(&r, n, in);
        scale = largest_of(n, in);
        for (unsigned s = 0; s < sets_here(); s++) {
            memset(bytes, 0x5a, sizeof(bytes));
            sets[s]->narrow_e3m0(n, in, bytes + 1);
            T_EQ(bytes[1 + pack_bytes(PACK_E3M0, n)], 0x5a);
            T_TRUE(pack_valid(PACK_E3M0, n, bytes + 1));
            out[n] = 7;
            sets[s]->widen_e3m0(n, bytes + 1, out);
            T_EQ(out[n], 7);
            for (size_t i = 0; i < n; i++) {
                // A tie of the quotient may be none of the numbers.
                float off = fabsf(out[i] - in[i]);
                float least = fabsf(nearest_e3m0(in[i], scale) - in[i]);

                T_TRUE(off <= least * 1.000001f);
                T_TRUE(off <= fmaxf(fabsf(in[i]) / 3, scale / 128) * 1.000001f);
            }
        }
    }
}

TEST(pack, what_a_code_can_say_is_said_exactly)
{
    static const enum pack_code codes[] = {PACK_INT8, PACK_E3M0};
    float in[256], out[256];
    uint8_t bytes[PACK_BYTES_MOST];
    struct rng r;

    rng_init(&r, t_seed(), 2);
    for (unsigned c = 0; c < SL_COUNT(codes); c++)
        for (int round = 0; round < 100; round++) {
            for (size_t i = 0; i < 256; i++)
                in[i] = codes[c] == PACK_INT8
                            ? ldexpf((float)rng_below(&r, 255) - 127, -10)
                            : ldexpf(rng_below(&r, 2) ? 3 : -3,
                                     (int)rng_below(&r, 7) - 20);
            in[round] =
                codes[c] == PACK_INT8 ? -127 * ldexpf(1, -10) : ldexpf(-3, -14);
            pack_narrow(codes[c], 256, in, bytes);
            pack_widen(codes[c], 256, bytes, out);
            T_MEM(out, in, sizeof(in));
        }
}

static int by_magnitude(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

    return (x < y) - (x > y);
}

// The largest are sent, with their signs, in two sizes; all others are zero.
static void check_topk2(size_t n, const float *in)
{
    float out[PACK_BLOCK_MOST], sorted[PACK_BLOCK_MOST], least, most;
    size_t sent = (n + 63) / 64, seen = 0;
    uint8_t bytes[PACK_BYTES_MOST];
    double error = 0, all = 0;

    memcpy(sorted, in, n * sizeof(*in));
    qsort(sorted, n, sizeof(*sorted), by_magnitude);
    least = fabsf(sorted[sent - 1]);
    most = fabsf(sorted[0]);
    for (unsigned s = 0; s < sets_here(); s++) {
        T_EQ(sets[s]->kth(n, in, sent), half_f32_bits(least));
        T_EQ(sets[s]->kth(n, in, 1), half_f32_bits(most));
    }
    memset(bytes, 0x5a, sizeof(bytes));
    pack_narrow(PACK_TOPK2, n, in, bytes);
    T_EQ(bytes[pack_bytes(PACK_TOPK2, n)], 0x5a);
    T_TRUE(pack_valid(PACK_TOPK2, n, bytes));
    pack_widen(PACK_TOPK2, n, bytes, out);
    for (size_t i = 0; i < n; i++) {
        error +=
            ((double)in[i] - (double)out[i]) * ((double)in[i] - (double)out[i]);
        all += (double)in[i] * (double)in[i];
        if (out[i] == 0)
            T_TRUE(fabsf(in[i]) <= least);
        else
            T_TRUE(out[i] * in[i] > 0);
        T_TRUE(fabsf(out[i]) <= most * 1.000001f);
        seen += out[i] != 0;
    }
    T_TRUE(seen <= sent);
    T_TRUE(least == 0 || seen == sent);
    T_TRUE(error <= all);
}

TEST(pack, topk2_sends_the_largest)
{
    float in[PACK_BLOCK_MOST];
    struct rng r;

    rng_init(&r, t_seed(), 3);
    for (int round = 0; round < 60; round++) {
        size_t n = some_elements(&r, PACK_TOPK2);

        random_block(&r, n, in);
        check_topk2(n, in);
    }
}

// The first of equals are sent.
TEST(pack, topk2_sends_the_first_of_equals)
{
    float in[130], out[130];
    uint8_t bytes[PACK_BYTES_MOST];

    for (size_t i = 0; i < 130; i++)
        in[i] = i % 2 ? 0.5f : -0.5f;
    in[129] = 4;
    pack_narrow(PACK_TOPK2, 130, in, bytes); // 3 of 130
    pack_widen(PACK_TOPK2, 130, bytes, out);
    T_EQ(out[0], -0.5f);
    T_EQ(out[1], 0.5f);
    T_EQ(out[2], 0.0f);
    T_EQ(out[129], 4.0f);
}

TEST(pack, zeros_and_dust_are_zeros)
{
    float in[256], out[256];
    uint8_t bytes[PACK_BYTES_MOST];

    for (enum pack_code code = 0; code < PACK_CODES; code++)
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < 256; i++)
                in[i] = round == 0 ? 0 : ldexpf(1, round == 1 ? -149 : -130);
            pack_narrow(code, 256, in, bytes);
            T_TRUE(pack_valid(code, 256, bytes));
            pack_widen(code, 256, bytes, out);
            for (size_t i = 0; i < 256; i++)
                T_EQ(out[i], 0.0f);
        }
}

TEST(pack, what_is_not_finite_is_not_valid)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    float in[256];
    uint8_t bytes[PACK_BYTES_MOST];

    for (enum pack_code code = 0; code < PACK_CODES; code++)
        for (unsigned i = 0; i < SL_COUNT(bad); i++) {
            for (size_t k = 0; k < 256; k++)
                in[k] = 1;
            in[200] = bad[i];
            pack_narrow(code, 256, in, bytes);
            T_FALSE(pack_valid(code, 256, bytes));
        }
}

// Whatever bytes pass, stand for finite numbers at places of the block.
TEST(pack, any_bytes_are_refused_or_finite)
{
    float out[PACK_BLOCK_MOST + 1];
    uint8_t bytes[PACK_BYTES_MOST];
    unsigned passed[PACK_CODES] = {0};
    struct rng r;

    rng_init(&r, t_seed(), 4);
    for (int round = 0; round < 6000; round++) {
        enum pack_code code = (enum pack_code)(round % PACK_CODES);
        size_t n = round % 2 ? 1 + rng_below(&r, 64) : some_elements(&r, code);

        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)rng_below(&r, 256);
        if (round % 2) // one place, likely beyond the end
            bytes[9] = 0;
        if (!pack_valid(code, n, bytes))
            continue;
        passed[code]++;
        out[n] = 7;
        pack_widen(code, n, bytes, out);
        T_EQ(out[n], 7);
        for (size_t i = 0; i < n; i++)
            T_TRUE(isfinite(out[i]));
    }
    for (unsigned code = 0; code < PACK_CODES; code++)
        T_TRUE(passed[code] > 0);
}

TEST(pack, places_rise_and_lie_in_the_block)
{
    float in[256];
    uint8_t bytes[PACK_BYTES_MOST], wrong[PACK_BYTES_MOST];

    for (size_t i = 0; i < 256; i++)
        in[i] = i % 64 == 1 ? 2 : 1; // places 1, 65, 129, 193
    pack_narrow(PACK_TOPK2, 256, in, bytes);
    T_TRUE(pack_valid(PACK_TOPK2, 256, bytes));
    T_FALSE(pack_valid(PACK_TOPK2, 193, bytes)); // its last place is behind it
    memcpy(wrong, bytes, sizeof(wrong));
    wrong[8] = 65; // the first one is that of the second
    T_FALSE(pack_valid(PACK_TOPK2, 256, wrong));
    memcpy(wrong, bytes, sizeof(wrong));
    memcpy(wrong + 4, &(float){-1}, 4);
    T_FALSE(pack_valid(PACK_TOPK2, 256, wrong));
}

TEST(pack, sizes_are_as_the_header_says)
{
    T_EQ(pack_bytes(PACK_INT8, 256), 260);
    T_EQ(pack_bytes(PACK_E3M0, 256), 132);
    T_EQ(pack_bytes(PACK_E3M0, 3), 6);
    T_EQ(pack_bytes(PACK_TOPK2, 4096), 8 + 96 + 16);
    T_EQ(pack_bytes(PACK_TOPK2, 1), 8 + 2 + 1);
}
