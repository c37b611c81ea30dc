// SPDX-License-Identifier: Apache-2.0
#include "state/rows/row_arena.h"

#include "tests/harness/t.h"

#define OWNERS 300
#define CHUNK ((uint64_t)2 << 20)

struct owned {
    uint8_t *at;
    size_t bytes;
};

static void fill(const struct owned *o, uint32_t owner)
{
    memset(o->at, (int)(owner % 251), o->bytes);
}

static void is_filled(const struct owned *o, uint32_t owner)
{
    for (size_t i = 0; i < o->bytes; i += 64) {
        T_EQ(o->at[i], owner % 251);
        T_EQ(o->at[i + 63], owner % 251);
    }
}

// Takes a quarter more for an owner, as a bucket that grows, and lets what is
// there be moved.
static void grow(struct row_arena *a, struct owned *all, uint32_t owner)
{
    struct owned *o = &all[owner], old = *o;
    uint32_t moved;
    void *at;

    o->bytes = (old.bytes * 5 / 4 + 63) / 64 * 64;
    o->at = row_arena_take(a, o->bytes, owner);
    T_TRUE(o->at != NULL && (uintptr_t)o->at % 64 == 0);
    fill(o, owner);
    row_arena_give(a, old.at);
    while ((at = row_arena_tidy(a, &moved)) != NULL)
        all[moved].at = at;
}

// Buckets grow in any order. None loses what it has, and the holes that they
// leave are a part of what is in use.
TEST(row_arena, holes_are_a_part_of_what_is_in_use)
{
    static struct owned all[OWNERS];
    struct row_arena a;
    uint64_t most = 0;

    row_arena_init(&a);
    for (uint32_t i = 0; i < OWNERS; i++) {
        all[i].bytes = 4096 + 64 * t_below(64);
        all[i].at = row_arena_take(&a, all[i].bytes, i);
        fill(&all[i], i);
    }
    for (unsigned turn = 0; turn < 12; turn++)
        for (uint32_t i = 0; i < OWNERS; i++) {
            grow(&a, all, (i * 7 + turn) % OWNERS);
            T_LE(a.bytes, a.used + a.used / 5 + 2 * CHUNK);
            most = a.used > most ? a.used : most;
        }
    T_GE(most, 8 * CHUNK);
    for (uint32_t i = 0; i < OWNERS; i++)
        is_filled(&all[i], i);
    for (uint32_t i = 0; i < OWNERS; i += 2)
        row_arena_give(&a, all[i].at);
    row_arena_release(&a);
    T_EQ(a.bytes, 0);
    row_arena_release(&a); // also an empty one
}

TEST(row_arena, what_is_given_back_whole_is_free)
{
    struct row_arena a;
    uint32_t owner;
    void *at;

    row_arena_init(&a);
    at = row_arena_take(&a, 64 << 20, 7); // more than a chunk by itself
    T_TRUE(at != NULL);
    T_TRUE(row_arena_tidy(&a, &owner) == NULL);
    row_arena_give(&a, at);
    T_EQ(a.bytes, 0);
    row_arena_release(&a);
}
