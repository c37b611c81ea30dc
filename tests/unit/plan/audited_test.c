// SPDX-License-Identifier: Apache-2.0
#include "plan/audited.h"
#include "plan/round.h"

#include "tests/harness/t.h"

// Which rounds are audited is a share of them, drawn by job and round alone.
TEST(audited, A1_a_share_of_the_rounds_is_audited)
{
    unsigned some = 0, other = 0;

    for (uint64_t first = 0; first < 40000; first += 4) {
        T_FALSE(audited_round(7, first, 0));
        T_TRUE(audited_round(7, first, 1));
        T_EQ(audited_round(7, first, 0.05), audited_round(7, first, 0.05));
        some += audited_round(7, first, 0.05);
        other += audited_round(7, first, 0.05) && audited_round(8, first, 0.05);
    }
    T_TRUE(some > 400 && some < 600); // of 10,000
    T_TRUE(other < some / 2);         // another job audits other rounds
}

// Each slot of a round is computed by the workers of three of its slots, and a
// worker's own comes first.
TEST(audited, A1_three_slots_of_a_round_compute_each)
{
    for (uint32_t count = 1; count < 9; count++) {
        unsigned times[9] = {0};
        uint32_t most = count < AUDITED_WORKERS ? count : AUDITED_WORKERS;

        for (uint64_t own = 100; own < 100 + count; own++) {
            uint64_t slots[AUDITED_WORKERS];

            T_EQ(audited_slots(100, count, own, slots), most);
            T_EQ(slots[0], own);
            for (uint32_t i = 0; i < most; i++) {
                T_TRUE(slots[i] >= 100 && slots[i] < 100 + count);
                times[slots[i] - 100]++;
            }
        }
        for (uint32_t i = 0; i < count; i++)
            T_EQ(times[i], most);
    }
}

// What ranks compute for audits alone is below 0.3 % of the steps with the
// share that is the default, however many ranks there are.
TEST(audited, A1_ranks_repeat_a_small_share_of_the_steps)
{
    enum { ROUNDS = 1000000, SLOTS = 12 };

    for (uint32_t ranks = 1; ranks <= SLOTS + 1; ranks++) {
        uint64_t more = 0, each = 0;

        for (uint32_t self = 0; self < ranks; self++) {
            uint64_t at[AUDITED_WORKERS];
            uint32_t n = audited_slots(0, ranks, self, at), first, count;

            for (uint32_t i = 1; i < n; i++) {
                round_slots(SLOTS, ranks, (uint32_t)at[i], &first, &count);
                each += count;
            }
        }
        T_LE(each, (AUDITED_WORKERS - 1) * SLOTS);
        for (uint64_t done = 0; done < ROUNDS; done++)
            more += audited_round(3, done, 0.001) ? each : 0;
        T_LT((double)more, 0.003 * (double)ROUNDS * SLOTS);
        T_TRUE(ranks < 3 || (double)more > 0.001 * (double)ROUNDS * SLOTS);
    }
}
