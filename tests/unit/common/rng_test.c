// SPDX-License-Identifier: Apache-2.0
#include "common/base/rng.h"

#include <math.h>

#include "tests/harness/t.h"

#define N 40000

// Known answers of the authors (Random123, kat_vectors, philox4x32 10).
TEST(rng, philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u},
         {~0u, ~0u},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        uint32_t out[4];

        philox4x32(out, rows[i].counter, rows[i].key);
        T_MEM(out, rows[i].want, sizeof(out));
    }
}

typedef void (*fill_fn)(float *, uint64_t, uint64_t, uint64_t, size_t);

static const fill_fn fills[] = {rng_fill_uniform, rng_fill_normal,
                                rng_fill_truncated};

// Any range equals the same range of the whole: shards do not change values.
TEST(rng, a_fill_is_a_function_of_the_element)
{
    float whole[1000], part[1000];

    for (size_t f = 0; f < SL_COUNT(fills); f++) {
        fills[f](whole, 7, 3, 0, 1000);
        for (int i = 0; i < 300; i++) {
            size_t first = t_below(1000), count = t_below(1000 - first + 1);

            fills[f](part, 7, 3, first, count);
            T_MEM(part, whole + first, count * sizeof(float));
        }
        fills[f](part, 7, 4, 0, 1000); // another stream
        T_TRUE(memcmp(part, whole, sizeof(part)) != 0);
        fills[f](part, 8, 3, 0, 1000); // another seed
        T_TRUE(memcmp(part, whole, sizeof(part)) != 0);
    }
}

static void moments(const float *x, double *mean, double *variance)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < N; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
    }
    *mean = sum / N;
    *variance = squares / N - *mean * *mean;
}

TEST(rng, distributions)
{
    static float x[N];
    double mean, variance;

    rng_fill_uniform(x, 1, 2, 3, N);
    moments(x, &mean, &variance);
    T_NEAR(mean, 0.5, 0.01);
    T_NEAR(variance, 1.0 / 12, 0.003);
    for (size_t i = 0; i < N; i++)
        T_TRUE(x[i] >= 0 && x[i] < 1);
    rng_fill_normal(x, 1, 2, 3, N);
    moments(x, &mean, &variance);
    T_NEAR(mean, 0, 0.02);
    T_NEAR(variance, 1, 0.03);
    rng_fill_truncated(x, 1, 2, 3, N);
    moments(x, &mean, &variance);
    T_NEAR(mean, 0, 0.02);
    T_NEAR(variance, 0.87962566 * 0.87962566, 0.02); // Keras divides by it
    for (size_t i = 0; i < N; i++)
        T_TRUE(fabsf(x[i]) < 2);
}

TEST(rng, below_is_even_and_stays_below)
{
    unsigned count[7] = {0};
    struct rng r;

    rng_init(&r, 5, 6);
    for (int i = 0; i < 70000; i++) {
        uint64_t x = rng_below(&r, 7);

        T_LT(x, 7);
        count[x]++;
    }
    for (int i = 0; i < 7; i++)
        T_NEAR(count[i], 10000, 500);
    T_EQ(rng_below(&r, 1), 0);
    for (int i = 0; i < 100; i++)
        T_LT(rng_below(&r, (UINT64_C(1) << 63) + 1), (UINT64_C(1) << 63) + 1);
}

TEST(rng, a_sequence_repeats_from_its_seed)
{
    struct rng a, b;

    rng_init(&a, 1, 1);
    rng_init(&b, 1, 1);
    for (int i = 0; i < 50; i++) {
        T_EQ(rng_u64(&a), rng_u64(&b));
        T_EQ(rng_u32(&a), rng_u32(&b));
    }
}

TEST(rng, hashes)
{
    T_NE(sl_hash64("a", 1), sl_hash64("b", 1));
    T_EQ(sl_mix64(0), 0xe220a8397b1dcdafu); // splitmix64's first output
}
