// SPDX-License-Identifier: Apache-2.0
#include "plan/round.h"

#include "tests/harness/t.h"

static struct round_key keys[64];

TEST(round, takes_holes_in_order_and_never_of_two_epochs)
{
    // Two epochs of 5 steps: closures of 2, 2, 1 steps.
    const struct schedule s = {10, 2, 2, 2};
    struct counted c;

    T_OK(counted_init(&c, &s));
    T_OK(counted_add(&c, 0, 1));
    T_OK(counted_add_closure(&c, 1));
    T_EQ(round_next(&c, 4, keys), 2);
    T_TRUE(keys[0].closure == 0 && keys[0].step == 0);
    T_TRUE(keys[1].closure == 2 && keys[1].step == 0);
    T_EQ(round_next(&c, 1, keys), 1);
    T_EQ(keys[0].closure, 0);
    counted_release(&c);
}

TEST(round, R4_rounds_one_after_the_other_count_every_step_once)
{
    for (unsigned run = 0; run < 200; run++) {
        const struct schedule s = {1 + t_below(60), 1 + t_below(4),
                                   1 + t_below(3), 1 + t_below(8)};
        uint32_t most = 1 + (uint32_t)t_below(6), count;
        uint64_t last = 0, left, now;
        struct counted c;

        T_OK(counted_init(&c, &s));
        for (uint64_t i = 0; i < c.closures; i++) { // resumed with holes
            for (uint32_t k = 0; k < schedule_closure_steps(&s, i); k++) {
                if (t_below(4) == 0)
                    T_OK(counted_add(&c, i, k));
            }
        }
        T_OK(round_left(&c, most, c.closures, &left));
        while ((count = round_next(&c, most, keys)) > 0) {
            uint64_t epoch = schedule_epoch(&s, keys[0].closure);

            T_OK(round_left(&c, most, c.closures, &now));
            T_EQ(now, left--);
            T_TRUE(count <= most && epoch >= last);
            last = epoch;
            for (uint32_t i = 0; i < count; i++) {
                T_EQ(schedule_epoch(&s, keys[i].closure), epoch);
                T_OK(counted_add(&c, keys[i].closure, keys[i].step));
            }
            if (count < most) { // short only at the end of its epoch
                T_TRUE(counted_low(&c) >=
                       (epoch + 1) * schedule_closures_per_epoch(&s));
            }
        }
        T_EQ(left, 0);
        T_OK(round_left(&c, most, c.closures, &now));
        T_EQ(now, 0);
        T_TRUE(counted_full(&c));
        counted_release(&c);
    }
}

// Rounds go on until the first open closure is `end` or a later one.
TEST(round, left_until_a_closure_are_those_that_begin_below_it)
{
    for (unsigned run = 0; run < 400; run++) {
        const struct schedule s = {1 + t_below(60), 1 + t_below(4),
                                   1 + t_below(3), 1 + t_below(8)};
        uint32_t most = 1 + (uint32_t)t_below(6), count;
        uint64_t end, left, rounds = 0;
        struct counted c;

        T_OK(counted_init(&c, &s));
        end = t_below(c.closures + 1);
        for (uint64_t i = 0; i < c.closures; i++) {
            for (uint32_t k = 0; k < schedule_closure_steps(&s, i); k++) {
                if (t_below(4) == 0)
                    T_OK(counted_add(&c, i, k));
            }
        }
        T_OK(round_left(&c, most, end, &left));
        while (counted_next_open(&c, 0) < end) {
            count = round_next(&c, most, keys);
            T_GT(count, 0);
            rounds++;
            for (uint32_t i = 0; i < count; i++)
                T_OK(counted_add(&c, keys[i].closure, keys[i].step));
        }
        T_EQ(left, rounds);
        counted_release(&c);
    }
}

TEST(round, left_takes_no_time_in_what_is_left)
{
    const struct schedule s = {1 << 20, 1, SCHEDULE_MAX_EPOCHS, 16};
    struct counted c;
    uint64_t left;

    T_OK(counted_init(&c, &s));
    T_OK(counted_add(&c, 3, 1));
    T_OK(round_left(&c, 3, c.closures, &left));
    // One step is left of the last round of an epoch, and of the first none.
    T_EQ(left, SCHEDULE_MAX_EPOCHS * (((1 << 20) + 2) / 3) - 1);
    counted_release(&c);
}

TEST(round, slots_are_runs_that_differ_by_one_at_most)
{
    for (uint32_t ranks = 1; ranks < 9; ranks++) {
        for (uint32_t slots = 0; slots < 30; slots++) {
            uint32_t next = 0, first, count;

            for (uint32_t self = 0; self < ranks; self++) {
                round_slots(slots, ranks, self, &first, &count);
                T_EQ(first, next);
                T_TRUE(count == slots / ranks || count == slots / ranks + 1);
                next += count;
            }
            T_EQ(next, slots);
        }
    }
}
