// SPDX-License-Identifier: Apache-2.0
// How much of what is started on a channel is on its way at once.
#include "tests/unit/common/rpc_kit.h"

#include "common/base/clock.h"
#include "common/net/rpc_window.h"

#define CALLS 6
#define LARGE ((size_t)300 << 10)

struct service {
    sem_t entered;
    pthread_mutex_t lock;
    struct rpc_call *held[CALLS]; // in the order in which they came
    uint8_t first[CALLS];         // byte of each: 1 + its number
    unsigned count;
};

static void hold(struct rpc_call *call, void *arg)
{
    struct service *s = arg;
    struct slices_cursor body;

    slices_cursor_init(&body, rpc_call_body(call));
    pthread_mutex_lock(&s->lock);
    T_ASSERT(s->count < CALLS);
    T_OK(slices_take(&body, &s->first[s->count], 1));
    s->held[s->count++] = call;
    pthread_mutex_unlock(&s->lock);
    sem_post(&s->entered);
}

static void echo(struct rpc_call *call, void *arg)
{
    (void)arg;
    rpc_answer(call, SL_OK, NULL, NULL);
}

static const struct rpc_method methods[] = {
    {.path = "/t.T/Hold",
     .kind = RPC_UNARY,
     .max_request_bytes = 1 << 20,
     .unary = hold},
    {.path = "/t.T/Echo", .kind = RPC_UNARY, .unary = echo},
};

struct test {
    struct world w;
    struct service s;
    struct outcome o[CALLS];
    struct rpc_ticket ticket[CALLS];
    uint8_t *bytes[CALLS];
    unsigned turn[CALLS];
    unsigned calls; // 0: all
};

static const struct rpc_call_options plain = {.deadline_ms = DEADLINE_MS};

static void start(struct test *t, unsigned i)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS,
                                       .turn = t->turn[i]};
    struct rpc_msg msg;

    outcome_init(&t->o[i]);
    t->bytes[i] = sl_calloc(1, LARGE);
    t->bytes[i][0] = (uint8_t)(1 + i);
    rpc_msg_init(&msg);
    rpc_msg_part(&msg, t->bytes[i], LARGE);
    rpc_call_start(t->w.channel, "/t.T/Hold", &msg, &options, on_outcome,
                   &t->o[i], &t->ticket[i]);
}

// All calls started, with room for `fit` of them.
static void begin(struct test *t, size_t fit)
{
    struct rpc_channel_options options = {.window_bytes = fit * LARGE + 1000};

    memset(&t->s, 0, sizeof(t->s));
    sem_init(&t->s.entered, 0, 0);
    pthread_mutex_init(&t->s.lock, NULL);
    world_open(&t->w, methods, SL_COUNT(methods), &t->s, true);
    rpc_channel_free(t->w.channel);
    T_OK(rpc_channel_new(&t->w.channel, t->w.io, t->w.address, NULL, &options,
                         t_err()));
    if (t->calls == 0)
        t->calls = CALLS;
    for (unsigned i = 0; i < t->calls; i++)
        start(t, i);
}

static void end(struct test *t)
{
    world_close(&t->w);
    for (unsigned i = 0; i < t->calls; i++) {
        T_EQ(atomic_load(&t->o[i].times), 1);
        sl_free(t->bytes[i]);
    }
}

static unsigned here(struct test *t)
{
    unsigned count;

    pthread_mutex_lock(&t->s.lock);
    count = t->s.count;
    pthread_mutex_unlock(&t->s.lock);
    return count;
}

// A small call on the same connection, there and back: what was on its way
// before it has come.
static void small_call(struct test *t)
{
    struct rpc_body *reply;

    T_OK(rpc_call_sync(t->w.channel, "/t.T/Echo", NULL, &plain, &reply,
                       t_err()));
    rpc_body_free(reply);
}

static void answer_all(struct test *t, unsigned from)
{
    for (unsigned i = from; i < CALLS; i++) {
        while (here(t) <= i)
            wait_for(&t->s.entered);
        rpc_answer(t->s.held[i], SL_OK, NULL, NULL);
    }
}

static void fits(size_t fit, unsigned expected)
{
    struct test t = {.turn = {0}};

    begin(&t, fit);
    for (unsigned i = 0; i < expected; i++)
        wait_for(&t.s.entered);
    small_call(&t); // does not wait for the large ones
    T_EQ(here(&t), expected);
    rpc_answer(t.s.held[0], SL_OK, NULL, NULL);
    wait_for(&t.s.entered); // one goes, one comes
    small_call(&t);
    T_EQ(here(&t), expected + 1);
    T_EQ(t.s.first[expected], 1 + expected); // in order
    answer_all(&t, 1);
    for (unsigned i = 0; i < CALLS; i++) {
        wait_for(&t.o[i].done);
        T_OK(t.o[i].code);
    }
    end(&t);
}

TEST(rpc_window, what_does_not_fit_waits_its_turn)
{
    fits(3, 3);
}

TEST(rpc_window, two_calls_of_any_size_are_on_their_way)
{
    fits(0, 2);
}

TEST(rpc_window, who_waits_goes_by_its_turn_and_then_by_age)
{
    struct test t = {.turn = {0, 0, 3, 1, 2, 1}};
    static const uint8_t order[] = {4, 6, 5, 3};

    begin(&t, 2);
    wait_for(&t.s.entered);
    wait_for(&t.s.entered);
    for (unsigned i = 0; i < 4; i++) { // the other one stays
        rpc_answer(t.s.held[1 + i], SL_OK, NULL, NULL);
        wait_for(&t.s.entered);
        T_EQ(t.s.first[2 + i], order[i]);
    }
    rpc_answer(t.s.held[0], SL_OK, NULL, NULL);
    rpc_answer(t.s.held[5], SL_OK, NULL, NULL);
    for (unsigned i = 0; i < CALLS; i++) {
        wait_for(&t.o[i].done);
        T_OK(t.o[i].code);
    }
    end(&t);
}

TEST(rpc_window, what_waits_can_be_cancelled)
{
    struct test t = {.turn = {0}};

    begin(&t, 2);
    rpc_cancel(t.w.channel, t.ticket[3]);
    wait_for(&t.o[3].done); // nobody has been answered
    T_FAILS(SL_ECANCELED, t.o[3].code);
    for (unsigned i = 0; i < CALLS - 1; i++) {
        while (here(&t) <= i)
            wait_for(&t.s.entered);
        rpc_answer(t.s.held[i], SL_OK, NULL, NULL);
    }
    for (unsigned i = 0; i < CALLS; i++)
        if (i != 3) {
            wait_for(&t.o[i].done);
            T_OK(t.o[i].code);
        }
    T_EQ(here(&t), CALLS - 1);
    end(&t);
}

TEST(rpc_window, a_channel_that_is_freed_ends_what_waits)
{
    struct test t = {.turn = {0}};

    begin(&t, 2);
    wait_for(&t.s.entered);
    wait_for(&t.s.entered);
    rpc_channel_free(t.w.channel);
    t.w.channel = NULL;
    for (unsigned i = 0; i < CALLS; i++)
        T_FAILS(SL_ECANCELED, t.o[i].code);
    T_EQ(here(&t), 2);
    for (unsigned i = 0; i < 2; i++)
        rpc_answer(t.s.held[i], SL_OK, NULL, NULL);
    end(&t);
}

// ---- the express lane

#define URGENT 5000

// The express lane is dialled when it is first wanted, and used when it stands.
// So there are more and more calls, each more urgent than the one before, until
// one gets through. Between two is ever more time: it may take long to stand.
TEST(rpc_window, who_is_more_urgent_overtakes_on_a_connection_of_its_own)
{
    struct test t = {.turn = {URGENT, URGENT}, .calls = 2};
    struct outcome *o = sl_calloc(URGENT, sizeof(*o));
    unsigned count = 0;

    begin(&t, 2);
    wait_for(&t.s.entered);
    wait_for(&t.s.entered);
    while (here(&t) == 2) {
        struct rpc_call_options options = {.deadline_ms = DEADLINE_MS,
                                           .turn = URGENT - 1 - count};
        struct rpc_msg msg;

        T_ASSERT(count < URGENT);
        outcome_init(&o[count]);
        rpc_msg_init(&msg);
        rpc_msg_part(&msg, t.bytes[0], LARGE);
        rpc_call_start(t.w.channel, "/t.T/Hold", &msg, &options, on_outcome,
                       &o[count++], NULL);
        for (unsigned i = 0; i < count && here(&t) == 2; i++)
            small_call(&t);
    }
    rpc_channel_free(t.w.channel); // nobody has been answered
    t.w.channel = NULL;
    for (unsigned i = 0; i < count; i++)
        T_FAILS(SL_ECANCELED, o[i].code);
    for (unsigned i = 0; i < 3; i++)
        rpc_answer(t.s.held[i], SL_OK, NULL, NULL);
    T_EQ(here(&t), 3);
    end(&t);
    sl_free(o);
}

static void enter(struct rpc_window *w, struct rpc_turn *t, unsigned order,
                  size_t bytes, bool express, bool goes)
{
    *t = (struct rpc_turn){.order = order, .bytes = bytes};
    T_EQ(rpc_window_enter(w, t, express), goes);
    T_EQ(t->flies, goes);
    T_EQ(t->waits, !goes);
}

TEST(rpc_window, express_is_for_those_behind_someone_less_urgent)
{
    struct rpc_turn t[6];
    struct rpc_window w;

    rpc_window_init(&w, 1000);
    T_FALSE(rpc_window_behind(&w, 0));
    enter(&w, &t[0], 5, 500, true, true);
    T_EQ(t[0].lane, RPC_USUAL);
    enter(&w, &t[1], 5, 500, true, true); // as urgent: the queue is its own
    T_EQ(t[1].lane, RPC_USUAL);
    T_FALSE(rpc_window_behind(&w, 5));
    T_TRUE(rpc_window_behind(&w, 4));
    enter(&w, &t[2], 9, 500, true, false);  // less urgent
    enter(&w, &t[3], 4, 500, false, false); // the lane does not stand yet
    T_TRUE(rpc_window_next(&w, false) == NULL);
    T_TRUE(rpc_window_next(&w, true) == &t[3]); // of any size
    T_EQ(t[3].lane, RPC_EXPRESS);
    enter(&w, &t[4], 3, 100, true, false); // its window is small
    rpc_window_leave(&w, &t[3]);
    enter(&w, &t[5], 3, 100, true, false); // not before those of its order
    T_TRUE(rpc_window_next(&w, true) == &t[4]);
    T_TRUE(rpc_window_next(&w, true) == &t[5]); // both fit
    rpc_window_leave(&w, &t[0]);
    rpc_window_leave(&w, &t[1]);
    T_TRUE(rpc_window_next(&w, true) == &t[2]);
    T_EQ(t[2].lane, RPC_USUAL);
    rpc_window_leave(&w, &t[2]);
    rpc_window_leave(&w, &t[4]);
    rpc_window_leave(&w, &t[5]);
    T_TRUE(rpc_window_first(&w) == NULL);
    for (int i = 0; i < RPC_LANES; i++) {
        T_EQ(w.lane[i].count, 0);
        T_EQ(w.lane[i].bytes, 0);
        T_TRUE(list_empty(&w.lane[i].flying));
    }
}

TEST(rpc_window, who_gives_up_leaves_no_trace)
{
    struct rpc_turn t[4];
    struct rpc_window w;

    rpc_window_init(&w, 1000);
    enter(&w, &t[0], 1, 600, false, true);
    enter(&w, &t[1], 1, 600, false, true); // the second of any size
    enter(&w, &t[2], 1, 10, false, false);
    enter(&w, &t[3], 1, 10, false, false);
    rpc_window_leave(&w, &t[2]);
    rpc_window_leave(&w, &t[2]); // twice is once
    T_TRUE(rpc_window_next(&w, false) == NULL);
    rpc_window_leave(&w, &t[0]);
    T_TRUE(rpc_window_next(&w, false) == &t[3]);
    T_TRUE(rpc_window_next(&w, false) == NULL);
}
