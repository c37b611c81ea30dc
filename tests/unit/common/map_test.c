// SPDX-License-Identifier: Apache-2.0
#include "common/base/map.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

#define KEYS 300

// Random operations against an array; keys are few, so that collisions and
// removals in the middle of probe sequences happen all the time.
TEST(map, agrees_with_an_array)
{
    void *want[KEYS] = {NULL};
    static char values[64];
    struct map m;
    size_t live = 0;

    map_init(&m);
    for (int i = 0; i < 60000; i++) {
        uint64_t key = t_below(KEYS);
        void *value = &values[t_below(64)];

        if (t_below(5) < (i / 10000 % 2 == 0 ? 3u : 1u)) { // grow, then shrink
            live += want[key] == NULL;
            T_OK(map_put(&m, key, value));
            want[key] = value;
        } else {
            live -= want[key] != NULL;
            T_PTR(map_remove(&m, key), want[key]);
            want[key] = NULL;
        }
        T_EQ(m.len, live);
        key = t_below(KEYS);
        T_PTR(map_get(&m, key), want[key]);
    }
    for (uint64_t key = 0; key < KEYS; key++)
        T_PTR(map_get(&m, key), want[key]);
    map_release(&m);
}

TEST(map, walks_each_member_once)
{
    struct map m = {0};
    uint64_t key, sum = 0;
    size_t at = 0, count = 0;
    void *value;

    T_TRUE(map_get(&m, 5) == NULL);
    T_TRUE(map_remove(&m, 5) == NULL);
    for (uint64_t i = 1; i <= 1000; i++)
        T_OK(map_put(&m, i << 40, &m));
    while (map_next(&m, &at, &key, &value)) {
        sum += key >> 40;
        count++;
        T_PTR(value, &m);
    }
    T_EQ(count, 1000);
    T_EQ(sum, 500500);
    map_release(&m);
}

TEST(map, after_a_reserve_no_put_fails)
{
    struct map m = {0};

    T_OK(map_reserve(&m, 100));
    sl_mem_fail_at(1);
    for (uint64_t i = 0; i < 100; i++)
        T_OK(map_put(&m, i, &m));
    T_FALSE(sl_mem_failed());
    map_release(&m);
}

TEST(map, out_of_memory_leaves_it_as_it_was)
{
    struct map m = {0};
    uint64_t n = 0;

    sl_mem_fail_at(2); // the first table is granted
    while (map_put(&m, n, &m) == SL_OK)
        n++;
    T_TRUE(sl_mem_failed());
    T_EQ(m.len, n);
    for (uint64_t i = 0; i < n; i++)
        T_PTR(map_get(&m, i), &m);
    T_TRUE(map_get(&m, n) == NULL);
    map_release(&m);
}

TEST(map, release_owned_frees_what_it_holds)
{
    uint64_t before = sl_mem_live();
    struct map m = {0};

    map_release_owned(&m); // an empty one
    for (uint64_t i = 0; i < 100; i++)
        T_OK(map_put(&m, i, sl_malloc(8)));
    for (uint64_t i = 0; i < 100; i += 3)
        sl_free(map_remove(&m, i));
    map_release_owned(&m);
    T_EQ(sl_mem_live(), before);
    T_EQ(m.len, 0);
    T_OK(map_put(&m, 1, &m)); // it is empty, and of use
    map_release(&m);
}

TEST(strmap, agrees_with_an_array)
{
    void *want[KEYS] = {NULL};
    static char values[64];
    struct strmap m = {0};
    uint64_t before = sl_mem_live();
    size_t live = 0;

    for (int i = 0; i < 30000; i++) {
        size_t n = t_below(KEYS);
        void *value = &values[t_below(64)];
        char key[16];

        snprintf(key, sizeof(key), "key-%zu", n);
        if (t_below(2) == 0) {
            live += want[n] == NULL;
            T_OK(strmap_put(&m, key, value));
            want[n] = value;
        }
        T_PTR(strmap_get(&m, key), want[n]);
        T_EQ(m.len, live);
    }
    strmap_release(&m);
    T_EQ(sl_mem_live(), before);
}

TEST(strmap, fails_cleanly)
{
    struct strmap m = {0};
    uint64_t before = sl_mem_live();

    T_OK(strmap_put(&m, "", &m));
    T_OK(strmap_put(&m, "ab", &m));
    for (uint64_t n = 1; n <= 2; n++) {
        sl_mem_fail_at(1);
        T_FAILS(SL_ENOMEM, strmap_put(&m, "new", &m));
        T_TRUE(sl_mem_failed());
        T_EQ(m.len, 2);
    }
    strmap_release(&m);
    T_EQ(sl_mem_live(), before);
}
