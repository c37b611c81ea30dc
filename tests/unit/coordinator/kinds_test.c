// SPDX-License-Identifier: Apache-2.0
// Kinds of host that were near each other.
#include "coordinator/rules/kinds.h"

#include "tests/harness/t.h"

TEST(kinds, the_newest_norm_of_a_pair_is_kept)
{
    struct kinds k = {.count = 0};

    T_TRUE(kinds_norm(&k, 5, 6) == 0);
    kinds_note(&k, 5, 6, 2);
    T_TRUE(kinds_norm(&k, 5, 6) == 2);
    T_TRUE(kinds_norm(&k, 6, 5) == 2);
    T_TRUE(kinds_norm(&k, 5, 7) == 0);
    kinds_note(&k, 6, 5, 1);
    T_TRUE(kinds_norm(&k, 5, 6) == 1);
    T_EQ(k.count, 1);
}

TEST(kinds, the_oldest_pair_makes_room)
{
    struct kinds k = {.count = 0};

    for (uint64_t i = 0; i < KINDS_MOST + 2; i++)
        kinds_note(&k, 1, 2 + i, 1);
    T_EQ(k.count, KINDS_MOST);
    T_TRUE(kinds_norm(&k, 1, 2) == 0);
    T_TRUE(kinds_norm(&k, 1, 3) == 0);
    T_TRUE(kinds_norm(&k, 1, 4) == 1);
    T_TRUE(kinds_norm(&k, 1, KINDS_MOST + 3) == 1);
}
