// SPDX-License-Identifier: Apache-2.0
// Two psservers without their mains: one has shards, the other one follows
// them, over real sockets; and what workers hear meanwhile.
#include "psserver/roster/roster.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "psserver/roster/feed_links.h"
#include "psserver/service/api.h"
#include "state/shard/replica.h"
#include "tests/unit/psserver/kit.h"

enum { TERM = 3, PATIENCE_MS = 20000, LOOK_MS = 2, MIB = 1 << 20 };

// A psserver, and what it has told the coordinator.
struct side {
    struct shard_table *store;
    struct shards_api *api;
    struct rpc_server *rpc;
    struct roster *roster;
    char address[64];
    unsigned hellos, snapshots, ready, failures;
    struct wire_tag tag; // of the last snapshot
    uint64_t feed;
};

struct duo {
    struct rpc_io *io;
    struct loop *loop;
    struct loop_timer *look;
    struct side owner, follower;
};

static void heard(void *arg, const Sluice__V1__AttendUp *up)
{
    struct side *p = arg;

    switch (up->kind_case) {
    case SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO:
        T_STR(up->shard_hello->failure, "");
        p->hellos++;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT:
        T_STR(up->snapshot->failure, "");
        p->snapshots++;
        p->tag = wire_tag_of(up->snapshot->tag);
        p->feed = up->snapshot->feed;
        break;
    case SLUICE__V1__ATTEND_UP__KIND_REPLICA:
        p->ready += up->replica->ready;
        p->failures += up->replica->failure[0] != '\0';
        break;
    default:
        break;
    }
}

// The loop stops now and then, and what is waited for is looked at.
#define UNTIL(d, condition)                                                    \
    do {                                                                       \
        uint64_t until_ms = sl_real_ms() + PATIENCE_MS;                        \
        while (!(condition)) {                                                 \
            T_ASSERT(sl_real_ms() < until_ms);                                 \
            loop_run((d)->loop);                                               \
        }                                                                      \
    } while (0)

static void looks(void *arg)
{
    loop_stop(arg);
}

static void side_open(struct side *p, struct duo *d,
                      const struct rpc_limits *limits)
{
    struct shards_api_setup about = {
        .loop = d->loop, .name = "ps-0", .fs = fs_posix()};
    struct roster_setup setup = {.loop = d->loop,
                                 .fs = fs_posix(),
                                 .folder = t_path("store"),
                                 .send = heard,
                                 .arg = p,
                                 .acked = shards_api_acked,
                                 .io = d->io};
    struct rpc_server_options options = {.limits = limits};
    struct rpc_table table;
    int port = 0;

    T_OK(store_new(&p->store));
    about.store = setup.store = p->store;
    about.folder = setup.folder;
    T_OK(shards_api_new(&p->api, &about));
    setup.acked_arg = p->api;
    table = shards_api_table(p->api);
    T_OK(rpc_server_new(&p->rpc, d->io, &table, 1, &options, t_err()));
    T_OK(rpc_server_bind(p->rpc, "127.0.0.1:0", NULL, &port, t_err()));
    snprintf(p->address, sizeof(p->address), "127.0.0.1:%d", port);
    T_OK(roster_new(&p->roster, &setup));
    rpc_server_start(p->rpc);
}

// `limits` of both; NULL: defaults.
static void duo_open(struct duo *d, const struct rpc_limits *limits)
{
    *d = (struct duo){.io = NULL};
    T_OK(rpc_io_new(&d->io, &(struct rpc_io_options){.threads = 2}, t_err()));
    T_OK(loop_new(&d->loop, t_err()));
    T_OK(loop_timer_new(&d->look, d->loop, looks, d->loop));
    loop_timer_start(d->look, LOOK_MS, LOOK_MS);
    side_open(&d->owner, d, limits);
    side_open(&d->follower, d, limits);
}

// In the order of server.c.
static void side_close(struct side *p)
{
    rpc_server_stop(p->rpc);
    shards_api_stop(p->api);
    rpc_server_free(p->rpc);
    roster_free(p->roster);
    store_free(p->store);
    shards_api_free(p->api);
}

static void duo_close(struct duo *d)
{
    side_close(&d->owner);
    side_close(&d->follower);
    loop_timer_free(d->look);
    loop_free(d->loop);
    rpc_io_free(d->io);
}

// ---- the coordinator's part

static uint64_t order_of(uint32_t shard)
{
    return 10 + shard;
}

// One variable of so many elements.
static void kit_of(struct kit *k, uint32_t shard, uint64_t elements)
{
    const uint64_t shape[] = {elements, 0};

    kit_clear(k);
    k->spec.shard = shard;
    kit_variable(k, "w", shape);
}

// Has a side hold the shard; as a follower, if `follow` is the order of a feed.
static void place(struct duo *d, struct side *p, struct kit *k,
                  struct wire_tag at_least, uint64_t follow)
{
    Sluice__V1__Place m = SLUICE__V1__PLACE__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(at_least);
    unsigned before = p->hellos;

    m.term = TERM;
    m.shard = &k->spec;
    m.at_least = &tag;
    m.prepare = follow != 0;
    m.follow = follow;
    m.follow_incarnation = follow != 0;
    roster_place(p->roster, &m);
    UNTIL(d, p->hellos > before);
}

static struct shard *served(struct duo *d, struct kit *k)
{
    Sluice__V1__Admit m = SLUICE__V1__ADMIT__INIT;

    place(d, &d->owner, k, (struct wire_tag){0, 0}, 0);
    m.term = TERM;
    m.job = 7;
    m.shard = k->spec.shard;
    m.incarnation = 1;
    roster_admit(d->owner.roster, &m);
    return store_find(d->owner.store, 7, k->spec.shard);
}

static void snapshot(struct duo *d, uint32_t shard, uint64_t order)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;
    unsigned before = d->owner.snapshots;

    m.job = 7;
    m.shard = shard;
    m.incarnation = 1;
    m.request = before + 1;
    m.feed = order;
    roster_snapshot(d->owner.roster, &m);
    UNTIL(d, d->owner.snapshots > before);
    T_EQ(d->owner.feed, order);
}

// A snapshot, with which the feed begins.
static void feed_begins(struct duo *d, const struct kit *k)
{
    snapshot(d, k->spec.shard, order_of(k->spec.shard));
}

static void feed_as(struct duo *d, uint32_t shard, const char *address,
                    enum replica_kind kind)
{
    Sluice__V1__Feed m = SLUICE__V1__FEED__INIT;

    m.term = TERM;
    m.job = 7;
    m.shard = shard;
    m.incarnation = 1;
    m.order = order_of(shard);
    m.address = (char *)address;
    m.replica = true;
    m.follow = kind == REPLICA_FOLLOWS;
    roster_feed(d->owner.roster, &m);
}

static void feed(struct duo *d, uint32_t shard, const char *address)
{
    feed_as(d, shard, address, REPLICA_ACKS);
}

// A shard that the other side follows, and has all of.
static struct shard *followed_as(struct duo *d, struct kit *k,
                                 enum replica_kind kind)
{
    uint64_t order = order_of(k->spec.shard);
    struct shard *s = served(d, k);

    feed_begins(d, k);
    place(d, &d->follower, k, d->owner.tag, order);
    feed_as(d, k->spec.shard, d->follower.address, kind);
    UNTIL(d, replica_has_all(s, order));
    return s;
}

static struct shard *followed(struct duo *d, struct kit *k)
{
    return followed_as(d, k, REPLICA_ACKS);
}

static void replica_out(struct duo *d, uint32_t shard)
{
    Sluice__V1__ReplicaOut m = SLUICE__V1__REPLICA_OUT__INIT;

    m.term = TERM;
    m.job = 7;
    m.shard = shard;
    m.order = order_of(shard);
    roster_replica_out(d->owner.roster, &m);
}

// Connections that the side has.
static unsigned connections(const struct side *p)
{
    unsigned port = (unsigned)atoi(strchr(p->address, ':') + 1), n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in6 at, peer; // whose port lies where IPv4's does
        socklen_t size = sizeof(at);

        if (getsockname(fd, (struct sockaddr *)&at, &size) != 0 ||
            (at.sin6_family != AF_INET && at.sin6_family != AF_INET6) ||
            ntohs(at.sin6_port) != port)
            continue;
        size = sizeof(peer);
        n += getpeername(fd, (struct sockaddr *)&peer, &size) == 0;
    }
    return n;
}

// ---- the worker's part

// A push that is under way.
struct pushing {
    atomic_bool over;
    enum sl_err code;
    struct kit_payload payload;
};

static void push_over(void *arg, enum sl_err code, const struct sl_error *err,
                      const struct sl_slices *reply)
{
    struct pushing *p = arg;

    (void)err;
    (void)reply;
    p->code = code;
    atomic_store(&p->over, true);
}

// Over a channel of its own: large calls of one channel take turns.
static void push_start(struct pushing *p, struct rpc_channel *channel,
                       const struct shard *s)
{
    const struct rpc_call_options options = {.deadline_ms = PATIENCE_MS};
    struct rpc_msg msg;
    struct wire_push push;

    atomic_init(&p->over, false);
    kit_payload_equal(&p->payload, 1, s->plan.elements, 0);
    push = kit_push(0, 0, &p->payload);
    push.shard = s->plan.shard;
    rpc_msg_init(&msg);
    T_OK(wire_head_push(&msg, &push, push.payload.bytes));
    rpc_msg_part(&msg, push.payload.at[0].data, push.payload.bytes);
    rpc_call_start(channel, WIRE_PUSH, &msg, &options, push_over, p, NULL);
}

static uint64_t steps_of(struct shard *s)
{
    struct shard_brief brief;

    shard_brief(s, true, &brief);
    return brief.steps;
}

// While a replica loads its snapshot workers go on, and its log has all that.
TEST(duo, a_log_has_room_for_what_is_pushed_while_a_replica_loads)
{
    static struct duo d;
    struct shard *s;
    struct kit k;

    duo_open(&d, NULL);
    kit_of(&k, 2, MIB);
    s = served(&d, &k);
    feed_begins(&d, &k);
    for (uint32_t step = 0; step < 40; step++) // of 4 MiB each
        kit_count(s, step / 4, step % 4, 1);
    T_STR(s->feed.over == NULL ? "" : s->feed.over, "");
    shard_unref(s);
    duo_close(&d);
}

// Two psservers that replicate to each other would else wait for each other: of
// requests of one peer 4 MiB have room here.
TEST(duo, a_push_that_waits_for_a_replica_has_no_room_of_others)
{
    const struct rpc_limits limits = {.inbound_bytes = 64 * (size_t)MIB};
    static struct rpc_channel *channel[2];
    static struct pushing pushing[2];
    struct shard *waits, *other;
    static struct duo d;
    struct kit k[2];

    duo_open(&d, &limits);
    for (int i = 0; i < 2; i++) {
        kit_of(&k[i], 2 + (uint32_t)i, 3 * MIB / sizeof(float));
        T_OK(rpc_channel_new(&channel[i], d.io, d.owner.address, NULL, NULL,
                             t_err()));
    }
    waits = served(&d, &k[0]);
    other = served(&d, &k[1]);
    feed_begins(&d, &k[0]);
    T_TRUE(replica_bind(waits, order_of(2), 0, REPLICA_ACKS));
    push_start(&pushing[0], channel[0], waits);
    UNTIL(&d, steps_of(waits) == 1);
    push_start(&pushing[1], channel[1], other);
    UNTIL(&d, atomic_load(&pushing[1].over));
    T_OK(pushing[1].code);
    T_FALSE(atomic_load(&pushing[0].over)); // P1
    replica_out(&d, 2);
    UNTIL(&d, atomic_load(&pushing[0].over));
    T_OK(pushing[0].code);
    for (int i = 0; i < 2; i++)
        rpc_channel_free(channel[i]);
    shard_unref(waits);
    shard_unref(other);
    duo_close(&d);
    for (int i = 0; i < 2; i++)
        kit_payload_release(&pushing[i].payload);
}

// A worker asks again and again, for as long as a shard stands (P3).
TEST(duo, an_answer_waits_no_longer_than_its_caller)
{
    const struct rpc_call_options options = {.deadline_ms = 1000};
    const struct wire_ask ask = kit_ask(0, 1);
    struct rpc_channel *channel;
    static struct pushing asking;
    static struct duo d;
    struct rpc_msg msg;
    struct shard *s;
    struct kit k;

    duo_open(&d, NULL);
    kit_of(&k, 2, 12);
    s = served(&d, &k);
    feed_begins(&d, &k);
    T_TRUE(replica_bind(s, order_of(2), 0, REPLICA_ACKS));
    kit_count(s, 0, 0, 1);
    T_OK(rpc_channel_new(&channel, d.io, d.owner.address, NULL, NULL, t_err()));
    rpc_msg_init(&msg);
    T_OK(wire_head_ask(&msg, &ask));
    rpc_call_start(channel, WIRE_ASK, &msg, &options, push_over, &asking, NULL);
    UNTIL(&d, rpc_server_open_calls(d.owner.rpc) == 1);
    UNTIL(&d, atomic_load(&asking.over));
    T_TRUE(asking.code != SL_OK); // P1
    UNTIL(&d, rpc_server_open_calls(d.owner.rpc) == 0);
    T_TRUE(replica_bound(s) != 0);
    rpc_channel_free(channel);
    shard_unref(s);
    duo_close(&d);
}

// Where a replica follows, a push goes to it behind the answer; and none waits
// when that is not possible any more (P6).
TEST(duo, a_push_is_answered_before_its_replica_has_it)
{
    static struct pushing pushing[2];
    struct rpc_channel *channel;
    static struct duo d;
    struct shard *s, *to;
    struct kit k;

    duo_open(&d, NULL);
    kit_of(&k, 2, 12);
    s = followed_as(&d, &k, REPLICA_FOLLOWS);
    to = store_find(d.follower.store, 7, 2);
    T_OK(rpc_channel_new(&channel, d.io, d.owner.address, NULL, NULL, t_err()));
    push_start(&pushing[0], channel, s);
    UNTIL(&d, atomic_load(&pushing[0].over));
    T_OK(pushing[0].code);
    UNTIL(&d, replica_lag(s) == 0);
    T_EQ(steps_of(to), 1);
    shard_feed_stop(s, order_of(2), "nothing goes any more");
    push_start(&pushing[1], channel, s);
    UNTIL(&d, atomic_load(&pushing[1].over));
    T_OK(pushing[1].code);
    T_EQ(replica_bound(s), order_of(2)); // nobody has told it
    rpc_channel_free(channel);
    shard_unref(s);
    shard_unref(to);
    duo_close(&d);
    for (int i = 0; i < 2; i++)
        kit_payload_release(&pushing[i].payload);
}

// A host may have 256 connections to a psserver, and a job many more shards.
TEST(duo, shards_that_are_followed_share_connections)
{
    enum { SHARDS = 6, THREADS = 2 }; // duo_open's
    static struct shard *s[SHARDS];
    static struct kit k[SHARDS];
    static struct duo d;

    duo_open(&d, NULL);
    for (uint32_t i = 0; i < SHARDS; i++) {
        kit_of(&k[i], i, 12);
        s[i] = followed(&d, &k[i]);
        T_GE(connections(&d.follower), 1);
        T_LE(connections(&d.follower), THREADS);
    }
    replica_out(&d, 0); // the others go on
    for (uint32_t i = 1; i < SHARDS; i++) {
        struct kit_payload payload;
        struct wire_push_reply reply;
        struct wire_push push;

        kit_payload_equal(&payload, 1, 12, 0);
        push = kit_push(0, 0, &payload);
        push.shard = i;
        T_OK(shard_push(s[i], &push, &reply, NULL, t_err()));
        kit_payload_release(&payload);
        UNTIL(&d, replica_lag(s[i]) == 0);
    }
    snapshot(&d, 1, 0); // which goes by a thread of its own
    UNTIL(&d, replica_lag(s[1]) == 0);
    T_EQ(d.owner.failures, 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        shard_unref(s[i]);
    duo_close(&d);
}

TEST(duo, a_call_has_time_for_those_before_it)
{
    struct feed_link *first, *second;
    struct feed_links links;
    static struct duo d;

    duo_open(&d, NULL);
    feed_links_init(&links, d.loop, d.io, NULL);
    T_OK(feed_links_take(&first, &links, "127.0.0.1:1", 0, t_err()));
    T_OK(feed_links_take(&second, &links, "127.0.0.1:1", 4, t_err()));
    T_TRUE(first == second);
    T_EQ(feed_link_enter(first, 64 * (size_t)MIB), 0);
    T_EQ(feed_link_enter(first, MIB), 1024);
    feed_link_leave(first, 64 * (size_t)MIB);
    T_EQ(feed_link_enter(first, MIB), 16);
    feed_link_put(first);
    feed_link_put(second);
    feed_links_release(&links);
    duo_close(&d);
}

// Not by the next heartbeat, for a psserver makes one replica at a time; and
// not by each, for it may have thousands.
TEST(duo, P2_that_a_replica_is_ready_is_told_at_once_and_once)
{
    static struct duo d;
    struct shard *s;
    struct kit k;

    duo_open(&d, NULL);
    kit_of(&k, 2, 12);
    s = followed(&d, &k);
    UNTIL(&d, d.owner.ready == 1);
    for (unsigned i = 1; i <= 3; i++)
        roster_tick(d.owner.roster, i, false);
    T_EQ(d.owner.ready, 1);
    roster_attached(d.owner.roster); // to another coordinator
    roster_tick(d.owner.roster, 4, false);
    T_EQ(d.owner.ready, 2);
    replica_out(&d, 2);
    roster_attached(d.owner.roster);
    T_EQ(d.owner.ready, 2);
    shard_unref(s);
    duo_close(&d);
}

// Its call ends with the psserver, which does not wait for that before.
TEST(duo, a_feed_to_nobody_can_be_given_up)
{
    static struct duo d;
    struct shard *s;
    struct kit k;

    duo_open(&d, NULL);
    kit_of(&k, 2, 12);
    s = served(&d, &k);
    feed_begins(&d, &k);
    feed(&d, 2, "127.0.0.1:1");
    T_EQ(replica_bound(s), order_of(2));
    replica_out(&d, 2);
    T_EQ(replica_bound(s), 0);
    feed_begins(&d, &k);
    feed(&d, 2, "127.0.0.1:1");
    shard_unref(s);
    duo_close(&d);
}
