// SPDX-License-Identifier: Apache-2.0
// Unary calls from end to end.
#include "tests/unit/common/rpc_kit.h"

static const struct rpc_call_options plain = {.deadline_ms = DEADLINE_MS,
                                              .max_reply_bytes = 64u << 20};

// ---- the server of these tests

struct service {
    sem_t entered;
    pthread_mutex_t lock;
    struct rpc_call *held; // by "hold", for the test to answer
    bool lets_go;          // "hold" answers at once
    int64_t left_ms;
};

// The first byte of the request is the code to fail with.
static void fail(struct rpc_call *call, void *arg)
{
    struct sl_error err;
    uint8_t code;

    (void)arg;
    slices_copy(&code, rpc_call_body(call));
    sl_fail(&err, code, "as asked: %d", code);
    rpc_answer(call, code, &err, NULL);
}

static void hold(struct rpc_call *call, void *arg)
{
    struct service *s = arg;
    bool now;

    pthread_mutex_lock(&s->lock);
    s->left_ms = rpc_call_left_ms(call);
    now = s->lets_go;
    if (!now)
        s->held = call;
    pthread_mutex_unlock(&s->lock);
    if (now)
        rpc_answer(call, SL_OK, NULL, NULL);
    sem_post(&s->entered);
}

// Under the lock, since a thread sanitizer does not see that the next call
// comes after it.
static struct rpc_call *held(struct service *s)
{
    struct rpc_call *call;

    pthread_mutex_lock(&s->lock);
    call = s->held;
    pthread_mutex_unlock(&s->lock);
    return call;
}

// Answers what is held, and whatever is still on its way.
static void let_go(struct service *s)
{
    struct rpc_call *held;

    pthread_mutex_lock(&s->lock);
    held = s->held;
    s->held = NULL;
    s->lets_go = true;
    pthread_mutex_unlock(&s->lock);
    if (held != NULL)
        rpc_answer(held, SL_EINVAL, NULL, NULL);
}

static void scratch(struct rpc_call *call, void *arg)
{
    static const uint8_t zeroes[5000];
    size_t sizes[] = {1, 100, 200, 5000, 16};

    (void)arg;
    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        uint8_t *p = rpc_call_scratch(call, sizes[i]);

        T_ASSERT(p != NULL && (uintptr_t)p % 16 == 0);
        T_ASSERT(memcmp(p, zeroes, sizes[i]) == 0);
        memset(p, 0xff, sizes[i]);
    }
    for (size_t less = 0; less < 64; less++)
        T_ASSERT(rpc_call_scratch(call, SIZE_MAX - less) == NULL);
    rpc_answer(call, SL_OK, NULL, NULL);
}

static const struct rpc_method methods[] = {
    {"/t.T/Echo", RPC_UNARY, RPC_DATA_BYTES, kit_echo, NULL, true},
    {"/t.T/Fail", RPC_UNARY, 0, fail, NULL, false},
    {"/t.T/Hold", RPC_UNARY, 0, hold, NULL, false},
    {"/t.T/Scratch", RPC_UNARY, 1000, scratch, NULL, false},
};

static void open_service(struct world *w, struct service *s, bool unix_socket)
{
    memset(s, 0, sizeof(*s));
    sem_init(&s->entered, 0, 0);
    pthread_mutex_init(&s->lock, NULL);
    world_open(w, methods, SL_COUNT(methods), s, unix_socket);
}

// ---- calls that succeed

static void on_release(void *user)
{
    struct outcome *o = user;

    atomic_fetch_add(&o->times, 1);
    sem_post(&o->done);
}

static void check_echo(struct world *w, size_t head, size_t payload)
{
    uint8_t *data = sl_malloc(payload), *back = sl_malloc(head + payload);
    struct rpc_body *reply = NULL;
    struct rpc_msg msg;
    struct outcome released;
    uint8_t *at;

    for (size_t i = 0; i < payload; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    rpc_msg_init(&msg);
    at = rpc_msg_head(&msg, head);
    memset(at, 0x5a, head);
    rpc_msg_part(&msg, data, payload / 3); // in two parts
    rpc_msg_part(&msg, data + payload / 3, payload - payload / 3);
    outcome_init(&released);
    rpc_msg_on_release(&msg, on_release, &released);
    T_OK(rpc_call_sync(w->channel, "/t.T/Echo", &msg, &plain, &reply, t_err()));

    T_EQ(rpc_body_slices(reply)->bytes, head + payload);
    slices_copy(back, rpc_body_slices(reply));
    for (size_t i = 0; i < head; i++)
        T_EQ(back[i], 0x5a);
    T_MEM(back + head, data, payload);
    rpc_body_free(reply);
    wait_for(&released.done);
    T_EQ(atomic_load(&released.times), 1);
    sl_free(data);
    sl_free(back);
}

static void check_sizes(bool unix_socket)
{
    static const size_t sizes[] = {0,     1,       23,      24,      1000,
                                   16384, 1 << 20, 4000001, 32 << 20};
    struct service s;
    struct world w;

    open_service(&w, &s, unix_socket);
    for (size_t i = 0; i < SL_COUNT(sizes); i++)
        check_echo(&w, i * 3, sizes[i]);
    check_echo(&w, 5000, 100); // a head beyond the room in the message
    world_close(&w);
}

TEST(rpc, echo_of_all_sizes_over_tcp)
{
    check_sizes(false);
}

TEST(rpc, echo_of_all_sizes_over_a_unix_socket)
{
    check_sizes(true);
}

TEST(rpc, many_calls_in_flight_each_end_once)
{
    enum { CALLS = 2000 };
    struct outcome *o = sl_calloc(CALLS, sizeof(*o));
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    for (int i = 0; i < CALLS; i++) {
        struct rpc_msg msg;

        outcome_init(&o[i]);
        rpc_msg_init(&msg);
        memset(rpc_msg_head(&msg, (size_t)i % 300), i, (size_t)i % 300);
        rpc_call_start(w.channel, "/t.T/Echo", &msg, &plain, on_outcome, &o[i],
                       NULL);
    }
    for (int i = 0; i < CALLS; i++)
        wait_for(&o[i].done);
    world_close(&w);
    for (int i = 0; i < CALLS; i++) {
        T_OK(o[i].code);
        T_EQ(o[i].bytes, i % 300);
        T_EQ(atomic_load(&o[i].times), 1);
    }
    sl_free(o);
}

TEST(rpc, scratch_memory_is_zeroed_on_every_call)
{
    struct rpc_body *reply;
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    for (int i = 0; i < 100; i++) {
        T_OK(rpc_call_sync(w.channel, "/t.T/Scratch", NULL, &plain, &reply,
                           t_err()));
        T_EQ(rpc_body_slices(reply)->bytes, 0);
        rpc_body_free(reply);
    }
    world_close(&w);
}

TEST(rpc, an_answer_may_come_later_from_another_thread)
{
    struct outcome o;
    struct service s;
    struct world w;

    open_service(&w, &s, false);
    outcome_init(&o);
    rpc_call_start(w.channel, "/t.T/Hold", NULL, &plain, on_outcome, &o, NULL);
    wait_for(&s.entered);
    T_EQ(rpc_server_open_calls(w.server), 1);
    T_LE(s.left_ms, DEADLINE_MS + DEADLINE_MS / 50);
    T_GT(s.left_ms, 0);
    T_EQ(atomic_load(&o.times), 0);
    rpc_answer(held(&s), SL_OK, NULL, NULL);
    wait_for(&o.done);
    T_OK(o.code);
    world_close(&w);
}

// ---- calls that fail

static enum sl_err call(struct world *w, const char *method, const void *bytes,
                        size_t size, struct sl_error *err)
{
    struct rpc_body *reply = NULL;
    struct rpc_msg msg;
    enum sl_err rc;

    rpc_msg_init(&msg);
    memcpy(rpc_msg_head(&msg, size), bytes, size);
    rc = rpc_call_sync(w->channel, method, &msg, &plain, &reply, err);
    if (rc == SL_OK)
        rpc_body_free(reply);
    return rc;
}

TEST(rpc, every_code_comes_back_as_it_was_said)
{
    struct service s;
    struct world w;
    char want[40];

    open_service(&w, &s, true);
    for (uint8_t code = 1; code < SL_ERR_COUNT; code++) {
        struct sl_error err = SL_ERROR_INIT;

        T_FAILS(code, call(&w, "/t.T/Fail", &code, 1, &err));
        snprintf(want, sizeof(want), "as asked: %d", code);
        T_STR(err.text, want);
        T_EQ(err.code, code);
    }
    world_close(&w);
}

TEST(rpc, an_unknown_method_is_answered)
{
    struct sl_error err = SL_ERROR_INIT;
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    for (int i = 0; i < 20; i++)
        T_FAILS(SL_ENOTSUP, call(&w, "/t.T/NoSuch", "", 0, &err));
    T_HAS(err.text, "/t.T/NoSuch");
    world_close(&w);
}

TEST(rpc, a_channel_knows_more_methods_than_it_remembers)
{
    struct sl_error err = SL_ERROR_INIT;
    struct service s;
    struct world w;
    char name[40];

    open_service(&w, &s, true);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "/t.T/NoSuch%d", i);
        T_FAILS(SL_ENOTSUP, call(&w, name, "", 0, &err));
        T_HAS(err.text, name);
    }
    T_OK(call(&w, "/t.T/Echo", "x", 1, t_err()));
    world_close(&w);
}

TEST(rpc, sizes_over_a_limit_are_refused_on_either_side)
{
    struct rpc_call_options little = {.deadline_ms = DEADLINE_MS,
                                      .max_reply_bytes = 10};
    static const uint8_t bytes[1001];
    static uint8_t large[RPC_DATA_BYTES + 1];
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_body *reply = NULL;
    struct rpc_msg msg;
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    T_OK(call(&w, "/t.T/Scratch", bytes, 1000, t_err()));
    T_FAILS(SL_ERANGE, call(&w, "/t.T/Scratch", bytes, 1001, &err));
    T_HAS(err.text, "/t.T/Scratch: a request of 1001 bytes");
    // Over the limit of all methods it is the transport that refuses.
    T_FAILS(SL_ERANGE, call(&w, "/t.T/Echo", large, sizeof(large), &err));

    rpc_msg_init(&msg);
    memset(rpc_msg_head(&msg, 11), 0, 11);
    T_FAILS(SL_ERANGE,
            rpc_call_sync(w.channel, "/t.T/Echo", &msg, &little, &reply, &err));
    T_HAS(err.text, "reply of 11 bytes");
    world_close(&w);
}

// ---- calls that are cut short: the payload is released once, whatever ends

struct cut {
    struct service s;
    struct world w;
    struct outcome o;
    atomic_int released;
    uint8_t *payload;
};

static void cut_start(struct cut *c, struct rpc_channel *channel,
                      const char *method, int64_t deadline_ms,
                      struct rpc_ticket *ticket)
{
    struct rpc_call_options options = {.deadline_ms = deadline_ms};
    struct rpc_msg msg;

    outcome_init(&c->o);
    atomic_init(&c->released, 0);
    c->payload = sl_calloc(1, 1 << 20);
    rpc_msg_init(&msg);
    for (int i = 0; i < RPC_MSG_PARTS; i++)
        rpc_msg_part(&msg, c->payload + i * 1000, 1000);
    rpc_msg_on_release(&msg, count_release, &c->released);
    rpc_call_start(channel, method, &msg, &options, on_outcome, &c->o, ticket);
}

static void cut_close(struct cut *c)
{
    world_close(&c->w);
    T_EQ(atomic_load(&c->o.times), 1);
    T_EQ(atomic_load(&c->released), 1);
    sl_free(c->payload);
}

TEST(rpc, a_cancelled_call_ends_once)
{
    struct rpc_ticket ticket;
    struct cut c;

    open_service(&c.w, &c.s, false);
    cut_start(&c, c.w.channel, "/t.T/Hold", DEADLINE_MS, &ticket);
    wait_for(&c.s.entered);
    rpc_cancel(c.w.channel, ticket);
    wait_for(&c.o.done);
    T_FAILS(SL_ECANCELED, c.o.code);
    rpc_cancel(c.w.channel, ticket); // a ticket of the past does nothing
    rpc_answer(held(&c.s), SL_OK, NULL, NULL);
    cut_close(&c);
}

TEST(rpc, a_deadline_ends_a_call)
{
    struct cut c;

    open_service(&c.w, &c.s, false);
    cut_start(&c, c.w.channel, "/t.T/Hold", 50, NULL);
    wait_for(&c.o.done);
    T_FAILS(SL_ETIMEDOUT, c.o.code);
    let_go(&c.s); // it may not even have arrived
    cut_close(&c);
}

TEST(rpc, a_deadline_in_the_past_ends_at_once)
{
    struct cut c;

    open_service(&c.w, &c.s, false);
    cut_start(&c, c.w.channel, "/t.T/Echo", 0, NULL);
    wait_for(&c.o.done);
    T_FAILS(SL_ETIMEDOUT, c.o.code);
    cut_close(&c);
}

TEST(rpc, nobody_there)
{
    // Not one that was free a moment ago: it may be another test's by now.
    static const char address[] = "127.0.0.1:1";
    struct rpc_channel *channel;
    struct cut c;

    open_service(&c.w, &c.s, false);
    T_OK(rpc_channel_new(&channel, c.w.io, address, NULL, NULL, t_err()));
    cut_start(&c, channel, "/t.T/Echo", DEADLINE_MS, NULL);
    wait_for(&c.o.done);
    T_FAILS(SL_EUNAVAIL, c.o.code);
    T_HAS(c.o.err.text, address);
    rpc_channel_free(channel);
    cut_close(&c);
}

static unsigned port_of(const struct world *w)
{
    return (unsigned)atoi(strrchr(w->address, ':') + 1);
}

TEST(rpc, a_peer_that_dies_ends_the_call)
{
    struct rpc_channel *channel;
    struct wire wire;
    struct cut c;
    char address[40];

    open_service(&c.w, &c.s, false);
    wire_open(&wire, port_of(&c.w));
    snprintf(address, sizeof(address), "127.0.0.1:%u", wire.port);
    T_OK(rpc_channel_new(&channel, c.w.io, address, NULL, NULL, t_err()));
    cut_start(&c, channel, "/t.T/Hold", DEADLINE_MS, NULL);
    wait_for(&c.s.entered);
    wire_cut(&wire);
    wait_for(&c.o.done);
    T_FAILS(SL_EUNAVAIL, c.o.code);
    rpc_answer(held(&c.s), SL_OK, NULL, NULL); // goes nowhere
    rpc_channel_free(channel);
    cut_close(&c);
}

// Before it does, it answers: the thread that passes its bytes on may be
// starved.
TEST(rpc, a_peer_that_only_falls_silent_is_noticed)
{
    struct rpc_channel_options options = {.keepalive_ms = 500,
                                          .keepalive_timeout_ms = 4000};
    struct rpc_channel *channel;
    struct wire wire;
    struct cut c;
    char address[40];

    open_service(&c.w, &c.s, false);
    wire_open(&wire, port_of(&c.w));
    snprintf(address, sizeof(address), "127.0.0.1:%u", wire.port);
    T_OK(rpc_channel_new(&channel, c.w.io, address, NULL, &options, t_err()));
    cut_start(&c, channel, "/t.T/Hold", DEADLINE_MS, NULL);
    wait_for(&c.s.entered);
    atomic_store(&wire.frozen, true);
    wait_for(&c.o.done);
    T_FAILS(SL_EUNAVAIL, c.o.code);
    wire_cut(&wire);
    rpc_answer(held(&c.s), SL_OK, NULL, NULL);
    rpc_channel_free(channel);
    cut_close(&c);
}

TEST(rpc, a_call_waits_for_its_server_if_told_to)
{
    struct rpc_call_options patient = {.deadline_ms = DEADLINE_MS,
                                       .wait_for_ready = true};
    struct rpc_table table = {methods, SL_COUNT(methods), NULL};
    struct rpc_channel *channel;
    struct rpc_server *server;
    struct rpc_io *io;
    struct outcome o;
    char address[300];

    snprintf(address, sizeof(address), "unix:%s", t_path("late"));
    T_OK(rpc_io_new(&io, NULL, t_err()));
    T_OK(rpc_channel_new(&channel, io, address, NULL, NULL, t_err()));
    outcome_init(&o);
    rpc_call_start(channel, "/t.T/Echo", NULL, &patient, on_outcome, &o, NULL);
    T_OK(rpc_server_new(&server, io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(server, address, NULL, NULL, t_err()));
    rpc_server_start(server);
    rpc_channel_hurry(channel);
    wait_for(&o.done);
    T_OK(o.code);
    rpc_channel_free(channel);
    rpc_server_free(server);
    rpc_io_free(io);
}

// ---- servers that end

TEST(rpc, a_draining_server_refuses_new_calls_and_finishes_old_ones)
{
    struct outcome o;
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    outcome_init(&o);
    rpc_call_start(w.channel, "/t.T/Hold", NULL, &plain, on_outcome, &o, NULL);
    wait_for(&s.entered);
    rpc_server_drain(w.server);
    T_FAILS(SL_EUNAVAIL, call(&w, "/t.T/Echo", "", 0, t_err()));
    rpc_answer(held(&s), SL_OK, NULL, NULL);
    wait_for(&o.done);
    T_OK(o.code);
    world_close(&w);
}

TEST(rpc, a_stopped_server_cancels_and_free_waits_for_the_answer)
{
    struct outcome o;
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    outcome_init(&o);
    rpc_call_start(w.channel, "/t.T/Hold", NULL, &plain, on_outcome, &o, NULL);
    wait_for(&s.entered);
    rpc_server_stop(w.server);
    wait_for(&o.done);
    T_NE(o.code, SL_OK);
    T_EQ(rpc_server_open_calls(w.server), 1);
    rpc_answer(held(&s), SL_OK, NULL, NULL);
    world_close(&w);
}

TEST(rpc, a_channel_that_is_freed_ends_its_calls)
{
    struct outcome o[8];
    struct service s;
    struct world w;

    open_service(&w, &s, true);
    for (size_t i = 0; i < SL_COUNT(o); i++) {
        outcome_init(&o[i]);
        rpc_call_start(w.channel, "/t.T/Hold", NULL, &plain, on_outcome, &o[i],
                       NULL);
        wait_for(&s.entered);
        rpc_channel_free(w.channel);
        T_EQ(atomic_load(&o[i].times), 1); // without waiting
        T_FAILS(SL_ECANCELED, o[i].code);
        rpc_answer(held(&s), SL_OK, NULL, NULL);
        T_OK(rpc_channel_new(&w.channel, w.io, w.address, NULL, NULL, t_err()));
    }
    world_close(&w);
}

TEST(rpc, a_server_that_never_started_goes_away)
{
    struct rpc_table table = {methods, SL_COUNT(methods), NULL};
    struct rpc_server *server;
    struct rpc_io *io;

    T_OK(rpc_io_new(&io, NULL, t_err()));
    T_OK(rpc_server_new(&server, io, &table, 1, NULL, t_err()));
    rpc_server_free(server);
    T_OK(rpc_server_new(&server, io, &table, 1, NULL, t_err()));
    T_OK(rpc_server_bind(server, "127.0.0.1:0", NULL, NULL, t_err()));
    rpc_server_free(server);
    rpc_io_free(io);
}

TEST(rpc, a_method_may_be_there_once)
{
    struct rpc_table tables[] = {{methods, SL_COUNT(methods), NULL},
                                 {methods, 1, NULL}};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_server *server = NULL;
    struct rpc_io *io;

    T_OK(rpc_io_new(&io, NULL, t_err()));
    T_FAILS(SL_EINVAL, rpc_server_new(&server, io, tables, 2, NULL, &err));
    T_HAS(err.text, "/t.T/Echo");
    T_TRUE(server == NULL);
    rpc_io_free(io);
}

// ---- errands

struct errands {
    pthread_t first;
    atomic_uint pauses, done;
    sem_t all;
};

static void errand(void *arg)
{
    struct errands *e = arg;
    unsigned before = atomic_fetch_add(&e->done, 1);

    if (before == 0)
        e->first = pthread_self();
    T_ASSERT(pthread_equal(e->first, pthread_self()));
    if (before == 99)
        sem_post(&e->all);
}

static void on_pause(void *arg)
{
    atomic_fetch_add(&((struct errands *)arg)->pauses, 1);
}

TEST(rpc, an_io_thread_is_called_and_pauses_after_each)
{
    struct errands e = {.pauses = 0};
    struct rpc_io *io;

    sem_init(&e.all, 0, 0);
    T_OK(rpc_io_new(&io,
                    &(struct rpc_io_options){
                        .threads = 2, .pause = on_pause, .pause_arg = &e},
                    t_err()));
    for (int i = 0; i < 100; i++)
        rpc_io_call(io, errand, &e);
    wait_for(&e.all);
    rpc_io_free(io);
    T_EQ(e.done, 100);
    T_EQ(e.pauses, 100);
    sem_destroy(&e.all);
}
