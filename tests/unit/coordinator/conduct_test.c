// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/conduct.h"

#include "tests/harness/t.h"

// Closures of four skipped steps each.
static void skip(struct conduct *c, unsigned closures)
{
    for (unsigned i = 0; i < closures; i++)
        conduct_steps(c, 100 + i, 0, 4, 0);
}

TEST(conduct, nothing_but_skips_while_others_get_on_is_bad)
{
    struct conduct c;

    conduct_init(&c, 1000);
    skip(&c, 3);
    T_EQ(conduct_judge(&c, 2000), CONDUCT_GOOD); // not enough yet
    skip(&c, 1);
    T_EQ(conduct_judge(&c, 1000 + CONDUCT_OTHERS - 1), CONDUCT_GOOD);
    T_EQ(conduct_judge(&c, 1000 + CONDUCT_OTHERS), CONDUCT_SKIPS);
}

TEST(conduct, one_bad_range_of_samples_is_nobodys_fault)
{
    struct conduct c;

    conduct_init(&c, 0);
    for (unsigned i = 0; i < 50; i++)
        conduct_steps(&c, 7, 0, 4, 0);
    T_EQ(conduct_judge(&c, 1000), CONDUCT_GOOD);
    conduct_steps(&c, 8, 0, 1, 0);
    T_EQ(conduct_judge(&c, 1000), CONDUCT_SKIPS);
}

TEST(conduct, a_single_good_step_ends_the_run)
{
    struct conduct c;

    conduct_init(&c, 0);
    skip(&c, 10);
    conduct_steps(&c, 50, 1, 3, 500);
    T_EQ(conduct_judge(&c, 500), CONDUCT_GOOD);
    skip(&c, 3);
    T_EQ(conduct_judge(&c, 1000), CONDUCT_GOOD);
    skip(&c, 1);
    T_EQ(conduct_judge(&c, 1000), CONDUCT_SKIPS);
    T_FALSE(conduct_others_good(&c, 500 + CONDUCT_OTHERS - 1));
}

TEST(conduct, who_never_had_a_good_step_is_alone_as_soon_as_others_have)
{
    struct conduct c;

    conduct_init(&c, 3);
    T_TRUE(conduct_alone(&c, 3));
    conduct_init(&c, 0);
    T_FALSE(conduct_alone(&c, 0)); // nobody had
    skip(&c, 8);
    T_TRUE(conduct_alone(&c, 1));
    conduct_steps(&c, 50, 1, 0, 500);
    T_FALSE(conduct_alone(&c, 500 + CONDUCT_OTHERS - 1));
    T_TRUE(conduct_alone(&c, 500 + CONDUCT_OTHERS));
}

TEST(conduct, failures_in_a_row_are_bad_too)
{
    struct conduct c;

    conduct_init(&c, 0);
    for (unsigned i = 1; i < CONDUCT_FAILURES; i++) {
        conduct_failed(&c);
        T_EQ(conduct_judge(&c, 1000), CONDUCT_GOOD);
    }
    conduct_failed(&c);
    T_EQ(conduct_judge(&c, 0), CONDUCT_GOOD); // others do no better
    T_EQ(conduct_judge(&c, 1000), CONDUCT_FAILS);
}

TEST(conduct, each_time_is_twice_as_long_until_a_step_is_good)
{
    struct conduct c;
    uint64_t ms = CONDUCT_FIRST_MS;

    conduct_init(&c, 0);
    T_FALSE(conduct_excluded(&c, 0));
    for (unsigned i = 0; i < 10; i++) {
        T_EQ(conduct_exclude(&c, CONDUCT_SKIPS, 0, 5000), ms);
        T_TRUE(conduct_excluded(&c, 5000));
        T_TRUE(conduct_excluded(&c, 5000 + ms - 1));
        T_FALSE(conduct_excluded(&c, 5000 + ms));
        T_EQ(conduct_judge(&c, 1000), CONDUCT_GOOD); // another chance
        ms = ms * 2 > CONDUCT_MAX_MS ? CONDUCT_MAX_MS : ms * 2;
    }
    conduct_steps(&c, 1, 1, 0, 2000);
    T_EQ(conduct_exclude(&c, CONDUCT_SKIPS, 2000, 0), CONDUCT_FIRST_MS);
}
