// SPDX-License-Identifier: Apache-2.0
// Which shards leave together.
#include "plan/fragments.h"

#include "tests/harness/t.h"

TEST(fragments, shards_of_one_size_are_dealt_out_in_turn)
{
    struct fragments f = fragments_begin(3);

    for (uint32_t i = 0; i < 20; i++)
        T_EQ(fragments_add(&f, 7), i % 3);
}

TEST(fragments, the_smallest_one_gets_the_next_shard)
{
    static const uint64_t sizes[] = {10, 1, 4, 2, 1, 20, 3};
    static const uint32_t want[] = {0, 1, 1, 1, 1, 1, 0};
    struct fragments f = fragments_begin(2);

    for (uint32_t i = 0; i < 7; i++)
        T_EQ(fragments_add(&f, sizes[i]), want[i]);
    T_EQ(f.elements[0], 13);
    T_EQ(f.elements[1], 28);
}

// None has more than the smallest and one shard.
TEST(fragments, they_are_of_about_one_size)
{
    struct fragments f = fragments_begin(FRAGMENTS_MOST);
    uint64_t least = UINT64_MAX, most = 0;

    for (uint32_t i = 0; i < 1000; i++)
        (void)fragments_add(&f, 1 + t_rand() % 100);
    for (uint32_t i = 0; i < FRAGMENTS_MOST; i++) {
        least = f.elements[i] < least ? f.elements[i] : least;
        most = f.elements[i] > most ? f.elements[i] : most;
    }
    T_TRUE(most - least <= 100);
}

TEST(fragments, fewer_shards_leave_some_empty)
{
    struct fragments f = fragments_begin(4);

    T_EQ(fragments_add(&f, 5), 0);
    T_EQ(fragments_add(&f, 5), 1);
    T_EQ(f.elements[2] + f.elements[3], 0);
}
