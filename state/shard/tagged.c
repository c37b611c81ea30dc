// SPDX-License-Identifier: Apache-2.0
// state/shard/tagged.c -- the mapped snapshots of a shard by tag, and which
// of them are dropped.
#include "state/shard/tagged.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

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

struct tagged_table {
    char *name; // owned
    struct table_live rows;
};

static void tagged_tables_release(struct tagged_file *f)
{
    for (size_t i = 0; i < f->table_count; i++) {
        table_live_release(&f->tables[i].rows);
        sl_free(f->tables[i].name);
    }
    sl_free(f->tables);
    table_chain_close(&f->chain);
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
    tagged_tables_release(f);
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

// ---- tables

// Returns the table whose rows a tensor has; NULL: it has none.
static const char *table_of(const struct tagged_file *f, size_t tensor)
{
    const char *prefix =
        f->chain.count > 0 ? table_changed_prefix[0] : table_whole_prefix[0];
    const char *name = tensorfile_at(f->file, tensor)->name;
    size_t n = strlen(prefix);

    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

enum sl_err tagged_file_tables(struct tagged_file *f, struct fs *fs,
                               const char *folder, struct sl_error *err)
{
    enum sl_err rc =
        table_chain_open(&f->chain, f->file, fs, folder, true, err);
    size_t tensors = tensorfile_count(f->file), count = 0;

    for (size_t i = 0; rc == SL_OK && i < tensors; i++)
        count += table_of(f, i) != NULL;
    if (rc != SL_OK || count == 0)
        return rc;
    f->tables = sl_calloc(count, sizeof(*f->tables));
    rc = f->tables == NULL ? sl_no_memory(err) : SL_OK;
    for (size_t i = 0; rc == SL_OK && i < tensors; i++) {
        const char *name = table_of(f, i);
        struct tagged_table *t = &f->tables[f->table_count];

        if (name == NULL)
            continue;
        rc = table_live_init(&t->rows, &f->chain, 0, name, err);
        if (rc != SL_OK)
            return rc;
        f->table_count++;
        t->name = sl_strdup(name);
        rc = t->name == NULL ? sl_no_memory(err) : SL_OK;
    }
    return rc;
}

const struct table_live *tagged_file_rows(const struct tagged_file *f,
                                          const char *table)
{
    for (size_t i = 0; i < f->table_count; i++)
        if (strcmp(f->tables[i].name, table) == 0)
            return &f->tables[i].rows;
    return NULL;
}

// Copies records that do not lie together behind one another.
static enum sl_err records_copy(const struct table_live *l,
                                struct table_live_at at, uint64_t records,
                                struct tagged_records *out,
                                struct sl_error *err)
{
    uint8_t *to = sl_malloc_array(records, l->record_bytes);
    struct table_run run;

    if (to == NULL)
        return sl_no_memory(err);
    out->at = out->copy = to;
    out->bytes = (size_t)records * l->record_bytes;
    for (; records > 0 && table_live_next(l, &at, records, &run);
         records -= run.n) {
        memcpy(to, table_run_data(&run), run.n * l->record_bytes);
        to += run.n * l->record_bytes;
    }
    return SL_OK;
}

enum sl_err tagged_file_records(const struct tagged_file *f,
                                const struct sl_slices *name, uint64_t first,
                                size_t most, struct tagged_records *out,
                                struct sl_error *err)
{
    char table[WIRE_NAME_BYTES + 1] = "";
    const struct table_live *l;
    struct tagged_records made = {0};
    struct table_live_at at;
    struct table_run run;
    uint64_t left;
    enum sl_err rc = SL_OK;

    if (name->bytes <= WIRE_NAME_BYTES)
        slices_copy(table, name);
    l = tagged_file_rows(f, table);
    if (l == NULL)
        return sl_fail(err, SL_ENOENT,
                       "the snapshot has no table of this name");
    made.records = l->records;
    made.record_bytes = l->record_bytes;
    if (l->count > 1)
        most = sl_min(most, TAGGED_COPY_BYTES);
    left = first < l->records ? l->records - first : 0;
    left = sl_min(left, most / l->record_bytes);
    at = table_live_seek(l, first);
    if (left > 0 && l->count > 1) {
        rc = records_copy(l, at, left, &made, err);
    } else if (left > 0 && table_live_next(l, &at, left, &run)) {
        made.at = table_run_data(&run);
        made.bytes = (size_t)run.n * l->record_bytes;
    }
    if (rc == SL_OK)
        *out = made;
    return rc;
}
