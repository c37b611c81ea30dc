// SPDX-License-Identifier: Apache-2.0
// What a worker contributed since an audit found it right.
#include "coordinator/rules/contributed.h"

#include "common/base/rng.h"
#include "tests/harness/t.h"

TEST(contributed, neighbours_are_one_range_in_any_order)
{
    static const uint64_t order[] = {5, 3, 9, 4, 6, 8, 7};
    struct contributed c = {false};

    for (size_t i = 0; i < SL_COUNT(order); i++)
        contributed_add(&c, order[i], 10);
    T_EQ(c.count, 1);
    T_EQ(c.ranges[0].first, 3);
    T_EQ(c.ranges[0].last, 9);
    contributed_add(&c, 9, 5); // more steps of it
    T_EQ(contributed_total(&c, false), 7);
    T_EQ(contributed_total(&c, true), 75);
    T_EQ(contributed_newest(&c), 9);
    T_FALSE(contributed_rough(&c));
}

TEST(contributed, what_was_before_a_right_result_is_not_in_doubt)
{
    struct contributed c = {false};

    for (uint64_t k = 0; k < 20; k++)
        contributed_add(&c, k < 10 ? k : k + 10, 3);
    T_FALSE(c.audited);
    contributed_clean(&c, 4, 2);
    T_TRUE(c.audited && c.closure == 4 && c.cut == 2);
    T_EQ(c.ranges[0].first, 5);
    T_EQ(contributed_total(&c, false), 15);
    T_EQ(contributed_total(&c, true), 45);
    contributed_clean(&c, 3, 9); // an older one, told later
    T_TRUE(c.closure == 4 && c.cut == 2);
    contributed_clean(&c, 25, 3);
    T_EQ(c.ranges[0].first, 26);
    T_EQ(contributed_total(&c, true), 12);
    contributed_clean(&c, 29, 3);
    T_EQ(c.count, 0);
    T_EQ(contributed_newest(&c), 0);
}

// Nothing that was contributed is ever left out, and the steps stay exact.
TEST(contributed, many_ranges_become_fewer_that_hold_them_all)
{
    struct contributed c = {false};
    static bool did[4000];
    uint64_t steps = 0;
    struct rng rng;

    rng_init(&rng, t_seed(), 0);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t closure = rng_below(&rng, SL_COUNT(did));

        if (did[closure])
            continue;
        did[closure] = true;
        contributed_add(&c, closure, 2);
        steps += 2;
        T_EQ(contributed_total(&c, true), steps);
        T_LE(c.count, CONTRIBUTED_RANGES);
    }
    T_TRUE(contributed_rough(&c));
    contributed_clean(&c, SL_COUNT(did) / 2, 1);
    for (uint64_t k = SL_COUNT(did) / 2 + 1; k < SL_COUNT(did); k++) {
        bool held = false;

        for (uint32_t i = 0; i < c.count; i++)
            held |= k >= c.ranges[i].first && k <= c.ranges[i].last;
        T_TRUE(held || !did[k]);
    }
    for (uint32_t i = 1; i < c.count; i++)
        T_GT(c.ranges[i].first, c.ranges[i - 1].last + 1);
}

// What it holds of others is not found out by what is added again.
TEST(contributed, a_rough_range_stays_rough_when_closures_come_again)
{
    struct contributed c = {false};

    for (uint64_t k = 0; k < CONTRIBUTED_RANGES; k++)
        contributed_add(&c, 2 * k, 1);
    contributed_add(&c, 40, 1); // 0 and 2 become one range, with 1
    for (unsigned again = 0; again < 3; again++) {
        contributed_add(&c, 0, 1);
        T_TRUE(contributed_rough(&c));
    }
    T_EQ(c.ranges[0].closures, 2);
}
