// SPDX-License-Identifier: Apache-2.0
// coordinator/service/trace.c -- see trace.h.
//
//   open (I/O) -> start (loop): TraceStart to every member -> the time is over
//   -> TraceMore to a few of them -> piece -> client; more, until its last one
//   -> all have said their last, or were silent -> finish
#include "coordinator/service/trace.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "common/run/spans.h"
#include "coordinator/core/jobs.h"
#include "coordinator/service/attend.h"
#include "proto/access.h"
#include "proto/traced.h"

#define TICK_MS 20
#define ASKED_MOST 8            // members that owe a piece at one time
#define SILENT_MS 3000          // a member silent for longer is given up
#define QUEUED_BYTES (1u << 18) // no piece is asked for while as much waits
#define PIECES_MOST (2 * SPANS_MOST / WIRE_TRACE_SPANS_MAX)

enum part_state { PART_WAITS, PART_ASKED, PART_DONE };

// One member's part of a trace.
struct trace_part {
    uint64_t member;
    char *name; // owned
    const char *role;
    enum part_state state;
    unsigned pieces;
    size_t spans; // spans in those pieces
    uint64_t asked_ms;
};

// One trace. Its stream may outlive it.
struct tracing {
    struct trace *of;
    struct rpc_stream *stream; // a reference of ours
    struct loop_task start, end;
    struct wire_arena arena;
    Sluice__V1__TraceRequest *request; // in the arena
    struct access_who who;
    uint64_t number, job;
    uint64_t began_us, until_ms;
    uint64_t unread_ms; // since when the client took nothing; 0: it took all
    bool collects;      // its time is over
    bool own;           // the coordinator's own spans were sent
    struct trace_part *parts; // owned
    size_t count;
};

struct trace {
    struct loop *loop;
    struct attend *attend; // borrowed
    struct coord *coord;
    const char *why; // reason for a missing coord
    unsigned patience_ms;
    struct loop_timer *tick;
    // owned; scratch of the coordinator's own pieces
    struct traced_space *space;
    uint64_t last;       // number given
    struct tracing *now; // NULL: none
};

// Ends the trace; its stream may go on for what is queued.
static void trace_finish(struct tracing *g, enum sl_err rc,
                         const struct sl_error *err)
{
    struct trace *t = g->of;

    t->now = NULL;
    loop_timer_stop(t->tick);
    spans_release();
    rpc_stream_finish(g->stream, rc, err);
    LOG(INFO, "trace ended", "job=j-%llu result=%s", (unsigned long long)g->job,
        sl_err_name(rc));
}

// ---- to the client

static void send_reply(struct tracing *g, const Sluice__V1__TraceReply *reply)
{
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_msg(&msg, &reply->base);
    if (rc == SL_OK)
        rc = rpc_stream_send(g->stream, &msg);
    if (rc == SL_OK)
        return;
    rpc_msg_drop(&msg);
    sl_fail(&err, rc, "a piece of the trace could not be sent");
    trace_finish(g, rc, &err);
}

// Begins a reply about the process of this number; the coordinator's is 1.
static Sluice__V1__TraceReply reply_of(const struct tracing *g, uint32_t number,
                                       const char *name, const char *role)
{
    Sluice__V1__TraceReply reply = SLUICE__V1__TRACE_REPLY__INIT;

    reply.number = number;
    reply.name = (char *)name;
    reply.role = (char *)role;
    reply.began_us = g->began_us;
    return reply;
}

static void trace_fill_reply(Sluice__V1__TraceReply *reply,
                             const Sluice__V1__TracePiece *piece)
{
    reply->n_names = piece->n_names;
    reply->names = piece->names;
    reply->n_spans = piece->n_spans;
    reply->spans = piece->spans;
    reply->last = piece->last;
    reply->lost = piece->lost;
}

static void send_own(struct tracing *g)
{
    Sluice__V1__TraceReply reply = reply_of(g, 1, "coordinator", "coordinator");

    trace_fill_reply(&reply, traced_take(g->of->space));
    reply.clock = true;
    g->own = reply.last;
    send_reply(g, &reply);
}

static void send_part(struct tracing *g, struct trace_part *p,
                      const Sluice__V1__TracePiece *piece, const char *missing)
{
    const struct member *m = members_get(&g->of->coord->members, p->member);
    Sluice__V1__TraceReply reply =
        reply_of(g, (uint32_t)(p - g->parts) + 2, p->name, p->role);
    int64_t offset = 0;
    uint64_t trip = 0;

    if (piece != NULL)
        trace_fill_reply(&reply, piece);
    p->spans += reply.n_spans;
    if (missing != NULL) {
        reply.last = true;
        reply.missing = (char *)missing;
    }
    reply.clock = m != NULL && offset_best(&m->clock, &offset, &trip);
    reply.offset_us = reply.clock ? offset : 0;
    reply.round_trip_us = reply.clock ? trip : 0;
    p->state = reply.last ? PART_DONE : PART_WAITS;
    if (p->spans > 0 || (missing != NULL && !access_of_tenant(&g->who)))
        send_reply(g, &reply);
}

// ---- to and from members

static void trace_ask_part(struct tracing *g, struct trace_part *p)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__TraceMore more = SLUICE__V1__TRACE_MORE__INIT;

    more.trace = g->number;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_TRACE_MORE;
    down.trace_more = &more;
    p->state = PART_ASKED;
    p->asked_ms = sl_real_ms();
    attend_send(g->of->attend, p->member, &down);
}

static void trace_on_piece(void *arg, uint64_t member,
                           const Sluice__V1__AttendUp *up)
{
    const Sluice__V1__TracePiece *piece = up->trace_piece;
    struct trace *t = arg;
    struct tracing *g = t->now;

    if (g == NULL || t->coord == NULL || piece->trace != g->number)
        return;
    for (size_t i = 0; i < g->count; i++) {
        struct trace_part *p = &g->parts[i];

        if (p->member != member || p->state != PART_ASKED)
            continue;
        send_part(g, p, piece,
                  ++p->pieces > PIECES_MOST
                      ? "it sends more trace data than the limit"
                      : NULL);
        return;
    }
}

static void tell_members(struct tracing *g)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__TraceStart start = SLUICE__V1__TRACE_START__INIT;

    start.trace = g->number;
    start.job = g->job;
    start.ms = g->request->ms;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_TRACE_START;
    down.trace_start = &start;
    for (size_t i = 0; i < g->count; i++)
        attend_send(g->of->attend, g->parts[i].member, &down);
}

// ---- time

// Returns false if the client has not taken what it was sent.
static bool may_send(struct tracing *g)
{
    struct sl_error err = SL_ERROR_INIT;

    if (rpc_stream_queued_bytes(g->stream) < QUEUED_BYTES) {
        g->unread_ms = 0;
        return true;
    }
    if (g->unread_ms == 0)
        g->unread_ms = sl_real_ms();
    if (sl_real_ms() - g->unread_ms >= g->of->patience_ms) {
        struct rpc_stream *stream = g->stream;

        trace_finish(g, sl_fail(&err, SL_EBUSY, "this client reads nothing"),
                     &err);
        rpc_stream_cancel(stream);
    }
    return false;
}

// Asks a part that waits, and gives up a silent one. Returns true if the part
// is complete.
static bool trace_check_part(struct tracing *g, struct trace_part *p,
                             size_t *asked)
{
    bool gone;

    if (p->state == PART_DONE)
        return true;
    gone = members_get(&g->of->coord->members, p->member) == NULL;
    if (gone)
        send_part(g, p, NULL, "it went away");
    else if (p->state == PART_ASKED && sl_real_ms() - p->asked_ms > SILENT_MS)
        send_part(g, p, NULL,
                  "it does not answer: it is an older version, or hangs");
    else if (p->state == PART_WAITS && *asked < ASKED_MOST)
        trace_ask_part(g, p);
    *asked += p->state == PART_ASKED;
    return p->state == PART_DONE;
}

static void trace_collect_parts(struct trace *t)
{
    struct tracing *g = t->now;
    size_t asked = 0, done = 0;

    while (!g->own && may_send(g) && t->now == g)
        send_own(g);
    if (t->now != g || !may_send(g))
        return;
    for (size_t i = 0; i < g->count && t->now == g; i++)
        done += trace_check_part(g, &g->parts[i], &asked);
    if (t->now == g && g->own && done == g->count)
        trace_finish(g, SL_OK, NULL);
}

static void trace_on_tick(void *arg)
{
    struct trace *t = arg;
    struct tracing *g = t->now;

    if (g == NULL || sl_real_ms() < g->until_ms)
        return;
    if (!g->collects)
        spans_stop();
    g->collects = true;
    trace_collect_parts(t);
}

// ---- the stream

static enum sl_err trace_find_job(struct tracing *g, struct sl_error *err)
{
    struct coord *c = g->of->coord;
    bool ended = false;
    enum sl_err rc;

    coord_ask_as(c, g->who.tenant, access_of_tenant(&g->who));
    rc = coord_find(c, g->request->id, &g->job, err);
    coord_ask_as(c, "", false);
    if (rc != SL_OK)
        return rc;
    (void)coord_changes(c, g->job, &ended);
    if (ended)
        return sl_fail(err, SL_ESTATE,
                       "job %s has ended: there is nothing to trace",
                       g->request->id);
    return g->of->now == NULL
               ? SL_OK
               : sl_fail(err, SL_EBUSY,
                         "job j-%llu is being traced, and one is at a time; "
                         "try again later",
                         (unsigned long long)g->of->now->job);
}

static enum sl_err add_parts(struct tracing *g, struct sl_error *err)
{
    const struct members *all = &g->of->coord->members;
    size_t most = (size_t)all->workers + all->psservers;

    g->parts = sl_calloc(most > 0 ? most : 1, sizeof(*g->parts));
    list_for(n, &all->all)
    {
        const struct member *m = list_entry(n, struct member, node);
        struct trace_part *p;

        if (g->parts == NULL || g->count == most)
            break;
        p = &g->parts[g->count++];
        p->member = m->id;
        p->role = member_role_name(m->role);
        p->name = sl_strdup(m->name);
        if (p->name == NULL)
            return sl_fail(err, SL_ENOMEM, "a trace");
    }
    return g->parts != NULL ? SL_OK : sl_fail(err, SL_ENOMEM, "a trace");
}

static enum sl_err trace_begin(struct tracing *g, struct sl_error *err)
{
    struct trace *t = g->of;
    enum sl_err rc;

    if (t->coord == NULL)
        return sl_fail(err, SL_EUNAVAIL, "%s", t->why);
    rc = trace_find_job(g, err);
    if (rc == SL_OK)
        rc = add_parts(g, err);
    if (rc == SL_OK && spans_start(g->job) != SL_OK)
        rc = sl_fail(err, SL_ENOMEM, "a trace");
    if (rc != SL_OK)
        return rc;
    g->number = ++t->last;
    g->began_us = sl_real_us();
    g->until_ms = sl_real_ms() + g->request->ms;
    t->now = g;
    tell_members(g);
    loop_timer_start(t->tick, TICK_MS, TICK_MS);
    LOG(INFO, "trace begun", "job=j-%llu who=%s ms=%u members=%zu",
        (unsigned long long)g->job, g->who.name, g->request->ms, g->count);
    return SL_OK;
}

static void trace_on_loop_start(void *arg)
{
    struct tracing *g = arg;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = trace_begin(g, &err);

    if (rc != SL_OK)
        rpc_stream_finish(g->stream, rc, &err);
}

static void trace_on_loop_end(void *arg)
{
    struct tracing *g = arg;

    if (g->of->now == g) // the client went away
        trace_finish(g, SL_ECANCELED, NULL);
    for (size_t i = 0; i < g->count; i++)
        sl_free(g->parts[i].name);
    sl_free(g->parts);
    rpc_stream_unref(g->stream);
    wire_arena_release(&g->arena);
    sl_free(g);
}

static void trace_on_stream_end(struct rpc_stream *stream, enum sl_err code,
                                const struct sl_error *err, void *user)
{
    struct tracing *g = user;

    loop_post_task(g->of->loop, &g->end, trace_on_loop_end, g);
}

static void open_trace(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {.on_end =
                                                        trace_on_stream_end};
    struct tracing *g = sl_calloc(1, sizeof(*g));
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer;
    enum sl_err rc;

    if (g == NULL) {
        rc = sl_fail(&err, SL_ENOMEM, "a trace");
        rpc_stream_finish(stream, rc, &err);
        return;
    }
    wire_arena_init(&g->arena);
    rpc_stream_peer(stream, &peer);
    rc = access_who(&g->who, &peer, &err);
    if (rc == SL_OK)
        rc = wire_unpack_trace_request(&g->request, &g->arena,
                                       rpc_stream_request(stream), &err);
    if (rc != SL_OK) {
        wire_arena_release(&g->arena);
        sl_free(g);
        rpc_stream_finish(stream, rc, &err);
        return;
    }
    g->of = arg;
    g->stream = rpc_stream_ref(stream);
    rpc_stream_set(stream, &events, g);
    loop_post_task(g->of->loop, &g->start, trace_on_loop_start, g);
}

static const struct rpc_method trace_methods[] = {
    {.path = WIRE_TRACE, .kind = RPC_SERVER_STREAM, .open = open_trace},
};

struct rpc_table trace_table(struct trace *t)
{
    return (struct rpc_table){trace_methods, SL_COUNT(trace_methods), t};
}

// ---- life

enum sl_err trace_new(struct trace **out, struct loop *loop,
                      struct attend *attend, unsigned patience_ms,
                      struct sl_error *err)
{
    struct trace *t = sl_calloc(1, sizeof(*t));
    enum sl_err rc;

    if (t == NULL)
        return sl_fail(err, SL_ENOMEM, "traces");
    t->loop = loop;
    t->attend = attend;
    t->patience_ms = patience_ms;
    // Members remember a number for a minute, also over a restart of the
    // coordinator.
    t->last = sl_wall_us(sl_clock_real());
    rc = loop_timer_new(&t->tick, loop, trace_on_tick, t);
    if (rc == SL_OK)
        rc = traced_space_new(&t->space);
    if (rc != SL_OK) {
        trace_free(t);
        return sl_fail(err, SL_ENOMEM, "traces");
    }
    attend_on(attend, SLUICE__V1__ATTEND_UP__KIND_TRACE_PIECE, trace_on_piece,
              t);
    *out = t;
    return SL_OK;
}

void trace_set_coord(struct trace *t, struct coord *c, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;

    if (t == NULL)
        return;
    t->coord = c;
    t->why = why != NULL ? why : "the coordinator is stopping";
    if (c == NULL && t->now != NULL)
        trace_finish(t->now, sl_fail(&err, SL_EUNAVAIL, "%s", t->why), &err);
}

void trace_free(struct trace *t)
{
    if (t == NULL)
        return;
    loop_timer_free(t->tick);
    sl_free(t->space);
    sl_free(t);
}
