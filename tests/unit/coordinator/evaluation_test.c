// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/evaluation.h"

#include "tests/harness/t.h"

TEST(evaluation, runs_against_the_first_cut_that_holds_the_epoch)
{
    static const struct evaluation_cut cuts[] = {
        {1, 0}, {2, 1}, {4, 3}, {5, 3}};
    struct evaluation_plan p;

    T_TRUE(evaluation_next(&p, 1, 0, cuts, 4));
    T_EQ(p.cut, 2);
    T_EQ(p.first_epoch, 1);
    T_EQ(p.last_epoch, 1);
    T_TRUE(evaluation_next(&p, 1, 1, cuts, 4)); // 2 and 3 share a cut
    T_EQ(p.cut, 4);
    T_EQ(p.first_epoch, 2);
    T_EQ(p.last_epoch, 3);
    T_FALSE(evaluation_next(&p, 1, 3, cuts, 4));
    T_FALSE(evaluation_next(&p, 0, 0, cuts, 4));
}

TEST(evaluation, only_multiples_are_due)
{
    static const struct evaluation_cut cuts[] = {{1, 1}, {2, 3}, {3, 5}};
    struct evaluation_plan p;

    T_TRUE(evaluation_next(&p, 2, 0, cuts, 3));
    T_EQ(p.cut, 2);
    T_EQ(p.last_epoch, 2);
    T_TRUE(evaluation_next(&p, 2, 2, cuts, 3));
    T_EQ(p.cut, 3);
    T_EQ(p.first_epoch, 4);
    T_EQ(p.last_epoch, 4);
    T_FALSE(evaluation_next(&p, 2, 4, cuts, 3));
}

TEST(evaluation, keeps_the_cuts_that_it_will_read)
{
    static const struct evaluation_cut cuts[] = {
        {1, 1}, {2, 1}, {3, 2}, {4, 2}};
    bool needed[4];

    evaluation_needs(needed, 1, 0, cuts, 4);
    T_TRUE(needed[0] && !needed[1] && needed[2] && !needed[3]);
    evaluation_needs(needed, 1, 1, cuts, 4);
    T_TRUE(!needed[0] && !needed[1] && needed[2] && !needed[3]);
    evaluation_needs(needed, 1, 2, cuts, 4);
    T_TRUE(!needed[0] && !needed[1] && !needed[2] && !needed[3]);
}

TEST(evaluation, each_range_counts_once_and_whole)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 25, 10, 4);
    struct meter_sums ten = {.samples = 10, .correct = 5, .loss_sum = 20};
    struct meter_sums five = {.samples = 5, .correct = 5, .loss_sum = 5};

    T_EQ(e->count, 3);
    T_EQ(e->range[2].first, 20);
    T_EQ(e->range[2].count, 5);
    T_PTR(evaluation_offer(e, 1, false), &e->range[0]);
    T_OK(evaluation_take(e, 0, &ten));
    e->range[0].closure.state = CLOSURE_DONE;
    T_FAILS(SL_EEXIST, evaluation_take(e, 0, &ten));
    T_FAILS(SL_EINVAL, evaluation_take(e, 2, &ten)); // not its samples
    T_FAILS(SL_ERANGE, evaluation_take(e, 3, &ten));
    T_OK(evaluation_take(e, 2, &five));
    e->range[2].closure.state = CLOSURE_DONE;
    T_FALSE(evaluation_complete(e));
    closure_remember(&e->range[1].closure, 9);
    T_PTR(evaluation_offer(e, 9, false), NULL);
    T_PTR(evaluation_offer(e, 9, true), &e->range[1]);
    T_OK(evaluation_take(e, 1, &ten));
    T_TRUE(evaluation_complete(e));
    T_NEAR(evaluation_loss(e), 45.0 / 25, 1e-12);
    T_NEAR(evaluation_accuracy(e), 15.0 / 25, 1e-12);
    evaluation_free(e);
}

// 25 steps an epoch, of 7 closures with 4 steps, the last with 1.
TEST(evaluation, by_steps_it_ends_with_a_closure)
{
    const struct schedule s = {
        .samples = 100, .batch = 4, .epochs = 2, .steps_per_closure = 4};
    struct evaluation_steps e = {.schedule = &s, .every = 10};

    T_EQ(evaluation_mark(&e, 1), 3); // step 10 is in the third
    T_EQ(evaluation_steps_below(&s, 3), 12);
    T_EQ(evaluation_mark(&e, 2), 5);
    T_EQ(evaluation_mark(&e, 3), 7 + 2); // in the next epoch
    T_EQ(evaluation_steps_below(&s, 9), 33);
    T_EQ(evaluation_mark(&e, 5), 14);
    T_EQ(evaluation_mark(&e, 6), 14); // there is none
    T_EQ(evaluation_marks(&e, 11), 0);
    T_EQ(evaluation_marks(&e, 12), 1);
    T_EQ(evaluation_marks(&e, 32), 2);
    T_EQ(evaluation_marks(&e, 50), 5);
    e.every = 1; // several share a closure
    T_EQ(evaluation_marks(&e, 3), 0);
    T_EQ(evaluation_marks(&e, 4), 4);
    T_EQ(evaluation_epochs_end(&s, 1), 7);
    T_EQ(evaluation_epochs_end(&s, 3), 14);
}

TEST(evaluation, in_sync_it_ends_with_a_round)
{
    const struct schedule s = {
        .samples = 100, .batch = 4, .epochs = 2, .steps_per_closure = 1};
    const struct evaluation_steps e = {.schedule = &s, .every = 10, .round = 4};

    T_EQ(evaluation_mark(&e, 1), 12);
    T_EQ(evaluation_mark(&e, 2), 20);
    T_EQ(evaluation_mark(&e, 3), 25 + 8); // rounds do not span epochs
    T_EQ(evaluation_mark(&e, 5), 50);
}

TEST(evaluation, without_samples_it_is_complete)
{
    struct evaluation_plan plan = {.cut = 1, .first_epoch = 1, .last_epoch = 1};
    struct evaluation *e = evaluation_new(&plan, NULL, 0, 10, 4);

    T_TRUE(evaluation_complete(e));
    T_PTR(evaluation_offer(e, 0, true), NULL);
    evaluation_free(e);
}
