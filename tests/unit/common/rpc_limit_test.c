// SPDX-License-Identifier: Apache-2.0
// What one peer may cost a server: first the accounts alone, then with calls.
#include "tests/unit/common/rpc_kit.h"

#include "common/net/rpc_limit.h"

#define MIB ((size_t)1 << 20)

// 32 MiB are given out, 4 MiB of them to one peer.
static const struct rpc_limits small = {
    .peer_calls = 3,
    .calls = 5,
    .inbound_bytes = 64 * MIB,
    .unread_bytes = 8 * MIB,
};

static void in(struct rpc_limit *l, struct rpc_limit_call *c, const char *who)
{
    *c = (struct rpc_limit_call){.peer = NULL};
    T_OK(rpc_limit_enter(l, c, who, false, t_err()));
}

// A minute after it was seen that they have nothing open: whoever calls again
// costs no allocation.
static void nothing_is_kept(struct rpc_limit *l)
{
    rpc_limit_forget(l, 1000);
    rpc_limit_forget(l, 1000 + RPC_LIMIT_SAY_MS - 1);
    T_GT(l->peers.len, 0);
    rpc_limit_forget(l, 1000 + RPC_LIMIT_SAY_MS);
    T_EQ(l->peers.len, 0);
}

TEST(rpc_limit, what_a_peer_may_not_call_has_so_many_lines)
{
    struct rpc_limit l;
    unsigned left_out, lines = 0;

    rpc_limit_init(&l, &small);
    for (unsigned i = 0; i < 1000; i++)
        lines += rpc_limit_denied(&l, "mallory", false, 500, &left_out);
    T_EQ(lines, LOG_SHARE);
    T_TRUE(rpc_limit_denied(&l, "alice", false, 500, &left_out)); // has her own
    T_TRUE(rpc_limit_denied(&l, "mallory", false, 60500, &left_out));
    T_EQ(left_out, 1000 - LOG_SHARE);
    nothing_is_kept(&l);
    rpc_limit_release(&l);
}

// Also if its first call is one that it may not make, or is refused.
TEST(rpc_limit, this_host_has_no_limits_of_one_peer)
{
    struct rpc_limit_call c[4] = {{.peer = NULL}};
    struct rpc_limit l;
    unsigned left_out;

    for (int first = 0; first < 2; first++) {
        rpc_limit_init(&l, &small);
        if (first == 0)
            T_TRUE(rpc_limit_denied(&l, "this host", true, 500, &left_out));
        else
            T_EQ(rpc_limit_refused(&l, "this host", true, 500), 1);
        for (int i = 0; i < 4; i++)
            T_OK(rpc_limit_enter(&l, &c[i], "this host", true, t_err()));
        for (int i = 0; i < 4; i++)
            rpc_limit_leave(&l, &c[i]);
        rpc_limit_release(&l);
    }
}

TEST(rpc_limit, a_peer_has_so_many_calls_and_all_have_so_many)
{
    struct rpc_limit_call c[6] = {{.peer = NULL}};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_limit l;

    rpc_limit_init(&l, &small);
    for (int i = 0; i < 3; i++)
        in(&l, &c[i], "ann");
    T_FAILS(SL_EBUSY, rpc_limit_enter(&l, &c[3], "ann", false, &err));
    T_HAS(err.text, "ann has 3 calls open");
    T_HAS(err.text, "--peer-calls");
    in(&l, &c[3], "bob");
    in(&l, &c[4], "bob");
    T_FAILS(SL_EBUSY, rpc_limit_enter(&l, &c[5], "eve", false, &err));
    T_HAS(err.text, "(--calls)");
    rpc_limit_leave(&l, &c[0]);
    in(&l, &c[5], "ann"); // there is room again
    T_OK(rpc_limit_enter(&l, &c[0], "this host", true, t_err()));
    for (int i = 0; i < 6; i++)
        rpc_limit_leave(&l, &c[i]);
    T_EQ(l.calls, 0);
    nothing_is_kept(&l);
    rpc_limit_release(&l);
}

TEST(rpc_limit, large_requests_wait_for_room_and_small_ones_do_not)
{
    struct rpc_limit_call ann[3], bob[3];
    struct rpc_limit l;

    rpc_limit_init(&l, &small);
    l.most.calls = 100;
    for (int i = 0; i < 3; i++) {
        in(&l, &ann[i], "ann");
        in(&l, &bob[i], "bob");
    }
    T_TRUE(rpc_limit_start(&l, &ann[0], 30 * MIB)); // more than its part: alone
    T_TRUE(!rpc_limit_start(&l, &ann[1], 2 * MIB));
    T_TRUE(!rpc_limit_start(&l, &bob[0], 4 * MIB)); // for room
    T_TRUE(!rpc_limit_start(&l, &bob[1], 2 * MIB)); // nor does it overtake
    T_TRUE(rpc_limit_start(&l, &bob[2], 0));
    T_TRUE(rpc_limit_next(&l) == NULL);
    rpc_limit_has(&l, &ann[0], 2 * MIB); // it sent less than it said
    T_TRUE(rpc_limit_next(&l) == &ann[1]);
    T_TRUE(rpc_limit_next(&l) == &bob[0]);
    T_TRUE(rpc_limit_next(&l) == NULL);             // bob has its part
    T_TRUE(!rpc_limit_start(&l, &ann[2], 2 * MIB)); // and so has ann
    rpc_limit_answer(&l, &bob[0], 0);
    T_TRUE(rpc_limit_next(&l) == &bob[1]);
    T_TRUE(rpc_limit_give_up(&l) == &ann[2]);
    T_TRUE(rpc_limit_give_up(&l) == NULL);
    for (int i = 0; i < 3; i++) {
        rpc_limit_leave(&l, &ann[i]);
        rpc_limit_leave(&l, &bob[i]);
    }
    T_EQ(l.inbound_bytes, 0);
    nothing_is_kept(&l);
    rpc_limit_release(&l);
}

TEST(rpc_limit, peers_take_turns_and_nobody_waits_for_anothers_part)
{
    struct rpc_limit_call ann[3], bob, eve;
    struct rpc_limit l;

    rpc_limit_init(&l, &small);
    l.most.calls = 100;
    for (int i = 0; i < 3; i++)
        in(&l, &ann[i], "ann");
    in(&l, &bob, "bob");
    in(&l, &eve, "eve");
    T_TRUE(rpc_limit_start(&l, &ann[0], 4 * MIB));
    T_TRUE(!rpc_limit_start(&l, &ann[1], 4 * MIB));
    T_TRUE(!rpc_limit_start(&l, &ann[2], 4 * MIB));
    T_TRUE(rpc_limit_start(&l, &bob, 28 * MIB)); // beside those of ann
    T_TRUE(!rpc_limit_start(&l, &eve, 2 * MIB)); // now it is full
    rpc_limit_answer(&l, &ann[0], 0);
    T_TRUE(rpc_limit_next(&l) == &ann[1]); // came first
    rpc_limit_answer(&l, &ann[1], 0);
    T_TRUE(rpc_limit_next(&l) == &eve); // it is her turn, not ann's again
    rpc_limit_answer(&l, &bob, 0);
    T_TRUE(rpc_limit_next(&l) == &ann[2]);
    for (int i = 0; i < 3; i++)
        rpc_limit_leave(&l, &ann[i]);
    rpc_limit_leave(&l, &bob);
    rpc_limit_leave(&l, &eve);
    rpc_limit_release(&l);
}

TEST(rpc_limit, who_reads_no_answers_waits_with_every_call)
{
    struct rpc_limit_call ann[5], bob;
    struct rpc_limit l;

    rpc_limit_init(&l, &small);
    l.most.calls = l.most.peer_calls = 100;
    for (int i = 0; i < 5; i++)
        in(&l, &ann[i], "ann");
    in(&l, &bob, "bob");
    for (int i = 0; i < 2; i++) {
        T_TRUE(rpc_limit_start(&l, &ann[i], 0));
        rpc_limit_answer(&l, &ann[i], 4 * MIB);
    }
    for (int i = 2; i < 5; i++)
        T_TRUE(!rpc_limit_start(&l, &ann[i], 0));
    T_TRUE(rpc_limit_start(&l, &bob, 0));
    T_TRUE(rpc_limit_next(&l) == NULL);
    rpc_limit_leave(&l, &ann[0]); // it was read
    T_TRUE(rpc_limit_next(&l) == &ann[2]);
    T_TRUE(rpc_limit_next(&l) == NULL); // not before ann[2] has its answer
    rpc_limit_answer(&l, &ann[2], MIB);
    T_TRUE(rpc_limit_next(&l) == &ann[3]);
    rpc_limit_answer(&l, &ann[3], 4 * MIB);
    T_TRUE(rpc_limit_next(&l) == NULL);
    T_TRUE(rpc_limit_drop(&l, &ann[4]));
    T_TRUE(!rpc_limit_drop(&l, &ann[3]));
    for (int i = 1; i < 5; i++)
        rpc_limit_leave(&l, &ann[i]);
    rpc_limit_leave(&l, &bob);
    nothing_is_kept(&l);
    rpc_limit_release(&l);
}

TEST(rpc_limit, the_log_has_a_line_a_minute_about_a_peer)
{
    struct rpc_limit l;

    rpc_limit_init(&l, &small);
    T_EQ(rpc_limit_refused(&l, "ann", false, 1000), 1);
    for (int i = 0; i < 10; i++)
        T_EQ(rpc_limit_refused(&l, "ann", false, 1000 + RPC_LIMIT_SAY_MS - 1),
             0);
    T_EQ(rpc_limit_refused(&l, "ann", false, 1000 + RPC_LIMIT_SAY_MS), 11);
    T_EQ(rpc_limit_refused(&l, "bob", false, 2000), 1);
    rpc_limit_forget(&l, 2000 + RPC_LIMIT_SAY_MS);
    T_EQ(l.peers.len, 1); // ann was said later
    rpc_limit_forget(&l, 2000 + 2 * RPC_LIMIT_SAY_MS);
    T_EQ(l.peers.len, 0);
    rpc_limit_release(&l);
}

// ---- with calls

struct service {
    sem_t entered;
    pthread_mutex_t lock;
    struct rpc_call *held[8];
    unsigned count;
    size_t reply_bytes;
};

static void hold(struct rpc_call *call, void *arg)
{
    struct service *s = arg;

    pthread_mutex_lock(&s->lock);
    T_ASSERT(s->count < SL_COUNT(s->held));
    s->held[s->count++] = call;
    pthread_mutex_unlock(&s->lock);
    sem_post(&s->entered);
}

static const struct rpc_method methods[] = {
    {.path = "/t.T/Hold",
     .kind = RPC_UNARY,
     .max_request_bytes = 8 * MIB,
     .unary = hold,
     .in_turn = true},
    {.path = "/t.T/Small", .kind = RPC_UNARY, .unary = hold},
};

struct limited {
    struct world w;
    struct service s;
    struct outcome o[8];
    uint8_t *bytes;
};

static void open_limited(struct limited *t, const struct rpc_limits *limits)
{
    struct rpc_server_options options = {.limits = limits};
    struct rpc_channel_options wide = {.window_bytes = 64 * MIB};
    struct rpc_table table = {methods, SL_COUNT(methods), &t->s};
    int port = 0;

    memset(t, 0, sizeof(*t));
    sem_init(&t->s.entered, 0, 0);
    pthread_mutex_init(&t->s.lock, NULL);
    t->bytes = sl_calloc(8, MIB);
    T_OK(rpc_io_new(&t->w.io, &(struct rpc_io_options){.threads = 2}, t_err()));
    T_OK(rpc_server_new(&t->w.server, t->w.io, &table, 1, &options, t_err()));
    T_OK(rpc_server_bind(t->w.server, "127.0.0.1:0", NULL, &port, t_err()));
    snprintf(t->w.address, sizeof(t->w.address), "127.0.0.1:%d", port);
    rpc_server_start(t->w.server);
    T_OK(rpc_channel_new(&t->w.channel, t->w.io, t->w.address, NULL, &wide,
                         t_err()));
}

static void close_limited(struct limited *t)
{
    world_close(&t->w);
    sl_free(t->bytes);
}

static void start(struct limited *t, unsigned i, const char *method,
                  size_t bytes)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS};
    struct rpc_msg msg;

    outcome_init(&t->o[i]);
    rpc_msg_init(&msg);
    rpc_msg_part(&msg, t->bytes, bytes);
    rpc_call_start(t->w.channel, method, &msg, &options, on_outcome, &t->o[i],
                   NULL);
}

static void let_go(struct limited *t, unsigned i)
{
    struct rpc_call *call;

    pthread_mutex_lock(&t->s.lock);
    call = t->s.held[i];
    pthread_mutex_unlock(&t->s.lock);
    rpc_answer(call, SL_OK, NULL, NULL);
}

static void check_busy(struct limited *t, unsigned i, const char *word)
{
    wait_for(&t->o[i].done);
    T_EQ(t->o[i].code, SL_EBUSY);
    T_HAS(t->o[i].err.text, word);
}

TEST(rpc_limit, one_call_too_many_is_refused_with_the_figure)
{
    struct rpc_limits limits = {.peer_calls = 2};
    struct limited t;

    open_limited(&t, &limits);
    for (unsigned i = 0; i < 2; i++) {
        start(&t, i, "/t.T/Small", 10);
        wait_for(&t.s.entered);
    }
    start(&t, 2, "/t.T/Small", 10);
    check_busy(&t, 2, "127.0.0.1 has 2 calls open");
    let_go(&t, 0);
    wait_for(&t.o[0].done);
    await_open_calls(&t.w, 1);
    start(&t, 3, "/t.T/Small", 10);
    wait_for(&t.s.entered);
    let_go(&t, 1);
    let_go(&t, 2);
    for (unsigned i = 1; i < 4; i++)
        if (i != 2)
            wait_for(&t.o[i].done);
    close_limited(&t);
}

// 64 MiB: 32 are given out, 4 to one peer, of which each of these takes three.
// The others lie in their sender.
TEST(rpc_limit, what_waits_for_its_turn_is_answered_in_the_end)
{
    struct rpc_limits limits = {.inbound_bytes = 64 * MIB};
    struct limited t;

    open_limited(&t, &limits);
    for (unsigned i = 0; i < 6; i++)
        start(&t, i, "/t.T/Hold", 3 * MIB);
    wait_for(&t.s.entered);
    start(&t, 6, "/t.T/Small", 10); // does not wait behind them
    wait_for(&t.s.entered);
    T_TRUE(sem_trywait(&t.s.entered) != 0);
    let_go(&t, 1);
    let_go(&t, 0);
    for (unsigned i = 2; i < 7; i++) {
        wait_for(&t.s.entered);
        let_go(&t, i);
    }
    for (unsigned i = 0; i < 7; i++) {
        wait_for(&t.o[i].done);
        T_EQ(t.o[i].code, SL_OK);
    }
    close_limited(&t);
}

TEST(rpc_limit, a_server_that_ends_refuses_what_waits)
{
    struct rpc_limits limits = {.inbound_bytes = 64 * MIB};
    struct limited t;

    open_limited(&t, &limits);
    for (unsigned i = 0; i < 3; i++)
        start(&t, i, "/t.T/Hold", 3 * MIB);
    wait_for(&t.s.entered);
    rpc_server_stop(t.w.server);
    let_go(&t, 0);
    for (unsigned i = 0; i < 3; i++) {
        wait_for(&t.o[i].done);
        T_TRUE(t.o[i].code != SL_OK);
    }
    close_limited(&t);
}
