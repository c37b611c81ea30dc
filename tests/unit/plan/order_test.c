// SPDX-License-Identifier: Apache-2.0
#include "plan/order.h"

#include "common/base/rng.h"
#include "tests/harness/t.h"

// The way back: the rounds of the network from the last to the first.
static uint64_t backward(const struct order *o, uint64_t x)
{
    uint64_t left_mask = (UINT64_C(1) << o->left_bits) - 1;
    uint64_t right_mask = (UINT64_C(1) << o->right_bits) - 1;
    uint64_t left = x >> o->right_bits, right = x & right_mask;

    for (unsigned round = ORDER_ROUNDS; round-- > 0;) {
        if (round % 2 == 0)
            left ^= sl_mix64(right ^ o->key[round]) & left_mask;
        else
            right ^= sl_mix64(left ^ o->key[round]) & right_mask;
    }
    return left << o->right_bits | right;
}

static uint64_t position_of(const struct order *o, uint64_t sample)
{
    uint64_t x = sample;

    do {
        x = backward(o, x);
    } while (x >= o->n);
    return x;
}

TEST(order, is_a_bijection_for_every_small_n)
{
    static uint8_t seen[2100];

    for (uint64_t n = 1; n <= 2100; n += n < 70 ? 1 : 1 + t_below(40)) {
        struct order o;

        T_OK(order_init(&o, t_rand(), t_rand(), n));
        memset(seen, 0, sizeof(seen));
        for (uint64_t p = 0; p < n; p++) {
            uint64_t sample = order_at(&o, p);

            T_LT(sample, n);
            T_FALSE(seen[sample]);
            seen[sample] = 1;
            T_EQ(position_of(&o, sample), p);
        }
    }
}

TEST(order, large_n_is_inverted_too)
{
    const uint64_t sizes[] = {1000003, (UINT64_C(1) << 32) + 1,
                              ORDER_MAX_SAMPLES - 1, ORDER_MAX_SAMPLES};

    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        struct order o;

        T_OK(order_init(&o, 1, 2, sizes[i]));
        for (int k = 0; k < 2000; k++) {
            uint64_t p = t_below(sizes[i]), sample = order_at(&o, p);

            T_LT(sample, sizes[i]);
            T_EQ(position_of(&o, sample), p);
        }
    }
}

TEST(order, refuses_what_it_cannot)
{
    struct order o;

    T_FAILS(SL_EINVAL, order_init(&o, 1, 1, 0));
    T_FAILS(SL_EINVAL, order_init(&o, 1, 1, ORDER_MAX_SAMPLES + 1));
}

// Other seeds and epochs give other orders, and an order is no mere shift: a
// shuffled 60,000 leaves about one sample in its place.
TEST(order, looks_shuffled)
{
    struct order a, b, c;
    unsigned fixed = 0, same_epoch = 0, same_seed = 0, rising = 0;

    T_OK(order_init(&a, 42, 0, 60000));
    T_OK(order_init(&b, 42, 1, 60000));
    T_OK(order_init(&c, 43, 0, 60000));
    for (uint64_t p = 0; p < 60000; p++) {
        fixed += order_at(&a, p) == p;
        same_epoch += order_at(&a, p) == order_at(&b, p);
        same_seed += order_at(&a, p) == order_at(&c, p);
        if (p > 0)
            rising += order_at(&a, p) > order_at(&a, p - 1);
    }
    T_LT(fixed, 12);
    T_LT(same_epoch, 12);
    T_LT(same_seed, 12);
    T_NEAR(rising, 30000, 600);
}

// Where a position of an epoch goes is even over many epochs.
TEST(order, positions_are_even)
{
    unsigned count[10] = {0};

    for (uint64_t epoch = 0; epoch < 20000; epoch++) {
        struct order o;

        T_OK(order_init(&o, 7, epoch, 10));
        count[order_at(&o, 3)]++;
    }
    for (int i = 0; i < 10; i++)
        T_NEAR(count[i], 2000, 250);
}

// The values cross machines and versions: they are part of the protocol.
TEST(order, golden)
{
    static const uint64_t want[] = {
        299, 797, 627, 726, 706, 274, 512, 921,
    };
    struct order o;

    T_OK(order_init(&o, 20260701, 3, 1000));
    for (uint64_t p = 0; p < SL_COUNT(want); p++)
        T_EQ(order_at(&o, p), want[p]);
}

// A tenth is held out, the same of a larger set, and more of a larger part.
TEST(order, a_share_is_held_out)
{
    unsigned tenth = 0, third = 0, other = 0;

    for (uint64_t i = 0; i < 100000; i++) {
        bool held = order_held_out(7, i, 0.1);

        tenth += held;
        third += order_held_out(7, i, 1 / 3.0);
        other += held && order_held_out(8, i, 0.1);
        T_TRUE(!held || order_held_out(7, i, 1 / 3.0));
        T_TRUE(!order_held_out(7, i, 0));
    }
    T_NEAR(tenth / 1e5, 0.1, 0.004);
    T_NEAR(third / 1e5, 1 / 3.0, 0.006);
    T_NEAR(other / 1e5, 0.01, 0.002); // another seed: others
    // It crosses machines and versions.
    for (uint64_t i = 0, k = 0; i < 60; i++) {
        static const uint64_t golden[] = {6,  7,  14, 22, 26, 31,
                                          32, 48, 51, 54, 60};

        T_EQ(order_held_out(7, i, 0.1), i == golden[k]);
        k += i == golden[k];
    }
}
