// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include "tests/harness/t.h"

// Ten samples in batches of 3 are 4 steps; closures of 3 steps: 3 and 1.
static const struct schedule small = {10, 3, 2, 3};

TEST(schedule, short_batch_and_short_closure)
{
    uint64_t first, count;

    T_OK(schedule_check(&small, t_err()));
    T_EQ(schedule_steps_per_epoch(&small), 4);
    T_EQ(schedule_closures_per_epoch(&small), 2);
    T_EQ(schedule_closures(&small), 4);
    T_EQ(schedule_closure_steps(&small, 0), 3);
    T_EQ(schedule_closure_steps(&small, 1), 1);
    T_EQ(schedule_epoch(&small, 1), 0);
    T_EQ(schedule_epoch(&small, 2), 1);
    schedule_step_range(&small, 3, 0, &first, &count);
    T_EQ(first, 9);
    T_EQ(count, 1);
    schedule_closure_range(&small, 2, &first, &count);
    T_EQ(first, 0);
    T_EQ(count, 9);
    T_EQ(schedule_global_step(&small, 3, 0), 7);
}

TEST(schedule, samples_of_steps_know_the_short_batch)
{
    struct schedule s = {
        .samples = 25, .batch = 10, .epochs = 2, .steps_per_closure = 2};

    T_EQ(schedule_samples(&s, 0), 0);
    T_EQ(schedule_samples(&s, 2), 20);
    T_EQ(schedule_samples(&s, 3), 25);
    T_EQ(schedule_samples(&s, 4), 35);
    T_EQ(schedule_samples(&s, 6), 50);
    s.batch = 1000; // one step is an epoch
    T_EQ(schedule_samples(&s, 1), 25);
    T_EQ(schedule_samples(&s, 2), 50);
}

// For random schedules: the steps of all closures, in order, are the global
// steps 0, 1, 2 ..., and in each epoch their ranges are the positions without
// gap or overlap (cover).
TEST(schedule, every_position_once_per_epoch)
{
    for (int round = 0; round < 400; round++) {
        struct schedule s = {1 + t_below(200), 1 + t_below(30), 1 + t_below(3),
                             1 + t_below(12)};
        uint64_t global = 0, at = 0, samples = 0, first, count;

        T_OK(schedule_check(&s, t_err()));
        for (uint64_t c = 0; c < schedule_closures(&s); c++) {
            T_GE(schedule_closure_steps(&s, c), 1);
            T_LE(schedule_closure_steps(&s, c), s.steps_per_closure);
            for (uint32_t i = 0; i < schedule_closure_steps(&s, c); i++) {
                T_EQ(schedule_global_step(&s, c, i), global);
                T_EQ(schedule_samples(&s, global), samples);
                schedule_step_range(&s, c, i, &first, &count);
                T_EQ(first, at);
                T_TRUE(count >= 1 && count <= s.batch);
                at = first + count == s.samples ? 0 : first + count;
                T_EQ(schedule_epoch(&s, c),
                     global / schedule_steps_per_epoch(&s));
                samples += count;
                global++;
            }
        }
        T_EQ(at, 0); // the last epoch ended
        T_EQ(global, schedule_steps(&s));
        T_EQ(schedule_samples(&s, global), samples);
        T_EQ(samples, s.samples * s.epochs);
    }
}

TEST(schedule, refuses_what_it_cannot)
{
    struct schedule s = small;

    s.samples = 0;
    T_FAILS(SL_EINVAL, schedule_check(&s, t_err()));
    s = small;
    s.batch = 0;
    T_FAILS(SL_EINVAL, schedule_check(&s, t_err()));
    s = small;
    s.epochs = SCHEDULE_MAX_EPOCHS + 1;
    T_FAILS(SL_EINVAL, schedule_check(&s, t_err()));
    s = small;
    s.steps_per_closure = SCHEDULE_MAX_CLOSURE_STEPS + 1;
    T_FAILS(SL_EINVAL, schedule_check(&s, t_err()));
    s = (struct schedule){UINT64_C(1) << 40, 1, UINT64_C(1) << 32, 1};
    T_FAILS(SL_ERANGE, schedule_check(&s, t_err()));
}

TEST(schedule, the_largest_does_not_wrap)
{
    struct schedule s = {UINT64_C(1) << 40, 1, UINT64_C(1) << 22, 65536};
    uint64_t last = schedule_closures(&s) - 1;

    T_OK(schedule_check(&s, t_err()));
    T_EQ(schedule_steps(&s), UINT64_C(1) << 62);
    T_EQ(schedule_global_step(&s, last, 65535), (UINT64_C(1) << 62) - 1);
}
