// SPDX-License-Identifier: Apache-2.0
// The near end of Attend against a coordinator that says nothing, and one that
// welcomes; over a real socket. Its manners otherwise: unit.psserver.attend.
#include "stream/attendee.h"

#include <stdatomic.h>
#include <stdio.h>

#include "tests/harness/t.h"

struct scene {
    struct clock_fake clock; // stands still: nobody is silent for long
    struct rpc_io *io;
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct loop *loop;
    struct attendee *attendee;
    bool welcomes;
    bool closes;                 // the attendee, once welcomed, or before
    struct rpc_stream *accepted; // a reference; the Hello came on it
    struct loop_task task;
    unsigned welcomed, lost;       // calls of the owner
    atomic_uint streams, messages; // that came to the coordinator
    unsigned enough;               // of streams, or of messages: the loop ends
};

// A stream that has ended takes nothing.
static void say(struct rpc_stream *stream,
                const Sluice__V1__AttendDown *message)
{
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    T_ASSERT(wire_msg(&msg, &message->base) == SL_OK);
    if (rpc_stream_send(stream, &msg) != SL_OK)
        rpc_msg_drop(&msg);
}

static void say_welcome(struct rpc_stream *stream)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__Welcome welcome = SLUICE__V1__WELCOME__INIT;

    welcome.term = welcome.member = 1;
    welcome.heartbeat_ms = 50;
    welcome.lease_ms = 60000;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_WELCOME;
    down.welcome = &welcome;
    say(stream, &down);
}

static void acknowledge(struct rpc_stream *stream, uint64_t seq)
{
    Sluice__V1__AttendDown down = SLUICE__V1__ATTEND_DOWN__INIT;
    Sluice__V1__HeartbeatAck ack = SLUICE__V1__HEARTBEAT_ACK__INIT;

    ack.seq = seq;
    down.kind_case = SLUICE__V1__ATTEND_DOWN__KIND_HEARTBEAT_ACK;
    down.heartbeat_ack = &ack;
    say(stream, &down);
}

// On the loop: the attendee has said Hello, and waits for the Welcome.
static void close_before_welcome(void *arg)
{
    struct scene *s = arg;

    T_FALSE(attendee_close(s->attendee));
    say_welcome(s->accepted);
}

static void on_message(struct rpc_stream *stream, const struct sl_slices *body,
                       void *user)
{
    struct scene *s = user;
    unsigned n = atomic_fetch_add(&s->messages, 1) + 1;

    (void)body;
    if (s->closes && !s->welcomes && n == 1) {
        s->accepted = rpc_stream_ref(stream);
        loop_post_task(s->loop, &s->task, close_before_welcome, s);
    }
    if (!s->welcomes)
        return;
    if (n == 1) // the Hello
        say_welcome(stream);
    else
        acknowledge(stream, n - 1);
    if (n == s->enough)
        loop_stop(s->loop);
}

static void open_attend(struct rpc_stream *stream, void *arg)
{
    static const struct rpc_stream_events events = {.on_message = on_message};
    struct scene *s = arg;
    unsigned n = atomic_fetch_add(&s->streams, 1) + 1;

    rpc_stream_set(stream, &events, s);
    if (!s->welcomes && n == s->enough)
        loop_stop(s->loop);
}

static const struct rpc_method methods[] = {
    {.path = WIRE_ATTEND, .kind = RPC_BIDI, .open = open_attend}};

// ---- the attendee's owner

static bool welcome(void *arg, const Sluice__V1__Welcome *m)
{
    struct scene *s = arg;

    s->welcomed++;
    if (s->closes && !s->welcomes)
        loop_stop(s->loop);
    return m->term == 1;
}

static void unattached(void *arg, const char *why)
{
    struct scene *s = arg;

    (void)why;
    if (s->closes || (s->welcomes && s->welcomed == 0))
        loop_stop(s->loop);
}

static void lost(void *arg)
{
    ((struct scene *)arg)->lost++;
}

static void down(void *arg, const Sluice__V1__AttendDown *m)
{
    (void)arg;
    (void)m;
}

static void beat(void *arg)
{
    struct scene *s = arg;
    Sluice__V1__Heartbeat m = SLUICE__V1__HEARTBEAT__INIT;

    attendee_heartbeat(s->attendee, &m);
}

#define LARGE ((size_t)512 << 10)
#define SAID_AT_THE_END 4

static bool say_much(struct scene *s)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Hello m = SLUICE__V1__HELLO__INIT;
    static char text[LARGE];

    memset(text, 'x', sizeof(text) - 1);
    m.host = text;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HELLO;
    up.hello = &m;
    return attendee_send(s->attendee, &up);
}

// Says much, closes, and would say more: that is for another stream.
static void close_when_attached(void *arg)
{
    struct scene *s = arg;

    if (!s->closes)
        return;
    for (unsigned i = 0; i < SAID_AT_THE_END; i++)
        T_TRUE(say_much(s));
    T_TRUE(attendee_close(s->attendee));
    T_FALSE(say_much(s));
    beat(s);
}

// Until there is enough.
static void play(struct scene *s, unsigned welcome_ms)
{
    struct rpc_table table = {methods, 1, s};
    struct attendee_setup setup = {.clock = &s->clock.clock,
                                   .role = SLUICE__V1__ROLE__ROLE_WORKER,
                                   .name = "w",
                                   .welcome_ms = welcome_ms,
                                   .welcome = welcome,
                                   .attached = close_when_attached,
                                   .unattached = unattached,
                                   .lost = lost,
                                   .down = down,
                                   .beat = beat,
                                   .arg = s};
    char address[300];

    clock_fake_init(&s->clock, 1000000, 1000000);
    snprintf(address, sizeof(address), "unix:%s", t_path("sock"));
    T_OK(loop_new(&s->loop, t_err()));
    T_OK(rpc_io_new(&s->io, NULL, t_err()));
    T_OK(rpc_server_new(&s->server, s->io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(s->server, address, NULL, NULL, t_err()));
    rpc_server_start(s->server);
    T_OK(rpc_channel_new(&s->channel, s->io, address, NULL, NULL, t_err()));
    setup.loop = s->loop;
    setup.channel = s->channel;
    T_OK(attendee_new(&s->attendee, &setup, t_err()));
    attendee_start(s->attendee);
    loop_run(s->loop);
    attendee_stop(s->attendee);
    rpc_channel_free(s->channel);
    attendee_free(s->attendee);
    rpc_stream_unref(s->accepted);
    rpc_server_free(s->server);
    rpc_io_free(s->io);
    loop_free(s->loop);
}

TEST(attendee, who_is_not_welcomed_dials_again)
{
    struct scene s = {.enough = 3};

    play(&s, 100);
    T_GE(atomic_load(&s.streams), 3);
    T_LE(atomic_load(&s.messages), atomic_load(&s.streams)); // a Hello each
}

// Its heartbeats go on for longer than a Welcome was waited for. One that came
// too late (this process was starved) tells nothing.
TEST(attendee, who_was_welcomed_stays)
{
    struct scene s = {.welcomed = 0};

    while (s.welcomed == 0) {
        s = (struct scene){.welcomes = true, .enough = 80};
        play(&s, 3000);
    }
    T_EQ(atomic_load(&s.streams), 1);
}

// The coordinator's Welcome may cross the close: it comes too late.
TEST(attendee, who_closes_before_the_welcome_is_not_welcomed)
{
    struct scene s = {.closes = true};

    play(&s, 60000);
    T_EQ(s.welcomed, 0);
    T_EQ(s.lost, 0);
    T_EQ(atomic_load(&s.streams), 1);
}

// A heartbeat or a report that comes after the close is for another stream, and
// drops nothing of what was queued.
TEST(attendee, what_was_said_before_the_close_arrives)
{
    struct scene s = {.welcomes = true, .closes = true};

    play(&s, 60000);
    T_EQ(s.welcomed, 1);
    T_EQ(s.lost, 1);
    T_EQ(atomic_load(&s.messages), 1 + SAID_AT_THE_END);
}
