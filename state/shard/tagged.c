// SPDX-License-Identifier: Apache-2.0
// state/shard/tagged.c -- the mapped snapshots of a shard by tag, and which
// of them are dropped.
#include "state/shard/tagged.h"

#include <assert.h>

#include "common/base/mem.h"
#include "proto/table_rows.h"

void tagged_init(struct tagged *t)
{
    *t = (struct tagged){0};
    pthread_mutex_init(&t->lock, NULL);
    for (size_t i = 0; i < TAGGED_MAX; i++)
        list_init(&t->entries[i].waiters);
}

void tagged_release(struct tagged *t)
{
    for (size_t i = 0; i < TAGGED_MAX; i++) {
        assert(list_empty(&t->entries[i].waiters));
        tagged_file_unref(t->entries[i].file);
    }
    pthread_mutex_destroy(&t->lock);
}

struct tagged_file *tagged_file_ref(struct tagged_file *f)
{
    atomic_fetch_add(&f->refs, 1);
    return f;
}

void tagged_file_unref(struct tagged_file *f)
{
    if (f == NULL || atomic_fetch_sub(&f->refs, 1) > 1)
        return;
    tensorfile_close(f->file);
    sl_free(f);
}

static bool is_free(const struct tagged_entry *e)
{
    return e->tag.incarnation == 0 && e->tag.sequence == 0;
}

static struct tagged_entry *tagged_find_locked(struct tagged *t,
                                               struct wire_tag tag)
{
    for (size_t i = 0; i < TAGGED_MAX; i++)
        if (!is_free(&t->entries[i]) &&
            wire_tag_cmp(t->entries[i].tag, tag) == 0)
            return &t->entries[i];
    return NULL;
}

// A free entry, or the oldest that is not being opened; *drop is then its
// file. NULL if all are being opened.
static struct tagged_entry *room_locked(struct tagged *t,
                                        struct tagged_file **drop)
{
    struct tagged_entry *best = NULL;

    for (size_t i = 0; i < TAGGED_MAX; i++) {
        struct tagged_entry *e = &t->entries[i];

        if (is_free(e))
            return e;
        if (e->file != NULL && (best == NULL || e->age < best->age))
            best = e;
    }
    if (best != NULL)
        *drop = best->file;
    return best;
}

static enum tagged_answer find_or_wait_locked(struct tagged *t,
                                              struct wire_tag tag,
                                              struct tagged_waiter *w,
                                              struct tagged_file **out,
                                              struct tagged_file **drop)
{
    struct tagged_entry *e = tagged_find_locked(t, tag);

    if (e != NULL && e->file != NULL) {
        *out = tagged_file_ref(e->file);
        return TAGGED_HERE;
    }
    if (e != NULL) {
        list_push_back(&e->waiters, &w->node);
        return TAGGED_WAIT;
    }
    e = room_locked(t, drop);
    if (e == NULL)
        return TAGGED_BUSY;
    e->tag = tag;
    e->file = NULL;
    e->age = ++t->ages;
    list_push_back(&e->waiters, &w->node);
    return TAGGED_OPEN;
}

enum tagged_answer tagged_find(struct tagged *t, struct wire_tag tag,
                               struct tagged_waiter *w,
                               struct tagged_file **out)
{
    struct tagged_file *drop = NULL;
    enum tagged_answer answer;

    pthread_mutex_lock(&t->lock);
    answer = find_or_wait_locked(t, tag, w, out, &drop);
    pthread_mutex_unlock(&t->lock);
    tagged_file_unref(drop); // unmapping is not quick: outside the lock
    return answer;
}

void tagged_drop(struct tagged *t,
                 bool (*goes)(const void *arg, struct wire_tag tag),
                 const void *arg)
{
    struct tagged_file *drop[TAGGED_MAX] = {NULL};

    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < TAGGED_MAX; i++) {
        struct tagged_entry *e = &t->entries[i];

        if (e->file == NULL || !goes(arg, e->tag))
            continue;
        drop[i] = e->file;
        e->file = NULL;
        e->tag = (struct wire_tag){0, 0};
    }
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < TAGGED_MAX; i++)
        tagged_file_unref(drop[i]); // outside the lock, as above
}

void tagged_opened(struct tagged *t, struct wire_tag tag, enum sl_err rc,
                   const struct sl_error *err, struct tagged_file *file)
{
    struct tagged_waiter *w;
    struct tagged_entry *e;
    struct list_node *n;
    struct list waiters;

    list_init(&waiters);
    pthread_mutex_lock(&t->lock);
    e = tagged_find_locked(t, tag);
    assert(e != NULL && e->file == NULL);
    list_take_all(&waiters, &e->waiters);
    if (rc == SL_OK)
        e->file = tagged_file_ref(file);
    else
        e->tag = (struct wire_tag){0, 0};
    pthread_mutex_unlock(&t->lock);
    while ((n = list_pop_front(&waiters)) != NULL) {
        w = list_entry(n, struct tagged_waiter, node);
        w->done(w, rc, err, rc == SL_OK ? tagged_file_ref(file) : NULL);
    }
    if (rc == SL_OK)
        tagged_file_unref(file);
}

enum sl_err tagged_file_records(const struct tagged_file *f,
                                const struct sl_slices *name, uint64_t first,
                                size_t most, struct tagged_records *out,
                                struct sl_error *err)
{
    char table[WIRE_NAME_BYTES + 1];
    const struct tensor_info *t = NULL;
    uint64_t stride, left;

    if (name->bytes <= WIRE_NAME_BYTES) {
        slices_copy(table, name);
        table[name->bytes] = '\0';
        t = table_rows_find(f->file, TABLE_ROWS_TENSOR, table);
    }
    if (t == NULL)
        return sl_fail(err, SL_ENOENT,
                       "the snapshot has no table of this name");
    stride = t->shape[1];
    left = first < t->shape[0] ? t->shape[0] - first : 0;
    if (left > most / stride)
        left = most / stride;
    *out = (struct tagged_records){.at = tensorfile_data(f->file, t) +
                                         (left > 0 ? first * stride : 0),
                                   .bytes = (size_t)(left * stride),
                                   .records = t->shape[0],
                                   .record_bytes = (uint32_t)stride};
    return SL_OK;
}
