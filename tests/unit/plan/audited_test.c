// SPDX-License-Identifier: Apache-2.0
#include "plan/audited.h"

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
