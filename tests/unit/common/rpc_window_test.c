// SPDX-License-Identifier: Apache-2.0
// How much of what is started on a channel is on its way at once.
#include "tests/unit/common/rpc_kit.h"

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
    for (unsigned i = 0; i < CALLS; i++)
        start(t, i);
}

static void end(struct test *t)
{
    world_close(&t->w);
    for (unsigned i = 0; i < CALLS; i++) {
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
    struct test t = {.turn = {5, 5, 3, 1, 2, 1}};
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
