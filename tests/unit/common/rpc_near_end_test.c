// SPDX-License-Identifier: Apache-2.0
// How calls over a socket of this host end when they are not answered:
// deadlines, cancels, ends of channels, servers and sockets.
#include "tests/unit/common/rpc_near_kit.h"

#include <fcntl.h>
#include <sched.h>

// ---- deadlines

TEST(rpc_near_end, a_deadline_ends_a_call_and_its_late_answer_is_dropped)
{
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    start_held(&n, 1, &g, NULL);
    wait_for(&n.s.entered);
    T_FAILS(SL_ETIMEDOUT, await(&g));
    T_HAS(g.o.err.text, "unix:");
    T_HAS(g.o.err.text, "deadline");
    rpc_answer(take_held(&n.s), SL_OK, NULL, NULL);
    T_TRUE(goes_near(n.channel));
    got_release(&g);
    near_close(&n);
}

TEST(rpc_near_end, deadlines_of_many_calls)
{
    enum { CALLS = 150 };
    static struct got g[CALLS];
    struct near n;

    near_open(&n, false);
    near_join(&n);
    for (int i = 0; i < CALLS; i++)
        start_held(&n, i % 4 ? i : DEADLINE_MS, &g[i], NULL);
    for (int i = 0; i < CALLS; i++)
        wait_for(&n.s.entered);
    for (int i = 0; i < CALLS; i++) {
        if (i % 4)
            T_FAILS(SL_ETIMEDOUT, ended(&g[i]));
    }
    let_go(&n.s); // those that are over, and those that are not
    for (int i = 0; i < CALLS; i += 4)
        T_OK(ended(&g[i]));
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

// The watching thread sleeps when nothing waits: each call has to wake it, at
// whatever point of falling asleep it is.
TEST(rpc_near_end, a_deadline_counts_after_idle_times)
{
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 0)
            T_TRUE(goes_near(n.channel));
        start_held(&n, 1, &g, NULL);
        T_FAILS(SL_ETIMEDOUT, ended(&g));
    }
    near_close(&n);
}

struct chain { // each call is started when the one before has ended
    struct near *n;
    sem_t done;
    int left;
};

static void chain_on(void *arg, enum sl_err code, const struct sl_error *err,
                     const struct sl_slices *reply)
{
    struct rpc_call_options options = near_options;
    struct chain *chain = arg;

    T_ASSERT(code == SL_ETIMEDOUT && err->code == code && reply == NULL);
    options.deadline_ms = 1;
    if (--chain->left > 0)
        rpc_call_start(chain->n->channel, "/t.T/Hold", NULL, &options, chain_on,
                       chain, NULL);
    else
        sem_post(&chain->done);
}

TEST(rpc_near_end, a_call_may_be_started_when_another_times_out)
{
    struct chain chain = {.left = 6};
    struct sl_error err = {.code = SL_ETIMEDOUT};
    struct near n;

    near_open(&n, false);
    near_join(&n);
    chain.n = &n;
    sem_init(&chain.done, 0, 0);
    chain_on(&chain, SL_ETIMEDOUT, &err, NULL);
    wait_for(&chain.done);
    near_close(&n);
}

// ---- cancels

TEST(rpc_near_end, a_cancelled_call_ends_once)
{
    struct rpc_ticket ticket;
    struct near n;
    struct got g, others[4];

    near_open(&n, false);
    near_join(&n);
    rpc_cancel(n.channel, (struct rpc_ticket){0});
    start_held(&n, DEADLINE_MS, &g, &ticket);
    wait_for(&n.s.entered);
    rpc_cancel(n.channel, ticket);
    rpc_cancel(n.channel, ticket);
    T_FAILS(SL_ECANCELED, ended(&g));
    rpc_cancel(n.channel, ticket);
    for (size_t i = 0; i < SL_COUNT(others); i++) { // one has its memory
        start_held(&n, DEADLINE_MS, &others[i], NULL);
        wait_for(&n.s.entered);
    }
    rpc_cancel(n.channel, ticket); // it is none of them
    T_TRUE(goes_near(n.channel));
    let_go(&n.s); // the late one too
    for (size_t i = 0; i < SL_COUNT(others); i++)
        T_OK(ended(&others[i]));
    near_close(&n);
}

struct link_call {
    struct rpc_link_call call;
    struct outcome o;
};

static void on_link_call(struct rpc_link_call *call, enum sl_err code,
                         const struct sl_error *err,
                         const struct sl_slices *reply)
{
    on_outcome(&sl_container_of(call, struct link_call, call)->o, code, err,
               reply);
}

TEST(rpc_near_end, a_call_that_was_cancelled_before_is_not_sent)
{
    struct link_call c = {.call.over = on_link_call};
    struct rpc_link *link;
    struct near n;
    char byte;
    int fd[2];

    near_open(&n, false);
    pair(fd);
    T_OK(rpc_link_new(&link, rpc_io_pick(n.io, 0), fd[1], "there", t_err()));
    for (int i = 0; i < 20; i++) {
        outcome_init(&c.o);
        rpc_link_cancel(link, &c.call);
        T_TRUE(rpc_link_start(link, &c.call, "/t.T/Echo", NULL, DEADLINE_MS));
        wait_for(&c.o.done);
        T_FAILS(SL_ECANCELED, c.o.code);
        T_EQ(atomic_load(&c.o.times), 1);
    }
    T_TRUE(read(fd[0], &byte, 1) < 0 && errno == EAGAIN);
    c.call.cancelled = false;
    outcome_init(&c.o);
    T_TRUE(rpc_link_start(link, &c.call, "/t.T/Echo", NULL, DEADLINE_MS));
    rpc_link_close(link);
    wait_for(&c.o.done);
    T_FAILS(SL_ECANCELED, c.o.code);
    T_FALSE(rpc_link_start(link, &c.call, "/t.T/Echo", NULL, DEADLINE_MS));
    rpc_link_unref(link);
    close(fd[0]);
    near_close(&n);
}

struct race {
    struct rpc_channel *channel;
    struct rpc_ticket next[2]; // one of them is of the call that is to start
    sem_t go, went;
    atomic_bool ends;
};

static void *cancel_often(void *arg)
{
    struct race *r = arg;

    for (;;) {
        wait_for(&r->go);
        if (atomic_load(&r->ends))
            return NULL;
        for (int i = 0; i < 20; i++)
            rpc_cancel(r->channel, r->next[i % 2]);
        sem_post(&r->went);
    }
}

// A channel uses few call objects again and again, with the next serial: so the
// ticket is known before the call. Where that is wrong nothing is cancelled.
static void foresee(struct race *r, struct rpc_ticket last)
{
    if (r->next[0].call != last.call)
        r->next[1].call = r->next[0].call;
    r->next[0].call = last.call;
    r->next[0].serial = r->next[1].serial = last.serial + 1;
}

TEST(rpc_near_end, a_cancel_races_with_start_and_answer)
{
    struct race r = {.ends = false};
    struct rpc_ticket ticket;
    pthread_t thread;
    enum sl_err rc;
    struct near n;
    struct got g;

    near_open(&n, false);
    near_join(&n);
    r.channel = n.channel;
    sem_init(&r.go, 0, 0);
    sem_init(&r.went, 0, 0);
    T_ASSERT(pthread_create(&thread, NULL, cancel_often, &r) == 0);
    for (int i = 0; i < 2000; i++) {
        sem_post(&r.go);
        start(n.channel, "/t.T/Echo", "x", 1, &near_options, &g, &ticket);
        wait_for(&r.went);
        rc = ended(&g);
        T_TRUE(rc == SL_OK || rc == SL_ECANCELED);
        foresee(&r, ticket);
    }
    atomic_store(&r.ends, true);
    sem_post(&r.go);
    pthread_join(thread, NULL);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

TEST(rpc_near_end, many_are_cancelled_while_they_are_answered)
{
    enum { CALLS = 200 };
    static struct rpc_ticket ticket[CALLS];
    static struct got g[CALLS];
    struct rpc_call *call;
    enum sl_err rc;
    struct near n;

    near_open(&n, false);
    near_join(&n);
    for (int i = 0; i < CALLS; i++) {
        start_held(&n, DEADLINE_MS, &g[i], &ticket[i]);
        wait_for(&n.s.entered);
    }
    for (int i = 0; i < CALLS; i++) { // the same one, both ways
        call = take_held(&n.s);
        rpc_answer(call, SL_OK, NULL, NULL);
        rpc_cancel(n.channel, ticket[CALLS - 1 - i]);
    }
    for (int i = 0; i < CALLS; i++) {
        rc = ended(&g[i]);
        T_TRUE(rc == SL_OK || rc == SL_ECANCELED);
    }
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

// ---- ends of channels and servers

TEST(rpc_near_end, a_channel_that_is_freed_ends_its_calls)
{
    enum { CALLS = 200 };
    static struct got g[CALLS];
    struct near n;

    near_open(&n, true);
    near_join(&n);
    for (int i = 0; i < CALLS; i++)
        start_held(&n, DEADLINE_MS, &g[i], NULL);
    for (int i = 0; i < CALLS; i++)
        wait_for(&n.s.entered);
    rpc_channel_free(n.channel);
    n.channel = NULL;
    for (int i = 0; i < CALLS; i++)
        T_FAILS(SL_ECANCELED, ended(&g[i]));
    near_close(&n); // and now they are answered
}

TEST(rpc_near_end, a_channel_is_freed_as_soon_as_its_calls_were_started)
{
    struct got g[20];
    enum sl_err rc;
    struct near n;

    for (int round = 0; round < 20; round++) {
        near_open(&n, false);
        near_join(&n);
        for (size_t i = 0; i < SL_COUNT(g); i++)
            start_held(&n, 1, &g[i], NULL);
        rpc_channel_free(n.channel);
        n.channel = NULL;
        for (size_t i = 0; i < SL_COUNT(g); i++) {
            rc = ended(&g[i]);
            T_TRUE(rc == SL_ECANCELED || rc == SL_ETIMEDOUT);
        }
        near_close(&n);
    }
}

TEST(rpc_near_end, a_stopped_server_ends_its_calls_and_takes_late_answers)
{
    enum { CALLS = 100 };
    static struct got g[CALLS];
    char byte;
    struct near n;
    int fd[2];

    near_open(&n, false);
    near_join(&n);
    for (int i = 0; i < CALLS; i++)
        start_held(&n, DEADLINE_MS, &g[i], NULL);
    for (int i = 0; i < CALLS; i++)
        wait_for(&n.s.entered);
    rpc_server_stop(n.w.server);
    for (int i = 0; i < CALLS; i++) {
        T_FAILS(SL_EUNAVAIL, await(&g[i]));
        T_HAS(g[i].o.err.text, "has gone");
        got_release(&g[i]);
    }
    T_FALSE(rpc_channel_adopted(n.channel));
    T_EQ(rpc_server_open_calls(n.w.server), CALLS);
    pair(fd);
    T_FAILS(SL_ESTATE, rpc_server_adopt(n.w.server, fd[0], t_err()));
    T_EQ(read(fd[1], &byte, 1), 0); // it was taken, and closed
    close(fd[1]);
    let_go(&n.s);
    T_EQ(rpc_server_open_calls(n.w.server), 0);
    near_close(&n);
}

static void *answer_late(void *arg)
{
    struct near *n = arg;

    let_go(&n->s);
    return NULL;
}

TEST(rpc_near_end, a_server_that_is_freed_waits_for_the_answers)
{
    static struct got g[50];
    pthread_t thread;
    enum sl_err rc;
    struct near n;

    near_open(&n, false);
    near_join(&n);
    for (size_t i = 0; i < SL_COUNT(g); i++)
        start_held(&n, DEADLINE_MS, &g[i], NULL);
    for (size_t i = 0; i < SL_COUNT(g); i++)
        wait_for(&n.s.entered);
    T_ASSERT(pthread_create(&thread, NULL, answer_late, &n) == 0);
    rpc_server_free(n.w.server);
    n.w.server = NULL;
    pthread_join(thread, NULL);
    for (size_t i = 0; i < SL_COUNT(g); i++) {
        rc = ended(&g[i]); // whichever was first
        T_TRUE(rc == SL_OK || rc == SL_EUNAVAIL);
    }
    near_close(&n);
}

TEST(rpc_near_end, a_draining_server_refuses_new_calls_and_finishes_old_ones)
{
    struct near n;
    struct got g, h;

    near_open(&n, false);
    near_join(&n);
    start_held(&n, DEADLINE_MS, &g, NULL);
    wait_for(&n.s.entered);
    rpc_server_drain(n.w.server);
    T_FAILS(SL_EUNAVAIL, ask(n.channel, "/t.T/Echo", "", 0, &h));
    T_HAS(h.o.err.text, "draining");
    T_TRUE(rpc_channel_adopted(n.channel));
    let_go(&n.s);
    T_OK(ended(&g));
    near_close(&n);
}

// ---- a peer that dies; the test holds its end

static void adopt_raw(struct near *n, int *peer)
{
    int fd[2];

    pair(fd);
    T_OK(rpc_channel_adopt(n->channel, fd[1], t_err()));
    *peer = fd[0];
}

TEST(rpc_near_end, a_peer_that_dies_ends_calls_and_later_ones_go_by_core)
{
    static struct got g[40];
    struct near n;
    int peer;

    near_open(&n, true);
    for (int round = 0; round < 20; round++) {
        adopt_raw(&n, &peer);
        for (size_t i = 0; i < SL_COUNT(g); i++)
            start_held(&n, DEADLINE_MS, &g[i], NULL);
        close(peer);
        for (size_t i = 0; i < SL_COUNT(g); i++)
            T_FAILS(SL_EUNAVAIL, ended(&g[i]));
        T_FALSE(rpc_channel_adopted(n.channel));
        T_FALSE(goes_near(n.channel));
    }
    T_EQ(n.s.held_count, 0);
    near_join(&n);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}

// Before it is seen: a call ends so, or goes by core.
TEST(rpc_near_end, a_call_may_find_its_peer_dead)
{
    enum sl_err rc;
    struct near n;
    struct got g;
    int peer;

    near_open(&n, true);
    for (int round = 0; round < 200; round++) {
        adopt_raw(&n, &peer);
        close(peer);
        start(n.channel, "/t.T/Way", "xyz", 3, &near_options, &g, NULL);
        rc = await(&g);
        T_TRUE(rc == SL_OK || rc == SL_EUNAVAIL);
        if (rc == SL_OK)
            T_EQ(g.bytes[0], false);
        got_release(&g);
        while (rpc_channel_adopted(n.channel))
            sched_yield();
    }
    near_close(&n);
}

TEST(rpc_near_end, a_channel_has_one_socket_while_it_lives)
{
    struct near n;
    int fd[2];
    char byte;

    near_open(&n, false);
    near_join(&n);
    for (int i = 0; i < 3; i++) {
        pair(fd);
        T_FAILS(SL_EEXIST, rpc_channel_adopt(n.channel, fd[1], t_err()));
        T_EQ(read(fd[0], &byte, 1), 0); // it was taken, and closed
        close(fd[0]);
        T_TRUE(goes_near(n.channel));
    }
    near_close(&n);
}

TEST(rpc_near_end, a_server_has_many_sockets)
{
    struct rpc_channel *channel[10];
    struct near n;
    struct got g;
    int fd[2];

    near_open(&n, false);
    for (size_t i = 0; i < SL_COUNT(channel); i++) {
        pair(fd);
        T_OK(rpc_channel_new(&channel[i], n.io, rpc_channel_address(n.channel),
                             NULL, NULL, t_err()));
        T_OK(rpc_server_adopt(n.w.server, fd[0], t_err()));
        T_OK(rpc_channel_adopt(channel[i], fd[1], t_err()));
    }
    for (size_t i = 0; i < SL_COUNT(channel); i++) {
        T_TRUE(goes_near(channel[i]));
        start(channel[i], "/t.T/Hold", "", 0, &near_options, &g, NULL);
        wait_for(&n.s.entered);
        rpc_channel_free(channel[i]); // the others stay
        T_FAILS(SL_ECANCELED, ended(&g));
    }
    near_close(&n);
}

TEST(rpc_near_end, what_is_no_such_socket_is_not_adopted)
{
    struct near n;
    int fd[2];

    near_open(&n, false);
    T_NE(rpc_channel_adopt(n.channel, -1, t_err()), SL_OK);
    T_NE(rpc_server_adopt(n.w.server, -1, t_err()), SL_OK);
    for (int type = 0; type < 4; type++) {
        T_ASSERT(type < 2 ? pipe(fd) == 0
                          : socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
        if (type % 2)
            T_FAILS(SL_EINVAL, rpc_channel_adopt(n.channel, fd[0], t_err()));
        else
            T_FAILS(SL_EINVAL, rpc_server_adopt(n.w.server, fd[0], t_err()));
        T_TRUE(fcntl(fd[0], F_GETFD) < 0); // taken, and closed
        close(fd[1]);
    }
    T_FALSE(rpc_channel_adopted(n.channel));
    near_join(&n);
    T_TRUE(goes_near(n.channel));
    near_close(&n);
}
