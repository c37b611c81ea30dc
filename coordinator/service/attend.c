// SPDX-License-Identifier: Apache-2.0
// coordinator/service/attend.c -- the sessions of members, one per stream, and
// the way of each message to the loop and back.
#include "coordinator/service/attend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/run/log.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/mem.h"
#include "coordinator/service/costs.h"
#include "proto/access.h"

// Most messages of one stream that may wait for the loop, each of a page of
// bytes; a longer one counts as several. Beyond that, flow control holds the
// peer back.
#define ATTEND_QUEUED_MAX 256
#define ATTEND_PAGE 4096

#define ATTEND_HELD_MS 10 // between two looks at the held sessions

// The receiver of the messages of one kind, instead of the coord.
struct taker {
    Sluice__V1__AttendUp__KindCase kind;
    attend_take *take; // NULL: the coord
    void *arg;
};

struct attend {
    struct loop *loop;
    struct coord *coord; // NULL: no coord listens
    struct taker takers[2];
    struct map sessions; // member -> struct attend_session, once attached
    struct costs costs;
    struct list held; // sessions that reading is paused for
    struct loop_timer *held_timer;
    uint64_t last_member; // numbers given to streams
    // without a coord: the reason that a member is told; empty: none
    struct sl_error why;
};

struct attend_session {
    struct attend *attend;
    struct rpc_stream *stream; // a reference that the session owns
    _Atomic unsigned queued;   // pages on their way to the loop
    struct loop_task end;
    struct access_who who;         // the peer, by its certificate
    char certificate[RPC_PEER_ID]; // "": none is shown
    // the loop's
    uint64_t member;        // 0: no Hello yet, or refused
    enum access_role role;  // the role that it attends in
    bool done;              // hung up: later messages are dropped
    struct cost_time time;  // used where the certificate is for any name
    struct list_node held;  // in attend.held,
    uint64_t held_until_ms; // until this moment
};

// A message on its way to the loop.
struct parcel {
    struct loop_task task;
    struct attend_session *session;
    struct wire_arena arena;
    Sluice__V1__AttendUp *message; // in the arena
    unsigned pages;
    uint64_t us; // time that reading it took
    enum sl_err rc;
    struct sl_error err;
};

// ---- on the loop

static void attend_send_goodbye(struct attend_session *s, const char *why)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__Goodbye goodbye = SLUICE__V1__GOODBYE__INIT;
    struct rpc_msg msg;

    goodbye.why = (char *)why;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_GOODBYE;
    down.goodbye = &goodbye;
    rpc_msg_init(&msg);
    if (wire_msg(&msg, &down.base) != SL_OK ||
        rpc_stream_send(s->stream, &msg) != SL_OK)
        rpc_msg_drop(&msg);
}

// Refuses a peer: sends it the reason, then ends the stream.
static void attend_session_refuse(struct attend_session *s, enum sl_err rc,
                                  struct sl_error *err)
{
    struct cost *cost = costs_of(&s->attend->costs, &s->who);
    uint64_t now = loop_now_ms(s->attend->loop);
    unsigned left_out = 0;

    // Without memory for an account there are no lines either.
    if (s->who.role == ACCESS_LOCAL ||
        (cost != NULL && log_share(&cost->lines, LOG_SHARE, now, &left_out)))
        LOG(WARN, "stream refused", "why=%s who=%s left_out=%u", err->text,
            s->who.name, left_out);
    attend_send_goodbye(s, err->text);
    rpc_stream_finish(s->stream, rc, err);
    s->done = true;
}

static enum member_claim claim_of(const struct access_who *who)
{
    if (who->role == ACCESS_LOCAL)
        return MEMBER_LOCAL;
    return strcmp(who->name, ACCESS_ANY) == 0 ? MEMBER_ANY : MEMBER_OWN;
}

static enum sl_err may_attend(struct attend_session *s,
                              const Sluice__V1__Hello *hello,
                              struct sl_error *err)
{
    struct cost *cost = costs_of(&s->attend->costs, &s->who);
    enum sl_err rc = access_attend(&s->who, s->role, hello->name, err);

    if (rc == SL_OK && cost == NULL)
        rc = sl_fail(err, SL_ENOMEM, "no memory for one more stream");
    if (rc == SL_OK)
        rc = cost_open(cost, &s->who, loop_now_ms(s->attend->loop), err);
    return rc;
}

static void hear_hello(struct attend_session *s, const Sluice__V1__Hello *hello)
{
    struct attend *a = s->attend;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    s->role = hello->role == SLUICE__V1__ROLE__ROLE_PSSERVER ? ACCESS_PSSERVER
                                                             : ACCESS_WORKER;
    rc = may_attend(s, hello, &err);
    if (rc != SL_OK) {
        attend_session_refuse(s, rc, &err);
        return;
    }
    s->member = ++a->last_member;
    if (map_put(&a->sessions, s->member, s) != SL_OK)
        rc = sl_fail(&err, SL_ENOMEM, "no memory for one more member");
    else
        rc = coord_attach(a->coord, s->member, hello, claim_of(&s->who), &err);
    if (rc == SL_OK)
        return;
    map_remove(&a->sessions, s->member);
    s->member = 0;
    attend_session_refuse(s, rc, &err);
}

static void attend_session_dispatch(struct attend_session *s,
                                    const Sluice__V1__AttendUp *m)
{
    for (size_t i = 0; i < SL_COUNT(s->attend->takers); i++) {
        const struct taker *t = &s->attend->takers[i];

        if (t->take != NULL && t->kind == m->kind_case) {
            t->take(t->arg, s->member, m);
            return;
        }
    }
    coord_receive(s->attend->coord, s->member, m);
}

// Refuses a peer after a wrong message, and detaches its member.
static void expel(struct attend_session *s, enum sl_err rc,
                  struct sl_error *err)
{
    attend_session_refuse(s, rc, err);
    if (s->member != 0 && s->attend->coord != NULL) {
        map_remove(&s->attend->sessions, s->member);
        coord_detach(s->attend->coord, s->member);
        s->member = 0;
    }
}

static void attend_session_receive(struct attend_session *s, struct parcel *p)
{
    bool hello = p->rc == SL_OK &&
                 p->message->kind_case == SLUICE__V1__ATTEND_UP__KIND_HELLO;

    if (p->rc == SL_ENOTSUP)
        return; // a kind that a newer peer knows: ignored
    if (p->rc == SL_OK && hello != (s->member == 0))
        p->rc = sl_fail(&p->err, SL_EINVAL, "Hello comes first, and once");
    // What the role may not say ends the stream: no honest member says it, and
    // on a stream that goes on it could be said again.
    if (p->rc == SL_OK && !hello)
        p->rc = access_say(s->role, p->message, &p->err);
    if (p->rc != SL_OK)
        expel(s, p->rc, &p->err);
    else if (hello)
        hear_hello(s, p->message->hello);
    else
        attend_session_dispatch(s, p->message);
}

// ---- the cost of a bearer

// Stops reading a peer that used more than its part of the time, for wait_ms.
static void attend_session_hold(struct attend_session *s, uint32_t wait_ms)
{
    struct attend *a = s->attend;
    struct cost *cost = costs_of(&a->costs, &s->who);
    uint64_t now = loop_now_ms(a->loop);
    unsigned left_out;

    rpc_stream_pause(s->stream);
    s->held_until_ms = now + wait_ms;
    if (list_empty(&a->held))
        loop_timer_start(a->held_timer, ATTEND_HELD_MS, ATTEND_HELD_MS);
    list_push_back(&a->held, &s->held);
    if (cost != NULL && log_share(&cost->slow, 1, now, &left_out))
        LOG(WARN, "member sends too much; reading its messages more slowly",
            "role=%s who=%s times=%u", access_role_name(s->who.role),
            s->who.name, left_out + 1);
}

static void look_at_held(void *arg)
{
    struct attend *a = arg;
    uint64_t now = loop_now_ms(a->loop);

    list_for_safe(n, &a->held)
    {
        struct attend_session *s = list_entry(n, struct attend_session, held);

        if (now < s->held_until_ms)
            continue;
        list_remove(n);
        if (atomic_load(&s->queued) == 0)
            rpc_stream_resume(s->stream);
    }
    if (list_empty(&a->held))
        loop_timer_stop(a->held_timer);
}

// Returns the time that a session's messages are charged to; NULL for a process
// of the coordinator's own user, which is not limited.
static struct cost_time *attend_session_time(struct attend_session *s)
{
    enum member_claim claim = claim_of(&s->who);
    struct cost *cost =
        claim == MEMBER_OWN ? costs_of(&s->attend->costs, &s->who) : NULL;

    if (claim == MEMBER_LOCAL)
        return NULL;
    return cost != NULL ? &cost->time : &s->time;
}

static void spend(struct attend_session *s, uint64_t us)
{
    struct cost_time *time = attend_session_time(s);
    uint32_t wait =
        time == NULL ? 0
                     : cost_time_spend(time, us, loop_now_ms(s->attend->loop));

    if (wait > 0 && !s->done && !list_on(&s->held))
        attend_session_hold(s, wait);
}

// Handles a parcel; lines logged meanwhile are charged to the peer.
static void attend_handle_parcel(struct attend_session *s, struct parcel *p)
{
    struct cost_time *time = attend_session_time(s);

    log_charge(time == NULL ? NULL : &time->lines);
    attend_session_receive(s, p);
    log_charge(NULL);
}

static void send_away(struct attend_session *s)
{
    s->done = true;
    rpc_stream_finish(s->stream, SL_EUNAVAIL, &s->attend->why);
}

// Returns the kind of a message, as the name of its field in AttendUp.
static const char *attend_parcel_kind(const struct parcel *p)
{
    const ProtobufCFieldDescriptor *f =
        p->rc != SL_OK
            ? NULL
            : protobuf_c_message_descriptor_get_field(
                  p->message->base.descriptor, (unsigned)p->message->kind_case);

    return f != NULL ? f->name : "message";
}

static void attend_parcel_on_loop(void *arg)
{
    struct parcel *p = arg;
    struct attend_session *s = p->session;
    uint64_t from_us = sl_real_us();
    unsigned pages = p->pages;

    loop_doing(s->attend->loop, attend_parcel_kind(p));
    if (!s->done && s->attend->coord != NULL)
        attend_handle_parcel(s, p);
    else if (!s->done && s->attend->why.code != SL_OK)
        send_away(s);
    wire_arena_release(&p->arena);
    spend(s, p->us + sl_real_us() - from_us);
    sl_free(p);
    if (atomic_fetch_sub(&s->queued, pages) == pages && !list_on(&s->held))
        rpc_stream_resume(s->stream);
}

// Ends a session on the loop. It runs after all messages of the stream: they
// were posted before it, by the same thread.
static void attend_session_end(void *arg)
{
    struct attend_session *s = arg;
    struct attend *a = s->attend;

    loop_doing(a->loop, "detach");
    if (s->member != 0) {
        map_remove(&a->sessions, s->member);
        if (a->coord != NULL && !s->done)
            coord_detach(a->coord, s->member);
    }
    list_remove(&s->held);
    rpc_stream_unref(s->stream);
    sl_free(s);
}

// ---- on I/O threads

static void attend_session_on_message(struct rpc_stream *stream,
                                      const struct sl_slices *body, void *user)
{
    struct attend_session *s = user;
    uint64_t from_us = sl_real_us();
    struct parcel *p = sl_malloc(sizeof(*p));

    if (p == NULL) { // out of memory: reading resumes later
        rpc_stream_cancel(stream);
        return;
    }
    p->session = s;
    p->err = (struct sl_error)SL_ERROR_INIT;
    wire_arena_init(&p->arena);
    p->rc = wire_unpack_attend_up(&p->message, &p->arena, body, &p->err);
    p->pages = 1 + (unsigned)(body->bytes / ATTEND_PAGE);
    p->us = sl_real_us() - from_us;
    if (atomic_fetch_add(&s->queued, p->pages) + p->pages >=
        ATTEND_QUEUED_MAX) {
        rpc_stream_pause(stream);
        // The loop may have emptied the queue before we paused.
        if (atomic_load(&s->queued) == 0)
            rpc_stream_resume(stream);
    }
    loop_post_task(s->attend->loop, &p->task, attend_parcel_on_loop, p);
}

static void attend_session_on_end(struct rpc_stream *stream, enum sl_err code,
                                  const struct sl_error *err, void *user)
{
    struct attend_session *s = user;

    loop_post_task(s->attend->loop, &s->end, attend_session_end, s);
}

static void open_attend(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {
        .on_message = attend_session_on_message,
        .on_end = attend_session_on_end,
    };
    struct attend_session *s = sl_calloc(1, sizeof(*s));
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_peer peer;
    enum sl_err rc;

    rpc_stream_peer(stream, &peer);
    rc = s != NULL ? access_who(&s->who, &peer, &err)
                   : sl_fail(&err, SL_ENOMEM, "no memory for one more stream");
    if (rc != SL_OK) {
        rpc_stream_finish(stream, rc, &err);
        sl_free(s);
        return;
    }
    if (peer.way == RPC_WAY_TLS)
        snprintf(s->certificate, sizeof(s->certificate), "%s", peer.id);
    s->attend = arg;
    s->stream = rpc_stream_ref(stream);
    rpc_stream_set(stream, &events, s);
}

// ---- called by the coord

static struct attend_session *attend_find_session(struct attend *a,
                                                  uint64_t member)
{
    return map_get(&a->sessions, member);
}

void attend_send(void *attend, uint64_t member,
                 const Sluice__V1__AttendDown *message)
{
    struct attend_session *s = attend_find_session(attend, member);
    struct rpc_msg msg;

    if (s == NULL || s->done)
        return;
    rpc_msg_init(&msg);
    if (wire_msg(&msg, &message->base) == SL_OK &&
        rpc_stream_send(s->stream, &msg) == SL_OK)
        return;
    // No memory, or a peer that reads nothing: the peer must not wait for a
    // message that will never come.
    rpc_msg_drop(&msg);
    rpc_stream_cancel(s->stream);
}

void attend_hang_up(void *attend, uint64_t member)
{
    struct attend_session *s = attend_find_session(attend, member);

    if (s == NULL)
        return;
    s->done = true;
    rpc_stream_finish(s->stream, SL_OK, NULL);
}

void attend_cut_off(void *attend, uint64_t member)
{
    struct attend_session *s = attend_find_session(attend, member);

    if (s == NULL)
        return;
    s->done = true;
    rpc_stream_cancel(s->stream);
}

const char *attend_certificate(void *attend, uint64_t member)
{
    const struct attend_session *s = attend_find_session(attend, member);

    return s == NULL ? "" : s->certificate;
}

// ---- life

static const struct rpc_method attend_methods[] = {
    {.path = WIRE_ATTEND, .kind = RPC_BIDI, .open = open_attend},
};

struct rpc_table attend_table(struct attend *a)
{
    return (struct rpc_table){attend_methods, SL_COUNT(attend_methods), a};
}

enum sl_err attend_new(struct attend **out, struct loop *loop,
                       struct sl_error *err)
{
    struct attend *a = sl_calloc(1, sizeof(*a));
    enum sl_err rc;

    if (a == NULL)
        return sl_fail(err, SL_ENOMEM, "attend");
    a->loop = loop;
    map_init(&a->sessions);
    costs_init(&a->costs);
    list_init(&a->held);
    rc = loop_timer_new(&a->held_timer, loop, look_at_held, a);
    if (rc != SL_OK) {
        sl_free(a);
        return sl_fail(err, rc, "attend");
    }
    *out = a;
    return SL_OK;
}

void attend_set_coord(struct attend *a, struct coord *c)
{
    a->coord = c;
    a->why = (struct sl_error)SL_ERROR_INIT;
}

void attend_on(struct attend *a, Sluice__V1__AttendUp__KindCase kind,
               attend_take *take, void *arg)
{
    size_t i = 0;

    while (i + 1 < SL_COUNT(a->takers) && a->takers[i].take != NULL)
        i++;
    a->takers[i] = (struct taker){kind, take, arg};
}

void attend_send_away(struct attend *a, const char *why)
{
    size_t at = 0;
    void *value;

    a->coord = NULL;
    sl_fail(&a->why, SL_EUNAVAIL, "%s", why);
    while (map_next(&a->sessions, &at, NULL, &value)) {
        struct attend_session *s = value;

        if (!s->done)
            send_away(s);
    }
}

void attend_free(struct attend *a)
{
    if (a == NULL)
        return;
    map_release(&a->sessions);
    costs_release(&a->costs);
    loop_timer_free(a->held_timer);
    sl_free(a);
}
