// SPDX-License-Identifier: Apache-2.0
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

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

#ifndef __SANITIZE_ADDRESS__ // which has a malloc of its own
static uint64_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    T_ASSERT(f != NULL && fscanf(f, "%lu %lu", &all, &resident) == 2);
    fclose(f);
    return resident * 4096;
}

// The last piece is kept: malloc alone gives only the end of its memory back.
TEST(mem, a_trim_gives_pages_back)
{
    enum { PIECES = 1 << 16, BYTES = 1000 };
    void **piece = sl_calloc(PIECES, sizeof(*piece));
    uint64_t full;

    T_ASSERT(piece != NULL);
    for (size_t i = 0; i < PIECES; i++) {
        piece[i] = sl_malloc(BYTES);
        T_ASSERT(piece[i] != NULL);
        memset(piece[i], 1, BYTES);
    }
    full = resident_bytes();
    for (size_t i = 0; i + 1 < PIECES; i++)
        sl_free(piece[i]);
    sl_mem_trim();
    T_LT(resident_bytes() + PIECES / 2 * BYTES, full);
    sl_free(piece[PIECES - 1]);
    sl_free(piece);
}
#endif
