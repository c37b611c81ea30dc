// SPDX-License-Identifier: Apache-2.0
// Lists of addresses: how they are read, and where calls go when one of a list
// does not serve.
#include "tests/unit/common/rpc_kit.h"

#include "common/net/rpc_route.h"

// Nothing listens on port 1.
#define DEAD "127.0.0.1:1"

TEST(rpc_route, good_lists)
{
    struct rpc_route r;

    T_OK(rpc_route_init(&r, "a:1", t_err()));
    T_EQ(r.count, 1);
    rpc_route_release(&r);
    T_OK(rpc_route_init(&r, "a:1,[::1]:2,unix:/s", t_err()));
    T_EQ(r.count, 3);
    T_STR(r.address[0], "a:1");
    T_STR(r.address[1], "[::1]:2");
    T_STR(r.address[2], "unix:/s");
    T_EQ(r.at, 0);
    rpc_route_release(&r);
    T_OK(rpc_addresses_check("a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8", t_err()));
}

TEST(rpc_route, bad_lists_are_told_in_words)
{
    static const struct {
        const char *list, *says;
    } bad[] = {
        {"a:1,,b:2", "address 2 of this list is empty"},
        {",a:1", "address 1 of this list is empty"},
        {"a:1,", "address 2 of this list is empty"},
        {",", "address 1 of this list is empty"},
        {"a:1, b:2,a:1", "lists a:1 twice"},
        {"a:1,b", "'a:1,b': 'b' is not an address"},
        {"a:1,b:70707", "'b:70707' is not an address"},
        {"a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9", "more than 8 addresses"},
        {"nowhere", "'nowhere' is not an address"},
        {"", "'' is not an address"},
        {NULL, "'' is not an address"},
    };
    struct sl_error err;

    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        err = (struct sl_error)SL_ERROR_INIT;
        T_FAILS(SL_EINVAL, rpc_addresses_check(bad[i].list, &err));
        T_HAS(err.text, bad[i].says);
    }
}

// One call after the other to a, b and c: where it goes, how it ends, and
// whether the next one is made at once.
struct step {
    unsigned at;
    enum sl_err code;
    const char *text;
    bool untried;
};

static void walk(const struct step *steps, size_t count)
{
    struct rpc_route r;

    T_OK(rpc_route_init(&r, "a:1,b:1,c:1", t_err()));
    for (size_t i = 0; i < count; i++) {
        T_EQ(r.at, steps[i].at);
        rpc_route_note(&r, r.at, steps[i].code, steps[i].text);
        T_EQ(rpc_route_untried(&r), steps[i].untried);
    }
    rpc_route_release(&r);
}

#define WALK(...)                                                              \
    do {                                                                       \
        const struct step steps[] = {__VA_ARGS__};                             \
        walk(steps, SL_COUNT(steps));                                          \
    } while (0)

TEST(rpc_route, the_next_is_tried_when_one_does_not_serve)
{
    WALK({0, SL_OK, "", false}, {0, SL_EUNAVAIL, "gone", true},
         {1, SL_ETIMEDOUT, "", true}, {2, SL_OK, "", false},
         {2, SL_EEXIST, "its own error", false},
         {2, SL_ECANCELED, "by us", false}, {2, SL_EUNAVAIL, "", true},
         {0, SL_OK, "", false});
}

TEST(rpc_route, a_round_of_failures_ends_and_begins_again)
{
    WALK({0, SL_EUNAVAIL, "", true}, {1, SL_EUNAVAIL, "", true},
         {2, SL_EUNAVAIL, "", false}, {0, SL_EUNAVAIL, "", true},
         {1, SL_EUNAVAIL, "", true}, {2, SL_EUNAVAIL, "", false},
         {0, SL_EUNAVAIL, "", true});
}

TEST(rpc_route, a_standby_sends_calls_to_the_one_that_serves)
{
    WALK({0, SL_EUNAVAIL, "standby of c:1", true}, {2, SL_OK, "", false});
    WALK({0, SL_EUNAVAIL, "standby of c:1 since 12:00", true},
         {2, SL_EUNAVAIL, "standby of b:1", true}, {1, SL_OK, "", false});
}

TEST(rpc_route, an_address_outside_of_the_list_is_never_used)
{
    WALK({0, SL_EUNAVAIL, "standby of evil:1", true},
         {1, SL_EUNAVAIL, "standby of none that is known", true},
         {2, SL_EUNAVAIL, "standby of c:11", false},
         {0, SL_EUNAVAIL, "standby of ", true},
         {1, SL_EUNAVAIL, "c:1 is the leader", true});
}

TEST(rpc_route, two_that_name_each_other_do_not_hide_the_third)
{
    WALK({0, SL_EUNAVAIL, "standby of b:1", true},
         {1, SL_EUNAVAIL, "standby of a:1", true}, {2, SL_OK, "", false});
    WALK({0, SL_EUNAVAIL, "connection refused", true},
         {1, SL_EUNAVAIL, "standby of a:1", true}, {2, SL_OK, "", false});
    WALK({0, SL_EUNAVAIL, "standby of a:1", true}, {1, SL_OK, "", false});
}

TEST(rpc_route, the_end_of_an_older_call_moves_nothing)
{
    struct rpc_route r;

    T_OK(rpc_route_init(&r, "a:1,b:1,c:1", t_err()));
    rpc_route_note(&r, 0, SL_EUNAVAIL, "gone");
    rpc_route_note(&r, 0, SL_EUNAVAIL, "gone"); // another call to it
    T_EQ(r.at, 1);
    rpc_route_note(&r, 0, SL_OK, ""); // an answer that came late
    T_TRUE(rpc_route_untried(&r));
    rpc_route_release(&r);
}

// ---- real channels

static void stand_by(struct rpc_call *call, void *arg)
{
    struct sl_error err = SL_ERROR_INIT;

    sl_fail(&err, SL_EUNAVAIL, RPC_STANDBY "%s", (const char *)arg);
    rpc_answer(call, SL_EUNAVAIL, &err, NULL);
}

static void open_standby(struct rpc_stream *stream, void *arg)
{
    struct sl_error err = SL_ERROR_INIT;

    sl_fail(&err, SL_EUNAVAIL, RPC_STANDBY "%s", (const char *)arg);
    rpc_stream_finish(stream, SL_EUNAVAIL, &err);
}

// Says one thing, then no more until the server ends.
static void open_serving(struct rpc_stream *stream, void *arg)
{
    struct rpc_msg msg;

    (void)arg;
    rpc_msg_init(&msg);
    memset(rpc_msg_head(&msg, 1), 7, 1);
    T_OK(rpc_stream_send(stream, &msg));
}

static const struct rpc_method standby_methods[] = {
    {.path = "/t.T/Echo", .kind = RPC_UNARY, .unary = stand_by},
    {.path = "/t.T/Watch", .kind = RPC_SERVER_STREAM, .open = open_standby},
};
static const struct rpc_method serving_methods[] = {
    {.path = "/t.T/Echo", .kind = RPC_UNARY, .unary = kit_echo},
    {.path = "/t.T/Watch", .kind = RPC_SERVER_STREAM, .open = open_serving},
};

// A dead address, one that stands by for the third, and one that serves.
struct three {
    struct world standby, serving;
    struct rpc_channel *channel;
    char leader[256];
};

static void three_open(struct three *t)
{
    char list[700];

    world_open(&t->serving, serving_methods, SL_COUNT(serving_methods), NULL,
               false);
    snprintf(t->leader, sizeof(t->leader), "%s", t->serving.address);
    world_open(&t->standby, standby_methods, SL_COUNT(standby_methods),
               t->leader, false);
    snprintf(list, sizeof(list), DEAD ",%s,%s", t->standby.address, t->leader);
    T_OK(
        rpc_channel_new(&t->channel, t->serving.io, list, NULL, NULL, t_err()));
}

static void three_close(struct three *t)
{
    rpc_channel_free(t->channel);
    world_close(&t->standby);
    world_close(&t->serving);
}

static enum sl_err ask(struct rpc_channel *channel, bool patient)
{
    struct rpc_call_options options = {.deadline_ms = DEADLINE_MS,
                                       .wait_for_ready = patient};
    struct sl_error err = SL_ERROR_INIT;
    struct rpc_body *reply = NULL;
    enum sl_err rc =
        rpc_call_sync(channel, "/t.T/Echo", NULL, &options, &reply, &err);

    rpc_body_free(reply);
    return rc;
}

TEST(rpc_route, calls_reach_the_one_that_serves)
{
    struct three t;

    three_open(&t);
    T_STR(rpc_channel_address(t.channel), DEAD);
    T_FALSE(rpc_channel_untried(t.channel));
    T_FAILS(SL_EUNAVAIL, ask(t.channel, true)); // it does not wait for it
    T_STR(rpc_channel_address(t.channel), t.standby.address);
    T_TRUE(rpc_channel_untried(t.channel));
    T_FAILS(SL_EUNAVAIL, ask(t.channel, false));
    T_STR(rpc_channel_address(t.channel), t.leader);
    T_OK(ask(t.channel, false));
    T_FALSE(rpc_channel_untried(t.channel));
    T_OK(ask(t.channel, false));
    three_close(&t);
}

struct watch {
    sem_t came, ended;
    enum sl_err code;
};

static void watch_came(struct rpc_stream *stream, const struct sl_slices *body,
                       void *user)
{
    (void)stream;
    T_EQ(body->bytes, 1);
    sem_post(&((struct watch *)user)->came);
}

static void watch_ended(struct rpc_stream *stream, enum sl_err code,
                        const struct sl_error *err, void *user)
{
    struct watch *w = user;

    (void)stream;
    (void)err;
    w->code = code;
    sem_post(&w->ended);
}

static struct rpc_stream *watch_open(struct rpc_channel *channel,
                                     struct watch *w)
{
    static const struct rpc_stream_events events = {.on_message = watch_came,
                                                    .on_end = watch_ended};
    struct rpc_call_options options = {.deadline_ms = RPC_NO_DEADLINE};
    struct rpc_stream *stream;
    struct rpc_msg msg;

    rpc_msg_init(&msg);
    sem_init(&w->came, 0, 0);
    sem_init(&w->ended, 0, 0);
    T_OK(rpc_stream_open(&stream, channel, "/t.T/Watch", &msg, &options,
                         &events, w, t_err()));
    return stream;
}

TEST(rpc_route, streams_reach_the_one_that_serves_and_leave_it_when_it_ends)
{
    struct three t;
    struct watch w;

    three_open(&t);
    for (int i = 0; i < 2; i++) { // dead, standby
        rpc_stream_unref(watch_open(t.channel, &w));
        wait_for(&w.ended);
        T_FAILS(SL_EUNAVAIL, w.code);
        T_TRUE(rpc_channel_untried(t.channel));
    }
    T_STR(rpc_channel_address(t.channel), t.leader);
    rpc_stream_unref(watch_open(t.channel, &w));
    wait_for(&w.came);
    rpc_server_stop(t.serving.server);
    wait_for(&w.ended);
    T_STR(rpc_channel_address(t.channel), DEAD); // the next, and it is untried:
    T_TRUE(rpc_channel_untried(t.channel));      // a message had come meanwhile
    three_close(&t);
}

TEST(rpc_route, a_stream_that_its_client_gives_up_for_a_reason_moves_on)
{
    struct sl_error silent = SL_ERROR_INIT;
    struct three t;
    struct watch w;
    struct rpc_stream *stream;

    three_open(&t);
    T_FAILS(SL_EUNAVAIL, ask(t.channel, false));
    T_FAILS(SL_EUNAVAIL, ask(t.channel, false));
    T_OK(ask(t.channel, false));
    stream = watch_open(t.channel, &w);
    wait_for(&w.came);
    rpc_stream_cancel(stream);
    wait_for(&w.ended);
    T_STR(rpc_channel_address(t.channel), t.leader);
    rpc_stream_unref(stream);
    stream = watch_open(t.channel, &w);
    wait_for(&w.came);
    sl_fail(&silent, SL_EUNAVAIL, "silent");
    rpc_stream_finish(stream, SL_EUNAVAIL, &silent);
    wait_for(&w.ended);
    T_STR(rpc_channel_address(t.channel), DEAD);
    rpc_stream_unref(stream);
    three_close(&t);
}
