// SPDX-License-Identifier: Apache-2.0
#include "psserver/pool.h"

#include <pthread.h>
#include <stdbool.h>

#include "common/mem.h"

struct pool {
    size_t bytes; // of a buffer
    pthread_mutex_t lock;
    struct list waiting; // of pool_buf
    unsigned kept, out;  // in `waiting`; with others
    bool freed;          // the last buffer to come back ends it
};

enum sl_err pool_new(struct pool **out, size_t bytes)
{
    struct pool *pool = sl_calloc(1, sizeof(*pool));

    if (pool == NULL)
        return SL_ENOMEM;
    pool->bytes = bytes;
    pthread_mutex_init(&pool->lock, NULL);
    list_init(&pool->waiting);
    *out = pool;
    return SL_OK;
}

static void buf_free(struct pool_buf *buf)
{
    region_release(&buf->memory);
    sl_free(buf);
}

// Nobody else knows the pool any more.
static void destroy(struct pool *pool)
{
    struct list_node *n;

    while ((n = list_pop_front(&pool->waiting)) != NULL)
        buf_free(list_entry(n, struct pool_buf, node));
    pthread_mutex_destroy(&pool->lock);
    sl_free(pool);
}

void pool_free(struct pool *pool)
{
    bool last;

    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->freed = true;
    last = pool->out == 0;
    pthread_mutex_unlock(&pool->lock);
    if (last)
        destroy(pool);
}

static enum sl_err buf_new(struct pool *pool, struct pool_buf **out)
{
    struct pool_buf *buf = sl_calloc(1, sizeof(*buf));

    if (buf == NULL)
        return SL_ENOMEM;
    if (region_new(&buf->memory, pool->bytes) != SL_OK) {
        sl_free(buf);
        return SL_ENOMEM;
    }
    buf->pool = pool;
    *out = buf;
    return SL_OK;
}

enum sl_err pool_take(struct pool *pool, struct pool_buf **out)
{
    struct list_node *n = NULL;
    enum sl_err rc = SL_OK;

    pthread_mutex_lock(&pool->lock);
    if (pool->out >= POOL_MAX)
        rc = SL_EBUSY;
    else
        pool->out++;
    if (rc == SL_OK && (n = list_pop_front(&pool->waiting)) != NULL)
        pool->kept--;
    pthread_mutex_unlock(&pool->lock);
    if (rc != SL_OK)
        return rc;
    if (n != NULL) {
        *out = list_entry(n, struct pool_buf, node);
        return SL_OK;
    }
    rc = buf_new(pool, out);
    if (rc != SL_OK) {
        pthread_mutex_lock(&pool->lock);
        pool->out--;
        pthread_mutex_unlock(&pool->lock);
    }
    return rc;
}

void pool_give(struct pool_buf *buf)
{
    struct pool *pool;
    bool keep, last;

    if (buf == NULL)
        return;
    pool = buf->pool;
    pthread_mutex_lock(&pool->lock);
    pool->out--;
    keep = !pool->freed && pool->kept < POOL_KEEP;
    if (keep) {
        // In front: its pages are the warmest.
        list_push_front(&pool->waiting, &buf->node);
        pool->kept++;
    }
    last = pool->freed && pool->out == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!keep)
        buf_free(buf);
    if (last)
        destroy(pool);
}
