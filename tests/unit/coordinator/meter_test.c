// SPDX-License-Identifier: Apache-2.0
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
