// SPDX-License-Identifier: Apache-2.0
// A round's sums, bucket by bucket, in one lane and in two: several ranks in
// this process, as threads.
#include "trainer/ring/sum.h"

#include <math.h>
#include <string.h>

#include "tests/harness/t.h"
#include "tests/unit/trainer/rank_server.h"
#include "trainer/sum/ranks.h"

#define RANKS 3
#define JOB 7

// Small ones, and one that is worked at in the background of lane 0.
static const struct elements buckets[] = {
    {.first = 0, .count = 3},     {.first = 3, .count = 100},
    {.first = 103, .count = 40},  {.first = 143, .count = 70000},
    {.first = 70143, .count = 7},
};
#define BUCKETS ((uint32_t)SL_COUNT(buckets))
#define ELEMENTS 70150
#define EARLY 2

struct rank {
    struct ring *ring;
    struct rank_server at;
    struct ring_env env;
    Sluice__V1__RingRank said, *list[RANKS];
    Sluice__V1__RingBegin begin;
    struct sum sum;
    float g[ELEMENTS];
    pthread_t thread;
    enum sl_err rc;
    uint32_t order[BUCKETS]; // in which it got them
};

struct ring {
    struct rank rank[RANKS];
    uint32_t count;
    // What all do at once.
    unsigned round;
};

static void ring_open(struct ring *g, const char *hosts, uint64_t generation)
{
    static char name[RANKS][2];

    memset(g, 0, sizeof(*g));
    g->count = (uint32_t)strlen(hosts);
    for (uint32_t i = 0; i < g->count; i++) {
        struct rank *r = &g->rank[i];

        r->ring = g;
        rank_server_open(&r->at, i);
        r->env = (struct ring_env){.io = r->at.io, .ranks = r->at.ranks};
        name[i][0] = hosts[i];
        sluice__v1__ring_rank__init(&r->said);
        r->said.address = r->at.address;
        r->said.host = name[i];
        sluice__v1__ring_begin__init(&r->begin);
        for (uint32_t k = 0; k < g->count; k++)
            r->list[k] = &g->rank[k].said;
        r->begin.job = JOB;
        r->begin.generation = generation;
        r->begin.ranks = r->list;
        r->begin.n_ranks = g->count;
        r->begin.self = i;
        r->begin.lanes = 1;
        T_OK(sum_init(&r->sum, buckets, BUCKETS, ELEMENTS));
    }
}

static void join(struct rank *r, uint32_t early)
{
    T_OK(sum_join(&r->sum, &r->env, &r->begin, WIRE_F32, early, t_err()));
}

static void ring_close(struct ring *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        sum_abort(&g->rank[i].sum);
    for (uint32_t i = 0; i < g->count; i++) {
        sum_leave(&g->rank[i].sum);
        sum_release(&g->rank[i].sum);
    }
    for (uint32_t i = 0; i < g->count; i++)
        rank_server_close(&g->rank[i].at);
}

static void begin_round(struct rank *r)
{
    memset(r->g, 0, sizeof(r->g));
    T_OK(sum_begin(&r->sum, 1, r->g, t_err()));
}

static struct ring ring;

// It has nobody to overtake.
TEST(sum, of_a_rank_alone_has_one_lane)
{
    struct rank *r = &ring.rank[0];
    uint32_t bucket;

    ring_open(&ring, "a", 3);
    join(r, EARLY);
    for (unsigned round = 0; round < 2; round++) {
        begin_round(r);
        T_OK(sum_start(&r->sum, 0, t_err()));
        T_EQ(sum_outstanding(&r->sum), 0); // it waits for those behind it
        for (uint32_t b = BUCKETS; b-- > 1;)
            T_OK(sum_start(&r->sum, b, t_err()));
        T_EQ(sum_outstanding(&r->sum), BUCKETS);
        T_EQ(sum_early_outstanding(&r->sum), 0);
        for (uint32_t b = BUCKETS; b-- > 0;) {
            T_OK(sum_wait(&r->sum, &bucket, t_err()));
            T_EQ(bucket, b);
        }
        T_EQ(sum_outstanding(&r->sum), 0);
    }
    T_EQ(sum_sent(&r->sum), 0);
    T_EQ(sum_suspect(&r->sum), UINT32_MAX);
    ring_close(&ring);
}

TEST(sum, each_lane_has_its_own_order)
{
    struct rank *r = &ring.rank[0];
    uint32_t bucket;

    ring_open(&ring, "ab", 3);
    join(r, EARLY);
    begin_round(r);
    T_OK(sum_start(&r->sum, 0, t_err()));
    T_OK(sum_start(&r->sum, 2, t_err()));
    T_EQ(sum_outstanding(&r->sum), 0);
    T_OK(sum_start(&r->sum, 1, t_err())); // although 4 and 3 are not started
    T_EQ(sum_early_outstanding(&r->sum), 2);
    T_EQ(sum_outstanding(&r->sum), 2);
    T_OK(sum_start(&r->sum, 4, t_err()));
    T_EQ(sum_outstanding(&r->sum), 3);
    T_OK(sum_start(&r->sum, 3, t_err()));
    T_EQ(sum_outstanding(&r->sum), 5);
    // Nobody else is there. The waits of both end.
    sum_abort(&r->sum);
    T_FAILS(SL_ESTALE, sum_wait(&r->sum, &bucket, t_err()));
    T_EQ(bucket, 1);
    T_FAILS(SL_ESTALE, sum_wait(&r->sum, &bucket, t_err()));
    T_EQ(bucket, 0);
    T_EQ(sum_early_outstanding(&r->sum), 0);
    T_FAILS(SL_ESTALE, sum_wait(&r->sum, &bucket, t_err()));
    T_EQ(bucket, 4);
    T_EQ(sum_suspect(&r->sum), UINT32_MAX);
    ring_close(&ring);
}

TEST(sum, without_a_second_lane_all_buckets_have_one_order)
{
    struct rank *r = &ring.rank[0];

    ring_open(&ring, "ab", 3);
    join(r, 0);
    begin_round(r);
    T_OK(sum_start(&r->sum, 1, t_err()));
    T_OK(sum_start(&r->sum, 0, t_err()));
    T_EQ(sum_outstanding(&r->sum), 0);
    T_OK(sum_start_rest(&r->sum, false, t_err()));
    T_EQ(sum_outstanding(&r->sum), BUCKETS);
    T_EQ(sum_early_outstanding(&r->sum), 0);
    ring_close(&ring);
}

// The other rank is in a later generation: named by whichever lane finds it.
TEST(sum, the_suspect_is_of_the_lane_that_was_waited_for)
{
    struct rank *r = &ring.rank[0];
    uint32_t bucket;

    ring_open(&ring, "ab", 3);
    join(r, EARLY);
    ring.rank[1].begin.generation = 4;
    join(&ring.rank[1], EARLY);
    begin_round(r);
    T_OK(sum_start(&r->sum, 1, t_err()));
    T_FAILS(SL_ESTALE, sum_wait(&r->sum, &bucket, t_err()));
    T_EQ(sum_suspect(&r->sum), 1);
    ring_close(&ring);
}

// ---- all at once

// What a rank adds, and what comes of all.
static float value(uint32_t rank, unsigned round, size_t i)
{
    return (float)(rank + 1) * (float)(round + 1) + (float)(i % 13);
}

static void start_all(struct rank *r, bool early)
{
    uint32_t from = early ? 0 : EARLY, to = early ? EARLY : BUCKETS;

    for (uint32_t b = to; r->rc == SL_OK && b-- > from;) {
        sum_add(&r->sum, b, r->g, 1, true);
        r->rc = sum_start(&r->sum, b, NULL);
    }
}

static void wait_some(struct rank *r, unsigned *at, bool early)
{
    while (r->rc == SL_OK && (early ? sum_early_outstanding(&r->sum)
                                    : sum_outstanding(&r->sum)) > 0)
        r->rc = sum_wait(&r->sum, &r->order[(*at)++], NULL);
}

// The last rank starts the late buckets when it has the early ones; in round 1
// it adds nothing, in round 2 it spoils all but its first bucket.
static void *work(void *arg)
{
    struct rank *r = arg;
    unsigned round = r->ring->round, at = 0;
    bool last = r->begin.self + 1 == r->ring->count;

    for (size_t i = 0; i < ELEMENTS; i++)
        r->g[i] = value(r->begin.self, round, i);
    r->rc = sum_begin(&r->sum, last && round == 1 ? 0 : 1, r->g, NULL);
    if (r->rc != SL_OK)
        return NULL;
    if (last && round == 2)
        r->rc = sum_start(&r->sum, BUCKETS - 1, NULL);
    if (last && round > 0) {
        r->rc = sum_start_rest(&r->sum, round == 2, NULL);
    } else {
        if (!last)
            start_all(r, false);
        start_all(r, true);
    }
    wait_some(r, &at, true);
    if (last && round == 0)
        start_all(r, false);
    wait_some(r, &at, false);
    return NULL;
}

static void all_work(struct ring *g, unsigned round)
{
    g->round = round;
    for (uint32_t i = 0; i < g->count; i++)
        T_EQ(pthread_create(&g->rank[i].thread, NULL, work, &g->rank[i]), 0);
    for (uint32_t i = 0; i < g->count; i++)
        pthread_join(g->rank[i].thread, NULL);
}

static void check(struct ring *g)
{
    static const uint32_t order[] = {1, 0, 4, 3, 2};
    bool spoilt = g->round == 2;
    uint32_t adds = g->count - (g->round == 1);

    for (uint32_t k = 0; k < g->count; k++) {
        struct rank *r = &g->rank[k];

        T_EQ(r->rc, SL_OK);
        T_MEM(r->order, order, sizeof(order));
        for (uint32_t b = 0; b < BUCKETS; b++)
            T_EQ(isnan(r->sum.data[buckets[b].first]) != 0,
                 spoilt && b + 1 < BUCKETS);
        for (size_t i = 0; !spoilt && i < ELEMENTS; i++) {
            float want = 0;

            for (uint32_t from = 0; from < adds; from++)
                want += value(from, g->round, i);
            T_EQ(r->sum.data[i], want); // whole numbers, and small
        }
    }
}

TEST(sum, early_buckets_do_not_wait_for_late_ones)
{
    static const char *const layouts[] = {"aa", "ab", "aab", "abc"};

    for (unsigned l = 0; l < SL_COUNT(layouts); l++) {
        ring_open(&ring, layouts[l], 3);
        for (uint32_t i = 0; i < ring.count; i++)
            join(&ring.rank[i], EARLY);
        for (unsigned round = 0; round < 3; round++) {
            uint64_t before = sum_sent(&ring.rank[0].sum);

            T_EQ(before, 0); // all of the last round was told
            all_work(&ring, round);
            check(&ring);
            // Each lane sends between hosts.
            T_EQ(sum_sent(&ring.rank[0].sum) > ELEMENTS, l > 0);
        }
        ring_close(&ring);
    }
}
