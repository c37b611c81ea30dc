// SPDX-License-Identifier: Apache-2.0
// Sums over ranks: several in this process, each with its own server, threads
// and connections.
#include "trainer/sum/sum_group.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/harness/t.h"
#include "tests/unit/trainer/rank_server.h"
#include "trainer/sum/sum_host.h"
#include "trainer/sum/net.h"

#define RANKS 6
#define TIMEOUT_MS 60000

struct rank {
    struct ring *ring;
    uint32_t self;
    struct rank_server at;
    struct rank_group *group, *early; // of lanes 0 and 1
    pthread_t thread;
    enum sl_err rc; // of the last sum
    struct sl_error err;
    float *data;
};

struct ring {
    struct rank rank[RANKS];
    struct group_rank who[RANKS];
    uint32_t count;
    enum wire_type wire;
    uint32_t timeout_ms;
    bool lanes;              // two
    struct wire_token token; // of the generation
    // What all do at once.
    size_t elements;
    uint64_t first, buckets;
    bool mixed; // buckets of odd numbers are spread, not summed
};

// hosts[i] names the host of rank i, by a letter.
static void ring_open(struct ring *g, const char *hosts, enum wire_type wire)
{
    static char name[RANKS][2];

    *g = (struct ring){.count = (uint32_t)strlen(hosts),
                       .wire = wire,
                       .timeout_ms = TIMEOUT_MS};
    for (uint32_t i = 0; i < g->count; i++) {
        struct rank *r = &g->rank[i];

        r->ring = g;
        r->self = i;
        rank_server_open(&r->at, i);
        name[i][0] = hosts[i];
        g->who[i] = (struct group_rank){r->at.address, name[i]};
    }
}

static void group_open(struct rank *r, uint64_t generation)
{
    const struct ring *g = r->ring;
    struct group_options o = {
        .io = r->at.io,
        .ranks = r->at.ranks,
        .of = {7, generation, r->ring->token},
        .rank = g->who,
        .count = g->count,
        .self = r->self,
        .wire = g->wire,
        .timeout_ms = g->timeout_ms,
    };

    T_OK(group_new(&r->group, &o, t_err()));
    o.lane = 1;
    if (g->lanes)
        T_OK(group_new(&r->early, &o, t_err()));
}

static void generation(struct ring *g, uint64_t number)
{
    for (uint32_t i = 0; i < g->count; i++) {
        group_free(g->rank[i].group);
        group_free(g->rank[i].early);
        g->rank[i].group = g->rank[i].early = NULL;
    }
    for (uint32_t i = 0; i < g->count; i++)
        group_open(&g->rank[i], number);
}

static void abort_all(struct ring *g, const char *why)
{
    for (uint32_t i = 0; i < g->count; i++) {
        group_abort(g->rank[i].group, why);
        if (g->lanes)
            group_abort(g->rank[i].early, why);
    }
}

static void ring_close(struct ring *g)
{
    abort_all(g, "the test is over");
    for (uint32_t i = 0; i < g->count; i++) {
        group_free(g->rank[i].group);
        group_free(g->rank[i].early);
    }
    for (uint32_t i = 0; i < g->count; i++) {
        rank_server_close(&g->rank[i].at);
        sl_free(g->rank[i].data);
    }
}

// What a rank has at an element of a bucket.
static float value(uint32_t rank, uint64_t bucket, size_t i)
{
    return (float)((rank + 1) * 1000 + bucket * 10) / 7.0f +
           (float)(i % 97) / 3.0f;
}

static bool spreads(const struct ring *g, uint64_t bucket)
{
    return g->mixed && bucket % 2 == 1;
}

static void *work(void *arg)
{
    struct rank *r = arg;
    struct ring *g = r->ring;
    size_t n = g->elements;

    r->rc = SL_OK;
    for (uint64_t b = 0; b < g->buckets; b++) {
        for (size_t i = 0; i < n; i++)
            r->data[b * n + i] = value(r->self, g->first + b, i);
        r->rc = (spreads(g, g->first + b) ? group_spread : group_start)(
            r->group, g->first + b, r->data + b * n, n, NULL);
        if (r->rc != SL_OK)
            return NULL;
    }
    for (uint64_t b = 0; b < g->buckets && r->rc == SL_OK; b++)
        r->rc = group_wait(r->group, g->first + b, &r->err);
    return NULL;
}

// All ranks but `without` at once.
static void all_work(struct ring *g, uint64_t first, uint64_t buckets,
                     size_t elements, uint32_t without)
{
    g->first = first;
    g->buckets = buckets;
    g->elements = elements;
    for (uint32_t i = 0; i < g->count; i++) {
        struct rank *r = &g->rank[i];

        sl_free(r->data);
        r->data = sl_malloc(buckets * elements * sizeof(float) + 1);
        if (i != without)
            T_EQ(pthread_create(&r->thread, NULL, work, r), 0);
    }
    for (uint32_t i = 0; i < g->count; i++)
        if (i != without)
            pthread_join(g->rank[i].thread, NULL);
}

static void check_sums(struct ring *g, double tolerance)
{
    size_t all = g->buckets * g->elements;

    for (uint32_t k = 0; k < g->count; k++) {
        T_EQ(g->rank[k].rc, SL_OK);
        T_EQ(memcmp(g->rank[k].data, g->rank[0].data, all * sizeof(float)), 0);
    }
    for (uint64_t b = 0; b < g->buckets; b++) {
        for (size_t i = 0; i < g->elements; i += 1 + g->elements / 1000) {
            uint32_t of = spreads(g, g->first + b) ? 1 : g->count;
            double want = 0;

            for (uint32_t k = 0; k < of; k++)
                want += (double)value(k, g->first + b, i);
            T_NEAR(g->rank[0].data[b * g->elements + i], want,
                   tolerance * want);
        }
    }
}

static const char *const layouts[] = {
    "a",  // alone
    "ab", // two hosts
    "aa", // one host
    "abc",    "aaa",
    "aabb", // hierarchical
    "abab", // in any order
    "aaabcc", "aaaaaa",
};

// Around every limit: a piece, a chunk, direct exchanges, what is done in
// the background; and vectors shorter than the ring.
static const size_t sizes[] = {1,     5,     8191,  8192,  8193,   32768, 32769,
                               65535, 65536, 65537, 70000, 131072, 400001};

TEST(group, every_layout_adds_every_length)
{
    struct ring g;

    for (unsigned l = 0; l < SL_COUNT(layouts); l++) {
        uint64_t bucket = 0;

        ring_open(&g, layouts[l], WIRE_F32);
        generation(&g, 1);
        for (unsigned s = 0; s < SL_COUNT(sizes); s++) {
            all_work(&g, bucket, 3, sizes[s], UINT32_MAX);
            bucket += 3;
            check_sums(&g, 1e-6);
        }
        ring_close(&g);
    }
}

// What rank 0 has goes to all, between sums, in every layout.
TEST(group, a_spread_takes_the_place_of_a_sum)
{
    struct ring g;

    for (unsigned l = 0; l < SL_COUNT(layouts); l++) {
        ring_open(&g, layouts[l], l % 2 ? WIRE_BF16 : WIRE_F32);
        generation(&g, 1);
        g.mixed = true;
        all_work(&g, 0, 4, 33, UINT32_MAX);
        check_sums(&g, l % 2 ? 0.05 : 1e-6);
        all_work(&g, 4, 4, 90000, UINT32_MAX);
        check_sums(&g, l % 2 ? 0.05 : 1e-6);
        ring_close(&g);
    }
}

TEST(group, sixteen_bits_travel_and_all_have_the_same)
{
    static const struct {
        enum wire_type wire;
        double tolerance;
    } narrow[] = {{WIRE_BF16, 0.05}, {WIRE_F16, 0.01}};
    struct ring g;

    for (unsigned w = 0; w < SL_COUNT(narrow); w++) {
        ring_open(&g, "abcc", narrow[w].wire);
        generation(&g, 1);
        all_work(&g, 0, 2, 100, UINT32_MAX);
        check_sums(&g, narrow[w].tolerance);
        all_work(&g, 2, 2, 200000, UINT32_MAX);
        check_sums(&g, narrow[w].tolerance);
        ring_close(&g);
    }
}

// The same vectors in the same layout: the same bits, whatever the timing.
TEST(group, the_order_of_additions_does_not_depend_on_timing)
{
    struct ring g;
    float *first = NULL;
    size_t bytes = 0;

    for (unsigned again = 0; again < 3; again++) {
        ring_open(&g, "aabc", WIRE_F32);
        generation(&g, again + 1);
        all_work(&g, 0, 2, 150000, UINT32_MAX);
        check_sums(&g, 1e-6);
        bytes = g.buckets * g.elements * sizeof(float);
        if (first == NULL) {
            first = sl_malloc(bytes);
            memcpy(first, g.rank[0].data, bytes);
        }
        T_EQ(memcmp(first, g.rank[0].data, bytes), 0);
        ring_close(&g);
    }
    sl_free(first);
}

struct watched {
    struct rank_group *group;
    _Atomic bool over;
    bool fell;
};

static void *watch(void *arg)
{
    struct watched *w = arg;
    struct group_stats now, before = {0};

    while (!atomic_load(&w->over)) {
        group_stats(w->group, &now);
        w->fell = w->fell || now.wait_ms < before.wait_ms;
        before = now;
    }
    return NULL;
}

// The thread sanitizer sees it if a figure is not safe to read.
TEST(group, figures_are_read_while_ranks_of_a_host_wait)
{
    struct watched w = {.fell = false};
    pthread_t thread;
    struct ring g;

    ring_open(&g, "aaa", WIRE_F32);
    generation(&g, 1);
    w.group = g.rank[0].group;
    T_EQ(pthread_create(&thread, NULL, watch, &w), 0);
    all_work(&g, 0, 4, 400001, UINT32_MAX);
    check_sums(&g, 1e-6);
    atomic_store(&w.over, true);
    pthread_join(thread, NULL);
    T_FALSE(w.fell);
    ring_close(&g);
}

static void *abort_soon(void *arg)
{
    abort_all(arg, "as asked");
    return NULL;
}

TEST(group, an_abort_ends_every_wait)
{
    static const char *const some[] = {"aaa", "abc", "aabb"};
    pthread_t thread;
    struct ring g;

    for (unsigned l = 0; l < SL_COUNT(some); l++) {
        ring_open(&g, some[l], WIRE_F32);
        generation(&g, 1);
        all_work(&g, 0, 1, 1000, UINT32_MAX);
        check_sums(&g, 1e-6);
        // The last rank does not come, so none can end but by the abort.
        T_EQ(pthread_create(&thread, NULL, abort_soon, &g), 0);
        all_work(&g, 1, 3, 300000, g.count - 1);
        pthread_join(thread, NULL);
        for (uint32_t i = 0; i + 1 < g.count; i++) {
            T_EQ(g.rank[i].rc, SL_ESTALE);
            T_TRUE(strstr(g.rank[i].err.text, "as asked") != NULL ||
                   strstr(g.rank[i].err.text, "left generation") != NULL);
        }
        // And the next generation adds as before.
        generation(&g, 2);
        all_work(&g, 0, 2, 70000, UINT32_MAX);
        check_sums(&g, 1e-6);
        ring_close(&g);
    }
}

// ---- two lanes

#define LANE_BUCKETS 3
#define EARLY 100 // what lane 1's buckets hold is that of buckets from here on

static float *lane_data(const struct rank *r, unsigned lane, uint64_t bucket)
{
    size_t n = r->ring->elements;

    return r->data + (lane * LANE_BUCKETS + bucket) * n;
}

static void lane_start(struct rank *r, unsigned lane)
{
    const struct ring *g = r->ring;

    for (uint64_t b = 0; r->rc == SL_OK && b < LANE_BUCKETS; b++) {
        float *data = lane_data(r, lane, b);

        for (size_t i = 0; i < g->elements; i++)
            data[i] = value(r->self, lane * EARLY + b, i);
        r->rc = group_start(lane == 0 ? r->group : r->early, g->first + b, data,
                            g->elements, &r->err);
    }
}

static void lane_wait(struct rank *r, unsigned lane)
{
    for (uint64_t b = 0; r->rc == SL_OK && b < LANE_BUCKETS; b++)
        r->rc = group_wait(lane == 0 ? r->group : r->early, r->ring->first + b,
                           &r->err);
}

// The last rank starts nothing of lane 0 before all of lane 1 has come. The
// first waits for lane 0 meanwhile.
static void *work_lanes(void *arg)
{
    struct rank *r = arg;
    bool is_last = r->self + 1 == r->ring->count;

    r->rc = SL_OK;
    if (!is_last)
        lane_start(r, 0);
    lane_start(r, 1);
    if (r->self != 0)
        lane_wait(r, 1);
    if (is_last)
        lane_start(r, 0);
    lane_wait(r, 0);
    if (r->self == 0)
        lane_wait(r, 1);
    return NULL;
}

static void run_lanes(struct ring *g, void *(*work_fn)(void *), uint64_t first,
                      size_t elements)
{
    g->first = first;
    g->elements = elements;
    for (uint32_t i = 0; i < g->count; i++) {
        struct rank *r = &g->rank[i];

        sl_free(r->data);
        r->data = sl_malloc(2 * LANE_BUCKETS * elements * sizeof(float));
        T_EQ(pthread_create(&r->thread, NULL, work_fn, r), 0);
    }
    for (uint32_t i = 0; i < g->count; i++)
        pthread_join(g->rank[i].thread, NULL);
}

static void check_lanes(struct ring *g)
{
    size_t all = 2 * LANE_BUCKETS * g->elements;

    for (uint32_t k = 0; k < g->count; k++) {
        T_EQ(g->rank[k].rc, SL_OK);
        T_EQ(memcmp(g->rank[k].data, g->rank[0].data, all * sizeof(float)), 0);
    }
    for (unsigned at = 0; at < 2 * LANE_BUCKETS; at++) {
        unsigned lane = at / LANE_BUCKETS;
        const float *data = lane_data(&g->rank[0], lane, at % LANE_BUCKETS);

        for (size_t i = 0; i < g->elements; i += 1 + g->elements / 1000) {
            double want = 0;

            for (uint32_t k = 0; k < g->count; k++)
                want += (double)value(k, lane * EARLY + at % LANE_BUCKETS, i);
            T_NEAR(data[i], want, 1e-6 * want);
        }
    }
}

TEST(group, lanes_do_not_wait_for_each_other)
{
    // Small ones, large ones on one host, large ones between hosts.
    static const size_t lengths[] = {33, 20000, 70000};
    struct ring g;

    for (unsigned l = 1; l < SL_COUNT(layouts); l++) {
        ring_open(&g, layouts[l], WIRE_F32);
        g.lanes = true;
        generation(&g, 1);
        for (unsigned s = 0; s < SL_COUNT(lengths); s++) {
            run_lanes(&g, work_lanes, s * LANE_BUCKETS, lengths[s]);
            check_lanes(&g);
        }
        ring_close(&g);
    }
}

// The last comes to no lane.
static void *work_without_the_last(void *arg)
{
    struct rank *r = arg;

    r->rc = SL_OK;
    if (r->self + 1 == r->ring->count)
        return NULL;
    lane_start(r, 0);
    lane_start(r, 1);
    lane_wait(r, 1);
    if (r->rc != SL_ESTALE)
        return NULL; // and the test finds that
    r->rc = SL_OK;
    lane_wait(r, 0);
    return NULL;
}

TEST(group, an_abort_ends_the_waits_of_both_lanes)
{
    static const char *const some[] = {"aaa", "abc", "aabb"};
    pthread_t thread;
    struct ring g;

    for (unsigned l = 0; l < SL_COUNT(some); l++) {
        ring_open(&g, some[l], WIRE_F32);
        g.lanes = true;
        generation(&g, 1);
        T_EQ(pthread_create(&thread, NULL, abort_soon, &g), 0);
        run_lanes(&g, work_without_the_last, 0, 70000);
        pthread_join(thread, NULL);
        for (uint32_t i = 0; i + 1 < g.count; i++)
            T_EQ(g.rank[i].rc, SL_ESTALE);
        generation(&g, 2);
        run_lanes(&g, work_lanes, 0, 1000);
        check_lanes(&g);
        ring_close(&g);
    }
}

// Has rank `left` sum while nothing answers where rank `gone` should be.
static void sum_without(struct ring *g, const char *hosts, uint32_t gone,
                        uint32_t left)
{
    ring_open(g, hosts, WIRE_F32);
    g->timeout_ms = 300;
    generation(g, 1);
    group_free(g->rank[gone].group);
    g->rank[gone].group = NULL;
    rpc_server_free(g->rank[gone].at.server);
    g->rank[gone].at.server = NULL;
    g->first = 0;
    g->buckets = 1;
    g->elements = 100000;
    g->rank[left].data = sl_malloc(g->elements * sizeof(float));
    work(&g->rank[left]);
    T_EQ(group_suspect(g->rank[left].group), gone);
    group_open(&g->rank[gone], 1);
}

// Nobody answers where a rank should be: named, within its time.
TEST(group, a_rank_that_cannot_be_reached_is_named)
{
    struct ring g;

    sum_without(&g, "abc", 1, 0); // its successor is gone
    T_EQ(g.rank[0].rc, SL_EUNAVAIL);
    T_TRUE(strstr(g.rank[0].err.text, "rank 1") != NULL);
    ring_close(&g);
}

// The same of a rank of this host, whose memory is to be joined.
TEST(group, a_rank_of_this_host_that_cannot_be_reached_is_named)
{
    struct ring g;

    sum_without(&g, "aa", 0, 1);
    T_NE(g.rank[1].rc, SL_OK);
    T_NE(g.rank[1].rc, SL_ESTALE);
    T_HAS(g.rank[1].err.text, "memory of rank 0");
    T_HAS(g.rank[1].err.text, g.rank[0].at.address);
    ring_close(&g);
}

// ---- strangers

static enum sl_err say(struct rank *to, const struct wire_piece *m,
                       size_t bytes)
{
    const struct rpc_call_options options = {.deadline_ms = TIMEOUT_MS};
    struct rpc_channel *channel = NULL;
    struct rpc_body *body = NULL;
    uint8_t *payload = sl_calloc(1, bytes + 1);
    struct rpc_msg msg;
    enum sl_err rc;

    T_OK(rpc_channel_new(&channel, to->at.io, to->at.address, NULL, NULL,
                         t_err()));
    rpc_msg_init(&msg);
    T_OK(wire_head_piece(&msg, m, bytes));
    rpc_msg_part(&msg, payload, bytes);
    rc = rpc_call_sync(channel, WIRE_PIECE, &msg, &options, &body, NULL);
    rpc_body_free(body);
    rpc_channel_free(channel);
    sl_free(payload);
    return rc;
}

static enum sl_err ask_share_of(struct rank *to, Sluice__V1__JobToken *token)
{
    const struct rpc_call_options options = {.deadline_ms = TIMEOUT_MS};
    Sluice__V1__ShareRequest m = SLUICE__V1__SHARE_REQUEST__INIT;
    struct rpc_channel *channel = NULL;
    struct rpc_body *body = NULL;
    struct rpc_msg msg;
    enum sl_err rc;

    m.job = 7;
    m.generation = 5;
    m.from = 1;
    m.token = token;
    T_OK(rpc_channel_new(&channel, to->at.io, to->at.address, NULL, NULL,
                         t_err()));
    rpc_msg_init(&msg);
    T_OK(wire_msg(&msg, &m.base));
    rc = rpc_call_sync(channel, WIRE_SHARE, &msg, &options, &body, NULL);
    rpc_body_free(body);
    rpc_channel_free(channel);
    return rc;
}

static enum sl_err give_nothing(void *arg, uint64_t offset, size_t bytes,
                                void *to)
{
    (void)offset;
    memset(to, 0, bytes);
    ++*(unsigned *)arg;
    return SL_OK;
}

static enum sl_err ask_state_of(struct rank *to, struct wire_token token)
{
    struct ranks_of of = {7, 5, token};
    struct rpc_channel *channel = NULL;
    uint8_t bytes[8];
    enum sl_err rc;

    T_OK(rpc_channel_new(&channel, to->at.io, to->at.address, NULL, NULL,
                         t_err()));
    rc = ranks_fetch(channel, &of, 0, sizeof(bytes), bytes, TIMEOUT_MS, NULL);
    rpc_channel_free(channel);
    return rc;
}

// Who holds another job's token, or a token of this job's last generation, is
// as strange as who holds none.
TEST(group, who_does_not_show_the_token_of_the_ring_is_refused)
{
    const struct wire_token token = {11, 12}, other = {11, 13}, none = {0, 0};
    struct wire_piece m = {.job = 7, .generation = 5, .from = 1, .hop = 0};
    Sluice__V1__JobToken shown;
    struct ranks_of of = {7, 5, token};
    unsigned given = 0;
    struct ring g;

    ring_open(&g, "aa", WIRE_F32); // shares memory
    g.token = token;
    generation(&g, 5); // which sums
    T_OK(ranks_serve_state(g.rank[0].at.ranks, &of, give_nothing, &given));
    T_EQ(say(&g.rank[0], &m, 4), SL_EAUTH);
    m.token = other;
    T_EQ(say(&g.rank[0], &m, 4), SL_EDENIED);
    T_EQ(ask_share_of(&g.rank[0], NULL), SL_EAUTH);
    T_EQ(ask_share_of(&g.rank[0], wire_token_msg(&shown, &other)), SL_EDENIED);
    T_OK(ask_share_of(&g.rank[0], wire_token_msg(&shown, &token)));
    T_EQ(ask_state_of(&g.rank[0], none), SL_EAUTH);
    T_EQ(ask_state_of(&g.rank[0], other), SL_EDENIED);
    T_EQ(given, 0);
    T_OK(ask_state_of(&g.rank[0], token));
    T_EQ(given, 1);
    ranks_stop_state(g.rank[0].at.ranks, 7, 5);
    ring_close(&g);
}

TEST(group, strangers_are_refused)
{
    struct wire_piece m = {.job = 7, .generation = 5, .from = 1, .hop = 0};
    struct ring g;

    ring_open(&g, "ab", WIRE_F32);
    generation(&g, 5);
    m.generation = 6; // that may come
    T_EQ(say(&g.rank[0], &m, 4), SL_EUNAVAIL);
    m.generation = 4; // that is over
    T_EQ(say(&g.rank[0], &m, 4), SL_ESTALE);
    m.lane = 1;
    T_EQ(say(&g.rank[0], &m, 4), SL_ESTALE);
    m.generation = 5; // that has one lane yet
    T_EQ(say(&g.rank[0], &m, 4), SL_EUNAVAIL);
    m.lane = 2;
    T_EQ(say(&g.rank[0], &m, 4), SL_EINVAL);
    m.lane = 0;
    m.job = 8;
    T_EQ(say(&g.rank[0], &m, 4), SL_EUNAVAIL);
    m.job = 7;
    T_EQ(say(&g.rank[0], &m, 0), SL_EINVAL); // no payload
    T_EQ(say(&g.rank[0], &m, 3), SL_EINVAL); // no whole element
    ring_close(&g);
}

static void *say_rubbish(void *arg)
{
    // Of the right generation, but no piece of this sum.
    const struct wire_piece m = {
        .job = 7, .generation = 1, .from = 1, .hop = 0, .first = 1u << 30};

    (void)say(arg, &m, 4096);
    return NULL;
}

TEST(group, a_piece_that_does_not_fit_ends_the_sum_and_not_the_process)
{
    pthread_t thread;
    struct ring g;

    ring_open(&g, "ab", WIRE_F32);
    generation(&g, 1);
    g.first = 0;
    g.buckets = 1;
    g.elements = 100000;
    g.rank[0].data = sl_malloc(g.elements * sizeof(float));
    T_EQ(pthread_create(&thread, NULL, say_rubbish, &g.rank[0]), 0);
    work(&g.rank[0]); // rank 1 never comes
    T_EQ(g.rank[0].rc, SL_ECORRUPT);
    pthread_join(thread, NULL);
    ring_close(&g);
}

// Rank 1 has summed, its own piece was answered and that answer was lost, and
// so was its answer to rank 0: each sends again, and waits for the other.
TEST(group, a_piece_that_comes_again_is_answered_while_others_are_awaited)
{
    const struct wire_piece m = {
        .job = 7, .generation = 1, .from = 1, .hop = UINT32_MAX};
    struct ring g;

    ring_open(&g, "ab", WIRE_F32);
    generation(&g, 1);
    g.first = 0;
    g.buckets = 1;
    g.elements = 5;
    g.rank[0].data = sl_malloc(g.elements * sizeof(float));
    T_EQ(pthread_create(&g.rank[0].thread, NULL, work, &g.rank[0]), 0);
    T_OK(say(&g.rank[0], &m, g.elements * sizeof(float)));
    T_OK(say(&g.rank[0], &m, g.elements * sizeof(float)));
    abort_all(&g, "rank 1 answers nothing");
    pthread_join(g.rank[0].thread, NULL);
    T_EQ(g.rank[0].rc, SL_ESTALE);
    ring_close(&g);
}

// ---- state

static enum sl_err read_state(void *arg, uint64_t offset, size_t bytes,
                              void *to)
{
    const uint8_t *state = arg;

    if (offset > 1000 || bytes > 1000 - offset)
        return SL_ERANGE;
    memcpy(to, state + offset, bytes);
    return SL_OK;
}

TEST(group, a_state_is_copied_while_it_is_served)
{
    const struct ranks_of of = {.job = 7, .generation = 2};
    uint8_t state[1000], got[1000];
    struct rpc_channel *channel = NULL;
    struct ring g;

    for (unsigned i = 0; i < sizeof(state); i++)
        state[i] = (uint8_t)(i * 7);
    ring_open(&g, "ab", WIRE_F32);
    generation(&g, 1);
    T_OK(rpc_channel_new(&channel, g.rank[1].at.io, g.rank[0].at.address, NULL,
                         NULL, t_err()));
    T_FAILS(SL_EUNAVAIL,
            ranks_fetch(channel, &of, 0, 500, got, TIMEOUT_MS, t_err()));
    T_OK(ranks_serve_state(g.rank[0].at.ranks, &of, read_state, state));
    T_OK(ranks_fetch(channel, &of, 0, 500, got, TIMEOUT_MS, t_err()));
    T_OK(ranks_fetch(channel, &of, 500, 500, got + 500, TIMEOUT_MS, t_err()));
    T_EQ(memcmp(state, got, sizeof(state)), 0);
    T_FAILS(SL_ERANGE,
            ranks_fetch(channel, &of, 900, 500, got, TIMEOUT_MS, t_err()));
    ranks_stop_state(g.rank[0].at.ranks, 7, 2);
    T_FAILS(SL_EUNAVAIL,
            ranks_fetch(channel, &of, 0, 500, got, TIMEOUT_MS, t_err()));
    rpc_channel_free(channel);
    ring_close(&g);
}

TEST(group, a_state_that_was_not_asked_for_was_not_fetched)
{
    struct ranks_ask asks[2] = {{.rc = SL_OK}, {.rc = SL_OK}};

    sl_mem_fail_at(1);
    T_FAILS(SL_ENOMEM, ranks_ask(asks, 2, TIMEOUT_MS, NULL));
    sl_mem_fail_at(0);
    T_EQ(asks[0].rc, SL_ENOMEM);
    T_EQ(asks[1].rc, SL_ENOMEM);
}

TEST(group, memory_that_is_not_the_hosts_is_not_joined)
{
    struct host *l = NULL, *other = NULL;
    uint64_t bytes, token;
    int fd;

    T_OK(host_new(&l, 2, &fd, &bytes, &token, t_err()));
    T_FAILS(SL_EDENIED, host_join(&other, 1, 2, (uint64_t)getpid(),
                                  (uint32_t)fd, bytes, token + 1, t_err()));
    T_FAILS(SL_EDENIED, host_join(&other, 1, 3, (uint64_t)getpid(),
                                  (uint32_t)fd, bytes, token, t_err()));
    T_FAILS(SL_ENOENT, host_join(&other, 1, 2, (uint64_t)getpid(), 9999, bytes,
                                 token, t_err()));
    T_FAILS(SL_EDENIED, host_join(&other, 1, 2, (uint64_t)getpid(), 0, bytes,
                                  token, t_err()));
    T_OK(host_join(&other, 1, 2, (uint64_t)getpid(), (uint32_t)fd, bytes, token,
                   t_err()));
    host_free(other);
    host_free(l);
    close(fd);
}
