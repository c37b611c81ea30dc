// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/feed.c -- memory first, then a row for the writer.
#include "coordinator/feed/feed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/feed/writer.h"

#define ONCE_US UINT64_C(60000000)
#define ONCE_AMONG 32

struct feed {
    const struct sl_clock *clock;
    struct events events;
    struct traces traces;
    struct writer *writer; // NULL: without a file
};

// ---- rows

static struct feed_row *row_new(size_t texts)
{
    return sl_calloc(1, sizeof(struct feed_row) + texts);
}

static void feed_enqueue_event(struct feed *f, const struct event *e)
{
    size_t n = strlen(e->text) + 1, m = strlen(e->member) + 1;
    struct feed_row *row = f->writer == NULL ? NULL : row_new(n + m);

    if (row == NULL)
        return;
    row->what = FEED_ROW_EVENT;
    row->event = *e;
    memcpy(row->event.text, e->text, n + m);
    row->event.member = row->event.text + n;
    writer_put(f->writer, row);
}

static void feed_enqueue_drop(struct feed *f, uint64_t id)
{
    struct feed_row *row = f->writer == NULL || id == 0 ? NULL : row_new(0);

    if (row == NULL)
        return;
    row->what = FEED_ROW_DROP;
    row->id = id;
    writer_put(f->writer, row);
}

// ---- what happens

// Ids stay below 2^53, so that any reader of JSON has them; 16 million events
// of one term are more than there will be.
#define TERM_BITS 24

void feed_begin_term(struct feed *f, uint64_t term)
{
    if (f != NULL && f->events.last_id < term << TERM_BITS)
        f->events.last_id = term << TERM_BITS;
}

void feed_event(struct feed *f, const struct event *said, const char *text)
{
    struct event now;
    const struct event *e;
    uint64_t dropped[2];

    if (f == NULL)
        return;
    now = *said;
    now.id = 0;
    now.wall_us = sl_wall_us(f->clock);
    e = events_add(&f->events, &now, text, dropped);
    if (e == NULL)
        return;
    feed_enqueue_event(f, e);
    feed_enqueue_drop(f, dropped[0]);
    feed_enqueue_drop(f, dropped[1]);
}

// `line` and `member`: as events_add keeps them.
static bool feed_is_same_event(const struct event *e, const struct event *said,
                               const char *line, const char *member)
{
    return e->uid == said->uid && e->kind == said->kind &&
           strcmp(e->text, line) == 0 && strcmp(e->member, member) == 0;
}

void feed_event_once(struct feed *f, const struct event *said, const char *text)
{
    const struct event *e;
    uint64_t now;
    char line[EVENT_TEXT], member[EVENT_TEXT];

    if (f == NULL)
        return;
    events_clean(line, member, said, text);
    now = sl_wall_us(f->clock);
    e = events_last(&f->events, said->uid, ONCE_AMONG);
    for (; e != NULL; e = events_next(&f->events, said->uid, e))
        if (feed_is_same_event(e, said, line, member) &&
            now - e->wall_us < ONCE_US)
            return;
    feed_event(f, said, text);
}

void feed_span(struct feed *f, uint64_t uid, const struct lease_span *span,
               const char *worker)
{
    struct lease_span now;

    if (f == NULL)
        return;
    now = *span;
    now.ended_us = sl_wall_us(f->clock);
    traces_span(&f->traces, uid, &now, worker);
}

void feed_point(struct feed *f, uint64_t uid, const struct curve_point *point,
                bool final)
{
    struct curve_point now;
    struct feed_row *row;

    if (f == NULL)
        return;
    now = *point;
    now.wall_us = sl_wall_us(f->clock);
    if (!traces_point(&f->traces, uid, &now, final) || f->writer == NULL)
        return;
    row = row_new(0);
    if (row == NULL)
        return;
    row->what = FEED_ROW_MINUTE;
    row->uid = uid;
    row->point = now;
    writer_put(f->writer, row);
}

void feed_forget(struct feed *f, uint64_t uid)
{
    struct feed_row *row;

    if (f == NULL)
        return;
    traces_forget(&f->traces, uid);
    row = f->writer == NULL ? NULL : row_new(0);
    if (row == NULL)
        return;
    row->what = FEED_ROW_FORGET;
    row->uid = uid;
    writer_put(f->writer, row);
}

// ---- what is shown

uint64_t feed_wall_us(const struct feed *f)
{
    return f == NULL ? 0 : sl_wall_us(f->clock);
}

const struct events *feed_events(const struct feed *f)
{
    static struct events none = {.all = {{&none.all.head, &none.all.head}}};

    return f == NULL ? &none : &f->events;
}

const struct traces *feed_traces(const struct feed *f)
{
    static const struct traces none = {0};

    return f == NULL ? &none : &f->traces;
}

// ---- life

struct feed_loading {
    struct feed *feed;
    uint64_t *dropped; // owned: ids that are too many
    size_t count, space;
};

static void feed_note_dropped(struct feed_loading *l, uint64_t id)
{
    uint64_t *more;

    if (id == 0)
        return;
    if (l->count == l->space) {
        more = sl_realloc_array(l->dropped, 2 * l->space + 16, sizeof(*more));
        if (more == NULL)
            return; // the event stays in the file until the next start
        l->dropped = more;
        l->space = 2 * l->space + 16;
    }
    l->dropped[l->count++] = id;
}

static void feed_on_loaded_event(void *arg, const struct event *said,
                                 const char *text)
{
    struct feed_loading *l = arg;
    uint64_t dropped[2];

    (void)events_add(&l->feed->events, said, text, dropped);
    feed_note_dropped(l, dropped[0]);
    feed_note_dropped(l, dropped[1]);
}

static void on_minute(void *arg, uint64_t uid, const struct curve_point *point)
{
    struct feed_loading *l = arg;

    traces_minute(&l->feed->traces, uid, point);
}

// Renames a file that is no feed, with SQLite's files beside it.
static void feed_set_file_aside(const char *path)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    char from[4096], to[4096];

    for (size_t i = 0; i < SL_COUNT(parts); i++) {
        snprintf(from, sizeof(from), "%s%s", path, parts[i]);
        snprintf(to, sizeof(to), "%s.bad%s", path, parts[i]);
        if (rename(from, to) != 0 && errno != ENOENT)
            LOG(WARN, "damaged events file not renamed", "path=%s why=%s", from,
                strerror(errno));
    }
}

// Loads the rows of a store, which it closes if they cannot be read, and sets
// *s to NULL then.
static enum sl_err feed_load_rows(struct feed_loading *l, struct feed_store **s)
{
    const struct feed_load load = {feed_on_loaded_event, on_minute, l};
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = feed_store_load(*s, &load, &err);

    if (rc == SL_OK)
        return SL_OK;
    LOG(WARN, "events cannot be read", "why=%s", err.text);
    feed_store_close(*s);
    *s = NULL;
    return rc;
}

static struct feed_store *open_and_load(struct feed_loading *l,
                                        const char *path)
{
    struct feed_store *s = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = feed_store_open(&s, path, NULL, &err);

    if (rc != SL_OK)
        LOG(WARN, "events cannot be read", "why=%s", err.text);
    else
        rc = feed_load_rows(l, &s);
    if (rc == SL_ECORRUPT || rc == SL_ENOTSUP)
        feed_set_file_aside(path);
    return s;
}

// Starts the writer, which takes over `store`, with what was too much of it.
static enum sl_err feed_start_writer(struct feed_loading *l, const char *path,
                                     const struct feed_home *home,
                                     struct feed_store *store,
                                     struct sl_error *err)
{
    enum sl_err rc = writer_new(&l->feed->writer, path, home, store, err);

    for (size_t i = 0; rc == SL_OK && i < l->count; i++)
        feed_enqueue_drop(l->feed, l->dropped[i]);
    sl_free(l->dropped);
    return rc;
}

static enum sl_err feed_open_file(struct feed *f, const char *folder,
                                  struct sl_error *err)
{
    struct feed_loading l = {.feed = f};
    char *path = fs_join(folder, FEED_FILE);
    enum sl_err rc;

    if (path == NULL)
        return sl_fail(err, SL_ENOMEM, "paths");
    rc = feed_start_writer(&l, path, NULL, open_and_load(&l, path), err);
    sl_free(path);
    return rc;
}

void feed_keep(struct feed *f, const struct feed_home *home, struct journal *db)
{
    struct feed_loading l = {.feed = f};
    struct feed_store *s = NULL;
    struct sl_error err = SL_ERROR_INIT;

    if (db != NULL && feed_store_of(&s, db, &err) == SL_OK)
        (void)feed_load_rows(&l, &s);
    if (feed_start_writer(&l, NULL, home, s, &err) != SL_OK)
        LOG(WARN, "events are not kept", "why=%s", err.text);
}

enum sl_err feed_new(struct feed **out, const struct feed_options *options,
                     struct sl_error *err)
{
    struct feed *f = sl_calloc(1, sizeof(*f));
    enum sl_err rc = SL_OK;

    if (f == NULL)
        return sl_fail(err, SL_ENOMEM, "events");
    f->clock = options->clock;
    events_init(&f->events);
    traces_init(&f->traces);
    if (options->folder != NULL)
        rc = feed_open_file(f, options->folder, err);
    if (rc != SL_OK) {
        feed_free(f);
        return rc;
    }
    *out = f;
    return SL_OK;
}

void feed_let_go(struct feed *f)
{
    if (f == NULL)
        return;
    writer_free(f->writer);
    f->writer = NULL;
}

void feed_free(struct feed *f)
{
    if (f == NULL)
        return;
    feed_let_go(f);
    events_release(&f->events);
    traces_release(&f->traces);
    sl_free(f);
}
