// SPDX-License-Identifier: Apache-2.0
// coordinator/service/job_watch.c -- the watching of a job by clients.
//
//   open (I/O) -> start (loop): first status -> each tick: changed? send
//   -> the job has ended: last status, finish -> watcher_on_stream_end (I/O) ->
//   end (loop)
//
// The tick is the rate limit: no watcher is sent more than one status per
// API_WATCH_MS, except the last one, which does not wait; and no more than
// PACE_BYTES, so a large status comes less often. Nor is a watcher sent one
// before it has taken the last.
//
// A pass over the watchers makes a status once for all that want the same parts
// of the same job, and its bytes once. A pass that has had its share of a turn
// goes on in a later one.
#include "coordinator/service/job_watch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/list.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/service/api.h"
#include "proto/access.h"

#define SAY_MS 60000 // between two lines of the log about refusals
#define PACE_BYTES ((uint64_t)256 << 10) // to one watcher, per API_WATCH_MS

// Numbers of statuses that were made for watchers, and sent to them.
static struct {
    _Atomic uint64_t made, sent;
} figures;

struct watch {
    struct loop *loop;
    struct watch_limits most;
    unsigned count, refused; // watchers; refusals since the log's last line
    uint64_t said_ms;
    struct coord *coord;
    const char *why; // reason for a missing coord
    struct loop_timer *tick;
    struct loop_task look; // posted by watch_changed
    bool looking;          // `look` is posted
    uint64_t pass;         // number of the pass under way, or of the last one
    bool passing;          // a pass is under way: `look` goes on with it
    struct list watchers;
};

struct job_watcher {
    struct list_node node; // in watch.watchers, once started
    struct watch *watch;
    struct rpc_stream *stream; // a reference of ours
    struct loop_task start, end;
    struct wire_arena arena;
    Sluice__V1__JobRequest *request; // in the arena
    struct access_who who;
    char caller[RPC_PEER_ID]; // id of its certificate; "" without one
    uint64_t job;
    uint64_t seen;                // coord_changes of the last status sent
    uint64_t pass;                // the pass that looked at it last
    uint64_t sent_ms, sent_bytes; // of the last status
    // since when it has not taken the last status; 0: it has
    uint64_t unread_ms;
    bool counted; // in watch.count
    bool done;    // this side finished the stream
};

// A packed status, shared by the messages that carry it and its maker.
struct packed {
    _Atomic unsigned refs;
    struct buf bytes;
};

// The status that was made last, and which watchers it suits.
struct latest {
    struct packed *packed; // NULL: none
    uint64_t job;
    bool shards, spec;
};

static void watcher_finish(struct job_watcher *w, enum sl_err rc,
                           const struct sl_error *err)
{
    w->done = true;
    list_remove(&w->node);
    rpc_stream_finish(w->stream, rc, err);
}

// Returns false if the last status was not taken yet. A watcher that never
// takes it is sent away.
static bool may_have_next(struct job_watcher *w)
{
    struct sl_error err = SL_ERROR_INIT;

    if (rpc_stream_queued_bytes(w->stream) == 0) {
        w->unread_ms = 0;
        return true;
    }
    if (w->unread_ms == 0)
        w->unread_ms = sl_real_ms();
    if (sl_real_ms() - w->unread_ms >= w->watch->most.patience_ms) {
        LOG(WARN, "watcher does not read; ending its stream", "who=%s job=%llu",
            w->caller, (unsigned long long)w->job);
        watcher_finish(w, sl_fail(&err, SL_EBUSY, "this watcher reads nothing"),
                       &err);
        rpc_stream_cancel(w->stream); // what is queued keeps it open
    }
    return false;
}

static void packed_unref(void *packed)
{
    struct packed *p = packed;

    if (atomic_fetch_sub(&p->refs, 1) != 1)
        return;
    buf_release(&p->bytes);
    sl_free(p);
}

static void latest_release(struct latest *l)
{
    if (l->packed != NULL)
        packed_unref(l->packed);
    l->packed = NULL;
}

static bool watcher_wants_latest(const struct job_watcher *w,
                                 const struct latest *l)
{
    return l->packed != NULL && l->job == w->job &&
           l->shards == w->request->shards && l->spec == w->request->spec;
}

static enum sl_err watch_pack_status(struct packed **out,
                                     const ProtobufCMessage *status,
                                     struct sl_error *err)
{
    struct packed *p = sl_malloc(sizeof(*p));

    if (p == NULL)
        return sl_fail(err, SL_ENOMEM, "a status");
    *p = (struct packed){.bytes = BUF_INIT};
    atomic_init(&p->refs, 1);
    if (wire_pack(status, &p->bytes) != SL_OK) {
        buf_release(&p->bytes);
        sl_free(p);
        return sl_fail(err, SL_ENOMEM, "a status");
    }
    *out = p;
    return SL_OK;
}

static enum sl_err make_latest(struct latest *l, const struct job_watcher *w,
                               struct sl_error *err)
{
    Sluice__V1__JobRequest ask = *w->request;
    Sluice__V1__JobStatus *status = NULL;
    char id[24];
    enum sl_err rc;

    if (watcher_wants_latest(w, l))
        return SL_OK;
    latest_release(l);
    snprintf(id, sizeof(id), "j-%llu", (unsigned long long)w->job);
    ask.id = id;
    l->job = w->job;
    l->shards = ask.shards;
    l->spec = ask.spec;
    rc = coord_get(w->watch->coord, &ask, &status, err);
    if (rc == SL_OK)
        rc = watch_pack_status(&l->packed, &status->base, err);
    wire_free((ProtobufCMessage *)status);
    atomic_fetch_add(&figures.made, 1);
    return rc;
}

// Sends the newest status to a watcher, making it if `latest` does not suit.
static enum sl_err send_status(struct job_watcher *w, struct latest *latest,
                               struct sl_error *err)
{
    struct rpc_msg msg;
    enum sl_err rc = make_latest(latest, w, err);

    if (rc != SL_OK)
        return rc;
    rpc_msg_init(&msg);
    atomic_fetch_add(&latest->packed->refs, 1);
    rpc_msg_part(&msg, latest->packed->bytes.data, latest->packed->bytes.len);
    rpc_msg_on_release(&msg, packed_unref, latest->packed);
    w->sent_ms = sl_real_ms();
    w->sent_bytes = latest->packed->bytes.len;
    atomic_fetch_add(&figures.sent, 1);
    rc = rpc_stream_send(w->stream, &msg);
    if (rc != SL_OK)
        rpc_msg_drop(&msg);
    return rc;
}

// Says whether the watcher is due. Watchers that were sent as many bytes are
// due at the same moment, so that one status is made for them.
static bool watcher_is_due(const struct job_watcher *w)
{
    uint64_t pace = API_WATCH_MS * (w->sent_bytes / PACE_BYTES);

    return pace == 0 || sl_real_ms() / pace != w->sent_ms / pace;
}

static void watcher_check_job(struct job_watcher *w, struct latest *latest)
{
    struct sl_error err = SL_ERROR_INIT;
    bool ended = false;
    uint64_t now = coord_changes(w->watch->coord, w->job, &ended);
    enum sl_err rc;

    if (now == 0) {
        watcher_finish(w, sl_fail(&err, SL_ENOENT, "the job was deleted"),
                       &err);
        return;
    }
    if ((!ended && (now == w->seen || !watcher_is_due(w))) || !may_have_next(w))
        return;
    w->seen = now;
    rc = send_status(w, latest, &err);
    if (rc != SL_OK)
        watcher_finish(w, rc, &err);
    else if (ended)
        watcher_finish(w, SL_OK, NULL);
}

// Looks at one watcher and moves it behind those that this pass has not
// reached: with a search for the next one, a thousand watchers of a thousand
// jobs cost a pass a million looks.
static void look_in_pass(struct job_watcher *one, struct latest *latest)
{
    struct watch *w = one->watch;

    one->pass = w->pass;
    list_remove(&one->node);
    list_push_back(&w->watchers, &one->node);
    watcher_check_job(one, latest);
}

static struct job_watcher *next_of_pass(struct watch *w)
{
    struct job_watcher *one =
        list_empty(&w->watchers)
            ? NULL
            : list_entry(w->watchers.head.next, struct job_watcher, node);

    return one != NULL && one->pass != w->pass ? one : NULL;
}

// Looks at the watchers that want the same parts of the same job, if a status
// was made: where watchers want other parts by turns, it would be made for
// each.
static void look_at_same(struct watch *w, struct latest *latest)
{
    if (latest->packed == NULL)
        return;
    list_for_safe(n, &w->watchers)
    {
        struct job_watcher *one = list_entry(n, struct job_watcher, node);

        if (one->pass == w->pass)
            break;
        if (watcher_wants_latest(one, latest))
            look_in_pass(one, latest);
    }
}

static void watch_on_look(void *arg);

static void watch_run_pass(struct watch *w)
{
    struct latest latest = {0};
    struct job_watcher *one;

    loop_doing(w->loop, "watchers");
    while ((one = next_of_pass(w)) != NULL && !loop_spent(w->loop)) {
        look_in_pass(one, &latest);
        look_at_same(w, &latest);
        latest_release(&latest);
    }
    w->passing = one != NULL;
    if (one != NULL && !w->looking) {
        w->looking = true;
        loop_post_task(w->loop, &w->look, watch_on_look, w);
    }
}

static void watch_check_all(struct watch *w)
{
    if (w->coord == NULL)
        return;
    if (!w->passing)
        w->pass++;
    watch_run_pass(w);
}

static void watch_on_tick(void *arg)
{
    watch_check_all(arg);
}

static void watch_on_look(void *arg)
{
    struct watch *w = arg;

    w->looking = false;
    watch_check_all(w);
}

void watch_changed(struct watch *w, uint64_t job)
{
    if (w->looking || list_empty(&w->watchers))
        return;
    w->looking = true;
    loop_post_task(w->loop, &w->look, watch_on_look, w);
}

// ---- streams

static enum sl_err watcher_find_job(struct job_watcher *w, struct sl_error *err)
{
    struct coord *c = w->watch->coord;
    enum sl_err rc;

    coord_ask_as(c, w->who.tenant, access_of_tenant(&w->who));
    rc = coord_find(c, w->request->id, &w->job, err);
    coord_ask_as(c, "", false);
    return rc;
}

// Logs refusals, one line a minute, however many there are.
static void say_refused(struct watch *w, const struct job_watcher *one,
                        const struct sl_error *err)
{
    w->refused++;
    if (w->said_ms != 0 && sl_real_ms() - w->said_ms < SAY_MS)
        return;
    w->said_ms = sl_real_ms();
    LOG(WARN, "watcher refused", "who=%s refused=%u why=%s", one->caller,
        w->refused, err->text);
    w->refused = 0;
}

static enum sl_err watch_admit(struct job_watcher *one, struct sl_error *err)
{
    struct watch *w = one->watch;
    enum sl_err rc = SL_OK;
    unsigned same = 0;

    list_for(n, &w->watchers)
    {
        same += strcmp(list_entry(n, struct job_watcher, node)->caller,
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

static void watcher_on_loop_start(void *arg)
{
    struct job_watcher *w = arg;
    struct sl_error err = SL_ERROR_INIT;
    struct latest latest = {0};
    enum sl_err rc;

    loop_doing(w->watch->loop, WIRE_WATCH);
    if (w->watch->coord == NULL)
        rc = sl_fail(&err, SL_EUNAVAIL, "%s", w->watch->why);
    else
        rc = watcher_find_job(w, &err);
    if (rc == SL_OK)
        rc = watch_admit(w, &err);
    if (rc != SL_OK) {
        w->done = true;
        rpc_stream_finish(w->stream, rc, &err);
        return;
    }
    w->pass = w->watch->pass;
    list_push_back(&w->watch->watchers, &w->node);
    watcher_check_job(w, &latest);
    latest_release(&latest);
}

static void watcher_on_loop_end(void *arg)
{
    struct job_watcher *w = arg;

    list_remove(&w->node);
    w->watch->count -= w->counted;
    rpc_stream_unref(w->stream);
    wire_arena_release(&w->arena);
    sl_free(w);
}

static void watcher_on_stream_end(struct rpc_stream *stream, enum sl_err code,
                                  const struct sl_error *err, void *user)
{
    struct job_watcher *w = user;

    loop_post_task(w->watch->loop, &w->end, watcher_on_loop_end, w);
}

void watch_open(struct watch *watch, struct rpc_stream *stream)
{
    static const struct rpc_stream_events events = {.on_end =
                                                        watcher_on_stream_end};
    struct job_watcher *w = sl_calloc(1, sizeof(*w));
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
    loop_post_task(watch->loop, &w->start, watcher_on_loop_start, w);
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
    if (loop_timer_new(&w->tick, loop, watch_on_tick, w) != SL_OK) {
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
        list_entry(n, struct job_watcher, node)->seen = 0;
    }
}

void watch_free(struct watch *w)
{
    if (w == NULL)
        return;
    loop_timer_free(w->tick);
    sl_free(w);
}

void watch_measure(struct expo *e)
{
    expo_family(e, "sluice_watch_statuses_total", EXPO_COUNTER,
                "Statuses for watching clients; made: once for all that want "
                "the same status; sent: to each client.");
    expo_value(e, (double)atomic_load(&figures.made), "what", "made", NULL);
    expo_value(e, (double)atomic_load(&figures.sent), "what", "sent", NULL);
}
