// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"

#include "tests/harness/t.h"

TEST(mem, fails_from_the_nth_on)
{
    void *a, *b;

    sl_mem_fail_at(2);
    a = sl_malloc(8);
    b = sl_malloc(8);
    T_TRUE(a != NULL);
    T_TRUE(b == NULL);
    T_TRUE(sl_calloc(1, 1) == NULL);
    T_TRUE(sl_realloc(a, 100) == NULL);
    T_TRUE(sl_strdup("x") == NULL);
    T_TRUE(sl_aligned(64, 64) == NULL);
    T_TRUE(sl_mem_failed());
    b = sl_malloc(8); // switched off
    T_TRUE(b != NULL);
    T_FALSE(sl_mem_failed());
    sl_free(a);
    sl_free(b);
}

TEST(mem, a_fuse_that_was_not_reached_says_so)
{
    void *p;

    sl_mem_fail_at(5);
    p = sl_malloc(1);
    T_FALSE(sl_mem_failed());
    sl_free(p);
}

TEST(mem, counts_what_lives)
{
    uint64_t before = sl_mem_live();
    char *a = sl_strdup("hello"), *b = sl_strndup("hello", 2);
    void *c = sl_aligned(4096, 5), *d = sl_malloc(0);

    T_EQ(sl_mem_live(), before + 4);
    T_STR(a, "hello");
    T_STR(b, "he");
    T_EQ((uintptr_t)c % 4096, 0);
    T_TRUE(d != NULL);
    a = sl_realloc(a, 1000);
    T_EQ(sl_mem_live(), before + 4);
    sl_free(a);
    sl_free(b);
    sl_free(c);
    sl_free(d);
    sl_free(NULL);
    T_EQ(sl_mem_live(), before);
}

TEST(mem, products_do_not_wrap)
{
    T_TRUE(sl_malloc_array(SIZE_MAX / 2, 3) == NULL);
    T_TRUE(sl_calloc(SIZE_MAX / 2, 3) == NULL);
    T_TRUE(sl_aligned(64, SIZE_MAX - 3) == NULL);
}
