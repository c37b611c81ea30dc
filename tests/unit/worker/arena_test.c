// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/t.h"

#include "worker/compile/arena.h"

#define MOST 60

static void check_plan(struct arena_item *items, size_t n, size_t bytes)
{
    for (size_t i = 0; i < n; i++) {
        T_EQ(items[i].offset % ARENA_ALIGN, 0);
        T_LE(items[i].offset + items[i].bytes, bytes);
        for (size_t k = 0; k < i; k++) {
            bool together = items[i].first <= items[k].last &&
                            items[k].first <= items[i].last;
            bool apart = items[i].offset + items[i].bytes <= items[k].offset ||
                         items[k].offset + items[k].bytes <= items[i].offset;

            T_TRUE(!together || apart || items[i].bytes == 0 ||
                   items[k].bytes == 0);
        }
    }
}

TEST(arena, what_lives_together_lies_apart)
{
    for (int round = 0; round < 300; round++) {
        struct arena_item items[MOST];
        size_t n = t_below(MOST), bytes = 0;

        for (size_t i = 0; i < n; i++) {
            items[i].bytes = t_below(1000);
            items[i].first = (uint32_t)t_below(20);
            items[i].last = items[i].first + (uint32_t)t_below(10);
        }
        T_OK(arena_plan(items, n, &bytes));
        check_plan(items, n, bytes);
    }
}

TEST(arena, a_chain_needs_two_places)
{
    struct arena_item items[10];
    size_t bytes = 0;

    for (uint32_t i = 0; i < 10; i++)
        items[i] = (struct arena_item){.bytes = 640, .first = i, .last = i + 1};
    T_OK(arena_plan(items, 10, &bytes));
    T_EQ(bytes, 1280);
}
