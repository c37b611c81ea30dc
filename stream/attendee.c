// SPDX-License-Identifier: Apache-2.0
// stream/attendee.c -- the states of the Attend stream: dialling, hello,
// welcome, heartbeats, loss and the next try.
#include "stream/attendee.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/run/log.h"
#include "common/base/cgroup.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "proto/logged.h"
#include "proto/model.h"
#include "proto/traced.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 2000
#define ELSEWHERE_MS 50      // most time before another address is dialled
#define SILENT_MIN_MS 5000   // a stream that says nothing for so long, and for
#define SILENT_HEARTBEATS 10 // so many heartbeats, is given up
#define WELCOME_MS 10000     // one on which no Welcome comes, too
#define BEATS 64             // heartbeats that await an acknowledgement

struct attendee {
    struct attendee_setup setup; // its strings are owned
    uint64_t process;            // of this life
    char host[256];
    struct rng rng;
    uint64_t cluster, term; // of the last welcome; 0: there was none

    struct attendee_session *session; // the present one, or NULL: DOWN
    const char *peer;                 // the address that was dialled last
    bool attached, stopped;
    bool notified;       // that we are down
    bool refused;        // and that it does not take us
    unsigned backoff_ms; // the next
    struct loop_timer *dial_timer, *welcome_timer, *heartbeat_timer;
    uint32_t heartbeat_ms;
    uint64_t heard_ms, hello_ms, renewed_ms;
    uint64_t seq, sent_ms[BEATS]; // when heartbeat seq was sent
    uint64_t heard;               // the newest that was acknowledged
    uint64_t heard_us;            // and when that came
    struct traced *traced;
    _Atomic unsigned sessions; // that exist, also ended ones
};

// One stream. What its callbacks post holds a reference.
struct attendee_session {
    struct attendee *attend;
    struct rpc_stream *stream; // a reference of ours
    _Atomic unsigned refs;

    // What is on its way to the loop: a message, or the end. One at a time.
    struct loop_task task;
    struct rpc_body *body;
    struct loop_task end_task;
    struct sl_error end;
};

static void session_unref(struct attendee_session *s)
{
    struct attendee *a = s->attend;

    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    rpc_stream_unref(s->stream);
    sl_free(s);
    atomic_fetch_sub(&a->sessions, 1); // the last we do: a may go now
}

// ---- what the loop does

static void dial_later(struct attendee *a)
{
    uint64_t half = a->backoff_ms / 2;

    if (a->stopped)
        return;
    if (rpc_channel_untried(a->setup.channel)) {
        loop_timer_start(a->dial_timer, rng_below(&a->rng, ELSEWHERE_MS), 0);
        return;
    }
    loop_timer_start(a->dial_timer, half + rng_below(&a->rng, half + 1), 0);
    a->backoff_ms =
        2 * a->backoff_ms < BACKOFF_MAX_MS ? 2 * a->backoff_ms : BACKOFF_MAX_MS;
}

// Gives the stream up, so that the next one goes to another address where the
// coordinator has several.
static void give_up(struct attendee *a, const char *why)
{
    struct sl_error err = SL_ERROR_INIT;

    sl_fail(&err, SL_EUNAVAIL, "%s", why);
    rpc_stream_finish(a->session->stream, SL_EUNAVAIL, &err);
}

static void went_down(struct attendee *a, const struct sl_error *why)
{
    bool was = a->attached;
    bool refused = why->code == SL_EAUTH || why->code == SL_EDENIED ||
                   why->code == SL_EEXIST;

    a->session = NULL;
    a->attached = false;
    loop_timer_stop(a->welcome_timer);
    loop_timer_stop(a->heartbeat_timer);
    if (!a->stopped && (was || !a->notified || (refused && !a->refused)))
        LOG(WARN, was ? "coordinator lost" : "coordinator not reached",
            "peer=%s reason=%s", a->peer, why->text);
    a->notified = true;
    a->refused = refused;
    traced_forget(a->traced);
    dial_later(a);
    if (a->setup.unattached != NULL)
        a->setup.unattached(a->setup.arg, why->text);
    if (was)
        a->setup.lost(a->setup.arg);
}

// What was sent at `ms` was answered.
static void attendee_renew(struct attendee *a, uint64_t ms)
{
    if (ms <= a->renewed_ms)
        return;
    a->renewed_ms = ms;
    if (a->setup.renewed != NULL)
        a->setup.renewed(a->setup.arg);
}

// Returns true if `cluster` is not ours; an older coordinator sends 0, unknown.
static bool is_stranger(const struct attendee *a, uint64_t cluster)
{
    return a->cluster != 0 && cluster != 0 && a->cluster != cluster;
}

static void welcome(struct attendee *a, const Sluice__V1__Welcome *m)
{
    if (is_stranger(a, m->cluster)) {
        LOG(WARN, "coordinator of another cluster left alone",
            "peer=%s cluster=%016" PRIx64 " ours=%016" PRIx64, a->peer,
            m->cluster, a->cluster);
        give_up(a, "a coordinator of another cluster");
        return;
    }
    if (!a->setup.welcome(a->setup.arg, m)) {
        LOG(WARN, "coordinator of an older term left alone (I5)",
            "peer=%s term=%" PRIu64, a->peer, m->term);
        give_up(a, "a coordinator of an older term (I5)");
        return;
    }
    LOG(INFO, "attached",
        "peer=%s term=%" PRIu64 " member=%" PRIu64 " heartbeat_ms=%" PRIu32
        " lease_ms=%" PRIu32,
        a->peer, m->term, m->member, m->heartbeat_ms, m->lease_ms);
    if (m->cluster != 0)
        a->cluster = m->cluster;
    a->term = m->term;
    loop_timer_stop(a->welcome_timer);
    a->notified = false;
    a->attached = true;
    a->backoff_ms = BACKOFF_MIN_MS;
    a->heartbeat_ms = m->heartbeat_ms;
    // Members that came together, as after a restart, beat apart: 1,000 that
    // beat at once keep the coordinator busy for 150 ms, in which it gives out
    // no work.
    loop_timer_start(a->heartbeat_timer,
                     rng_below(&a->rng, (uint64_t)m->heartbeat_ms + 1),
                     m->heartbeat_ms);
    attendee_renew(a, a->hello_ms);
    if (a->setup.attached != NULL)
        a->setup.attached(a->setup.arg);
}

static void acknowledged(struct attendee *a, uint64_t seq)
{
    if (seq > a->seq)
        return;
    if (seq > a->heard) {
        a->heard = seq;
        a->heard_us = sl_now_us(a->setup.clock);
    }
    if (seq + BEATS > a->seq)
        attendee_renew(a, a->sent_ms[seq % BEATS]);
}

static void attendee_send_trace(void *arg, const Sluice__V1__TracePiece *piece)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;

    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_TRACE_PIECE;
    up.trace_piece = (Sluice__V1__TracePiece *)piece;
    attendee_send(arg, &up);
}

// Sends log lines. Without memory it sends none: the asker gives up waiting.
static void send_lines(struct attendee *a, const Sluice__V1__LogMore *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__LogPiece piece = SLUICE__V1__LOG_PIECE__INIT;
    uint8_t *space = sl_malloc(WIRE_LOG_BYTES);
    Sluice__V1__LogLines lines;

    if (space == NULL)
        return;
    lines = logged_take(space, m->after, m->job);
    piece.request = m->request;
    piece.lines = &lines;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_LOG_PIECE;
    up.log_piece = &piece;
    attendee_send(a, &up);
    sl_free(space);
}

static void attendee_handle_down(struct attendee *a,
                                 const Sluice__V1__AttendDown *m)
{
    // Nothing is for us before the Welcome: it may be of an older term. A
    // Welcome that crossed attendee_close comes too late.
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_WELCOME) {
        if (!a->attached && !a->stopped)
            welcome(a, m->welcome);
        return;
    }
    if (!a->attached)
        return;
    switch (m->kind_case) {
    case SLUICE__V1__ATTEND_DOWN__KIND_HEARTBEAT_ACK:
        acknowledged(a, m->heartbeat_ack->seq);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_TRACE_START:
        traced_start(a->traced, m->trace_start);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_TRACE_MORE:
        traced_more(a->traced, m->trace_more->trace, attendee_send_trace, a);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_LOG_MORE:
        send_lines(a, m->log_more);
        return;
    case SLUICE__V1__ATTEND_DOWN__KIND_GOODBYE:
        LOG(INFO, "coordinator says goodbye", "reason=%s", m->goodbye->why);
        return;
    default:
        a->setup.down(a->setup.arg, m);
    }
}

static void attendee_on_loop_message(void *arg)
{
    struct attendee_session *s = arg;
    struct attendee *a = s->attend;
    struct sl_error err = SL_ERROR_INIT;
    Sluice__V1__AttendDown *m;
    struct wire_arena arena;
    enum sl_err rc;

    if (a->session == s) {
        wire_arena_init(&arena);
        a->heard_ms = sl_now_ms(a->setup.clock);
        rc =
            wire_unpack_attend_down(&m, &arena, rpc_body_slices(s->body), &err);
        if (rc == SL_OK) {
            attendee_handle_down(a, m);
        } else if (rc != SL_ENOTSUP) { // a newer kind is left alone
            LOG(ERROR, "message of the coordinator not understood",
                "error=%s reason=%s", sl_err_name(rc), err.text);
            rpc_stream_cancel(s->stream);
        }
        wire_arena_release(&arena);
    }
    rpc_body_free(s->body);
    s->body = NULL;
    rpc_stream_resume(s->stream);
    session_unref(s);
}

static void attendee_on_loop_end(void *arg)
{
    struct attendee_session *s = arg;

    if (s->attend->session == s) {
        went_down(s->attend, &s->end);
        session_unref(s); // the attend's
    }
    session_unref(s);
}

// ---- on an I/O thread

static void attendee_on_message(struct rpc_stream *stream,
                                const struct sl_slices *body, void *user)
{
    struct attendee_session *s = user;

    s->body = rpc_stream_take(stream);
    if (s->body == NULL) { // no memory: the coordinator will say it again
        rpc_stream_cancel(stream);
        return;
    }
    rpc_stream_pause(stream);
    atomic_fetch_add(&s->refs, 1);
    loop_post_task(s->attend->setup.loop, &s->task, attendee_on_loop_message,
                   s);
}

// Last of the stream; takes over the callbacks' reference.
static void attendee_on_end(struct rpc_stream *stream, enum sl_err code,
                            const struct sl_error *err, void *user)
{
    struct attendee_session *s = user;

    s->end.code = code;
    if (code == SL_OK)
        sl_fail(&s->end, SL_EUNAVAIL, "the coordinator ended the stream");
    else if (err != NULL && err->text[0] != '\0')
        s->end = *err;
    else
        sl_fail(&s->end, code, "%s", sl_err_text(code));
    loop_post_task(s->attend->setup.loop, &s->end_task, attendee_on_loop_end,
                   s);
}

static const struct rpc_stream_events events = {
    .on_message = attendee_on_message, .on_end = attendee_on_end};

// ---- dialing

static bool send_on(struct attendee *a, const Sluice__V1__AttendUp *up)
{
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    rc = wire_msg(&msg, &up->base);
    if (rc == SL_OK)
        rc = rpc_stream_send(a->session->stream, &msg);
    if (rc == SL_OK)
        return true;
    rpc_msg_drop(&msg);
    // What could not be said is said again on the next stream.
    rpc_stream_cancel(a->session->stream);
    return false;
}

static void say_hello(struct attendee *a)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Hello m = SLUICE__V1__HELLO__INIT;
    struct cgroup_memory memory;

    cgroup_memory(&memory, "");
    m.memory_bytes = memory.limit_bytes;
    m.role = a->setup.role;
    m.name = (char *)a->setup.name;
    m.process = a->process;
    m.pid = (uint64_t)getpid();
    m.host = a->host;
    m.version = (char *)SLUICE_VERSION;
    m.address = (char *)a->setup.address;
    m.device = (char *)a->setup.device;
    m.protocol = WIRE_PROTOCOL;
    m.external = a->setup.external;
    m.ranks = a->setup.ranks;
    m.groups = a->setup.groups;
    m.own_steps = a->setup.own_steps;
    m.no_store = a->setup.no_store;
    m.test_kind = a->setup.test_kind;
    m.test_vector = a->setup.test_vector;
    m.only_job = a->setup.only_job;
    m.map_changes = true;
    m.waits_for_round = true;
    m.log_lines = true;
    m.edition = model_edition_known();
    if (a->setup.away != NULL)
        m.away = (char *)a->setup.away(a->setup.arg);
    m.cluster = a->cluster;
    m.term = a->term;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HELLO;
    up.hello = &m;
    a->hello_ms = sl_now_ms(a->setup.clock);
    send_on(a, &up);
}

static enum sl_err attendee_open_stream(struct attendee *a,
                                        struct attendee_session *s,
                                        struct sl_error *err)
{
    struct rpc_call_options options = {.deadline_ms = RPC_NO_DEADLINE};

    *s = (struct attendee_session){.attend = a};
    atomic_init(&s->refs, 2); // ours, and the callbacks' until attendee_on_end
    atomic_fetch_add(&a->sessions, 1);
    rpc_channel_hurry(a->setup.channel);
    a->peer = rpc_channel_address(a->setup.channel);
    return rpc_stream_open(&s->stream, a->setup.channel, WIRE_ATTEND, NULL,
                           &options, &events, s, err);
}

static void attendee_dial(void *arg)
{
    struct attendee *a = arg;
    struct attendee_session *s = sl_malloc(sizeof(*s));
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    if (s == NULL) {
        dial_later(a);
        return;
    }
    rc = attendee_open_stream(a, s, &err);
    if (rc != SL_OK) {
        sl_free(s);
        atomic_fetch_sub(&a->sessions, 1);
        if (err.text[0] == '\0')
            sl_fail(&err, rc, "%s", sl_err_text(rc));
        went_down(a, &err);
        return;
    }
    a->session = s;
    a->heard_ms = sl_now_ms(a->setup.clock);
    loop_timer_start(a->welcome_timer, a->setup.welcome_ms, 0);
    say_hello(a);
}

// Gives up a stream that stands but had no answer. (The timer runs only until
// the Welcome.)
static void not_welcomed(void *arg)
{
    struct attendee *a = arg;

    if (!a->notified)
        LOG(WARN, "coordinator does not answer; dialing again",
            "peer=%s waited_ms=%u", a->peer, a->setup.welcome_ms);
    give_up(a, "the coordinator does not answer");
}

static void attendee_on_beat_timer(void *arg)
{
    struct attendee *a = arg;
    uint64_t silent = sl_now_ms(a->setup.clock) - a->heard_ms;

    if (!a->attached)
        return;
    if (silent > SILENT_MIN_MS &&
        silent > (uint64_t)SILENT_HEARTBEATS * a->heartbeat_ms) {
        LOG(WARN, "coordinator is silent; dialing again",
            "peer=%s silent_ms=%" PRIu64, a->peer, silent);
        give_up(a, "the coordinator is silent");
        return;
    }
    a->setup.beat(a->setup.arg);
}

// ---- the interface

// The first of this number: others may follow it.
static void stamp(struct attendee *a, Sluice__V1__Heartbeat *m)
{
    if (m->seq <= a->seq)
        return;
    a->seq = m->seq;
    a->sent_ms[m->seq % BEATS] = sl_now_ms(a->setup.clock);
    m->heard_seq = a->heard;
    m->heard_us = a->heard_us;
    m->sent_us = sl_now_us(a->setup.clock);
}

bool attendee_send(struct attendee *a, const Sluice__V1__AttendUp *up)
{
    // After attendee_close the stream takes nothing more, and to fail on it
    // would drop what it has queued.
    if (!a->attached || a->stopped)
        return false;
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT)
        stamp(a, up->heartbeat);
    return send_on(a, up);
}

void attendee_heartbeat(struct attendee *a, Sluice__V1__Heartbeat *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;

    m->seq = a->seq + 1;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = m;
    attendee_send(a, &up);
}

bool attendee_attached(const struct attendee *a)
{
    return a->attached;
}

uint64_t attendee_renewed_ms(const struct attendee *a)
{
    return a->renewed_ms;
}

uint64_t attendee_beats(const struct attendee *a)
{
    return a->seq;
}

uint64_t attendee_heard(const struct attendee *a)
{
    return a->heard;
}

void attendee_beat_now(struct attendee *a)
{
    attendee_on_beat_timer(a);
}

static enum sl_err random_process(uint64_t *out, struct sl_error *err)
{
    do {
        if (getrandom(out, sizeof(*out), 0) != (ssize_t)sizeof(*out))
            return sl_fail(err, SL_EIO, "getrandom failed");
    } while (*out == 0);
    return SL_OK;
}

// proto3 has no absent strings: what is not there is empty.
static char *attendee_copy_text(const char *text)
{
    return sl_strdup(text != NULL ? text : "");
}

enum sl_err attendee_new(struct attendee **out,
                         const struct attendee_setup *setup,
                         struct sl_error *err)
{
    struct attendee *a = sl_calloc(1, sizeof(*a));
    enum sl_err rc;

    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory");
    a->setup = *setup;
    a->setup.name = sl_strdup(setup->name);
    a->setup.address = attendee_copy_text(setup->address);
    a->setup.device = attendee_copy_text(setup->device);
    if (a->setup.welcome_ms == 0)
        a->setup.welcome_ms = WELCOME_MS;
    a->cluster = setup->cluster;
    a->backoff_ms = BACKOFF_MIN_MS;
    atomic_init(&a->sessions, 0);
    if (gethostname(a->host, sizeof(a->host) - 1) != 0)
        a->host[0] = '\0';
    rc = a->setup.name && a->setup.address && a->setup.device ? SL_OK
                                                              : SL_ENOMEM;
    if (rc == SL_OK)
        rc = random_process(&a->process, err);
    if (rc == SL_OK)
        rc = loop_timer_new(&a->dial_timer, setup->loop, attendee_dial, a);
    if (rc == SL_OK)
        rc = loop_timer_new(&a->welcome_timer, setup->loop, not_welcomed, a);
    if (rc == SL_OK)
        rc = loop_timer_new(&a->heartbeat_timer, setup->loop,
                            attendee_on_beat_timer, a);
    if (rc == SL_OK)
        rc = traced_new(&a->traced, setup->loop);
    if (rc != SL_OK) {
        attendee_free(a);
        return rc;
    }
    rng_init(&a->rng, a->process, 0);
    *out = a;
    return SL_OK;
}

void attendee_start(struct attendee *a)
{
    loop_timer_start(a->dial_timer, 0, 0);
}

bool attendee_close(struct attendee *a)
{
    bool was = a->attached;

    a->stopped = true;
    loop_timer_stop(a->dial_timer);
    if (was)
        rpc_stream_close(a->session->stream);
    else if (a->session != NULL) // no Welcome of it may count any more
        rpc_stream_cancel(a->session->stream);
    return was;
}

void attendee_stop(struct attendee *a)
{
    struct attendee_session *s = a->session;

    a->stopped = true;
    a->session = NULL;
    a->attached = false;
    loop_timer_stop(a->dial_timer);
    loop_timer_stop(a->welcome_timer);
    loop_timer_stop(a->heartbeat_timer);
    if (s == NULL)
        return;
    rpc_stream_cancel(s->stream);
    session_unref(s);
}

void attendee_free(struct attendee *a)
{
    if (a == NULL)
        return;
    // The channel is gone, so no callback is to come; what they posted is in
    // the loop's queue.
    while (atomic_load(&a->sessions) > 0)
        loop_turn(a->setup.loop);
    loop_timer_free(a->dial_timer);
    loop_timer_free(a->welcome_timer);
    loop_timer_free(a->heartbeat_timer);
    traced_free(a->traced);
    sl_free((char *)a->setup.name);
    sl_free((char *)a->setup.address);
    sl_free((char *)a->setup.device);
    sl_free(a);
}
