// SPDX-License-Identifier: Apache-2.0
// host/place/fetch.c -- see fetch.h.
#include "host/place/fetch.h"

#include <pthread.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "common/base/file_wait.h"

#define HELD_MOST 32  // pieces in memory
#define QUEUE_MOST 32 // pieces that are waited for, beyond those asked for
#define AHEAD 16      // pieces that are fetched before a reader comes to them
#define ASK_MS 1000   // between two looks at whether to wait on

enum piece_state {
    PIECE_WANTED, // in the queue
    PIECE_COMING, // a thread fetches it
    PIECE_HERE,   // in the list of held pieces
    PIECE_FAILED, // its waiters take the error, and the last one frees it
};

struct held_piece {
    struct list_node node;
    struct object *object; // a reference
    uint32_t index;
    enum piece_state state;
    unsigned users; // readers that wait for it or copy it
    uint8_t *bytes; // owned
    struct sl_error err;
};

struct fetch {
    struct pieces *cache; // borrowed; or NULL
    pthread_t *thread;    // owned
    unsigned threads;
    _Atomic bool leaving;

    pthread_mutex_t lock;   // guards what follows
    pthread_cond_t wanted;  // the queue has a piece
    pthread_cond_t changed; // a piece is here, or has failed
    struct map all;         // of struct held_piece, by key
    struct list queue, held;
    size_t queued, held_count;
    unsigned hints; // threads at pieces that no reader waited for

    _Atomic uint64_t fetched_bytes, fetches, hits, failures;
};

static uint64_t piece_key(const struct object *o, uint32_t index)
{
    return o->number << OBJECT_INDEX_BITS | index;
}

static struct piece_name piece_name(const struct object *o, uint32_t index)
{
    return (struct piece_name){o->id, index};
}

static bool fetch_leaves(void *arg)
{
    return atomic_load(&((struct fetch *)arg)->leaving);
}

// ---- pieces in memory

static void piece_free(struct held_piece *e)
{
    object_unref(e->object);
    sl_free(e->bytes);
    sl_free(e);
}

static void drop_locked(struct fetch *f, struct held_piece *e)
{
    (void)map_remove(&f->all, piece_key(e->object, e->index));
    piece_free(e);
}

// Puts a new piece into the queue, before the others if a reader waits for it;
// NULL: no memory.
static struct held_piece *want_locked(struct fetch *f, struct object *o,
                                      uint32_t index, bool now)
{
    struct held_piece *e = sl_calloc(1, sizeof(*e));

    if (e == NULL || map_put(&f->all, piece_key(o, index), e) != SL_OK) {
        sl_free(e);
        return NULL;
    }
    e->object = object_ref(o);
    e->index = index;
    if (now)
        list_push_front(&f->queue, &e->node);
    else
        list_push_back(&f->queue, &e->node);
    f->queued++;
    pthread_cond_signal(&f->wanted);
    return e;
}

// Frees the pieces that were used longest ago, down to HELD_MOST.
static void trim_locked(struct fetch *f)
{
    struct list_node *n = list_last(&f->held);

    while (n != NULL && f->held_count > HELD_MOST) {
        struct held_piece *e = list_entry(n, struct held_piece, node);
        struct list_node *before = n == list_first(&f->held) ? NULL : n->prev;

        if (e->users == 0) {
            list_remove(n);
            f->held_count--;
            drop_locked(f, e);
        }
        n = before;
    }
}

// ---- threads

// Fills a piece from the disk, where another process may have put it, or from
// its place.
static enum sl_err piece_bring(struct fetch *f, struct held_piece *e,
                               struct sl_error *err)
{
    struct piece_name name = piece_name(e->object, e->index);
    size_t n = object_piece_bytes(e->object, e->index);
    enum sl_err rc;
    int claim = -1;

    e->bytes = sl_malloc(n);
    if (e->bytes == NULL)
        return sl_no_memory(err);
    if (f->cache != NULL)
        claim = pieces_claim(f->cache, &name, fetch_leaves, f);
    if (f->cache != NULL && pieces_has(f->cache, &name) &&
        pieces_read(f->cache, &name, 0, e->bytes, n)) {
        atomic_fetch_add(&f->hits, 1);
        pieces_drop(f->cache, claim, &name);
        return SL_OK;
    }
    atomic_fetch_add(&f->fetches, 1);
    rc = object_get(e->object, e->index, e->bytes, err);
    if (rc == SL_OK) {
        atomic_fetch_add(&f->fetched_bytes, n);
        (void)pieces_write(f->cache, claim, &name, e->bytes, n);
    } else if (f->cache != NULL) {
        pieces_drop(f->cache, claim, &name);
    }
    return rc;
}

static void piece_done_locked(struct fetch *f, struct held_piece *e,
                              enum sl_err rc, const struct sl_error *err)
{
    e->state = rc == SL_OK ? PIECE_HERE : PIECE_FAILED;
    e->err = *err;
    e->err.code = rc;
    if (rc == SL_OK) {
        list_push_front(&f->held, &e->node);
        f->held_count++;
        trim_locked(f);
    } else {
        atomic_fetch_add(&f->failures, 1);
        if (e->users == 0)
            drop_locked(f, e); // a reader that comes asks again
    }
    pthread_cond_broadcast(&f->changed);
}

// Takes the first piece off the queue; NULL: there is none, or a quarter of the
// threads is left for pieces that readers wait for, as of another place.
static struct held_piece *fetch_take_locked(struct fetch *f)
{
    struct list_node *n = list_first(&f->queue);
    struct held_piece *e =
        n == NULL ? NULL : list_entry(n, struct held_piece, node);

    if (e == NULL || (e->users == 0 && f->hints > 0 &&
                      f->hints >= f->threads - f->threads / 4))
        return NULL;
    list_remove(n);
    f->queued--;
    e->state = PIECE_COMING;
    return e;
}

static void *fetch_run(void *arg)
{
    struct fetch *f = arg;

    pthread_mutex_lock(&f->lock);
    while (!atomic_load(&f->leaving)) {
        struct held_piece *e = fetch_take_locked(f);
        struct sl_error err = SL_ERROR_INIT;
        enum sl_err rc;
        bool hint;

        if (e == NULL) {
            pthread_cond_wait(&f->wanted, &f->lock);
            continue;
        }
        hint = e->users == 0;
        f->hints += hint;
        pthread_mutex_unlock(&f->lock);
        rc = piece_bring(f, e, &err);
        pthread_mutex_lock(&f->lock);
        f->hints -= hint;
        piece_done_locked(f, e, rc, &err);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

enum sl_err fetch_new(struct fetch **out, struct pieces *pieces,
                      unsigned threads, struct sl_error *err)
{
    struct fetch *f = sl_calloc(1, sizeof(*f));

    if (f == NULL)
        return sl_no_memory(err);
    f->cache = pieces;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wanted, NULL);
    pthread_cond_init(&f->changed, NULL);
    list_init(&f->queue);
    list_init(&f->held);
    f->thread = sl_calloc(threads, sizeof(*f->thread));
    while (f->thread != NULL && f->threads < threads &&
           pthread_create(&f->thread[f->threads], NULL, fetch_run, f) == 0)
        pthread_setname_np(f->thread[f->threads++], "fetch");
    if (f->threads == 0) {
        fetch_free(f);
        return sl_fail(err, SL_ENOMEM, "cannot start a thread that fetches");
    }
    *out = f;
    return SL_OK;
}

void fetch_leave(struct fetch *f)
{
    pthread_mutex_lock(&f->lock);
    atomic_store(&f->leaving, true);
    pthread_cond_broadcast(&f->wanted);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void fetch_free(struct fetch *f)
{
    void *e;
    size_t at = 0;

    if (f == NULL)
        return;
    fetch_leave(f);
    for (unsigned i = 0; i < f->threads; i++)
        pthread_join(f->thread[i], NULL);
    while (map_next(&f->all, &at, NULL, &e))
        piece_free(e);
    map_release(&f->all);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->wanted);
    pthread_cond_destroy(&f->changed);
    sl_free(f->thread);
    sl_free(f);
}

// ---- readers

// Wants a piece that nobody waits for yet, if it is not on the disk.
static void fetch_hint(struct fetch *f, struct object *o, uint32_t index)
{
    struct piece_name name = piece_name(o, index);
    bool known;

    if (object_piece_bytes(o, index) == 0)
        return;
    pthread_mutex_lock(&f->lock);
    known = map_get(&f->all, piece_key(o, index)) != NULL ||
            f->queued >= QUEUE_MOST;
    pthread_mutex_unlock(&f->lock);
    if (known || (f->cache != NULL && pieces_has(f->cache, &name)))
        return;
    pthread_mutex_lock(&f->lock);
    if (map_get(&f->all, piece_key(o, index)) == NULL)
        (void)want_locked(f, o, index, false);
    pthread_mutex_unlock(&f->lock);
}

// Wants the next pieces of an object that is read in its order.
static void fetch_ahead(struct fetch *f, struct object *o, uint32_t index)
{
    uint32_t last = atomic_exchange(&o->last, index);

    if (last == index || (index != 0 && last + 1 != index))
        return;
    for (uint32_t i = 1; i <= AHEAD; i++)
        fetch_hint(f, o, index + i);
}

static bool piece_waits(const struct held_piece *e)
{
    return e->state == PIECE_WANTED || e->state == PIECE_COMING;
}

// Waits a second for a change. Returns false if the thread is to wait no more.
static bool wait_locked(struct fetch *f, const struct held_piece *e)
{
    struct deadline d = deadline_in_ms(ASK_MS);
    bool goes_on;

    pthread_mutex_unlock(&f->lock);
    goes_on = file_wait_goes_on();
    pthread_mutex_lock(&f->lock);
    if (goes_on && piece_waits(e) && !atomic_load(&f->leaving))
        (void)deadline_wait(&d, &f->changed, &f->lock);
    return goes_on;
}

// Waits until the piece is here or has failed; SL_ECANCELED: it is left.
static enum sl_err await_locked(struct fetch *f, struct held_piece *e,
                                struct sl_error *err)
{
    bool goes_on = true;

    while (goes_on && piece_waits(e) && !atomic_load(&f->leaving))
        goes_on = wait_locked(f, e);
    if (e->state == PIECE_HERE)
        return SL_OK;
    if (e->state == PIECE_FAILED)
        return sl_fail(err, e->err.code, "%s", e->err.text);
    return sl_fail(err, SL_ECANCELED, "%s",
                   goes_on ? "this process ends"
                           : "reading was stopped: the attempt that it was for "
                             "is over");
}

// Finds the piece, or has it fetched before others; NULL: no memory.
static struct held_piece *find_locked(struct fetch *f, struct object *o,
                                      uint32_t index)
{
    struct held_piece *e = map_get(&f->all, piece_key(o, index));

    if (e == NULL)
        return want_locked(f, o, index, true);
    if (e->state == PIECE_WANTED) {
        list_remove(&e->node);
        list_push_front(&f->queue, &e->node);
        pthread_cond_signal(&f->wanted);
    }
    return e;
}

static void leave_locked(struct fetch *f, struct held_piece *e)
{
    if (--e->users > 0)
        return;
    if (e->state == PIECE_FAILED) {
        drop_locked(f, e);
    } else if (e->state == PIECE_HERE) {
        list_remove(&e->node);
        list_push_front(&f->held, &e->node);
        trim_locked(f);
    }
}

static enum sl_err read_held(struct fetch *f, struct object *o, uint32_t index,
                             size_t offset, void *to, size_t n,
                             struct sl_error *err)
{
    struct held_piece *e;
    enum sl_err rc;

    pthread_mutex_lock(&f->lock);
    e = find_locked(f, o, index);
    if (e == NULL) {
        pthread_mutex_unlock(&f->lock);
        return sl_no_memory(err);
    }
    e->users++;
    rc = await_locked(f, e, err);
    pthread_mutex_unlock(&f->lock);
    if (rc == SL_OK)
        memcpy(to, e->bytes + offset, n);
    pthread_mutex_lock(&f->lock);
    leave_locked(f, e);
    pthread_mutex_unlock(&f->lock);
    return rc;
}

// Returns true if the piece is in memory, or will be.
static bool fetch_knows(struct fetch *f, const struct object *o, uint32_t index)
{
    bool known;

    pthread_mutex_lock(&f->lock);
    known = map_get(&f->all, piece_key(o, index)) != NULL;
    pthread_mutex_unlock(&f->lock);
    return known;
}

static enum sl_err fetch_piece(struct fetch *f, struct object *o,
                               uint32_t index, size_t offset, void *to,
                               size_t n, struct sl_error *err)
{
    struct piece_name name = piece_name(o, index);

    fetch_ahead(f, o, index);
    if (f->cache != NULL && !fetch_knows(f, o, index) &&
        pieces_read(f->cache, &name, offset, to, n)) {
        atomic_fetch_add(&f->hits, 1);
        return SL_OK;
    }
    return read_held(f, o, index, offset, to, n, err);
}

enum sl_err fetch_read(struct fetch *f, struct object *o, uint64_t offset,
                       void *to, size_t n, struct sl_error *err)
{
    uint8_t *at = to;
    enum sl_err rc = SL_OK;

    while (rc == SL_OK && n > 0) {
        uint32_t index = (uint32_t)(offset / PIECE_BYTES);
        size_t skip = (size_t)(offset % PIECE_BYTES);
        size_t part = PIECE_BYTES - skip < n ? PIECE_BYTES - skip : n;

        rc = fetch_piece(f, o, index, skip, at, part, err);
        offset += part;
        at += part;
        n -= part;
    }
    return rc;
}

void fetch_expect(struct fetch *f, struct object *o, uint64_t offset, size_t n)
{
    uint64_t end = offset + n;

    for (uint64_t at = offset / PIECE_BYTES;
         at * PIECE_BYTES < end && at * PIECE_BYTES < o->found.bytes; at++)
        fetch_hint(f, o, (uint32_t)at);
}

void fetch_figures(struct fetch *f, struct fetch_figures *out)
{
    *out =
        (struct fetch_figures){.fetched_bytes = atomic_load(&f->fetched_bytes),
                               .requests = atomic_load(&f->fetches),
                               .failures = atomic_load(&f->failures),
                               .hits = atomic_load(&f->hits)};
    if (f->cache != NULL) {
        out->cache_bytes = pieces_bytes(f->cache);
        out->damaged = atomic_load(&f->cache->damaged);
    }
}
