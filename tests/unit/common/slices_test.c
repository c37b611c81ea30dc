// SPDX-License-Identifier: Apache-2.0
#include "common/base/slices.h"

#include "common/base/buf.h"
#include "common/base/crc.h"
#include "tests/harness/t.h"

#define BYTES 4096

// `bytes` cut into pieces at random places, some of them empty.
static size_t cut(struct sl_slice *at, size_t room, const uint8_t *bytes,
                  size_t len, size_t longest)
{
    size_t n = 0;

    while (len > 0) {
        size_t now = n + 1 == room ? len : t_below(longest + 1);

        now = now < len ? now : len;
        at[n++] = (struct sl_slice){bytes, now};
        bytes += now;
        len -= now;
    }
    return n;
}

static void fill(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)t_rand();
}

TEST(slices, any_cut_reads_as_the_whole)
{
    static struct sl_slice at[2 * BYTES];
    uint8_t bytes[BYTES], copy[BYTES];

    fill(bytes, BYTES);
    for (size_t longest = 1; longest < 600; longest = longest * 2 + 1) {
        struct sl_slices s =
            slices_all(at, cut(at, 2 * BYTES, bytes, BYTES, longest));
        size_t offset = t_below(BYTES), len = t_below(BYTES - offset + 1);
        struct sl_slices sub;

        T_EQ(s.bytes, BYTES);
        T_OK(slices_sub(&sub, &s, offset, len));
        memset(copy, 0, BYTES);
        slices_copy(copy, &sub);
        T_MEM(copy, bytes + offset, len);
        T_FAILS(SL_ERANGE, slices_sub(&sub, &s, offset, BYTES - offset + 1));
        T_FAILS(SL_ERANGE, slices_sub(&sub, &s, BYTES + 1, 0));
    }
}

TEST(slices, sub_of_a_sub)
{
    uint8_t bytes[10] = "0123456789", copy[3];
    struct sl_slice at[3] = {{bytes, 4}, {bytes + 4, 0}, {bytes + 4, 6}};
    struct sl_slices s = slices_all(at, 3);

    T_OK(slices_sub(&s, &s, 2, 7)); // 2345678
    T_OK(slices_sub(&s, &s, 3, 3)); // 567
    slices_copy(copy, &s);
    T_MEM(copy, "567", 3);
}

TEST(slices, cursor_takes_and_refuses)
{
    uint8_t bytes[10] = "0123456789", copy[10];
    struct sl_slice at[2] = {{bytes, 3}, {bytes + 3, 7}};
    struct sl_slices s = slices_all(at, 2);
    struct slices_cursor c;
    size_t n;

    slices_cursor_init(&c, &s);
    T_OK(slices_take(&c, copy, 5));
    T_MEM(copy, "01234", 5);
    T_FAILS(SL_ERANGE, slices_take(&c, copy, 6));
    T_OK(slices_take(&c, copy, 1));
    T_MEM(slices_next(&c, 2, &n), "67", 2);
    T_EQ(n, 2);
    T_FAILS(SL_ERANGE, slices_take(&c, copy, 3));
    T_MEM(slices_next(&c, 99, &n), "89", 2);
    T_TRUE(slices_next(&c, 99, &n) == NULL);
    T_EQ(n, 0);
}

TEST(slices, view_is_in_place_but_across_pieces)
{
    uint8_t bytes[10] = "0123456789", space[10];
    struct sl_slice at[3] = {{bytes, 3}, {bytes + 3, 0}, {bytes + 3, 7}};
    struct sl_slices s = slices_all(at, 3);
    struct slices_cursor c;

    slices_cursor_init(&c, &s);
    T_TRUE(slices_view(&c, 2, space) == bytes);
    T_TRUE(slices_view(&c, 3, space) == space);
    T_MEM(space, "234", 3);
    T_TRUE(slices_view(&c, 5, space) == bytes + 5);
    T_EQ(c.left, 0);
}

// Floats in pieces that are cut anywhere come out as they went in, whatever
// the alignment and however short the runs that are asked for.
TEST(slices, runs_give_whole_elements)
{
    static struct sl_slice at[2 * BYTES];
    uint8_t bytes[BYTES + 8], out[BYTES];
    const size_t sizes[] = {1, 2, 4, 8, 16};

    fill(bytes, sizeof(bytes));
    for (int round = 0; round < 200; round++) {
        size_t size = sizes[t_below(SL_COUNT(sizes))], got = 0, n;
        size_t count = t_below(BYTES / size), start = t_below(8);
        size_t max = 1 + t_below(100);
        struct sl_slices s =
            slices_all(at, cut(at, 2 * BYTES, bytes + start, count * size,
                               1 + t_below(200)));
        struct slices_runs it;
        const void *run;

        T_OK(slices_runs_init(&it, &s, size));
        while ((run = slices_runs_next(&it, max, &n)) != NULL) {
            T_TRUE(n >= 1 && n <= max);
            T_LE(got + n, count);
            memcpy(out + got * size, run, n * size);
            got += n;
        }
        T_EQ(got, count);
        T_MEM(out, bytes + start, count * size);
    }
}

TEST(slices, runs_refuse_half_elements)
{
    uint8_t bytes[10] = {0};
    struct sl_slice one = {bytes, 10};
    struct sl_slices s = slices_one(&one);
    struct slices_runs it;

    T_FAILS(SL_EINVAL, slices_runs_init(&it, &s, 4));
    T_FAILS(SL_EINVAL, slices_runs_init(&it, &s, 0));
    T_FAILS(SL_EINVAL, slices_runs_init(&it, &s, 17));
    T_OK(slices_runs_init(&it, &s, 5));
}

TEST(slices, nothing_is_something)
{
    struct sl_slices s = SL_SLICES_NONE;
    struct slices_runs it;
    size_t n;

    T_OK(slices_runs_init(&it, &s, 4));
    T_TRUE(slices_runs_next(&it, 9, &n) == NULL);
    T_OK(slices_sub(&s, &s, 0, 0));
    slices_copy(NULL, &s);
}
