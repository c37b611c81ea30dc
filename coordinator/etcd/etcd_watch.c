// SPDX-License-Identifier: Apache-2.0
// coordinator/etcd/etcd_watch.c -- watches: a stream for each, to one member.
#include "coordinator/etcd/etcd_inner.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/utf8.h"

#define METHOD_WATCH "/etcdserverpb.Watch/Watch"

struct etcd_watch {
    struct etcd *etcd;
    struct etcd_watch_events events;
    void *arg;
    struct rpc_stream *stream; // a reference
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool closing, ended; // under the lock
    enum sl_err code;    // why this side ended the stream; SL_OK: it did not
    struct sl_error err;
};

// Ends the stream for a reason of this side's, which `ended` will report.
static void watch_break(struct etcd_watch *w, enum sl_err code)
{
    w->code = code;
    rpc_stream_cancel(w->stream);
}

static bool watch_is_closing(struct etcd_watch *w)
{
    bool closing;

    pthread_mutex_lock(&w->lock);
    closing = w->closing;
    pthread_mutex_unlock(&w->lock);
    return closing;
}

static enum sl_err watch_report(struct etcd_watch *w, struct etcd_held *h,
                                const Etcd__WatchResponse *said,
                                struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; i < said->n_events && rc == SL_OK; i++) {
        struct etcd_change change = {.deleted = said->events[i]->type != 0};

        rc = etcd_row_read(w->etcd, &h->arena, said->events[i]->kv, &change.row,
                           err);
        if (rc == SL_OK)
            w->events.changed(w->arg, &change);
    }
    return rc;
}

static enum sl_err watch_canceled(const Etcd__WatchResponse *said,
                                  struct sl_error *err)
{
    char why[200];

    if (said->compact_revision > 0)
        return sl_fail(err, SL_ERANGE, "etcd: " ETCD_SAYS_COMPACTED);
    snprintf(why, sizeof(why), "%.190s", said->cancel_reason);
    utf8_line(why, sizeof(why), why);
    return sl_fail(err, SL_EUNAVAIL, "etcd ended a watch: %s", why);
}

static enum sl_err watch_hear(struct etcd_watch *w, struct etcd_held *h,
                              struct sl_error *err)
{
    const Etcd__WatchResponse *said = (const Etcd__WatchResponse *)h->message;

    if (said->canceled)
        return watch_canceled(said, err);
    return watch_report(w, h, said, err);
}

static void watch_on_message(struct rpc_stream *stream,
                             const struct sl_slices *body, void *user)
{
    struct etcd_watch *w = user;
    struct etcd_held *h;
    enum sl_err rc;

    (void)stream;
    if (w->code != SL_OK || watch_is_closing(w))
        return;
    rc = etcd_held_read(&h, &etcd__watch_response__descriptor, body, &w->err);
    if (rc == SL_OK) {
        rc = watch_hear(w, h, &w->err);
        etcd_held_free(h);
    }
    if (rc != SL_OK)
        watch_break(w, rc);
}

static void watch_on_end(struct rpc_stream *stream, enum sl_err code,
                         const struct sl_error *err, void *user)
{
    struct etcd_watch *w = user;
    bool closing = watch_is_closing(w);

    (void)stream;
    if (!closing && w->code == SL_OK) {
        w->code = code == SL_OK ? SL_EUNAVAIL : code;
        if (code == SL_OK)
            sl_fail(&w->err, SL_EUNAVAIL, "etcd ended a watch");
        else
            w->err = *err;
    }
    if (!closing)
        w->events.ended(w->arg, w->code, &w->err);
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

static enum sl_err watch_request(const struct etcd *e, const char *key,
                                 const char *end, int64_t from,
                                 struct rpc_msg *msg, struct sl_error *err)
{
    Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
    Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
    struct wire_arena keys;
    enum sl_err rc;

    wire_arena_init(&keys);
    create.start_revision = from;
    create.fragment = true; // or one message holds a thousand revisions
    request.create_request = &create;
    rc = etcd_key(e, &keys, key, &create.key, err);
    if (rc == SL_OK && end != NULL)
        rc = etcd_key(e, &keys, end, &create.range_end, err);
    if (rc == SL_OK)
        rc = etcd_pack(msg, &request.base, err);
    wire_arena_release(&keys);
    return rc;
}

static void watch_drop(struct etcd_watch *w)
{
    rpc_stream_unref(w->stream);
    pthread_cond_destroy(&w->over);
    pthread_mutex_destroy(&w->lock);
    sl_free(w);
}

static enum sl_err watch_start(struct etcd_watch *w, struct rpc_msg *msg,
                               struct sl_error *err)
{
    static const struct rpc_stream_events events = {
        .on_message = watch_on_message,
        .on_end = watch_on_end,
    };
    const struct rpc_call_options options = {
        .deadline_ms = RPC_NO_DEADLINE,
        .max_reply_bytes = ETCD_REPLY_BYTES,
        .flag = "hasleader",
    };
    enum sl_err rc = rpc_stream_open(&w->stream, w->etcd->channel, METHOD_WATCH,
                                     NULL, &options, &events, w, err);

    if (rc == SL_OK) // if it has ended already, watch_on_end says so
        (void)rpc_stream_send(w->stream, msg);
    rpc_msg_drop(msg);
    return rc;
}

enum sl_err etcd_watch_open(struct etcd_watch **out, struct etcd *e,
                            const char *key, const char *end, int64_t from,
                            const struct etcd_watch_events *events, void *arg,
                            struct sl_error *err)
{
    struct etcd_watch *w;
    struct rpc_msg msg;
    enum sl_err rc = watch_request(e, key, end, from, &msg, err);

    if (rc != SL_OK)
        return rc;
    w = sl_calloc(1, sizeof(*w));
    if (w == NULL) {
        rpc_msg_drop(&msg);
        return sl_no_memory(err);
    }
    w->etcd = e;
    w->events = *events;
    w->arg = arg;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->over, NULL);
    rc = watch_start(w, &msg, err);
    if (rc != SL_OK) {
        watch_drop(w);
        return rc;
    }
    *out = w;
    return SL_OK;
}

void etcd_watch_close(struct etcd_watch *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_mutex_unlock(&w->lock);
    rpc_stream_cancel(w->stream);
    pthread_mutex_lock(&w->lock);
    while (!w->ended)
        pthread_cond_wait(&w->over, &w->lock);
    pthread_mutex_unlock(&w->lock);
    watch_drop(w);
}
