// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "coordinator/rules/meter.h"

#include "tests/harness/t.h"

TEST(meter, rate_slides_and_falls_to_zero_when_nothing_moves)
{
    struct meter m;
    uint64_t t;

    meter_init(&m);
    T_NEAR(meter_rate(&m, 0, 0), 0, 0);
    for (t = 0; t <= 20000; t += 100)
        meter_rate_add(&m, t, t / 10); // 100 a second
    T_NEAR(meter_rate(&m, 20000, 2000), 100, 1);
    for (; t <= 40000; t += 100)
        meter_rate_add(&m, t, 2000); // stands still
    T_NEAR(meter_rate(&m, 40000, 2000), 0, 0);
}

TEST(meter, a_shard_that_fell_back_starts_the_rate_anew)
{
    struct meter m;

    meter_init(&m);
    meter_rate_add(&m, 0, 0);
    meter_rate_add(&m, 5000, 1000);
    meter_rate_add(&m, 6000, 400);
    T_EQ(m.points, 1);
    T_NEAR(meter_rate(&m, 7000, 500), 100, 1e-9);
    T_NEAR(meter_rate(&m, 7000, 300), 0, 0);
}

TEST(meter, progress_is_added_once)
{
    struct meter_sums seen = {0};
    struct meter_sums now = {.steps = 2, .samples = 20, .loss_sum = 4};
    struct meter_sums more = meter_delta(&seen, &now);

    T_EQ(more.samples, 20);
    more = meter_delta(&seen, &now); // the same report again
    T_EQ(more.samples, 0);
    now = (struct meter_sums){.steps = 3, .samples = 25, .loss_sum = 5};
    more = meter_delta(&seen, &now);
    T_EQ(more.steps, 1);
    T_NEAR(more.loss_sum, 1, 1e-12);
    now.samples = 1; // less than before: adds nothing
    T_EQ(meter_delta(&seen, &now).steps, 0);
}

TEST(meter, an_epoch_that_was_skipped_has_no_loss)
{
    struct meter m;
    struct meter_sums s = {.steps = 1, .samples = 10, .loss_sum = 7};
    struct meter_sums skipped = {.steps = 4, .skipped = 4};

    meter_init(&m);
    meter_loss_add(&m, 0, &s);
    meter_loss_add(&m, 1, &skipped);
    s = meter_loss(&m, 1);
    T_TRUE(isnan(meter_mean_loss(&s)) && isnan(meter_mean_accuracy(&s)));
    s = meter_loss(&m, 0);
    T_NEAR(meter_mean_loss(&s), 0.7, 1e-12);
}

TEST(meter, samples_of_skipped_steps_are_taken_off_what_an_older_worker_says)
{
    struct meter_sums s = {
        .steps = 10, .skipped = 9, .samples = 80, .correct = 7, .loss_sum = 8};

    meter_of_applied(&s, 8);
    T_EQ(s.samples, 8);
    T_NEAR(meter_mean_loss(&s), 1, 0);
    meter_of_applied(&s, 8); // as a newer one says it
    T_EQ(s.samples, 8);
    T_EQ(s.correct, 7);
    s.skipped = 10;
    meter_of_applied(&s, 8);
    T_EQ(s.samples, 0);
    T_EQ(s.correct, 0);
}

TEST(meter, shows_the_epoch_before_until_this_one_has_steps)
{
    struct meter m;
    struct meter_sums s = {.steps = 1, .samples = 10, .loss_sum = 7};

    meter_init(&m);
    meter_loss_add(&m, 0, &s);
    T_NEAR(meter_loss(&m, 1).loss_sum, 7, 0);
    s.loss_sum = 3;
    meter_loss_add(&m, 1, &s);
    T_NEAR(meter_loss(&m, 1).loss_sum, 3, 0);
    T_EQ(meter_loss(&m, 3).samples, 0);
    meter_loss_add(&m, METER_EPOCHS, &s); // takes the place of epoch 0
    T_EQ(meter_loss(&m, 0).samples, 0);
}
