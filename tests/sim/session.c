// SPDX-License-Identifier: Apache-2.0
// tests/sim/session.c -- Attend: dialing, two queues, and the ways to end.
//
// What a side says is heard in order, or not at all. Each message in a queue
// has an event that hears the queue's first; where the way is cut, the event
// tries again, as TCP does. The manners of psservers (when they dial, beat and
// give up) are those of stream/attendee.c; workers have that itself, over the
// rpc_stream_* functions below (common/net/rpc.h).
#include "common/base/buf.h"
#include "common/base/rng.h"
#include "proto/model.h"
#include "tests/sim/channel.h"
#include "tests/sim/net_own.h"

#define BACKOFF_MIN_US (100 * 1000)
#define BACKOFF_MAX_US (2000 * 1000)
#define DIAL_PATIENCE_US (3 * SIM_SECOND)
#define SILENT_BEATS 10      // then the stream is given up
#define AGAIN_US (30 * 1000) // a message that could not pass
#define UNREAD_US 100        // one that its reader does not take yet

static struct session *get(struct sim *s, uint64_t number)
{
    T_ASSERT(number > 0 && number <= s->net->sessions_count);
    return s->net->sessions[number - 1];
}

static void forget(struct list *queue)
{
    struct list_node *n;

    while ((n = list_pop_front(queue)) != NULL) {
        struct parcel *p = list_entry(n, struct parcel, node);

        wire_free(p->message);
        free(p);
    }
}

static void receive_up(struct sim *s, struct sim_event *e);
static void receive_down(struct sim *s, struct sim_event *e);

static void poke(struct sim *s, uint64_t number, bool up, uint64_t after)
{
    sim_after(s, after,
              &(struct sim_event){.kind = up ? SIM_UP : SIM_DOWN,
                                  .a = number,
                                  .run = up ? receive_up : receive_down});
}

// `message` NULL: the end.
static void put(struct sim *s, uint64_t number, bool up,
                const ProtobufCMessage *message)
{
    struct session *ss = get(s, number);
    struct parcel *p = calloc(1, sizeof(*p));

    T_ASSERT(p != NULL);
    if (message != NULL)
        T_OK(wire_dup(&p->message, message));
    list_push_back(up ? &ss->up : &ss->down, &p->node);
    poke(s, number, up,
         up ? net_delay(s, ss->member_host, ss->boss_host)
            : net_delay(s, ss->boss_host, ss->member_host));
}

// ---- the member's side

static void dial_later(struct sim *s, struct proc *p);
static void stream_end(struct proc *p, enum sl_err rc);
static bool stream_reads(const struct proc *p);
static void stream_receive(struct proc *p, const ProtobufCMessage *m);

static void went_down(struct sim *s, struct proc *p)
{
    p->session = 0;
    p->attached = false;
    if (p->stream != NULL)
        stream_end(p, SL_EUNAVAIL);
    else
        dial_later(s, p);
}

static void dial_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    p->dialing = false;
    session_dial(s, p);
}

static void dial_later(struct sim *s, struct proc *p)
{
    uint64_t half = p->backoff_us / 2;

    if (p->dialing || p->exiting)
        return;
    p->dialing = true;
    sim_after(s, half + sim_below(s, half + 1),
              &(struct sim_event){
                  .kind = SIM_DIAL, .proc = p->number, .run = dial_run});
    p->backoff_us =
        2 * p->backoff_us < BACKOFF_MAX_US ? 2 * p->backoff_us : BACKOFF_MAX_US;
}

static void dial_timeout(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    if (p->session == e->a && !p->attached)
        session_drop(s, p);
}

static void send_hello(struct sim *s, struct proc *p)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Hello m = SLUICE__V1__HELLO__INIT;

    m.role = SLUICE__V1__ROLE__ROLE_PSSERVER;
    m.name = s->slots[p->slot].name;
    m.process = p->process;
    m.address = p->address;
    m.protocol = WIRE_PROTOCOL;
    m.edition = model_edition_known();
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HELLO;
    up.hello = &m;
    p->hello_us = sim_now(s);
    put(s, p->session, true, &up.base);
}

// False: nobody is there, or reached.
static bool reach(struct sim *s, struct proc *p)
{
    struct proc *boss = boss_of(s);
    struct session *ss;

    if (boss == NULL || net_cut(s, p->host, boss->host))
        return false;
    if (s->net->sessions_count == s->net->sessions_space) {
        s->net->sessions_space += 1024;
        s->net->sessions =
            realloc(s->net->sessions,
                    s->net->sessions_space * sizeof(struct session *));
        T_ASSERT(s->net->sessions != NULL);
    }
    ss = calloc(1, sizeof(*ss));
    T_ASSERT(ss != NULL);
    *ss = (struct session){.member = p->number,
                           .boss = boss->number,
                           .member_host = p->host,
                           .boss_host = boss->host,
                           .member_open = true,
                           .boss_open = true};
    list_init(&ss->up);
    list_init(&ss->down);
    s->net->sessions[s->net->sessions_count++] = ss;
    p->session = s->net->sessions_count;
    return true;
}

void session_dial(struct sim *s, struct proc *p)
{
    if (p->session != 0 || p->exiting)
        return;
    if (p->backoff_us == 0)
        p->backoff_us = BACKOFF_MIN_US;
    if (!reach(s, p)) {
        dial_later(s, p);
        return;
    }
    p->seen_us = sim_now(s);
    send_hello(s, p);
    sim_after(s, DIAL_PATIENCE_US,
              &(struct sim_event){.kind = SIM_TIMER,
                                  .proc = p->number,
                                  .a = p->session,
                                  .run = dial_timeout});
}

static void beat_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    if (p->session != e->a || !p->attached)
        return;
    if (sim_now(s) - p->seen_us > SILENT_BEATS * s->knobs.heartbeat_us) {
        session_drop(s, p);
        return;
    }
    sim_after(s, s->knobs.heartbeat_us, e);
    server_beat(s, p);
}

static void welcome(struct sim *s, struct proc *p, const Sluice__V1__Welcome *m)
{
    if (!server_welcome(s, p, m)) {
        session_drop(s, p);
        return;
    }
    p->attached = true;
    p->backoff_us = BACKOFF_MIN_US;
    sim_after(s, s->knobs.heartbeat_us,
              &(struct sim_event){.kind = SIM_TIMER,
                                  .proc = p->number,
                                  .a = p->session,
                                  .run = beat_run});
    server_attached(s, p);
}

static void member_receive(struct sim *s, struct proc *p,
                           const Sluice__V1__AttendDown *m)
{
    p->seen_us = sim_now(s);
    if (m->kind_case == SLUICE__V1__ATTEND_DOWN__KIND_WELCOME) {
        if (!p->attached)
            welcome(s, p, m->welcome);
    } else if (p->attached && // else it may be of an older term
               m->kind_case != SLUICE__V1__ATTEND_DOWN__KIND_HEARTBEAT_ACK) {
        server_down(s, p, m);
    }
}

// ---- delivery

static struct parcel *first(struct list *queue)
{
    return list_entry(list_pop_front(queue), struct parcel, node);
}

static void parcel_free(struct parcel *p)
{
    wire_free(p->message);
    free(p);
}

// Nobody is there any more: its peer is told, as a kernel would.
static void reset_member(struct sim *s, uint64_t number)
{
    struct session *ss = get(s, number);

    forget(&ss->up);
    if (ss->member_open)
        put(s, number, false, NULL);
}

static void deliver_up(struct sim *s, struct proc *boss, uint64_t number)
{
    struct session *ss = get(s, number);
    struct parcel *p = first(&ss->up);
    Sluice__V1__AttendUp *up = (Sluice__V1__AttendUp *)p->message;

    if (up == NULL) {
        ss->boss_open = false;
        forget(&ss->down);
        if (ss->greeted)
            boss_detach(s, boss, number);
    } else if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_HELLO) {
        sim_note_msg(s, &up->base);
        ss->greeted = true;
        boss_hello(s, boss, number, up->hello);
    } else {
        sim_note_msg(s, &up->base);
        boss_receive(s, boss, number, up);
    }
    parcel_free(p);
}

static void receive_up(struct sim *s, struct sim_event *e)
{
    struct session *ss = get(s, e->a);
    struct proc *boss = proc_get(s, ss->boss);
    uint64_t now = sim_now(s);

    if (list_empty(&ss->up))
        return;
    if (boss != NULL && boss->paused_until_us > now)
        poke(s, e->a, true, boss->paused_until_us - now);
    else if (net_cut(s, ss->member_host, ss->boss_host))
        poke(s, e->a, true, AGAIN_US);
    else if (boss == NULL || !ss->boss_open)
        reset_member(s, e->a);
    else
        deliver_up(s, boss, e->a);
}

static void deliver_down(struct sim *s, struct proc *member, uint64_t number)
{
    struct session *ss = get(s, number);
    struct parcel *p;

    if (member->stream != NULL && !stream_reads(member)) {
        poke(s, number, false, UNREAD_US);
        return;
    }
    p = first(&ss->down);
    if (p->message == NULL) {
        ss->member_open = false;
        forget(&ss->up);
        went_down(s, member);
    } else {
        sim_note_msg(s, p->message);
        if (member->stream != NULL)
            stream_receive(member, p->message);
        else
            member_receive(s, member, (Sluice__V1__AttendDown *)p->message);
    }
    parcel_free(p);
}

static void receive_down(struct sim *s, struct sim_event *e)
{
    struct session *ss = get(s, e->a);
    struct proc *member = proc_get(s, ss->member);
    uint64_t now = sim_now(s);

    if (list_empty(&ss->down))
        return;
    if (member == NULL || !ss->member_open)
        forget(&ss->down);
    else if (member->paused_until_us > now)
        poke(s, e->a, false, member->paused_until_us - now);
    else if (net_cut(s, ss->boss_host, ss->member_host))
        poke(s, e->a, false, AGAIN_US);
    else
        deliver_down(s, member, e->a);
}

// ---- what the sides do

bool session_up(struct sim *s, struct proc *p, const Sluice__V1__AttendUp *up)
{
    if (!p->attached || !p->alive)
        return false;
    put(s, p->session, true, &up->base);
    return true;
}

// The coordinator is told that it ended, after `lose` or not what was said.
static void leave(struct sim *s, uint64_t number, bool lose)
{
    struct session *ss = get(s, number);

    ss->member_open = false;
    if (lose)
        forget(&ss->up);
    put(s, number, true, NULL);
}

void session_drop(struct sim *s, struct proc *p)
{
    if (p->session == 0)
        return;
    leave(s, p->session, true);
    went_down(s, p);
}

void session_orphan(struct sim *s, struct proc *p, bool quietly)
{
    if (p->session == 0)
        return;
    if (quietly)
        get(s, p->session)->member_open = false;
    else
        leave(s, p->session, false);
    p->session = 0;
    p->attached = false;
}

void session_down(struct sim *s, uint64_t number,
                  const Sluice__V1__AttendDown *down)
{
    if (get(s, number)->boss_open)
        put(s, number, false, &down->base);
}

void session_hang_up(struct sim *s, uint64_t number, bool at_once)
{
    struct session *ss = get(s, number);

    if (!ss->boss_open)
        return;
    ss->boss_open = false;
    if (at_once)
        forget(&ss->down);
    put(s, number, false, NULL);
}

void session_boss_gone(struct sim *s, uint32_t boss, bool quietly)
{
    for (uint32_t i = 0; i < s->net->sessions_count; i++) {
        struct session *ss = s->net->sessions[i];

        if (ss->boss != boss || !ss->boss_open)
            continue;
        ss->boss_open = false;
        if (ss->member_open && !quietly)
            put(s, i + 1, false, NULL);
    }
}

void session_break(struct sim *s, struct proc *p, unsigned who)
{
    uint64_t number = p->session;
    struct session *ss;

    if (number == 0)
        return;
    ss = get(s, number);
    s->seen.breaks++;
    s->seen.half_open += who != 0;
    forget(&ss->up);
    forget(&ss->down);
    if (who != 2 && ss->boss_open)
        put(s, number, true, NULL);
    if (who == 0) {
        put(s, number, false, NULL);
    } else if (who == 2) { // the other end hears of it by silence only
        ss->member_open = false;
        went_down(s, p);
    }
}

// ---- common/net/rpc.h: the stream of a worker, whose attendee is the real one

struct rpc_body { // the one message that is being read
    struct buf bytes;
    struct sl_slice slice;
    struct sl_slices slices;
};

struct rpc_stream {
    struct proc *proc;
    struct sim *sim;
    struct rpc_stream_events events;
    void *user;
    unsigned refs; // the opener's, and ours until its end was told
    bool ended, paused;
    struct rpc_body *body; // while on_message runs, if it was not taken
};

// The linker takes these for what another file of the product has (--wrap).
const struct sl_slices *__wrap_rpc_body_slices(const struct rpc_body *body);
void __wrap_rpc_body_free(struct rpc_body *body);

static bool stream_reads(const struct proc *p)
{
    return !p->stream->paused;
}

static void stream_end(struct proc *p, enum sl_err rc)
{
    struct rpc_stream *st = p->stream;
    struct sl_error err = SL_ERROR_INIT;

    sl_fail(&err, rc, "the stream ended");
    p->stream = NULL;
    st->ended = true;
    st->events.on_end(st, rc, &err, st->user);
    rpc_stream_unref(st);
}

static void refused_run(struct sim *s, struct sim_event *e)
{
    struct proc *p = proc_get(s, e->proc);

    if (p->stream != NULL && p->session == 0)
        stream_end(p, SL_EUNAVAIL);
}

enum sl_err rpc_stream_open(struct rpc_stream **out,
                            struct rpc_channel *channel, const char *method,
                            struct rpc_msg *request,
                            const struct rpc_call_options *options,
                            const struct rpc_stream_events *events, void *user,
                            struct sl_error *err)
{
    struct rpc_io *io = channel_io(channel);
    struct rpc_stream *st = calloc(1, sizeof(*st));

    T_ASSERT(st != NULL && io->proc->stream == NULL && request == NULL);
    *st = (struct rpc_stream){.proc = io->proc,
                              .sim = io->sim,
                              .events = *events,
                              .user = user,
                              .refs = 2};
    io->proc->stream = st;
    if (!reach(io->sim, io->proc))
        sim_after(io->sim, sim_below(io->sim, 1000),
                  &(struct sim_event){.kind = SIM_DIAL,
                                      .proc = io->proc->number,
                                      .run = refused_run});
    *out = st;
    return SL_OK;
}

enum sl_err rpc_stream_send(struct rpc_stream *st, struct rpc_msg *msg)
{
    const struct sl_slice one = {msg->head, msg->head_bytes};
    const struct sl_slices bytes = slices_one(&one);
    Sluice__V1__AttendUp *up = NULL;
    struct wire_arena arena;

    if (st->ended || !st->proc->alive)
        return SL_ESTATE;
    wire_arena_init(&arena);
    T_OK(wire_unpack_attend_up(&up, &arena, &bytes, t_err()));
    hand_say(st->sim, st->proc, up);
    if (st->proc->session != 0) // else it goes nowhere
        put(st->sim, st->proc->session, true, &up->base);
    wire_arena_release(&arena);
    rpc_msg_drop(msg);
    return SL_OK;
}

static void hang_up(struct rpc_stream *st, bool lose, enum sl_err rc)
{
    struct proc *p = st->proc;

    if (st->ended)
        return;
    if (p->session != 0)
        leave(st->sim, p->session, lose);
    p->session = 0;
    stream_end(p, rc);
}

void rpc_stream_cancel(struct rpc_stream *st)
{
    hang_up(st, true, SL_ECANCELED);
}

void rpc_stream_finish(struct rpc_stream *st, enum sl_err code,
                       const struct sl_error *err)
{
    hang_up(st, true, code);
}

void rpc_stream_close(struct rpc_stream *st)
{
    hang_up(st, false, SL_OK);
}

void session_end_stream(struct proc *p)
{
    if (p->stream != NULL)
        hang_up(p->stream, true, SL_ECANCELED);
}

struct rpc_stream *rpc_stream_ref(struct rpc_stream *st)
{
    st->refs++;
    return st;
}

void rpc_stream_unref(struct rpc_stream *st)
{
    if (st != NULL && --st->refs == 0)
        free(st);
}

// ---- what it reads

static void stream_receive(struct proc *p, const ProtobufCMessage *m)
{
    struct rpc_stream *st = rpc_stream_ref(p->stream);
    struct rpc_body *b = calloc(1, sizeof(*b));

    T_ASSERT(b != NULL);
    T_OK(wire_pack(m, &b->bytes));
    b->slice = (struct sl_slice){b->bytes.data, b->bytes.len};
    b->slices = slices_one(&b->slice);
    st->body = b;
    st->events.on_message(st, &b->slices, st->user);
    if (st->body != NULL)
        __wrap_rpc_body_free(st->body);
    st->body = NULL;
    rpc_stream_unref(st);
}

struct rpc_body *rpc_stream_take(struct rpc_stream *st)
{
    struct rpc_body *body = st->body;

    st->body = NULL;
    return body;
}

const struct sl_slices *__wrap_rpc_body_slices(const struct rpc_body *body)
{
    return &body->slices;
}

void __wrap_rpc_body_free(struct rpc_body *body)
{
    if (body == NULL)
        return;
    buf_release(&body->bytes);
    free(body);
}

void rpc_stream_pause(struct rpc_stream *st)
{
    st->paused = true;
}

void rpc_stream_resume(struct rpc_stream *st)
{
    st->paused = false;
}
