// SPDX-License-Identifier: Apache-2.0
// coordinator/service/watch.c -- the watching of a job by clients.
//
//   open (I/O) -> start (loop): first status -> each tick: changed? send
//   -> the job has ended: last status, finish -> on_end (I/O) -> end (loop)
//
// The tick is the rate limit: nobody is sent more than one status per
// API_WATCH_MS, except the last one, which does not wait. Nor is anybody sent
// one before he has taken the last.
#include "coordinator/service/watch.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/service/api.h"
#include "proto/access.h"

#define SAY_MS 60000 // between two lines of the log about refusals

struct watch {
    struct loop *loop;
    struct watch_limits most;
    unsigned count, refused; // watchers; refusals since the log's last line
    uint64_t said_ms;
    struct coord *coord;
    const char *why; // there is none
    struct loop_timer *tick;
    struct loop_task look; // posted by watch_changed
    bool looking;          // it is on its way
    struct list watchers;
};

struct watcher {
    struct list_node node; // in watch.watchers, once started
    struct watch *watch;
    struct rpc_stream *stream; // a reference of ours
    struct loop_task start, end;
    struct wire_arena arena;
    Sluice__V1__JobRequest *request; // in the arena
    struct access_who who;
    char caller[RPC_PEER_ID]; // of its certificate; "" without
    uint64_t job;
    uint64_t seen;      // coord_changes of the last status sent
    uint64_t unread_ms; // since then the last one was not taken; 0: it was
    bool counted;       // in watch.count
    bool done;          // finished by us
};

// The status that was made last. Many watch one job, and nothing moves while
// they are sent what it is.
struct latest {
    Sluice__V1__JobStatus *status; // owned; NULL: none
    uint64_t job;
    bool shards, spec;
};

static uint64_t now_ms(void)
{
    return sl_now_ms(sl_clock_real());
}

static void finish(struct watcher *w, enum sl_err rc,
                   const struct sl_error *err)
{
    w->done = true;
    list_remove(&w->node);
    rpc_stream_finish(w->stream, rc, err);
}

// False: the last status was not taken yet. One who never does is sent away.
static bool may_have_next(struct watcher *w)
{
    struct sl_error err = SL_ERROR_INIT;

    if (rpc_stream_queued_bytes(w->stream) == 0) {
        w->unread_ms = 0;
        return true;
    }
    if (w->unread_ms == 0)
        w->unread_ms = now_ms();
    if (now_ms() - w->unread_ms >= w->watch->most.patience_ms) {
        LOG(WARN, "a watcher reads nothing: its stream ends", "who=%s job=%llu",
            w->caller, (unsigned long long)w->job);
        finish(w, sl_fail(&err, SL_EBUSY, "this watcher reads nothing"), &err);
        rpc_stream_cancel(w->stream); // what is queued keeps it open
    }
    return false;
}

static void latest_release(struct latest *l)
{
    if (l->status != NULL)
        wire_free(&l->status->base);
    l->status = NULL;
}

static enum sl_err make_latest(struct latest *l, const struct watcher *w,
                               struct sl_error *err)
{
    Sluice__V1__JobRequest ask = *w->request;
    char id[24];

    if (l->status != NULL && l->job == w->job && l->shards == ask.shards &&
        l->spec == ask.spec)
        return SL_OK;
    latest_release(l);
    snprintf(id, sizeof(id), "j-%llu", (unsigned long long)w->job);
    ask.id = id;
    l->job = w->job;
    l->shards = ask.shards;
    l->spec = ask.spec;
    return coord_get(w->watch->coord, &ask, &l->status, err);
}

// Sends the status.
static enum sl_err send_status(struct watcher *w, struct latest *latest,
                               struct sl_error *err)
{
    struct rpc_msg msg;
    enum sl_err rc = make_latest(latest, w, err);

    if (rc != SL_OK)
        return rc;
    rpc_msg_init(&msg);
    rc = wire_msg(&msg, &latest->status->base);
    if (rc == SL_OK)
        rc = rpc_stream_send(w->stream, &msg);
    if (rc != SL_OK)
        rpc_msg_drop(&msg);
    return rc;
}

static void look_at(struct watcher *w, struct latest *latest)
{
    struct sl_error err = SL_ERROR_INIT;
    bool ended = false;
    uint64_t now = coord_changes(w->watch->coord, w->job, &ended);
    enum sl_err rc;

    if (now == 0) {
        finish(w, sl_fail(&err, SL_ENOENT, "the job was deleted"), &err);
        return;
    }
    if ((now == w->seen && !ended) || !may_have_next(w))
        return;
    w->seen = now;
    rc = send_status(w, latest, &err);
    if (rc != SL_OK)
        finish(w, rc, &err);
    else if (ended)
        finish(w, SL_OK, NULL);
}

static void look_at_all(struct watch *w)
{
    struct latest latest = {0};

    if (w->coord == NULL)
        return;
    loop_doing(w->loop, "watchers");
    list_for_safe(n, &w->watchers)
    {
        look_at(list_entry(n, struct watcher, node), &latest);
    }
    latest_release(&latest);
}

static void on_tick(void *arg)
{
    look_at_all(arg);
}

static void on_look(void *arg)
{
    struct watch *w = arg;

    w->looking = false;
    look_at_all(w);
}

void watch_changed(struct watch *w, uint64_t job)
{
    if (w->looking || list_empty(&w->watchers))
        return;
    w->looking = true;
    loop_post_task(w->loop, &w->look, on_look, w);
}

// ---- streams

static enum sl_err find(struct watcher *w, struct sl_error *err)
{
    struct coord *c = w->watch->coord;
    enum sl_err rc;

    coord_ask_as(c, w->who.tenant, access_of_tenant(&w->who));
    rc = coord_find(c, w->request->id, &w->job, err);
    coord_ask_as(c, "", false);
    return rc;
}

// One line a minute, however many there are.
static void say_refused(struct watch *w, const struct watcher *one,
                        const struct sl_error *err)
{
    w->refused++;
    if (w->said_ms != 0 && now_ms() - w->said_ms < SAY_MS)
        return;
    w->said_ms = now_ms();
    LOG(WARN, "watcher refused", "who=%s refused=%u why=%s", one->caller,
        w->refused, err->text);
    w->refused = 0;
}

static enum sl_err enter(struct watcher *one, struct sl_error *err)
{
    struct watch *w = one->watch;
    enum sl_err rc = SL_OK;
    unsigned same = 0;

    list_for(n, &w->watchers)
    {
        same += strcmp(list_entry(n, struct watcher, node)->caller,
                       one->caller) == 0;
    }
    if (w->count >= w->most.watchers)
        rc = sl_fail(err, SL_EBUSY,
                     "%u streams watch jobs here, as many as may "
                     "(--watchers); try again later, or ask for the status",
                     w->count);
    else if (same >= w->most.per_caller)
        rc = sl_fail(err, SL_EBUSY,
                     "%s has %u streams that watch jobs, as many as one caller "
                     "may (--watchers-per-caller)",
                     one->caller[0] ? one->caller : "this host", same);
    if (rc != SL_OK) {
        say_refused(w, one, err);
        return rc;
    }
    one->counted = true;
    w->count++;
    return SL_OK;
}

static void on_loop_start(void *arg)
{
    struct watcher *w = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct latest latest = {0};
    enum sl_err rc;

    loop_doing(w->watch->loop, WIRE_WATCH);
    if (w->watch->coord == NULL)
        rc = sl_fail(&err, SL_EUNAVAIL, "%s", w->watch->why);
    else
        rc = find(w, &err);
    if (rc == SL_OK)
        rc = enter(w, &err);
    if (rc != SL_OK) {
        w->done = true;
        rpc_stream_finish(w->stream, rc, &err);
        return;
    }
    list_push_back(&w->watch->watchers, &w->node);
    look_at(w, &latest);
    latest_release(&latest);
}

static void on_loop_end(void *arg)
{
    struct watcher *w = arg;

    list_remove(&w->node);
    w->watch->count -= w->counted;
    rpc_stream_unref(w->stream);
    wire_arena_release(&w->arena);
    sl_free(w);
}

static void on_end(struct rpc_stream *stream, enum sl_err code,
                   const struct sl_error *err, void *user)
{
    struct watcher *w = user;

    loop_post_task(w->watch->loop, &w->end, on_loop_end, w);
}

void watch_open(struct watch *watch, struct rpc_stream *stream)
{
    static const struct rpc_stream_events events = {.on_end = on_end};
    struct watcher *w = sl_calloc(1, sizeof(*w));
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer;
    enum sl_err rc;

    if (w == NULL) {
        rc = sl_fail(&err, SL_ENOMEM, "one more watcher");
        rpc_stream_finish(stream, rc, &err);
        return;
    }
    wire_arena_init(&w->arena);
    rpc_stream_peer(stream, &peer);
    rc = access_who(&w->who, &peer, &err);
    if (rc == SL_OK)
        rc = wire_unpack_job_request(&w->request, &w->arena,
                                     rpc_stream_request(stream), &err);
    if (rc != SL_OK) {
        wire_arena_release(&w->arena);
        sl_free(w);
        rpc_stream_finish(stream, rc, &err);
        return;
    }
    w->watch = watch;
    snprintf(w->caller, sizeof(w->caller), "%s", peer.id);
    w->stream = rpc_stream_ref(stream);
    rpc_stream_set(stream, &events, w);
    loop_post_task(watch->loop, &w->start, on_loop_start, w);
}

// ---- life

enum sl_err watch_new(struct watch **out, struct loop *loop,
                      const struct watch_limits *limits, struct sl_error *err)
{
    struct watch *w = sl_calloc(1, sizeof(*w));

    if (w == NULL)
        return sl_fail(err, SL_ENOMEM, "watchers");
    w->loop = loop;
    w->most = *limits;
    list_init(&w->watchers);
    if (loop_timer_new(&w->tick, loop, on_tick, w) != SL_OK) {
        sl_free(w);
        return sl_fail(err, SL_ENOMEM, "watchers");
    }
    loop_timer_start(w->tick, API_WATCH_MS, API_WATCH_MS);
    *out = w;
    return SL_OK;
}

void watch_set_coord(struct watch *w, struct coord *c, const char *why)
{
    w->coord = c;
    w->why = why;
    list_for(n, &w->watchers)
    {
        list_entry(n, struct watcher, node)->seen = 0;
    }
}

void watch_free(struct watch *w)
{
    if (w == NULL)
        return;
    loop_timer_free(w->tick);
    sl_free(w);
}
