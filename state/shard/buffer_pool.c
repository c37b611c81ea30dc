// SPDX-License-Identifier: Apache-2.0
// state/shard/buffer_pool.c -- the shelf of buffers that answers borrow, and
// the copies that several answers show.
#include "state/shard/buffer_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/mem.h"

struct pool {
    uint64_t number; // unique in the process, for ever
    pthread_mutex_t lock;
    unsigned out; // number of lent buffers
    bool freed;   // pool_free was called; the last buffer frees the pool
    struct {
        struct pool_buf *buf; // lent buffer that is shown; NULL: none
        uint64_t version;     // version of its parameters
    } shown[POOL_FORMS];
};

// Idle buffers of all pools of the process, the last used in front. The shards
// of a job are of similar size, so a buffer of one fits the next.
static struct {
    pthread_mutex_t lock;
    struct list waiting; // of pool_buf
    size_t bytes;
    unsigned count;
} shelf = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .waiting = {{&shelf.waiting.head, &shelf.waiting.head}}};

enum sl_err pool_new(struct pool **out)
{
    static atomic_uint_fast64_t numbers;
    struct pool *pool = sl_calloc(1, sizeof(*pool));

    if (pool == NULL)
        return SL_ENOMEM;
    pool->number = atomic_fetch_add(&numbers, 1) + 1;
    pthread_mutex_init(&pool->lock, NULL);
    *out = pool;
    return SL_OK;
}

// Frees a pool that no other thread can reach any more.
static void destroy(struct pool *pool)
{
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

// ---- the shelf

static void pool_unshelve_locked(struct pool_buf *buf)
{
    list_remove(&buf->node);
    shelf.bytes -= buf->memory.bytes;
    shelf.count--;
}

// Returns true if a buffer has at least `bytes`, and at most twice as many.
static bool pool_buf_fits(const struct pool_buf *buf, size_t bytes)
{
    return buf->memory.bytes >= bytes && buf->memory.bytes / 2 <= bytes;
}

static struct pool_buf *from_shelf(size_t bytes)
{
    struct pool_buf *found = NULL;

    pthread_mutex_lock(&shelf.lock);
    list_for(n, &shelf.waiting)
    {
        struct pool_buf *buf = list_entry(n, struct pool_buf, node);

        if (pool_buf_fits(buf, bytes)) {
            found = buf;
            break;
        }
    }
    if (found != NULL)
        pool_unshelve_locked(found);
    pthread_mutex_unlock(&shelf.lock);
    return found;
}

// Takes the buffer that pool `number` showed in this form and version from the
// shelf; NULL: it is not there.
static struct pool_buf *shown_from_shelf(uint64_t number, unsigned form,
                                         uint64_t version)
{
    struct pool_buf *found = NULL;

    pthread_mutex_lock(&shelf.lock);
    list_for(n, &shelf.waiting)
    {
        struct pool_buf *buf = list_entry(n, struct pool_buf, node);

        if (buf->shown_by == number && buf->form == form &&
            buf->version == version)
            found = buf;
    }
    if (found != NULL)
        pool_unshelve_locked(found);
    pthread_mutex_unlock(&shelf.lock);
    return found;
}

static bool is_full_locked(void)
{
    return shelf.bytes > POOL_KEEP_BYTES || shelf.count > POOL_KEEP;
}

// Puts a buffer in front of the shelf. Buffers beyond the shelf's limits, the
// longest unused, go to *over.
static void to_shelf(struct pool_buf *buf, struct list *over)
{
    struct pool_buf *last;

    pthread_mutex_lock(&shelf.lock);
    list_push_front(&shelf.waiting, &buf->node);
    shelf.bytes += buf->memory.bytes;
    shelf.count++;
    while (is_full_locked()) {
        last = list_entry(list_last(&shelf.waiting), struct pool_buf, node);
        pool_unshelve_locked(last);
        list_push_back(over, &last->node);
    }
    pthread_mutex_unlock(&shelf.lock);
}

size_t pool_kept_bytes(void)
{
    size_t bytes;

    pthread_mutex_lock(&shelf.lock);
    bytes = shelf.bytes;
    pthread_mutex_unlock(&shelf.lock);
    return bytes;
}

// ---- buffers

static void buf_free(struct pool_buf *buf)
{
    region_release(&buf->memory);
    sl_free(buf);
}

static enum sl_err buf_new(size_t bytes, struct pool_buf **out)
{
    struct pool_buf *buf = sl_calloc(1, sizeof(*buf));

    if (buf == NULL)
        return SL_ENOMEM;
    if (region_new(&buf->memory, bytes) != SL_OK) {
        sl_free(buf);
        return SL_ENOMEM;
    }
    *out = buf;
    return SL_OK;
}

// True if the pool is not needed any more.
static bool count_down(struct pool *pool)
{
    bool last;

    pthread_mutex_lock(&pool->lock);
    last = --pool->out == 0 && pool->freed;
    pthread_mutex_unlock(&pool->lock);
    return last;
}

// Counts one more lent buffer; returns false if POOL_MAX are lent.
static bool count_up(struct pool *pool)
{
    bool may;

    pthread_mutex_lock(&pool->lock);
    may = pool->out < POOL_MAX;
    pool->out += may;
    pthread_mutex_unlock(&pool->lock);
    return may;
}

enum sl_err pool_take(struct pool *pool, size_t bytes, struct pool_buf **out)
{
    struct pool_buf *buf;
    enum sl_err rc = SL_OK;

    if (!count_up(pool))
        return SL_EBUSY;
    buf = from_shelf(bytes);
    if (buf == NULL)
        rc = buf_new(bytes, &buf);
    if (rc != SL_OK) {
        (void)count_down(pool); // its shard is at work: it is not freed
        return rc;
    }
    buf->pool = pool;
    buf->owners = 1;
    *out = buf;
    return SL_OK;
}

void pool_show(struct pool_buf *buf, unsigned form, uint64_t version)
{
    struct pool *pool = buf->pool;

    pthread_mutex_lock(&pool->lock);
    pool->shown[form].buf = buf;
    pool->shown[form].version = version;
    pthread_mutex_unlock(&pool->lock);
}

// Returns the lent buffer that shows this form and version, with one more
// owner; NULL: none does.
static struct pool_buf *shown_and_out(struct pool *pool, unsigned form,
                                      uint64_t version)
{
    struct pool_buf *buf = NULL;

    pthread_mutex_lock(&pool->lock);
    if (pool->shown[form].version == version)
        buf = pool->shown[form].buf;
    if (buf != NULL)
        buf->owners++;
    pthread_mutex_unlock(&pool->lock);
    return buf;
}

struct pool_buf *pool_shown(struct pool *pool, unsigned form, uint64_t version)
{
    struct pool_buf *buf = shown_and_out(pool, form, version);

    if (buf != NULL || !count_up(pool))
        return buf;
    buf = shown_from_shelf(pool->number, form, version);
    if (buf == NULL) {
        (void)count_down(pool); // its shard is at work: it is not freed
        return NULL;
    }
    buf->pool = pool;
    buf->owners = 1;
    pool_show(buf, form, version);
    return buf;
}

// Ends the showing of a lent buffer, and notes in it what it showed, so that
// shown_from_shelf finds it later.
static void unshow_locked(struct pool *pool, struct pool_buf *buf)
{
    buf->shown_by = 0;
    for (unsigned form = 0; form < POOL_FORMS; form++) {
        if (pool->shown[form].buf != buf)
            continue;
        buf->shown_by = pool->number;
        buf->form = form;
        buf->version = pool->shown[form].version;
        pool->shown[form].buf = NULL;
    }
}

static bool has_others(struct pool *pool, struct pool_buf *buf)
{
    bool others;

    pthread_mutex_lock(&pool->lock);
    others = --buf->owners > 0;
    if (!others)
        unshow_locked(pool, buf);
    pthread_mutex_unlock(&pool->lock);
    return others;
}

void pool_give(struct pool_buf *buf)
{
    struct list_node *n;
    struct pool *pool;
    struct list over;

    if (buf == NULL)
        return;
    pool = buf->pool;
    if (has_others(pool, buf))
        return;
    list_init(&over);
    to_shelf(buf, &over);
    while ((n = list_pop_front(&over)) != NULL)
        buf_free(list_entry(n, struct pool_buf, node));
    if (count_down(pool))
        destroy(pool);
}
