// SPDX-License-Identifier: Apache-2.0
// coordinator/feed/writer.c -- the thread, and the rows that wait for it.
#include "coordinator/feed/writer.h"

#include <pthread.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "common/run/log.h"

#define GATHER_MS 20       // gathers a burst into few transactions
#define GATHER_HOME_MS 500 // in etcd, where each is a write of a quorum
#define AGAIN_MS 5000      // until a file that failed is opened again

struct writer {
    char *path; // owned
    struct feed_home home;
    bool at_home; // the rows are kept there, and not in the file
    pthread_t thread;
    bool started;

    // Used by the thread alone:
    struct feed_store *store;
    uint64_t again_ms;
    bool told; // logged that the file cannot be written

    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct list rows;
        size_t count;
        bool ending;
    } shared;
};

static void rows_free(struct list *rows)
{
    struct list_node *n;

    while ((n = list_pop_front(rows)) != NULL)
        sl_free(list_entry(n, struct feed_row, node));
}

// A failure is logged once, and so is its end.
static void writer_log_change(struct writer *w, const struct sl_error *err)
{
    if (err != NULL && !w->told)
        LOG(WARN, "events cannot be kept", "why=%s", err->text);
    else if (err == NULL && w->told)
        LOG(INFO, "events are kept again", "where=%s",
            w->at_home ? "etcd" : w->path);
    w->told = err != NULL;
}

static void writer_write_rows(struct writer *w, struct list *rows)
{
    uint64_t now = sl_real_ms();
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;

    if (w->store == NULL && now < w->again_ms)
        return;
    if (w->store == NULL)
        rc = feed_store_open(&w->store, w->path, w->at_home ? &w->home : NULL,
                             &err);
    if (rc == SL_OK)
        rc = feed_store_write(w->store, rows, &err);
    if (rc == SL_OK) {
        writer_log_change(w, NULL);
        return;
    }
    writer_log_change(w, &err);
    feed_store_close(w->store);
    w->store = NULL;
    w->again_ms = now + AGAIN_MS;
}

// Waits for rows. Returns false when the thread is to end.
static bool wait_for_rows(struct writer *w, struct list *rows)
{
    struct deadline gathered;
    bool ending;

    pthread_mutex_lock(&w->shared.lock);
    while (list_empty(&w->shared.rows) && !w->shared.ending)
        pthread_cond_wait(&w->shared.changed, &w->shared.lock);
    gathered = deadline_in_ms(w->at_home ? GATHER_HOME_MS : GATHER_MS);
    while (!w->shared.ending &&
           deadline_wait(&gathered, &w->shared.changed, &w->shared.lock))
        ;
    list_take_all(rows, &w->shared.rows);
    w->shared.count = 0;
    ending = w->shared.ending;
    pthread_mutex_unlock(&w->shared.lock);
    return !ending || !list_empty(rows);
}

static void *writer_thread(void *arg)
{
    struct writer *w = arg;
    struct list rows;

    list_init(&rows);
    while (wait_for_rows(w, &rows)) {
        writer_write_rows(w, &rows);
        rows_free(&rows);
    }
    return NULL;
}

void writer_put(struct writer *w, struct feed_row *row)
{
    bool first, full;

    pthread_mutex_lock(&w->shared.lock);
    full = w->shared.count >= WRITER_ROWS;
    first = w->shared.count == 0;
    if (!full) {
        list_push_back(&w->shared.rows, &row->node);
        w->shared.count++;
    }
    if (first)
        pthread_cond_signal(&w->shared.changed);
    pthread_mutex_unlock(&w->shared.lock);
    if (full)
        sl_free(row);
}

enum sl_err writer_new(struct writer **out, const char *path,
                       const struct feed_home *home, struct feed_store *store,
                       struct sl_error *err)
{
    struct writer *w = sl_calloc(1, sizeof(*w));

    if (w == NULL) {
        feed_store_close(store);
        return sl_fail(err, SL_ENOMEM, "a writer of events");
    }
    w->store = store;
    w->path = sl_strdup(home == NULL ? path : "");
    w->at_home = home != NULL;
    if (home != NULL)
        w->home = *home;
    list_init(&w->shared.rows);
    pthread_mutex_init(&w->shared.lock, NULL);
    pthread_cond_init(&w->shared.changed, NULL);
    w->started = w->path != NULL &&
                 pthread_create(&w->thread, NULL, writer_thread, w) == 0;
    if (!w->started) {
        writer_free(w);
        return sl_fail(err, SL_ENOMEM, "a thread for events");
    }
    pthread_setname_np(w->thread, "events");
    *out = w;
    return SL_OK;
}

void writer_free(struct writer *w)
{
    if (w == NULL)
        return;
    if (w->started) {
        pthread_mutex_lock(&w->shared.lock);
        w->shared.ending = true;
        pthread_cond_signal(&w->shared.changed);
        pthread_mutex_unlock(&w->shared.lock);
        pthread_join(w->thread, NULL);
    }
    rows_free(&w->shared.rows);
    feed_store_close(w->store);
    pthread_cond_destroy(&w->shared.changed);
    pthread_mutex_destroy(&w->shared.lock);
    sl_free(w->path);
    sl_free(w);
}
