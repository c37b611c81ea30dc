// SPDX-License-Identifier: Apache-2.0
// Unary calls over a socket of this host, between two honest ends.
#include "tests/unit/common/rpc_near_kit.h"

#include <sched.h>

// ---- one call

TEST(rpc_near, a_call_and_its_answer_go_over_the_socket)
{
    struct near n;
    struct got g;

    near_open(&n, false);
    T_FAILS(SL_EUNAVAIL, ask(n.channel, "/t.T/Echo", "hello", 5, &g));
    T_FALSE(rpc_channel_adopted(n.channel));
    near_join(&n);
    T_OK(ask(n.channel, "/t.T/Echo", "hello", 5, &g));
    T_EQ(g.o.bytes, 5);
    T_MEM(g.bytes, "hello", 5);
    got_release(&g);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near, both_ends_may_be_of_the_same_threads)
{
    struct near n;
    int fd[2];

    near_open(&n, false);
    pair(fd);
    T_OK(rpc_channel_adopt(n.w.channel, fd[1], t_err()));
    T_OK(rpc_server_adopt(n.w.server, fd[0], t_err()));
    for (int i = 0; i < 100; i++)
        T_TRUE(goes_near(n.w.channel));
    near_close(&n);
}

TEST(rpc_near, only_small_calls_with_a_deadline_take_it)
{
    struct rpc_call_options large = near_options, over = near_options;
    struct near n;
    struct got g;

    near_open(&n, true);
    near_join(&n);
    large.small = false;
    start(n.channel, "/t.T/Way", "", 0, &large, &g, NULL);
    T_OK(await(&g));
    T_EQ(g.bytes[0], false);
    got_release(&g);
    over.deadline_ms = 0;
    start(n.channel, "/t.T/Hold", "", 0, &over, &g, NULL);
    T_FAILS(SL_ETIMEDOUT, await(&g));
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near, codes_and_texts_come_back_as_they_were_said)
{
    char said[SL_ERROR_TEXT], text[SL_ERROR_TEXT];
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    memset(text, 'x', sizeof(text)); // as long as one can be
    text[sizeof(text) - 1] = '\0';
    for (int code = 1; code < SL_ERR_COUNT; code++) {
        said[0] = (char)code;
        T_FAILS(code, ask(n.channel, "/t.T/Fail", said, 1, &g));
        T_STR(g.o.err.text, sl_err_text((enum sl_err)code));
        T_EQ(g.o.err.code, code);
        snprintf(said + 1, sizeof(said) - 1, "as asked: %d", code);
        T_FAILS(code, ask(n.channel, "/t.T/Fail", said, 20, &g));
        T_STR(g.o.err.text, said + 1);
    }
    text[0] = SL_EINVAL;
    T_FAILS(SL_EINVAL, ask(n.channel, "/t.T/Fail", text, sizeof(text), &g));
    T_STR(g.o.err.text, text + 1);
    near_close(&n);
}

static enum sl_err allow_none(const char *path, const struct rpc_peer *peer,
                              struct sl_error *err)
{
    (void)peer;
    return sl_fail(err, SL_EDENIED, "%s is not for this peer", path);
}

// A server with a TCP port names its peers by their addresses; such a call has
// none.
TEST(rpc_near, a_call_that_its_peer_may_not_make_is_refused)
{
    const struct rpc_server_options options = {.allow = allow_none};
    const struct rpc_table table = {near_methods, SL_COUNT(near_methods), NULL};
    char nobody[256];
    struct world w;
    struct got g;
    int fd[2];

    snprintf(nobody, sizeof(nobody), "unix:%s", t_path("nobody"));
    T_OK(rpc_io_new(&w.io, NULL, t_err()));
    T_OK(rpc_server_new(&w.server, w.io, &table, 1, &options, t_err()));
    T_OK(rpc_server_bind(w.server, "127.0.0.1:0", NULL, NULL, t_err()));
    rpc_server_start(w.server);
    T_OK(rpc_channel_new(&w.channel, w.io, nobody, NULL, NULL, t_err()));
    pair(fd);
    T_OK(rpc_server_adopt(w.server, fd[0], t_err()));
    T_OK(rpc_channel_adopt(w.channel, fd[1], t_err()));
    T_FAILS(SL_EDENIED, ask(w.channel, "/t.T/Way", "", 0, &g));
    T_HAS(g.o.err.text, "/t.T/Way is not for this peer");
    got_release(&g);
    world_close(&w);
}

TEST(rpc_near, an_unknown_method_is_answered)
{
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    T_FAILS(SL_ENOTSUP, ask(n.channel, "/t.T/NoSuch", "x", 1, &g));
    T_HAS(g.o.err.text, "/t.T/NoSuch");
    T_FAILS(SL_ENOTSUP, ask(n.channel, "/t.T/Ech", "x", 1, &g));
    T_FAILS(SL_ENOTSUP, ask(n.channel, "/t.T/Echoo", "x", 1, &g));
    T_FAILS(SL_ENOTSUP, ask(n.channel, "", "x", 1, &g));
    T_FAILS(SL_ENOTSUP, ask(n.channel, "/t.T/Stream", "x", 1, &g)); // no call
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near, a_method_with_a_name_too_long_goes_by_core)
{
    char name[RPC_SOCK_PATH_MAX + 2] = "/t.T/";
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    memset(name + 5, 'x', sizeof(name) - 6);
    T_FAILS(SL_EUNAVAIL, ask(n.channel, name, "x", 1, &g));
    T_TRUE(goes_near(n.channel)); // and nothing has happened to the socket
    name[RPC_SOCK_PATH_MAX] = '\0';
    T_FAILS(SL_ENOTSUP, ask(n.channel, name, "x", 1, &g));
    T_HAS(g.o.err.text, name);
    near_close(&n);
}

TEST(rpc_near, empty_messages_are_messages)
{
    struct rpc_msg msg;
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    T_OK(ask(n.channel, "/t.T/Echo", "", 0, &g));
    T_EQ(g.o.bytes, 0);
    got_release(&g);

    got_init(&g);
    rpc_call_start(n.channel, "/t.T/Echo", NULL, &near_options, on_got, &g,
                   NULL);
    wait_for(&g.o.done);
    T_OK(g.o.code);
    T_EQ(g.o.bytes, 0);
    got_release(&g);

    got_init(&g);
    rpc_msg_init(&msg); // without parts
    rpc_msg_on_release(&msg, on_given_back, &g);
    rpc_call_start(n.channel, "/t.T/Echo", &msg, &near_options, on_got, &g,
                   NULL);
    T_OK(ended(&g));
    near_close(&n);
}

// ---- sizes

TEST(rpc_near, a_request_of_one_packet_goes_near_and_one_byte_more_does_not)
{
    struct wanted all = {RPC_SOCK_BODY + 1, 7};
    uint8_t *bytes = sl_malloc(all.bytes);
    struct near n;
    struct got g;

    fill(bytes, &all);
    near_open(&n, true);
    near_join(&n);
    for (size_t more = 0; more < 2; more++) {
        T_OK(ask(n.channel, "/t.T/Way", bytes, RPC_SOCK_BODY + more, &g));
        T_EQ(g.bytes[0], more == 0);
        got_release(&g);
        T_OK(ask(n.channel, "/t.T/Echo", bytes, RPC_SOCK_BODY + more, &g));
        T_EQ(g.o.bytes, RPC_SOCK_BODY + more);
        T_MEM(g.bytes, bytes, g.o.bytes);
        T_TRUE(rpc_channel_adopted(n.channel));
        got_release(&g);
    }
    near_close(&n);
    sl_free(bytes);
}

TEST(rpc_near, a_message_of_many_parts_arrives_in_their_order)
{
    struct wanted all = {60000, 3};
    uint8_t *bytes = sl_malloc(all.bytes);
    struct rpc_msg msg;
    struct near n;
    struct got g;
    size_t at;

    fill(bytes, &all);
    near_open(&n, false);
    near_join(&n);
    for (size_t head = 0; head <= 2000; head += 1000) {
        got_init(&g);
        rpc_msg_init(&msg);
        memcpy(rpc_msg_head(&msg, head), bytes, head);
        at = head;
        for (size_t i = 0; i < RPC_MSG_PARTS; i++) { // some are empty
            rpc_msg_part(&msg, bytes + at, (i % 3) * 1009);
            at += (i % 3) * 1009;
        }
        rpc_msg_on_release(&msg, on_given_back, &g);
        rpc_call_start(n.channel, "/t.T/Echo", &msg, &near_options, on_got, &g,
                       NULL);
        T_OK(await(&g));
        T_EQ(g.o.bytes, at);
        T_MEM(g.bytes, bytes, at);
        got_release(&g);
    }
    near_close(&n);
    sl_free(bytes);
}

TEST(rpc_near, a_request_over_the_limit_of_its_method_is_refused)
{
    uint8_t bytes[1001] = {0};
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    T_OK(ask(n.channel, "/t.T/Little", bytes, 1000, &g));
    got_release(&g);
    T_FAILS(SL_ERANGE, ask(n.channel, "/t.T/Little", bytes, 1001, &g));
    T_HAS(g.o.err.text, "/t.T/Little: a request of 1001 bytes");
    near_close(&n);
}

static void check_large(struct got *g, const struct wanted *wanted)
{
    uint8_t *want = sl_malloc(wanted->bytes + 1);

    fill(want, wanted);
    T_OK(await(g));
    T_EQ(g->o.bytes, wanted->bytes);
    T_MEM(g->bytes, want, wanted->bytes);
    sl_free(want);
    got_release(g);
}

TEST(rpc_near, replies_may_take_many_packets)
{
    static const size_t sizes[] = {1,
                                   RPC_SOCK_BODY - 1,
                                   RPC_SOCK_BODY,
                                   RPC_SOCK_BODY + 1,
                                   2 * RPC_SOCK_BODY,
                                   2 * RPC_SOCK_BODY + 1,
                                   1 << 20,
                                   (5 << 20) + 12345};
    struct wanted wanted = {0};
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        wanted = (struct wanted){sizes[i], i};
        start(n.channel, "/t.T/Large", &wanted, sizeof(wanted), &near_options,
              &g, NULL);
        check_large(&g, &wanted);
    }
    near_close(&n);
}

TEST(rpc_near, a_reply_over_the_callers_limit_is_refused)
{
    static const size_t sizes[] = {10, RPC_SOCK_BODY, 1 << 20, 3 << 20};
    struct rpc_call_options options = near_options;
    struct wanted wanted = {0};
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    for (size_t i = 0; i < SL_COUNT(sizes); i++) {
        options.max_reply_bytes = sizes[i];
        wanted = (struct wanted){sizes[i] + 1, i};
        start(n.channel, "/t.T/Large", &wanted, sizeof(wanted), &options, &g,
              NULL);
        T_FAILS(SL_ERANGE, await(&g));
        T_HAS(g.o.err.text, "is over the limit of ");
        wanted.bytes--;
        start(n.channel, "/t.T/Large", &wanted, sizeof(wanted), &options, &g,
              NULL);
        check_large(&g, &wanted);
    }
    near_close(&n);
}

// ---- many at once

struct gate { // a caller that listens to nothing until it is told to
    struct outcome o;
    sem_t opens;
};

static void at_gate(void *arg, enum sl_err code, const struct sl_error *err,
                    const struct sl_slices *reply)
{
    struct gate *gate = arg;

    on_outcome(&gate->o, code, err, reply);
    wait_for(&gate->opens);
}

static void *answer_some(void *arg)
{
    struct service *s = arg;
    struct rpc_call *call;

    while ((call = take_held(s)) != NULL)
        answer_wanted(call);
    return NULL;
}

static void answer_from_threads(struct service *s)
{
    pthread_t thread[4];

    for (size_t i = 0; i < SL_COUNT(thread); i++)
        T_ASSERT(pthread_create(&thread[i], NULL, answer_some, s) == 0);
    for (size_t i = 0; i < SL_COUNT(thread); i++)
        pthread_join(thread[i], NULL);
}

TEST(rpc_near, large_replies_wait_for_a_slow_caller)
{
    enum { CALLS = 100 };
    static struct wanted wanted[CALLS];
    static struct got g[CALLS];
    struct gate gate;
    struct near n;

    near_open(&n, false);
    near_join(&n);
    outcome_init(&gate.o);
    sem_init(&gate.opens, 0, 0);
    for (int i = 0; i < CALLS; i++) {
        wanted[i] = (struct wanted){(size_t)i * 5003, (uint64_t)i};
        start(n.channel, "/t.T/Hold", &wanted[i], sizeof(wanted[i]),
              &near_options, &g[i], NULL);
    }
    for (int i = 0; i < CALLS; i++)
        wait_for(&n.s.entered);
    rpc_call_start(n.channel, "/t.T/Echo", NULL, &near_options, at_gate, &gate,
                   NULL);
    wait_for(&gate.o.done);
    answer_from_threads(&n.s); // none is read
    await_open_calls(&n.w, 0);
    sem_post(&gate.opens);
    for (int i = 0; i < CALLS; i++)
        check_large(&g[i], &wanted[i]);
    T_TRUE(goes_near(n.channel)); // the server reads again
    near_close(&n);
}

TEST(rpc_near, calls_beyond_the_places_go_by_core)
{
    enum { CALLS = 1000, PLACES = 256, AT_ONCE = 150 }; // core: 100
    static struct wanted wanted[CALLS];
    static struct got g[CALLS];
    struct near n;

    near_open(&n, true);
    near_join(&n);
    for (int i = 0; i < CALLS; i++) {
        wanted[i] = (struct wanted){(size_t)i, (uint64_t)i};
        start(n.channel, "/t.T/Hold", &wanted[i], sizeof(wanted[i]),
              &near_options, &g[i], NULL);
    }
    for (int i = 0; i < AT_ONCE; i++)
        wait_for(&n.s.entered);
    for (int i = 0; i < CALLS; i++) {
        if (i >= AT_ONCE)
            wait_for(&n.s.entered);
        answer_wanted(take_held(&n.s)); // the others are overtaken
    }
    for (int i = 0; i < CALLS; i++)
        check_large(&g[i], &wanted[i]);
    T_GT(n.s.near_count, 0);
    T_LE(n.s.near_count, PLACES);
    for (int i = 0; i < 2 * PLACES; i++) // all are free again
        T_TRUE(goes_near(n.channel));
    near_close(&n);
}

struct caller {
    pthread_t thread;
    struct rpc_channel *channel;
    uint64_t key;
    int calls, unavail;
    bool cut; // the socket may be, meanwhile
};

static void *call_often(void *arg)
{
    struct caller *c = arg;
    struct wanted wanted;
    uint8_t bytes[700];
    struct got g;

    for (int i = 0; i < c->calls; i++) {
        wanted =
            (struct wanted){(size_t)i % sizeof(bytes), c->key + (uint64_t)i};
        fill(bytes, &wanted);
        ask(c->channel, "/t.T/Echo", bytes, wanted.bytes, &g);
        T_ASSERT(g.o.code == SL_OK || (c->cut && g.o.code == SL_EUNAVAIL));
        c->unavail += g.o.code != SL_OK;
        if (g.o.code == SL_OK) {
            T_ASSERT(g.o.bytes == wanted.bytes);
            T_ASSERT(memcmp(g.bytes, bytes, wanted.bytes) == 0);
        }
        got_release(&g);
    }
    return NULL;
}

static void callers_start(struct caller *c, size_t count, struct near *n,
                          int calls, bool cut)
{
    for (size_t i = 0; i < count; i++) {
        c[i] = (struct caller){
            .channel = n->channel, .key = i << 32, .calls = calls, .cut = cut};
        T_ASSERT(pthread_create(&c[i].thread, NULL, call_often, &c[i]) == 0);
    }
}

static void callers_join(struct caller *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pthread_join(c[i].thread, NULL);
}

TEST(rpc_near, many_threads_call_over_one_channel)
{
    struct caller c[8];
    struct near n;

    near_open(&n, false);
    near_join(&n);
    callers_start(c, SL_COUNT(c), &n, 500, false);
    callers_join(c, SL_COUNT(c));
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near, sockets_come_and_go_while_calls_are_made)
{
    enum sl_err rc;
    struct caller c[4];
    struct near n;
    int fd[2], cutter;

    near_open(&n, true);
    callers_start(c, SL_COUNT(c), &n, 1000, true);
    for (int i = 0; i < 50; i++) {
        do { // until it is seen that the last one has gone
            pair(fd);
            cutter = dup(fd[1]);
            T_OK(rpc_server_adopt(n.w.server, fd[0], t_err()));
            rc = rpc_channel_adopt(n.channel, fd[1], t_err());
            if (rc != SL_OK)
                close(cutter);
        } while (rc == SL_EEXIST && sched_yield() == 0);
        T_OK(rc);
        for (int k = 0; k < 10; k++) {
            struct got g;

            T_OK(ask(n.channel, "/t.T/Echo", "", 0, &g));
            got_release(&g);
        }
        shutdown(cutter, SHUT_RDWR);
        close(cutter);
    }
    callers_join(c, SL_COUNT(c));
    near_close(&n);
}
