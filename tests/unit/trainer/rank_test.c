// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "state/snap/snap.h"
#include "tests/harness/crash_fs.h"
#include "tests/harness/t.h"
#include "tests/unit/trainer/ring_world.h"
#include "trainer/ring/follow.h"
#include "trainer/ring/rank.h"
#include "trainer/ring/say.h"
#include "trainer/ring/seat.h"

static void run_round(struct rank *r, uint64_t first, size_t count, bool skip,
                      float *fresh)
{
    struct once_step steps[4];
    float g[ELEMENTS];

    for (size_t i = 0; i < count; i++) {
        steps[i] = step_of(first + i);
        steps[i].skip = skip;
    }
    gradient(g, first);
    T_OK(rank_round(r, steps, count, g, NULL, fresh, t_err()));
}

// The same as a psserver does with one push.
static void push(struct shard *s, uint64_t n, const float *g)
{
    struct once_step step = step_of(n);
    struct sl_slice one = {(const uint8_t *)g, s->plan.elements * 4};
    struct wire_push m = {.job = 7,
                          .job_incarnation = 1,
                          .incarnation = 3,
                          .closure = step.closure,
                          .step = step.step,
                          .attempt = {1, 1},
                          .samples = step.samples,
                          .digest = step.digest,
                          .payload = slices_one(&one)};
    struct wire_push_reply reply;

    T_OK(shard_push(s, &m, &reply, NULL, t_err()));
    T_EQ(reply.result, WIRE_PUSH_COUNTED);
}

TEST(rank, bits_are_those_of_a_shard_that_is_pushed_to)
{
    static char *const kinds[] = {(char *)"sgd", (char *)"adam",
                                  (char *)"adamw", (char *)"adagrad",
                                  (char *)"rmsprop"};

    for (size_t k = 0; k < SL_COUNT(kinds); k++) {
        struct rank rank = {0}, ps = {0};
        float g[ELEMENTS], fresh[ELEMENTS];
        struct world w;

        world_init(&w, kinds[k]);
        T_OK(rank_load(&rank, &w.job, &w.begin, t_err()));
        T_OK(rank_load(&ps, &w.job, &w.begin, t_err()));
        for (uint64_t n = 0; n < 20; n++) {
            gradient(g, n);
            run_round(&rank, n, 1, false, fresh);
            push(ps.parts[0], n, g);
            push(ps.parts[1], n, g + ps.parts[0]->plan.elements);
        }
        ps.tag.sequence = 20;
        T_TRUE(same_state(&rank, &ps));
        T_OK(rank_values(&ps, g, t_err()));
        T_TRUE(memcmp(g, fresh, sizeof(g)) == 0);
        rank_release(&rank);
        rank_release(&ps);
    }
}

// Of any part of the parameters, also one that ends within a run, or behind
// the first part of the state.
static void foresee_all(struct rank *r, uint64_t n)
{
    float g[ELEMENTS], fresh[ELEMENTS], seen[ELEMENTS];
    float space[RANK_FORESEE_SPACE * ELEMENTS], before[ELEMENTS];
    struct once_step step = step_of(n);

    gradient(g, n);
    memcpy(before, rank_flat(r), sizeof(before));
    for (uint64_t m = 1; m <= ELEMENTS; m++) {
        memset(seen, 0, sizeof(seen));
        T_OK(rank_foresee(r, &step, 1, g, m, seen, space, t_err()));
        T_MEM(rank_flat(r), before, sizeof(before));
        T_TRUE(m == ELEMENTS || seen[m] == 0);
        if (m < ELEMENTS)
            continue;
        T_OK(rank_round(r, &step, 1, g, NULL, fresh, t_err()));
        T_MEM(seen, fresh, sizeof(seen));
    }
}

TEST(rank, what_is_foreseen_are_the_bits_that_come)
{
    static char *const kinds[] = {(char *)"sgd", (char *)"adam",
                                  (char *)"adamw", (char *)"adagrad",
                                  (char *)"rmsprop"};

    for (size_t k = 0; k < SL_COUNT(kinds); k++) {
        struct rank r = {0};
        struct world w;

        world_init(&w, kinds[k]);
        T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
        for (uint64_t n = 0; n < 5; n++)
            foresee_all(&r, n);
        T_EQ(once_version(rank_once(&r)), 5); // nothing else was applied
        T_EQ(r.tag.sequence, 5);
        rank_release(&r);
    }
}

// A part of what is foreseen is the front of all of it.
TEST(rank, what_is_foreseen_does_not_depend_on_how_much)
{
    float g[ELEMENTS], all[ELEMENTS], some[ELEMENTS];
    float space[RANK_FORESEE_SPACE * ELEMENTS];
    struct once_step step = step_of(0);
    struct rank r = {0};
    struct world w;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    gradient(g, 0);
    T_OK(rank_foresee(&r, &step, 1, g, ELEMENTS, all, space, t_err()));
    for (uint64_t m = 1; m < ELEMENTS; m++) {
        T_OK(rank_foresee(&r, &step, 1, g, m, some, space, t_err()));
        T_MEM(some, all, m * sizeof(float));
    }
    rank_release(&r);
}

TEST(rank, a_round_counts_all_its_keys_as_one_update)
{
    struct rank r = {0};
    float fresh[ELEMENTS], before[ELEMENTS];
    struct world w;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    T_EQ(r.tag.incarnation, 3);
    T_EQ(r.tag.sequence, 0);
    run_round(&r, 0, 4, false, fresh);
    T_EQ(r.tag.sequence, 1);
    for (uint32_t i = 0; i < r.count; i++) {
        const struct once *o = &r.parts[i]->once;

        T_EQ(once_version(o), 1);
        T_EQ(o->counts.applied, 4);
        T_EQ(counted_steps(&o->counted), 4);
        T_EQ(o->epochs[0].samples, 16);
        T_OK(once_check(o, t_err()));
    }
    T_OK(rank_values(&r, before, t_err()));
    run_round(&r, 4, 3, true, fresh);
    T_TRUE(memcmp(before, fresh, sizeof(before)) == 0);
    T_EQ(once_version(rank_once(&r)), 1);
    T_EQ(rank_once(&r)->counts.skipped, 3);
    T_EQ(r.tag.sequence, 2);
    rank_release(&r);
}

// What a step reads is what the parts have, and an image that outlives the
// state keeps that vector.
TEST(rank, values_of_all_parts_are_one_vector)
{
    float before[ELEMENTS], fresh[ELEMENTS], got[ELEMENTS];
    struct shard_image image;
    struct rank r = {0};
    struct world w;
    uint64_t n = 0;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    for (uint32_t i = 0; i < r.count; i++) {
        T_TRUE(r.parts[i]->memory.values == rank_flat(&r) + n);
        n += r.parts[i]->plan.elements;
    }
    T_EQ(n, ELEMENTS);
    run_round(&r, 0, 1, false, fresh);
    T_MEM(rank_flat(&r), fresh, sizeof(fresh));
    memcpy(before, fresh, sizeof(before));
    T_OK(rank_freeze(&r, 1, &image, t_err()));
    run_round(&r, 1, 1, false, fresh);
    T_MEM(rank_flat(&r), fresh, sizeof(fresh));
    rank_release(&r);
    n = image.shard->plan.elements;
    T_OK(shard_image_read(&image, 0, n * sizeof(float), got));
    T_MEM(got, before + (ELEMENTS - n), n * sizeof(float));
    shard_image_release(&image);
}

// ---- updates that are applied elsewhere

struct elsewhere {
    bool gone;
    unsigned arrays;
};

static enum sl_err read_array(void *arg, unsigned array, float *into,
                              struct sl_error *err)
{
    struct elsewhere *e = arg;

    if (e->gone && array > 0)
        return sl_fail(err, SL_ELOST, "gone");
    into[0] = 100 + (float)array;
    e->arrays++;
    return SL_OK;
}

static enum sl_err update_one(struct shard *s, uint64_t n, bool elsewhere,
                              bool skip)
{
    struct once_step step = step_of(n);
    float g[ELEMENTS];
    struct update u = {
        .gradient = g, .steps = &step, .count = 1, .elsewhere = elsewhere};

    step.skip = skip;
    gradient(g, n);
    return update_shard(s, &u, NULL, t_err());
}

TEST(rank, S1_memory_that_lacks_an_update_is_shown_to_nobody)
{
    struct elsewhere there = {.gone = true};
    struct shard_image image;
    struct rank r = {0};
    struct world w;
    struct shard *s;
    float before;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    s = r.parts[0];
    before = s->memory.values[0];
    T_OK(update_one(s, 0, true, true)); // skipped: there is nothing to lack
    T_FALSE(update_is_behind(s));
    T_OK(update_bring(s, read_array, &there, t_err()));
    T_EQ(there.arrays, 0);
    T_OK(update_one(s, 1, true, false));
    T_TRUE(update_is_behind(s));
    T_EQ(counted_steps(&s->once.counted), 2);
    T_TRUE(s->memory.values[0] == before);
    T_FAILS(SL_ESTALE, rank_freeze(&r, 0, &image, t_err()));
    T_FAILS(SL_ESTATE, update_one(s, 2, false, false));
    T_OK(update_one(s, 2, true, true));
    T_TRUE(update_is_behind(s));
    T_FAILS(SL_ELOST, update_bring(s, read_array, &there, t_err()));
    T_TRUE(update_is_behind(s));
    there = (struct elsewhere){.gone = false};
    T_OK(update_bring(s, read_array, &there, t_err()));
    T_EQ(there.arrays, 3);
    T_TRUE(s->memory.values[0] == 100);
    T_TRUE(s->memory.slots[1][0] == 102);
    T_OK(rank_freeze(&r, 0, &image, t_err()));
    shard_image_release(&image);
    T_OK(update_one(s, 3, false, false));
    rank_release(&r);
}

TEST(rank, R4_a_counted_step_is_not_applied_again)
{
    struct once_step step = step_of(0);
    struct rank r = {0};
    float g[ELEMENTS];
    struct world w;

    world_init(&w, (char *)"sgd");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    gradient(g, 0);
    T_OK(rank_round(&r, &step, 1, g, NULL, g, t_err()));
    T_FAILS(SL_ESTATE, rank_round(&r, &step, 1, g, NULL, g, t_err()));
    T_FALSE(rank_has_state(&r));
    T_EQ(r.tag.incarnation, 0);
    rank_release(&r);
}

// ---- copies

struct source {
    struct rank_view view;
    size_t calls, fail_at;
};

static enum sl_err fetch(void *arg, uint64_t offset, size_t bytes, void *into,
                         struct sl_error *err)
{
    struct source *s = arg;

    if (s->calls++ == s->fail_at)
        return sl_fail(err, SL_EUNAVAIL, "gone");
    return rank_view_read(&s->view, offset, bytes, into);
}

TEST(rank, R3_a_copy_is_the_state_or_changes_nothing)
{
    struct rank from = {0}, to = {0};
    struct source source = {.fail_at = 0};
    float fresh[ELEMENTS];
    struct world w;
    enum sl_err rc;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&from, &w.job, &w.begin, t_err()));
    T_OK(rank_load(&to, &w.job, &w.begin, t_err()));
    run_round(&to, 0, 1, false, fresh); // another past
    for (uint64_t n = 0; n < 5; n++)
        run_round(&from, 2 * n, 2, false, fresh);
    w.begin.generation = 4;
    w.base = wire_tag_msg(from.tag);
    rank_keep(&from, 4);
    T_OK(rank_view_init(&source.view, &from));
    do {
        source.calls = 0;
        rc = rank_receive(&to, &w.job, &w.begin, fetch, &source, t_err());
        if (rc != SL_OK) {
            T_EQ(rc, SL_EUNAVAIL);
            T_EQ(to.tag.incarnation, 3);
            T_EQ(to.tag.sequence, 1);
            T_EQ(counted_steps(&rank_once(&to)->counted), 1);
        }
        source.fail_at++;
    } while (rc != SL_OK);
    T_TRUE(source.fail_at > 3);
    T_EQ(to.tag.incarnation, 4);
    T_EQ(to.tag.sequence, 5);
    T_TRUE(same_state(&from, &to));
    run_round(&from, 10, 2, false, fresh);
    run_round(&to, 10, 2, false, fresh);
    T_TRUE(same_state(&from, &to));
    rank_view_release(&source.view);
    rank_release(&from);
    rank_release(&to);
}

static enum sl_err fetch_torn(void *arg, uint64_t offset, size_t bytes,
                              void *into, struct sl_error *err)
{
    enum sl_err rc = fetch(arg, offset, bytes, into, err);

    if (rc == SL_OK && offset == 0)
        ((uint8_t *)into)[24] ^= 1; // the bytes of all of it
    return rc;
}

TEST(rank, a_copy_of_another_size_is_refused)
{
    struct source source = {.fail_at = SIZE_MAX};
    struct rank from = {0}, to = {0};
    struct world w;

    world_init(&w, (char *)"sgd");
    T_OK(rank_load(&from, &w.job, &w.begin, t_err()));
    T_OK(rank_view_init(&source.view, &from));
    T_FAILS(SL_ECORRUPT,
            rank_receive(&to, &w.job, &w.begin, fetch_torn, &source, t_err()));
    T_FALSE(rank_has_state(&to));
    T_FAILS(SL_ERANGE, rank_view_read(&source.view, source.view.bytes, 1, &to));
    rank_view_release(&source.view);
    rank_release(&from);
}

static void absent_round(struct rank *r, uint64_t n)
{
    struct once_step step = step_of(n);
    float g[ELEMENTS], space[VARIABLES];

    gradient(g, n);
    T_OK(rank_round(r, &step, 1, g, present_in(space, n), NULL, t_err()));
}

// A variable that no contribution has a gradient of is what it was, and who
// copies the state knows how often: Adam corrects by it.
TEST(rank, what_a_round_passes_over_goes_with_the_state)
{
    struct source source = {.fail_at = SIZE_MAX};
    struct rank from = {0}, to = {0};
    float before[ELEMENTS], after[ELEMENTS];
    struct world w;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&from, &w.job, &w.begin, t_err()));
    absent_round(&from, 0);
    T_OK(rank_values(&from, before, t_err()));
    absent_round(&from, 1); // nothing has one
    T_OK(rank_values(&from, after, t_err()));
    T_MEM(after, before, sizeof(after));
    for (uint64_t n = 2; n < 9; n++)
        absent_round(&from, n);
    T_EQ(from.parts[0]->once.passed[0], 2); // of 1 and 4; 7 has none absent
    w.base = wire_tag_msg(from.tag);
    T_OK(rank_view_init(&source.view, &from));
    T_OK(rank_receive(&to, &w.job, &w.begin, fetch, &source, t_err()));
    T_TRUE(same_state(&from, &to));
    absent_round(&from, 9);
    absent_round(&to, 9);
    T_TRUE(same_state(&from, &to));
    rank_view_release(&source.view);
    rank_release(&from);
    rank_release(&to);
}

// ---- copies of a state that goes on

// Ranks of one generation, each with a feed; a newcomer asks one of them for
// each part. While it asks, they go on.
struct going {
    struct world world;
    struct clock_fake clock;
    struct rank rank[2], fresh;
    struct ring_feed *feed[2];
    uint64_t next[2]; // the step that a rank has not counted
    struct follow follow;
    struct rng dice;
    unsigned often; // of 8 asks, so many see a round before them
    size_t asks, fail_at;
};

static void go_on(struct going *g, unsigned who)
{
    struct once_step steps[2];
    float average[ELEMENTS], values[ELEMENTS], space[VARIABLES];
    uint64_t n = g->next[who];
    const float *present = present_in(space, n / 2);

    for (size_t i = 0; i < 2; i++) {
        steps[i] = step_of(n + i);
        steps[i].skip = n % 14 == 0;
    }
    gradient(average, n);
    T_OK(
        rank_round(&g->rank[who], steps, 2, average, present, values, t_err()));
    ring_feed_round(g->feed[who], &g->rank[who], steps, 2, average, present);
    g->next[who] += 2;
}

// No rank is a round ahead of one that is behind.
static void go_on_somewhere(struct going *g)
{
    unsigned who = (unsigned)rng_below(&g->dice, 2);

    if (g->next[who] > g->next[1 - who])
        who = 1 - who;
    if (g->next[who] < 900)
        go_on(g, who);
}

static enum sl_err ask_one(struct going *g, const struct feed_ask *ask,
                           void *into, struct sl_error *err)
{
    if (rng_below(&g->dice, 8) < g->often)
        go_on_somewhere(g);
    if (g->asks++ == g->fail_at)
        return sl_fail(err, SL_EIO, "gone");
    return ring_feed_read(g->feed[ask->part % 2], ask, into, err);
}

static enum sl_err ask_feed(void *arg, struct follow_get *gets, size_t count,
                            struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (size_t i = 0; i < count; i++) {
        gets[i].rc = ask_one(arg, &gets[i].ask, gets[i].into, err);
        rc = rc == SL_OK || rc == SL_EBUSY
                 ? (gets[i].rc == SL_OK ? rc : gets[i].rc)
                 : rc;
    }
    return rc;
}

static void going_init(struct going *g, char *optimizer, uint64_t seed)
{
    memset(g, 0, sizeof(*g));
    world_init(&g->world, optimizer);
    g->world.geometry.epochs = 100;
    g->fail_at = SIZE_MAX;
    g->often = 4;
    rng_init(&g->dice, t_seed(), seed);
    clock_fake_init(&g->clock, 1000000, 0);
    for (unsigned i = 0; i < 2; i++) {
        T_OK(rank_load(&g->rank[i], &g->world.job, &g->world.begin, t_err()));
        T_OK(ring_feed_new(&g->feed[i], &g->rank[i], &g->clock.clock));
    }
    for (uint64_t n = rng_below(&g->dice, 6); n-- > 0;)
        go_on_somewhere(g);
}

static void follow_from(struct going *g, uint64_t id)
{
    T_OK(follow_init(&g->follow, &g->fresh, &g->world.job, 3, id, ask_feed, g,
                     t_err()));
}

static void going_release(struct going *g)
{
    follow_release(&g->follow);
    rank_release(&g->fresh);
    for (unsigned i = 0; i < 2; i++) {
        ring_feed_free(g->feed[i]);
        rank_release(&g->rank[i]);
    }
}

static void come_level(struct going *g)
{
    enum sl_err rc = SL_OK;

    while (g->next[0] != g->next[1])
        go_on(g, g->next[0] > g->next[1]);
    g->often = 0;
    while (rc == SL_OK || !g->follow.in_place) {
        T_TRUE(rc == SL_OK || rc == SL_EBUSY);
        rc = follow_step(&g->follow, t_err());
    }
    T_EQ(rc, SL_EBUSY);
}

TEST(rank, R3_a_newcomer_follows_to_the_same_bits)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct going g;

        going_init(&g, (char *)"adam", seed);
        follow_from(&g, 1);
        for (uint64_t n = rng_below(&g.dice, 40); n-- > 0;) {
            enum sl_err rc = follow_step(&g.follow, t_err());

            T_TRUE(rc == SL_OK || rc == SL_EBUSY);
            // It is a state of theirs, or none.
            T_EQ(rank_has_state(&g.fresh), g.follow.in_place);
            if (g.follow.in_place)
                T_EQ(counted_steps(&rank_once(&g.fresh)->counted),
                     2 * g.fresh.tag.sequence);
        }
        come_level(&g);
        T_EQ(g.fresh.tag.incarnation, 3);
        T_TRUE(same_state(&g.rank[0], &g.fresh));
        go_on(&g, 0);
        go_on(&g, 1);
        T_OK(follow_to(&g.follow, g.rank[0].tag.sequence, t_err()));
        T_TRUE(same_state(&g.rank[1], &g.fresh));
        T_FAILS(SL_ESTATE, follow_to(&g.follow, 0, t_err()));
        going_release(&g);
    }
}

TEST(rank, R3_a_newcomer_that_is_interrupted_has_a_state_or_none)
{
    bool in_place = false;

    for (size_t fail_at = 0; fail_at < 40; fail_at++) {
        enum sl_err rc = SL_OK;
        struct going g;

        going_init(&g, (char *)"sgd", 3);
        g.fail_at = fail_at;
        follow_from(&g, 1);
        while (rc == SL_OK || rc == SL_EBUSY)
            rc = follow_step(&g.follow, t_err());
        T_EQ(rc, SL_EIO);
        T_EQ(rank_has_state(&g.fresh), g.follow.in_place);
        in_place = in_place || g.follow.in_place;
        come_level(&g); // nothing is lost by it
        T_TRUE(same_state(&g.rank[0], &g.fresh));
        going_release(&g);
    }
    T_TRUE(in_place);
}

TEST(rank, newcomers_that_come_together_follow_together)
{
    struct going g;
    struct follow first;
    struct rank other = {0};

    going_init(&g, (char *)"adam", 5);
    follow_from(&g, 1);
    first = g.follow;
    first.rank = &other;
    follow_from(&g, 2);
    for (unsigned n = 0; n < 60; n++) {
        enum sl_err rc = follow_step(n % 3 == 0 ? &first : &g.follow, t_err());

        T_TRUE(rc == SL_OK || rc == SL_EBUSY);
    }
    come_level(&g);
    T_OK(follow_to(&first, g.rank[0].tag.sequence, t_err()));
    T_TRUE(same_state(&g.rank[0], &g.fresh));
    T_TRUE(same_state(&g.rank[0], &other));
    follow_release(&first);
    rank_release(&other);
    going_release(&g);
}

TEST(rank, a_newcomer_that_falls_silent_is_forgotten)
{
    struct feed_ask image = {.follower = 1, .bytes = sizeof(struct feed_image)};
    struct feed_ask record = {
        .follower = 1, .record = true, .bytes = sizeof(struct feed_record)};
    struct feed_image head;
    struct feed_record next;
    struct going g;

    going_init(&g, (char *)"sgd", 1);
    T_OK(ring_feed_read(g.feed[0], &image, &head, t_err()));
    T_EQ(head.rounds, g.rank[0].tag.sequence);
    record.after = g.next[0];
    go_on(&g, 0);
    T_OK(ring_feed_read(g.feed[0], &record, &next, t_err()));
    T_EQ(next.rounds, g.rank[0].tag.sequence);
    clock_fake_advance_ms(&g.clock, FEED_SILENT_MS + 1);
    go_on(&g, 0);
    T_FAILS(SL_ESTALE, ring_feed_read(g.feed[0], &record, &next, t_err()));
    T_OK(ring_feed_read(g.feed[0], &image, &head, t_err()));
    T_EQ(head.rounds, g.rank[0].tag.sequence);
    going_release(&g);
}

// While it held the image, no cut could be written where no round followed.
TEST(rank, R6_a_newcomer_that_falls_silent_keeps_no_cut_away)
{
    struct feed_ask ask = {.follower = 1, .bytes = sizeof(struct feed_image)};
    struct shard_image image;
    struct feed_image head;
    struct going g;

    going_init(&g, (char *)"sgd", 1);
    T_OK(ring_feed_read(g.feed[0], &ask, &head, t_err()));
    ring_feed_forget_silent(g.feed[0]);
    T_FAILS(SL_EBUSY, rank_freeze(&g.rank[0], 0, &image, t_err()));
    clock_fake_advance_ms(&g.clock, FEED_SILENT_MS + 1);
    ring_feed_forget_silent(g.feed[0]);
    T_OK(rank_freeze(&g.rank[0], 0, &image, t_err()));
    shard_image_release(&image);
    going_release(&g);
}

// A rank whose last round took so long.
static void round_of_ms(struct going *g, uint64_t ms)
{
    clock_fake_advance_ms(&g->clock, ms);
    go_on(g, 0);
}

TEST(rank, a_newcomer_that_is_behind_is_waited_for_until_it_is_level)
{
    struct feed_ask image = {.follower = 1, .bytes = sizeof(struct feed_image)};
    struct feed_ask record = {
        .follower = 1, .record = true, .bytes = sizeof(struct feed_record)};
    struct feed_image head;
    struct feed_record next;
    struct going g;

    going_init(&g, (char *)"sgd", 1);
    T_FALSE(ring_feed_lags(g.feed[0]));
    T_OK(ring_feed_read(g.feed[0], &image, &head, t_err()));
    for (unsigned i = 1; i < FEED_COPY_LAG; i++) {
        round_of_ms(&g, 100);
        T_FALSE(
            ring_feed_lags(g.feed[0])); // the copy goes on beside the rounds
    }
    round_of_ms(&g, 100);
    T_TRUE(ring_feed_lags(g.feed[0]));
    record.after = 2 * head.rounds;
    T_OK(ring_feed_read(g.feed[0], &record, &next, t_err()));
    while (record.after < g.next[0]) {
        T_TRUE(ring_feed_lags(g.feed[0]));
        T_OK(ring_feed_read(g.feed[0], &record, &next, t_err()));
        record.after = next.after;
    }
    T_TRUE(
        ring_feed_lags(g.feed[0])); // it has not said that it has the last one
    T_FAILS(SL_EBUSY, ring_feed_read(g.feed[0], &record, &next, t_err()));
    T_TRUE(ring_feed_lags(g.feed[0])); // it may be made a member now
    clock_fake_advance_ms(&g.clock, FEED_HOLD_MS);
    T_FALSE(ring_feed_lags(g.feed[0]));
    round_of_ms(&g, 100);
    T_FALSE(ring_feed_lags(g.feed[0])); // that round is under way to it
    round_of_ms(&g, 100);
    T_TRUE(ring_feed_lags(g.feed[0]));
    going_release(&g);
}

// A newcomer follows, and is so many rounds of 100 ms behind.
static void fall_behind(struct going *g, unsigned rounds)
{
    struct feed_ask image = {.follower = 1, .bytes = sizeof(struct feed_image)};
    struct feed_ask record = {
        .follower = 1, .record = true, .bytes = sizeof(struct feed_record)};
    struct feed_image head;
    struct feed_record next;

    going_init(g, (char *)"sgd", 1);
    T_OK(ring_feed_read(g->feed[0], &image, &head, t_err()));
    record.after = 2 * head.rounds;
    while (rounds-- > 0)
        round_of_ms(g, 100);
    T_OK(ring_feed_read(g->feed[0], &record, &next, t_err()));
    T_TRUE(ring_feed_lags(g->feed[0]));
}

TEST(rank, nobody_is_waited_for_longer_than_a_share_of_a_round)
{
    struct going g;

    fall_behind(&g, 3);
    clock_fake_advance_ms(&g.clock, 49);
    T_TRUE(ring_feed_lags(g.feed[0]));
    clock_fake_advance_ms(&g.clock, 1);
    T_FALSE(ring_feed_lags(g.feed[0]));
    round_of_ms(&g, 100); // as long as a round takes, not a round and the wait
    T_TRUE(ring_feed_lags(g.feed[0]));
    clock_fake_advance_ms(&g.clock, 50);
    T_FALSE(ring_feed_lags(g.feed[0]));
    going_release(&g);
}

// What one rank waits the others take for their own round. Each had waited as
// many such rounds as its newcomer was behind: a job went on for hours.
TEST(rank, waits_of_ranks_do_not_feed_each_other)
{
    const uint64_t round_ms = 20;
    struct feed_ask ask = {.follower = 1, .bytes = sizeof(struct feed_image)};
    struct feed_image head;
    uint64_t began_ms, rounds = 0;
    struct going g;

    going_init(&g, (char *)"sgd", 1);
    while (g.next[0] != g.next[1])
        go_on(&g, g.next[0] > g.next[1]);
    began_ms = sl_now_ms(&g.clock.clock);
    for (; rounds < FEED_ROUNDS; rounds++) {
        ask.part = rounds % 2; // of one rank, then of the other
        (void)ring_feed_read(g.feed[ask.part], &ask, &head, NULL);
        for (unsigned i = 0; i < 2; i++)
            while (ring_feed_lags(g.feed[i]) && ring_feed_lags(g.feed[1 - i]))
                clock_fake_advance_ms(&g.clock, 1);
        for (unsigned i = 0; i < 2; i++) // one after the other, at the worst
            while (ring_feed_lags(g.feed[i]))
                clock_fake_advance_ms(&g.clock, 1);
        clock_fake_advance_ms(&g.clock, round_ms);
        go_on(&g, 0);
        go_on(&g, 1);
    }
    T_LE(sl_now_ms(&g.clock.clock) - began_ms, 2 * round_ms * rounds);
    going_release(&g);
}

TEST(rank, a_newcomer_that_follows_records_gets_no_second_image)
{
    struct feed_ask ask = {.follower = 1, .bytes = sizeof(struct feed_image)};
    struct feed_ask record = {
        .follower = 1, .record = true, .bytes = sizeof(struct feed_record)};
    struct feed_image head;
    struct feed_record next;
    struct going g;

    going_init(&g, (char *)"sgd", 1);
    T_OK(ring_feed_read(g.feed[0], &ask, &head, t_err()));
    T_OK(
        ring_feed_read(g.feed[0], &ask, &head, t_err())); // its answer was lost
    record.after = g.next[0];
    go_on(&g, 0);
    T_OK(ring_feed_read(g.feed[0], &record, &next, t_err()));
    T_FAILS(SL_ESTALE, ring_feed_read(g.feed[0], &ask, &head, t_err()));
    going_release(&g);
}

TEST(rank, nobody_waits_for_a_newcomer_that_asks_no_more)
{
    struct going g;

    fall_behind(&g, 4);
    clock_fake_advance_ms(&g.clock, 50);
    T_FALSE(ring_feed_lags(g.feed[0]));
    round_of_ms(&g, 100);
    T_TRUE(ring_feed_lags(g.feed[0])); // it has asked lately
    clock_fake_advance_ms(&g.clock, 50);
    T_FALSE(ring_feed_lags(g.feed[0]));
    round_of_ms(&g, FEED_ASKS_MS / 2);
    round_of_ms(&g, 20);
    T_FALSE(ring_feed_lags(g.feed[0]));
    going_release(&g);
}

TEST(rank, nobody_waits_for_a_newcomer_that_never_gets_level)
{
    struct feed_ask record = {
        .follower = 1, .record = true, .bytes = sizeof(struct feed_record)};
    struct feed_record next;
    struct going g;

    fall_behind(&g, 2);
    for (uint64_t ms = 0; ms <= FEED_PATIENCE; ms += 1000) {
        record.after = g.next[0] - 4; // always two rounds behind
        T_OK(ring_feed_read(g.feed[0], &record, &next, t_err()));
        round_of_ms(&g, 1000);
    }
    record.after = g.next[0] - 4;
    T_OK(ring_feed_read(g.feed[0], &record, &next, t_err()));
    T_FALSE(ring_feed_lags(g.feed[0]));
    going_release(&g);
}

// ---- files

// Writes all parts as they are now; they are sources of a RingBegin then.
struct cut {
    Sluice__V1__SourceFile files[2], *list[2];
    char *folder;
};

static void cut_write(struct cut *c, struct world *w, struct rank *r,
                      const char *store)
{
    c->folder = snap_folder(store, &r->parts[0]->plan);
    for (uint32_t i = 0; i < r->count; i++) {
        struct shard_image image;
        struct snap_written written;

        T_OK(rank_freeze(r, i, &image, t_err()));
        T_OK(
            snap_write_image(fs_posix(), c->folder, &image, &written, t_err()));
        T_EQ(wire_tag_cmp(written.tag, r->tag), 0);
        shard_image_release(&image);
        snap_written_release(&written);
        sluice__v1__source_file__init(&c->files[i]);
        c->files[i].folder = c->folder;
        c->list[i] = &c->files[i];
    }
    w->begin.sources = c->list;
    w->begin.n_sources = r->count;
    w->base = wire_tag_msg(r->tag);
}

TEST(rank, a_cut_loads_as_the_state_that_it_was)
{
    const char *store = t_tmpdir();
    struct rank r = {0}, back = {0};
    float fresh[ELEMENTS];
    struct world w;
    struct cut cut;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    for (uint64_t n = 0; n < 3; n++)
        run_round(&r, 3 * n, 3, false, fresh);
    cut_write(&cut, &w, &r, store);
    w.begin.generation = 5;
    T_OK(rank_load(&back, &w.job, &w.begin, t_err()));
    T_EQ(back.tag.incarnation, 5);
    T_EQ(back.tag.sequence, 3);
    rank_keep(&r, 5);
    T_TRUE(same_state(&r, &back));
    run_round(&r, 9, 1, false, fresh);
    run_round(&back, 9, 1, false, fresh);
    T_TRUE(same_state(&r, &back));
    sl_free(cut.folder);
    rank_release(&r);
    rank_release(&back);
}

TEST(rank, a_part_that_was_written_before_is_found)
{
    const char *store = t_tmpdir();
    struct snap_written again;
    struct shard_image image;
    struct rank r = {0};
    float fresh[ELEMENTS];
    struct world w;
    struct cut cut;
    char *path;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    run_round(&r, 0, 2, false, fresh);
    cut_write(&cut, &w, &r, store);
    T_OK(rank_freeze(&r, 1, &image, t_err()));
    T_FAILS(SL_EEXIST,
            snap_write_image(fs_posix(), cut.folder, &image, &again, t_err()));
    shard_image_release(&image);
    T_OK(snap_written_find(fs_posix(), cut.folder, &r.parts[1]->plan, r.tag,
                           &again, t_err()));
    path = fs_join(cut.folder, again.file);
    T_OK(sha256_file_is(fs_posix(), path, again.sha256, "report", t_err()));
    T_GT(again.bytes, r.parts[1]->region.bytes);
    T_TRUE(counted_equal(&again.once.counted, &rank_once(&r)->counted));
    snap_written_release(&again);
    // Of another moment there is none.
    T_FAILS(SL_ENOENT,
            snap_written_find(fs_posix(), cut.folder, &r.parts[1]->plan,
                              (struct wire_tag){r.tag.incarnation, 99}, &again,
                              t_err()));
    sl_free(path);
    sl_free(cut.folder);
    rank_release(&r);
}

// The disk fails, or another rank dies, between the name and its sync.
TEST(rank, K2_a_part_that_is_found_is_durable)
{
    struct snap_written made, again;
    struct shard_image image;
    struct rank r = {0};
    float fresh[ELEMENTS];
    struct world w;
    unsigned found = 0;
    char *path;
    enum sl_err rc = SL_EIO;

    world_init(&w, (char *)"adam");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    run_round(&r, 0, 2, false, fresh);
    for (unsigned step = 1; rc != SL_OK; step++) {
        struct crash_fs *disk = crash_fs_new(t_seed() + step);
        struct fs *fs = crash_fs_ops(disk);

        T_OK(rank_freeze(&r, 1, &image, t_err()));
        crash_fs_fail_at(disk, step);
        rc = snap_write_image(fs, "d", &image, &made, t_err());
        shard_image_release(&image);
        if (rc == SL_OK) {
            snap_written_release(&made);
        } else if (snap_written_find(fs, "d", &r.parts[1]->plan, r.tag, &again,
                                     t_err()) == SL_OK) {
            path = fs_join("d", again.file);
            T_TRUE(crash_fs_durable(disk, path));
            snap_written_release(&again);
            sl_free(path);
            found++;
        }
        crash_fs_free(disk);
    }
    T_GT(found, 0);
    rank_release(&r);
}

// What the coordinator gets of the files of cuts.
struct desk {
    struct loop *loop;
    struct seat *seat;
    unsigned reports;
    struct wire_tag tag; // of the last
    bool failed;
};

static bool take_report(void *arg, const Sluice__V1__AttendUp *up)
{
    struct desk *d = arg;

    T_EQ(up->kind_case, SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT);
    d->reports++;
    d->tag = wire_tag_of(up->snapshot->tag);
    d->failed = up->snapshot->failure[0] != '\0';
    loop_stop(d->loop);
    return true;
}

static void desk_init(struct desk *d, const char *store)
{
    struct ring_env env = {.clock = sl_clock_real(),
                           .send = take_report,
                           .arg = d,
                           .fs = fs_posix(),
                           .store = store};

    *d = (struct desk){0};
    T_OK(loop_new(&d->loop, t_err()));
    env.loop = d->loop;
    T_OK(seat_new(&d->seat, &env, 7, 1));
}

static void ask_for(struct desk *d, uint32_t part, uint64_t at_round)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    m.shard = part;
    m.incarnation = 3;
    m.at_round = at_round;
    seat_snapshot(d->seat, &m);
}

static void write_part(struct desk *d, struct rank *r, uint32_t part)
{
    struct shard_image *image = sl_calloc(1, sizeof(*image));
    struct seat_request taken;

    T_TRUE(seat_take_request(d->seat, r->tag, false, &taken));
    T_EQ(taken.part, part);
    T_OK(rank_freeze(r, part, image, t_err()));
    seat_write(d->seat, &taken, image);
}

// A cut that is given up is begun again while its files are being written.
TEST(rank, a_part_that_is_being_written_is_asked_for_later)
{
    struct rank r = {0};
    float fresh[ELEMENTS];
    struct world w;
    struct desk d;

    world_init(&w, (char *)"sgd");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    run_round(&r, 0, 2, false, fresh);
    desk_init(&d, t_tmpdir());
    ask_for(&d, 0, 1);
    write_part(&d, &r, 0);
    run_round(&r, 2, 2, false, fresh);
    ask_for(&d, 0, 2); // waits
    ask_for(&d, 1, 2);
    write_part(&d, &r, 1);
    loop_run(d.loop);
    if (d.reports < 2)
        loop_run(d.loop);
    T_TRUE(seat_has_news(d.seat)); // who waits looks again
    write_part(&d, &r, 0);
    loop_run(d.loop);
    T_EQ(d.reports, 3);
    T_FALSE(d.failed);
    T_EQ(d.tag.sequence, 2);
    seat_retire(d.seat);
    loop_free(d.loop);
    rank_release(&r);
}

// It says where the rank is, so that the next request names a later round.
TEST(rank, a_report_of_no_file_has_the_tag_of_the_state)
{
    struct seat_request missed = {.part = 1, .generation = 3, .at_round = 4};
    struct say_job job = {7, 1};
    Sluice__V1__AttendUp *up =
        say_no_snapshot(job, &missed, (struct wire_tag){3, 9}, "it is past");
    Sluice__V1__SnapshotReport *m = up->snapshot;

    T_EQ(up->kind_case, SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT);
    T_STR(m->failure, "it is past");
    T_EQ(m->shard, 1);
    T_EQ(wire_tag_cmp(wire_tag_of(m->tag), (struct wire_tag){3, 9}), 0);
    wire_free(&up->base);
}

TEST(rank, a_cut_is_looked_for_in_our_own_store_too)
{
    const char *store = t_tmpdir();
    struct rank r = {0}, back = {0};
    float fresh[ELEMENTS];
    struct world w;
    struct cut cut;

    world_init(&w, (char *)"sgd");
    T_OK(rank_load(&r, &w.job, &w.begin, t_err()));
    run_round(&r, 0, 1, false, fresh);
    cut_write(&cut, &w, &r, store);
    cut.files[0].folder = cut.files[1].folder = (char *)"/nowhere";
    T_FAILS(SL_ENOENT, rank_load(&back, &w.job, &w.begin, t_err()));
    T_FALSE(rank_has_state(&back));
    w.job.store = store;
    T_OK(rank_load(&back, &w.job, &w.begin, t_err()));
    rank_keep(&r, 3);
    T_TRUE(same_state(&r, &back));
    sl_free(cut.folder);
    rank_release(&r);
    rank_release(&back);
}
