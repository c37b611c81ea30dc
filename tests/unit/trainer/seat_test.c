// SPDX-License-Identifier: Apache-2.0
#include "trainer/ring/seat.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"
#include "trainer/ring/say.h"

// A seat, and what the coordinator would get.
struct table {
    struct loop *loop;
    struct clock_fake clock;
    struct ring_env env;
    struct seat *seat;
    unsigned said;
    uint64_t sequences[8]; // of RingSteps
    unsigned steps;
    unsigned ends;
};

static bool take(void *arg, const Sluice__V1__AttendUp *up)
{
    struct table *t = arg;

    t->said++;
    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_RING_STEP)
        t->sequences[t->steps++] = up->ring_step->sequence;
    return true;
}

static void table_init(struct table *t)
{
    *t = (struct table){0};
    clock_fake_init(&t->clock, 1000000, 0);
    T_OK(loop_new(&t->loop, t_err()));
    t->env = (struct ring_env){.loop = t->loop,
                               .clock = &t->clock.clock,
                               .send = take,
                               .arg = t,
                               .fs = fs_posix()};
    T_OK(seat_new(&t->seat, &t->env, 7, 1));
}

static void table_release(struct table *t)
{
    seat_retire(t->seat);
    loop_free(t->loop);
}

static void open_generation(struct table *t, uint64_t generation)
{
    Sluice__V1__RingOpen m = SLUICE__V1__RING_OPEN__INIT;

    m.generation = generation;
    m.job_uid = 99;
    seat_open(t->seat, &m);
}

static void begin_generation(struct table *t, uint64_t generation)
{
    Sluice__V1__RingBegin m = SLUICE__V1__RING_BEGIN__INIT;

    m.generation = generation;
    seat_begin(t->seat, &m);
}

static void ended(void *arg)
{
    ((struct table *)arg)->ends++;
}

TEST(seat, R2_a_generation_that_is_opened_ends_the_one_under_way)
{
    struct seat_news news;
    struct table t;

    table_init(&t);
    open_generation(&t, 1);
    seat_look(t.seat, &news);
    T_EQ(news.opened, 1);
    T_EQ(news.uid, 99);
    seat_on_end(t.seat, ended, &t);
    T_EQ(t.ends, 0);
    open_generation(&t, 2);
    T_EQ(t.ends, 1);
    T_TRUE(seat_has_news(t.seat));
    open_generation(&t, 2); // said again
    T_EQ(t.ends, 1);
    // Opened before anybody listened: he is told when he does.
    seat_on_end(t.seat, NULL, NULL);
    seat_look(t.seat, &news);
    open_generation(&t, 3);
    seat_on_end(t.seat, ended, &t);
    T_EQ(t.ends, 2);
    seat_on_end(t.seat, NULL, NULL);
    table_release(&t);
}

TEST(seat, only_the_newest_generation_begins_and_once)
{
    struct seat_news news;
    struct table t;

    table_init(&t);
    begin_generation(&t, 1); // nothing is opened
    open_generation(&t, 2);
    begin_generation(&t, 1);
    seat_look(t.seat, &news);
    T_TRUE(news.begin == NULL);
    begin_generation(&t, 2);
    T_TRUE(seat_has_news(t.seat));
    seat_look(t.seat, &news);
    T_TRUE(news.begin != NULL);
    T_EQ(news.begin->generation, 2);
    seat_news_release(&news);
    seat_look(t.seat, &news);
    T_TRUE(news.begin == NULL);
    T_FALSE(seat_has_news(t.seat));
    begin_generation(&t, 2);
    open_generation(&t, 3); // the one before never begins
    seat_look(t.seat, &news);
    T_EQ(news.opened, 3);
    T_TRUE(news.begin == NULL);
    table_release(&t);
}

static void request(struct table *t, uint32_t part, uint64_t generation,
                    uint64_t at_round)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    m.shard = part;
    m.incarnation = generation;
    m.at_round = at_round;
    seat_snapshot(t->seat, &m);
}

TEST(seat, a_part_is_due_at_its_round_or_at_the_end)
{
    struct wire_tag at = {4, 10};
    struct seat_request r;
    struct table t;

    table_init(&t);
    request(&t, 0, 4, 12);
    request(&t, 1, 4, 11);
    request(&t, 2, 5, 1); // of a generation to come
    T_FALSE(seat_take_request(t.seat, at, false, &r));
    at.sequence = 11;
    T_TRUE(seat_take_request(t.seat, at, false, &r));
    T_EQ(r.part, 1);
    T_FALSE(seat_take_request(t.seat, at, false, &r));
    T_TRUE(seat_take_request(t.seat, at, true, &r));
    T_EQ(r.part, 0);
    T_FALSE(seat_take_request(t.seat, at, true, &r));
    at.incarnation = 6; // it came too late
    T_TRUE(seat_take_request(t.seat, at, false, &r));
    T_EQ(r.generation, 5);
    table_release(&t);
}

static void step_with(struct table *t, uint64_t sequence, bool now,
                      size_t repeats)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingStep m = SLUICE__V1__RING_STEP__INIT;
    Sluice__V1__Repeat repeat = SLUICE__V1__REPEAT__INIT, *list[] = {&repeat};
    ProtobufCMessage *copy = NULL;

    m.sequence = sequence;
    m.repeats = list;
    m.n_repeats = repeats;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_STEP;
    up.ring_step = &m;
    T_OK(wire_dup(&copy, &up.base));
    seat_say_step(t->seat, (Sluice__V1__AttendUp *)copy, now);
}

static void step(struct table *t, uint64_t sequence, bool now)
{
    step_with(t, sequence, now, 0);
}

static void audited_step(struct table *t, uint64_t sequence)
{
    step_with(t, sequence, false, 1);
}

TEST(seat, the_newest_step_is_said_and_not_too_often)
{
    struct table t;

    table_init(&t);
    step(&t, 1, false);
    step(&t, 2, false);
    loop_turn(t.loop);
    T_EQ(t.steps, 1);
    T_EQ(t.sequences[0], 2);
    step(&t, 3, false);
    loop_turn(t.loop);
    T_EQ(t.steps, 1);
    clock_fake_advance_ms(&t.clock, SEAT_STEP_MS);
    step(&t, 4, false);
    loop_turn(t.loop);
    T_EQ(t.steps, 2);
    T_EQ(t.sequences[1], 4);
    step(&t, 5, true);
    loop_turn(t.loop);
    T_EQ(t.steps, 3);
    T_EQ(t.sequences[2], 5);
    table_release(&t);
}

// What was computed of an audited round is in no other step.
TEST(seat, A1_a_step_with_results_is_said_before_the_newest)
{
    struct table t;

    table_init(&t);
    step(&t, 1, false);
    audited_step(&t, 2);
    step(&t, 3, false);
    audited_step(&t, 4);
    step(&t, 5, false);
    loop_turn(t.loop);
    T_EQ(t.steps, 3);
    T_EQ(t.sequences[0], 2);
    T_EQ(t.sequences[1], 4);
    T_EQ(t.sequences[2], 5);
    table_release(&t);
}

// Its step is given up (SL_ECANCELED), and its lease goes back.
TEST(seat, a_rank_that_drains_does_not_accuse_itself)
{
    T_FALSE(say_is_broken(RING_NO_SUSPECT, SL_ECANCELED));
    T_FALSE(say_is_broken(RING_NO_SUSPECT, SL_ESTALE)); // another left first
    T_TRUE(say_is_broken(RING_NO_SUSPECT, SL_EUNAVAIL));
    T_TRUE(say_is_broken(1, SL_ECANCELED));
    T_TRUE(say_is_broken(1, SL_ESTALE));
    T_TRUE(say_is_broken(1, SL_EUNAVAIL));
}

TEST(seat, nothing_is_said_for_a_lease_that_is_over)
{
    struct table t;

    table_init(&t);
    step(&t, 1, true);
    seat_retire(t.seat);
    loop_free(t.loop);
    T_EQ(t.said, 0);
}
