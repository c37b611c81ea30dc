// SPDX-License-Identifier: Apache-2.0
#include "state/shard/buffer_pool.h"

#include <string.h>

#include "tests/harness/t.h"

#define MIB ((size_t)1 << 20)

static struct pool *pool_of(void)
{
    struct pool *pool = NULL;

    T_ASSERT(pool_new(&pool) == SL_OK);
    return pool;
}

// A buffer, written to its end.
static struct pool_buf *take(struct pool *pool, size_t bytes)
{
    struct pool_buf *buf = NULL;

    T_ASSERT(pool_take(pool, bytes, &buf) == SL_OK);
    T_ASSERT(buf->memory.bytes >= bytes);
    memset(buf->memory.data, 1, bytes);
    return buf;
}

TEST(pool, what_comes_back_is_given_out_again)
{
    struct pool *pool = pool_of();
    struct pool_buf *buf = take(pool, 3 * MIB);
    void *memory = buf->memory.data;

    pool_give(buf);
    buf = take(pool, 3 * MIB);
    T_TRUE(buf->memory.data == memory);
    pool_give(buf);
    pool_free(pool);
}

TEST(pool, shards_of_like_size_share)
{
    struct pool *a = pool_of(), *b = pool_of();
    struct pool_buf *buf = take(a, 5 * MIB);
    void *memory = buf->memory.data;

    pool_give(buf);
    pool_free(a); // what waits outlives it
    buf = take(b, 4 * MIB);
    T_TRUE(buf->memory.data == memory);
    pool_give(buf);
    pool_free(b);
}

TEST(pool, a_buffer_that_is_too_small_or_far_too_large_is_left)
{
    struct pool *small = pool_of(), *fits = pool_of();
    struct pool *large = pool_of();
    struct pool_buf *a = take(small, MIB), *b = take(large, 13 * MIB), *c;
    void *first = a->memory.data, *second = b->memory.data;

    pool_give(a);
    pool_give(b);
    c = take(fits, 6 * MIB);
    T_TRUE(c->memory.data != first && c->memory.data != second);
    pool_give(c);
    pool_free(small);
    pool_free(fits);
    pool_free(large);
}

TEST(pool, what_waits_is_bounded_and_the_coldest_goes)
{
    struct pool *pool = pool_of(), *other = pool_of();
    struct pool_buf *buf[8];

    for (unsigned i = 0; i < SL_COUNT(buf); i++)
        buf[i] = take(pool, 7 * MIB);
    for (unsigned i = 0; i < SL_COUNT(buf); i++) {
        pool_give(buf[i]);
        T_TRUE(pool_kept_bytes() <= POOL_KEEP_BYTES);
    }
    T_EQ(pool_kept_bytes(), 28 * MIB);
    pool_give(take(other, 20 * MIB)); // the warmest stays, with one beside it
    T_EQ(pool_kept_bytes(), 27 * MIB);
    pool_free(pool);
    pool_free(other);
}

TEST(pool, one_shard_cannot_have_them_all)
{
    static struct pool_buf *buf[POOL_MAX];
    struct pool *pool = pool_of();
    struct pool_buf *more = NULL;

    for (unsigned i = 0; i < POOL_MAX; i++)
        buf[i] = take(pool, 64);
    T_FAILS(SL_EBUSY, pool_take(pool, MIB, &more));
    pool_give(buf[0]);
    buf[0] = take(pool, 64);
    pool_free(pool); // it ends with the last buffer that comes back
    for (unsigned i = 0; i < POOL_MAX; i++)
        pool_give(buf[i]);
}

TEST(pool, a_shown_buffer_has_many_owners_until_the_last_gives_it_back)
{
    struct pool *pool = pool_of();
    struct pool_buf *buf = take(pool, 64), *other;

    T_TRUE(pool_shown(pool, 0, 0) == NULL);
    pool_show(buf, 0, 7);
    T_TRUE(pool_shown(pool, 0, 6) == NULL);
    T_TRUE(pool_shown(pool, 0, 7) == buf);
    pool_give(buf);
    other = take(pool, 64); // not what somebody still has
    T_TRUE(other != buf);
    T_TRUE(pool_shown(pool, 0, 7) == buf);
    pool_give(buf);
    pool_give(buf);
    T_TRUE(pool_shown(pool, 0, 7) == buf); // it waits as it is
    pool_give(buf);
    T_TRUE(take(pool, 64) == buf);
    T_TRUE(pool_shown(pool, 0, 7) == NULL); // it is written again
    pool_give(buf);
    T_TRUE(pool_shown(pool, 0, 7) == NULL);
    pool_show(other, 0, 8);
    pool_free(pool); // it ends with the last owner
    pool_give(other);
}

TEST(pool, nobody_is_shown_what_another_pool_had)
{
    struct pool *pool = pool_of(), *other;
    struct pool_buf *buf = take(pool, 64);

    pool_show(buf, 0, 1);
    pool_give(buf);
    other = pool_of();
    T_TRUE(pool_shown(other, 0, 1) == NULL);
    T_TRUE(take(other, 64) == buf);
    T_TRUE(pool_shown(pool, 0, 1) == NULL);
    pool_free(pool);
    pool_give(buf);
    pool_free(other);
}

TEST(pool, each_form_has_its_copy)
{
    struct pool *pool = pool_of();
    struct pool_buf *a = take(pool, 64), *b = take(pool, 64);

    pool_show(a, 0, 1);
    pool_show(b, 2, 1);
    T_TRUE(pool_shown(pool, 0, 1) == a);
    T_TRUE(pool_shown(pool, 1, 1) == NULL);
    T_TRUE(pool_shown(pool, 2, 1) == b);
    pool_give(a);
    pool_give(b);
    pool_give(b); // they wait as they are
    T_TRUE(pool_shown(pool, 1, 1) == NULL);
    T_TRUE(pool_shown(pool, 2, 1) == b);
    pool_give(b);
    pool_give(a);
    T_TRUE(pool_shown(pool, 0, 1) == a);
    pool_give(a);
    pool_free(pool);
}

TEST(pool, the_newest_is_shown)
{
    struct pool *pool = pool_of();
    struct pool_buf *old = take(pool, 64), *new = take(pool, 64);

    pool_show(old, 0, 1);
    pool_show(new, 0, 2);
    T_TRUE(pool_shown(pool, 0, 1) == NULL);
    pool_give(old); // hides nothing but itself
    T_TRUE(pool_shown(pool, 0, 2) == new);
    pool_give(new);
    pool_give(new);
    pool_free(pool);
}
