// SPDX-License-Identifier: Apache-2.0
// What the tests of calls over a socket of this host share: a server, a channel
// of other I/O threads, and a way to tell by which of them a call came. Such a
// channel's own address is one where nobody listens, unless it says otherwise:
// then only the socket can have brought an answer.
//
// Threads, Errors  those of rpc_kit.h; methods run on I/O threads.
#ifndef TESTS_UNIT_COMMON_RPC_NEAR_KIT_H
#define TESTS_UNIT_COMMON_RPC_NEAR_KIT_H

#include "common/net/local/rpc_sock.h"
#include "tests/unit/common/rpc_kit.h"

#define HELD_MAX 1024
#define KIT __attribute__((unused)) static

static const struct rpc_call_options near_options = {
    .deadline_ms = DEADLINE_MS, .max_reply_bytes = 64u << 20, .small = true};

// ---- the server

struct service {
    sem_t entered; // a call is held
    pthread_mutex_t lock;
    struct rpc_call *held[HELD_MAX];
    unsigned held_count, near_count; // of them, those over a socket
    bool lets_go;
};

// Returns true on the thread that reads sockets of this host.
static bool on_near_thread(void)
{
    char name[16] = "";

    pthread_getname_np(pthread_self(), name, sizeof(name));
    return strcmp(name, "io-near") == 0;
}

// Answers with one byte: 1 if the call came over a socket, else 0.
static void kit_way(struct rpc_call *call, void *arg)
{
    struct rpc_msg msg;

    (void)arg;
    rpc_msg_init(&msg);
    *rpc_msg_head(&msg, 1) = on_near_thread();
    rpc_answer(call, SL_OK, NULL, &msg);
}

// Fails a call with the code that its request's first byte says, and the text
// behind it; without one the error has no text of its own.
static void kit_fail(struct rpc_call *call, void *arg)
{
    char said[1 + SL_ERROR_TEXT] = {0};
    struct sl_error err;
    struct rpc_msg dropped;

    (void)arg;
    slices_copy(said, rpc_call_body(call));
    sl_fail(&err, (enum sl_err)said[0], "%s", said + 1);
    rpc_msg_init(&dropped);
    memset(rpc_msg_head(&dropped, 100), 1, 100);
    rpc_answer(call, (enum sl_err)said[0], said[1] ? &err : NULL, &dropped);
}

struct wanted {
    uint64_t bytes, key;
};

// Writes wanted->bytes bytes that wanted->key alone decides.
static void fill(uint8_t *to, const struct wanted *wanted)
{
    uint64_t x = wanted->key * 0x9e3779b97f4a7c15u + 1;

    for (size_t i = 0; i < wanted->bytes; i += sizeof(x)) {
        size_t left = wanted->bytes - i;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(to + i, &x, left < sizeof(x) ? left : sizeof(x));
    }
}

// Answers a call, whose request is a struct wanted, with those bytes, in three
// pieces, as far as they reach.
static void answer_wanted(struct rpc_call *call)
{
    struct wanted wanted;
    struct rpc_msg msg;
    uint8_t *bytes;
    size_t head;

    slices_copy(&wanted, rpc_call_body(call));
    bytes = sl_malloc(wanted.bytes + 1);
    T_ASSERT(bytes != NULL);
    fill(bytes, &wanted);
    head = wanted.bytes < 333 ? wanted.bytes : 333;
    rpc_msg_init(&msg);
    memcpy(rpc_msg_head(&msg, head), bytes, head);
    rpc_msg_part(&msg, bytes + head, (wanted.bytes - head) / 3);
    rpc_msg_part(&msg, bytes + head + msg.part[0].len,
                 wanted.bytes - head - msg.part[0].len);
    rpc_msg_on_release(&msg, sl_free, bytes);
    rpc_answer(call, SL_OK, NULL, &msg);
}

// Answers with what is wanted: a method.
static void kit_large(struct rpc_call *call, void *arg)
{
    (void)arg;
    answer_wanted(call);
}

// Holds a call, of which there may be HELD_MAX, or answers it at once after
// let_go; posts `entered` then. `arg` is the struct service.
static void kit_hold(struct rpc_call *call, void *arg)
{
    struct service *s = arg;
    bool now;

    T_ASSERT(rpc_call_left_ms(call) <= DEADLINE_MS + DEADLINE_MS / 50);
    pthread_mutex_lock(&s->lock);
    now = s->lets_go;
    if (!now) {
        T_ASSERT(s->held_count < HELD_MAX);
        s->held[s->held_count++] = call;
        s->near_count += on_near_thread();
    }
    pthread_mutex_unlock(&s->lock);
    if (now)
        rpc_answer(call, SL_OK, NULL, NULL);
    sem_post(&s->entered);
}

// Takes the call that was held last, to be answered by the test; NULL: none is
// held.
KIT struct rpc_call *take_held(struct service *s)
{
    struct rpc_call *call = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->held_count > 0)
        call = s->held[--s->held_count];
    pthread_mutex_unlock(&s->lock);
    return call;
}

// Answers all calls that are held, and later ones as they come, until
// hold_again.
KIT void let_go(struct service *s)
{
    struct rpc_call *call;

    pthread_mutex_lock(&s->lock);
    s->lets_go = true;
    pthread_mutex_unlock(&s->lock);
    while ((call = take_held(s)) != NULL)
        rpc_answer(call, SL_OK, NULL, NULL);
}

// Has later calls be held again.
KIT void hold_again(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    s->lets_go = false;
    pthread_mutex_unlock(&s->lock);
}

// Ends a stream at once, with SL_OK.
static void kit_stream(struct rpc_stream *stream, void *arg)
{
    (void)arg;
    rpc_stream_finish(stream, SL_OK, NULL);
}

static const struct rpc_method near_methods[] = {
    {"/t.T/Echo", RPC_UNARY, RPC_DATA_BYTES, kit_echo, NULL, false},
    {"/t.T/Way", RPC_UNARY, 0, kit_way, NULL, false},
    {"/t.T/Fail", RPC_UNARY, 0, kit_fail, NULL, false},
    {"/t.T/Large", RPC_UNARY, 0, kit_large, NULL, false},
    {"/t.T/Hold", RPC_UNARY, 0, kit_hold, NULL, false},
    {"/t.T/Little", RPC_UNARY, 1000, kit_way, NULL, false},
    {"/t.T/Stream", RPC_BIDI, 0, NULL, kit_stream, false},
};

// ---- both ends

struct near {
    struct service s;
    struct world w; // the server's
    struct rpc_io *io;
    struct rpc_channel *channel;
};

// Makes two sockets that are connected with each other, the test's to close.
KIT void pair(int fd[2])
{
    T_ASSERT(rpc_socket_pair(fd, NULL) == SL_OK);
}

// Gives both ends a new socket between them; an earlier one has ended.
KIT void near_join(struct near *n)
{
    int fd[2];

    pair(fd);
    T_OK(rpc_server_adopt(n->w.server, fd[0], t_err()));
    T_OK(rpc_channel_adopt(n->channel, fd[1], t_err()));
    T_TRUE(rpc_channel_adopted(n->channel));
}

// Opens both ends, without a socket yet; `reachable`: the channel may also dial
// the server. For near_close.
KIT void near_open(struct near *n, bool reachable)
{
    char nobody[256];

    memset(n, 0, sizeof(*n));
    sem_init(&n->s.entered, 0, 0);
    pthread_mutex_init(&n->s.lock, NULL);
    world_open(&n->w, near_methods, SL_COUNT(near_methods), &n->s, true);
    snprintf(nobody, sizeof(nobody), "unix:%s", t_path("nobody"));
    T_OK(rpc_io_new(&n->io, NULL, t_err()));
    T_OK(rpc_channel_new(&n->channel, n->io, reachable ? n->w.address : nobody,
                         NULL, NULL, t_err()));
}

// Frees both ends; calls that are held are answered.
KIT void near_close(struct near *n)
{
    rpc_channel_free(n->channel);
    let_go(&n->s);
    world_close(&n->w);
    rpc_io_free(n->io);
}

// ---- calls

struct got {
    struct outcome o;
    uint8_t *bytes; // of the reply; got_release frees them
    sem_t given_back;
    atomic_int releases;
};

// Notes how a call ended in `arg`, a struct got, with a copy of the reply.
static void on_got(void *arg, enum sl_err code, const struct sl_error *err,
                   const struct sl_slices *reply)
{
    struct got *g = arg;

    if (reply != NULL) {
        g->bytes = sl_malloc(reply->bytes + 1);
        slices_copy(g->bytes, reply);
    }
    on_outcome(&g->o, code, err, reply);
}

// Notes that a message was given back to `user`, a struct got.
static void on_given_back(void *user)
{
    struct got *g = user;

    atomic_fetch_add(&g->releases, 1);
    sem_post(&g->given_back);
}

// Sets *g up for one call, for got_release.
KIT void got_init(struct got *g)
{
    memset(g, 0, sizeof(*g));
    outcome_init(&g->o);
    sem_init(&g->given_back, 0, 0);
}

// Frees what *g has, when its call has ended and its message was given back.
KIT void got_release(struct got *g)
{
    sl_free(g->bytes);
    g->bytes = NULL;
    sem_destroy(&g->o.done);
    sem_destroy(&g->given_back);
}

// Sets *g up (got_init) and starts a call whose request is one part, borrowed
// until g->given_back is posted. `ticket` may be NULL.
KIT void start(struct rpc_channel *ch, const char *method, const void *bytes,
               size_t size, const struct rpc_call_options *options,
               struct got *g, struct rpc_ticket *ticket)
{
    struct rpc_msg msg;

    got_init(g);
    rpc_msg_init(&msg);
    rpc_msg_part(&msg, bytes, size);
    rpc_msg_on_release(&msg, on_given_back, g);
    rpc_call_start(ch, method, &msg, options, on_got, g, ticket);
}

// Waits for a call's end and for its message to be given back, and returns how
// it ended; fails unless both happened once. On any thread.
KIT enum sl_err await(struct got *g)
{
    wait_for(&g->o.done);
    wait_for(&g->given_back);
    T_ASSERT(atomic_load(&g->o.times) == 1);
    T_ASSERT(atomic_load(&g->releases) == 1);
    return g->o.code;
}

// Waits as await does, releases *g, and returns how the call ended.
KIT enum sl_err ended(struct got *g)
{
    enum sl_err code = await(g);

    got_release(g);
    return code;
}

// Makes a call and waits for it; *g is for got_release in any case.
KIT enum sl_err ask(struct rpc_channel *ch, const char *method,
                    const void *bytes, size_t size, struct got *g)
{
    start(ch, method, bytes, size, &near_options, g, NULL);
    return await(g);
}

// Returns true if a call on the channel goes over the socket.
KIT bool goes_near(struct rpc_channel *ch)
{
    struct got g;
    bool near;

    T_OK(ask(ch, "/t.T/Way", "", 0, &g));
    T_EQ(g.o.bytes, 1);
    near = g.bytes[0];
    got_release(&g);
    return near;
}

// Starts a call that the server holds, as start does.
KIT void start_held(struct near *n, int64_t deadline_ms, struct got *g,
                    struct rpc_ticket *ticket)
{
    struct rpc_call_options options = near_options;

    options.deadline_ms = deadline_ms;
    start(n->channel, "/t.T/Hold", "", 0, &options, g, ticket);
}

// ---- an end that the test plays, packet by packet

#define ALL SIZE_MAX
#define ROOM (RPC_SOCK_PACKET + 1000)

// Sends one packet: the head and `bytes` more, at most ROOM, or only the first
// `cut` bytes of all that (ALL: all). `more` may be NULL if `bytes` is 0.
KIT void say(int fd, const struct rpc_sock_head *head, const void *more,
             size_t bytes, size_t cut)
{
    static uint8_t packet[sizeof(*head) + ROOM];
    size_t n = sizeof(*head) + bytes;

    T_ASSERT(bytes <= ROOM);
    memcpy(packet, head, sizeof(*head));
    if (bytes > 0)
        memcpy(packet + sizeof(*head), more, bytes);
    n = cut < n ? cut : n;
    T_ASSERT(send(fd, packet, n, MSG_NOSIGNAL) == (ssize_t)n);
}

// Waits for a packet and takes it apart: its head, and *bytes behind it in
// `more`, which has room for RPC_SOCK_PACKET. Returns false, with a head of
// zeroes and no bytes, if the other end has closed the socket.
KIT bool hear(int fd, struct rpc_sock_head *head, uint8_t *more, size_t *bytes)
{
    static uint8_t packet[RPC_SOCK_PACKET];
    struct pollfd p = {fd, POLLIN, 0};
    ssize_t n;

    memset(head, 0, sizeof(*head));
    *bytes = 0;
    T_ASSERT(poll(&p, 1, PATIENCE_S * 1000) == 1);
    n = recv(fd, packet, sizeof(packet), 0);
    if (n <= 0)
        return false;
    T_ASSERT((size_t)n >= sizeof(*head));
    memcpy(head, packet, sizeof(*head));
    *bytes = (size_t)n - sizeof(*head);
    memcpy(more, packet + sizeof(*head), *bytes);
    return true;
}

// Checks that the other end closes the socket, and says nothing before.
KIT void check_closed(int fd)
{
    static uint8_t more[RPC_SOCK_PACKET];
    struct rpc_sock_head head;
    size_t bytes;

    T_FALSE(hear(fd, &head, more, &bytes));
}

// Writes ROOM bytes: the method "/t.T/Echo", then x's.
KIT void fill_x(uint8_t *more)
{
    memset(more, 'x', ROOM);
    memcpy(more, "/t.T/Echo", 9);
}

struct bad {
    const char *what;
    struct rpc_sock_head head;
    size_t bytes; // behind it
    size_t cut;   // so much of all that; 0: all
};

#define ASKS(said, total, at)                                                  \
    {                                                                          \
        RPC_SOCK_ASKS, (said), 1, (total), (at), 1000                          \
    }

// Draws one of `count` numbers or, one time in four, any.
KIT uint64_t one_of(const uint64_t *of, size_t count)
{
    return t_below(4) == 0 ? t_rand() : of[t_below(count)];
}

// Draws a head of a packet for a body of `body` bytes, mostly right, so that it
// comes far.
KIT struct rpc_sock_head some_head(uint32_t magic, uint64_t said, size_t body)
{
    const uint64_t sizes[] = {body, body, body, body, body + 1, 0, 100, 100};
    const uint64_t places[] = {0, 0, 0, 0, 0, body, 50, 100};

    return (struct rpc_sock_head){
        .magic = t_below(20) ? magic : (uint32_t)t_rand(),
        .said = (uint32_t)said,
        .id = t_below(4),
        .total = one_of(sizes, SL_COUNT(sizes)),
        .at = one_of(places, SL_COUNT(places)),
        .deadline_ms = (int64_t)t_rand(),
    };
}

#endif
