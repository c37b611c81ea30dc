// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/closure.h"

#include "common/base/moves.h"
#include "tests/harness/t.h"

enum { ALICE = 1, BOB, CAROL, DAVE, EVE }; // workers

static struct attempt at(uint64_t n)
{
    return (struct attempt){1, n};
}

TEST(closure, late_report_from_a_lost_worker_changes_nothing)
{
    struct closure c;

    closure_init(&c, 7, 4);
    T_OK(closure_lease(&c, ALICE, at(1), 0));
    closure_lost(&c);
    T_OK(closure_lease(&c, BOB, at(2), 1000));

    T_FAILS(SL_ESTALE, closure_finish(&c, at(1), SL_OK)); // Alice, too late
    T_EQ(c.state, CLOSURE_LEASED);
    T_EQ(c.worker, BOB);
}

TEST(closure, moves_that_are_not_in_the_diagram_are_refused)
{
    struct closure c;

    closure_init(&c, 0, 4);
    T_FAILS(SL_ESTALE, closure_finish(&c, at(1), SL_OK)); // never leased
    T_OK(closure_lease(&c, ALICE, at(1), 0));
    T_FAILS(SL_ESTATE, closure_lease(&c, BOB, at(2), 0)); // never two at once
    T_OK(closure_finish(&c, at(1), SL_OK));
    T_EQ(c.state, CLOSURE_DONE);
    T_FAILS(SL_ESTATE, closure_lease(&c, BOB, at(2), 0));
    T_FAILS(SL_ESTALE, closure_finish(&c, at(1), SL_OK)); // reported twice
    closure_cancel(&c);
    T_EQ(c.state, CLOSURE_DONE);
}

TEST(closure, I4_attempts_only_rise)
{
    struct closure c;

    closure_init(&c, 0, 4);
    T_OK(closure_lease(&c, ALICE, (struct attempt){2, 9}, 0));
    T_OK(closure_finish(&c, c.attempt, SL_EPREEMPTED));
    T_FAILS(SL_ESTALE, closure_lease(&c, BOB, (struct attempt){2, 9}, 0));
    T_FAILS(SL_ESTALE, closure_lease(&c, BOB, (struct attempt){1, 99}, 0));
    T_OK(closure_lease(&c, BOB, (struct attempt){3, 1}, 0)); // a new term
}

TEST(closure, preemption_with_notice_is_nobodys_fault)
{
    struct closure c;

    closure_init(&c, 0, 1);
    for (uint64_t n = 1; n < 20; n++) {
        T_OK(closure_lease(&c, ALICE, at(n), 0));
        T_OK(closure_finish(&c, at(n), n % 2 ? SL_EPREEMPTED : SL_ESTALE));
        T_EQ(c.state, CLOSURE_WAITING);
    }
    T_EQ(c.blamed_count, 0);
    T_FALSE(c.again);
}

TEST(closure, poison_fails_after_four_distinct_workers)
{
    static const uint64_t workers[] = {ALICE, BOB, ALICE, CAROL, BOB, DAVE};
    struct closure c;

    closure_init(&c, 0, 4);
    for (unsigned i = 0; i < SL_COUNT(workers); i++) {
        T_EQ(c.state, CLOSURE_WAITING);
        T_OK(closure_lease(&c, workers[i], at(i + 1), 0));
        closure_lost(&c);
    }
    T_EQ(c.state, CLOSURE_FAILED);
    T_EQ(c.result, SL_ELOST);
    T_TRUE(closure_blames(&c, CAROL));
    T_FALSE(closure_blames(&c, EVE));
}

static uint64_t party(uint64_t who, uint64_t host)
{
    return host << 32 | who;
}

// One certificate, wherever it says that it is, is one worker.
TEST(closure, names_of_one_certificate_are_one_worker)
{
    struct closure c;
    unsigned tries = 0;

    closure_init(&c, 0, 4);
    closure_witnesses(&c, 1);
    while (c.state == CLOSURE_WAITING) {
        T_OK(closure_lease(&c, party(ALICE, tries), at(tries + 1), 0));
        T_TRUE(tries == 0 || closure_blames(&c, party(ALICE, 99)));
        closure_lost(&c);
        tries++;
    }
    T_EQ(tries, 4 * CLOSURE_FAILURES_PER_BLAME);
}

// Four of one host, which has a fault perhaps, while there is another one.
TEST(closure, workers_of_one_host_do_not_outvote_another_host)
{
    struct closure c;

    closure_init(&c, 0, 4);
    closure_witnesses(&c, 2);
    for (uint64_t n = 1; n <= 5; n++) {
        T_OK(closure_lease(&c, party(n, 1), at(n), 0));
        closure_lost(&c);
        T_EQ(c.state, CLOSURE_WAITING);
    }
    T_OK(closure_lease(&c, party(6, 2), at(6), 0));
    closure_lost(&c);
    T_EQ(c.state, CLOSURE_FAILED);
}

TEST(closure, poison_is_what_chance_does_not_explain)
{
    struct closure c;

    closure_init(&c, 0, 4);
    closure_expect(&c, 1000, 500, CLOSURE_LOSSES_KNOWN - 1); // who knows
    T_EQ(c.max_blamed, 4);
    closure_expect(&c, 3000000, 3000000, 100); // rare: 4 are too many
    T_EQ(c.max_blamed, 4);
    closure_expect(&c, 1000, 20, 20); // most are lost: it is the job
    T_EQ(c.max_blamed, 4);
    closure_expect(&c, 3000000, 300000, 10000); // 1 of 31: 0.03 ^ 7 * 3000000
    T_EQ(c.max_blamed, 7);
    closure_expect(&c, 3000000, 300000, 1000); // it does not fall
    T_EQ(c.max_blamed, 7);
    for (uint64_t n = 1; n <= 7; n++) {
        T_EQ(c.state, CLOSURE_WAITING);
        T_OK(closure_lease(&c, n, at(n), 0));
        closure_lost(&c);
    }
    T_EQ(c.state, CLOSURE_FAILED);
    closure_init(&c, 0, 4);
    closure_expect(&c, UINT64_MAX, 30, 10);
    T_EQ(c.max_blamed, 37); // and never more than are remembered
    T_LE(c.max_blamed, CLOSURE_MAX_BLAMED);
}

TEST(closure, a_lone_worker_does_not_fail_it_for_ever)
{
    struct closure c;
    unsigned tries = 0;

    closure_init(&c, 0, 3);
    while (c.state == CLOSURE_WAITING) {
        T_OK(closure_lease(&c, ALICE, at(++tries), 0));
        T_OK(closure_finish(&c, at(tries), SL_ENOMEM));
    }
    T_EQ(c.state, CLOSURE_FAILED);
    T_EQ(c.result, SL_ENOMEM);
    T_EQ(tries, 3 * CLOSURE_FAILURES_PER_BLAME);
}

TEST(closure, one_that_advances_is_not_poison)
{
    struct closure c;

    closure_init(&c, 0, 2);
    for (uint64_t n = 1; n < 50; n++) {
        T_OK(closure_lease(&c, n, at(n), 0)); // a new worker each time
        closure_advanced(&c);
        closure_lost(&c);
        T_EQ(c.state, CLOSURE_WAITING);
        T_TRUE(c.again);
    }
}

TEST(closure, one_that_waited_behind_another_blames_nobody)
{
    struct closure c;

    closure_init(&c, 0, 1);
    T_OK(closure_lease(&c, ALICE, at(1), 0));
    closure_unstarted(&c, false);
    T_EQ(c.state, CLOSURE_WAITING);
    T_EQ(c.blamed_count, 0);
    T_TRUE(c.again);
    T_FALSE(c.begun);
    T_OK(closure_lease(&c, BOB, at(2), 0));
    closure_unstarted(&c, true);
    T_TRUE(c.begun);
    T_OK(closure_lease(&c, BOB, at(3), 0));
    T_FALSE(c.again);
    T_FALSE(c.begun);
}

TEST(closure, late_evidence_of_a_lost_worker_makes_it_done)
{
    struct closure c;

    closure_init(&c, 0, 4);
    T_OK(closure_lease(&c, ALICE, at(1), 0));
    closure_lost(&c);
    closure_counted(&c); // Alice's late evidence
    T_EQ(c.state, CLOSURE_DONE);
    T_FAILS(SL_ESTATE, closure_lease(&c, BOB, at(2), 0));
}

// ---- the picture of closure.c

static void lease(struct closure *c)
{
    (void)closure_lease(c, BOB, at(2), 0);
}

static void finish(struct closure *c)
{
    (void)closure_finish(c, at(1), SL_OK);
}

static void hand_back(struct closure *c)
{
    (void)closure_finish(c, at(1), SL_EPREEMPTED);
}

static void fail(struct closure *c)
{
    (void)closure_finish(c, at(1), SL_ENOMEM);
}

static void unstarted(struct closure *c)
{
    closure_unstarted(c, true);
}

static void killed(struct closure *c)
{
    closure_killed(c, ALICE);
}

// What asserts its state is called only where it may be.
#define ANY (~0u)
#define WAITING MOVES_TO(CLOSURE_WAITING)
#define LEASED MOVES_TO(CLOSURE_LEASED)
#define FAILED MOVES_TO(CLOSURE_FAILED)

static const struct {
    void (*move)(struct closure *c);
    unsigned from;
} moves[] = {
    {lease, ANY},
    {finish, ANY},
    {hand_back, ANY},
    {fail, ANY},
    {closure_cancel, ANY},
    {closure_counted, WAITING},
    {closure_lost, LEASED},
    {unstarted, LEASED},
    {killed, WAITING | LEASED},
    {closure_forgiven, FAILED},
};

TEST(closure, every_move_from_every_state_is_one_of_the_picture)
{
    unsigned seen[CLOSURE_STATES] = {0};

    for (unsigned from = 0; from < CLOSURE_STATES; from++) {
        for (size_t i = 0; i < 2 * SL_COUNT(moves); i++) {
            struct closure c;

            if (!(moves[i / 2].from & MOVES_TO(from)))
                continue;
            closure_init(&c, 0, i % 2 == 0 ? 1 : 4); // poison at once, or later
            c.state = (enum closure_state)from;
            c.attempt = at(1);
            c.worker = ALICE;
            moves[i / 2].move(&c);
            if (c.state != from)
                seen[from] |= MOVES_TO(c.state);
        }
        T_EQ(seen[from], closure_moves[from]);
    }
}

TEST(closure, dropped_again_and_again_it_waits_longer_each_time)
{
    struct closure c;
    uint64_t waited = 0;

    closure_init(&c, 1, 4);
    for (unsigned i = 0; i < CLOSURE_DROPS_FREE; i++)
        T_FALSE(closure_dropped(&c, 1000));
    T_EQ(c.not_before_ms, 0);
    for (unsigned i = 0; i < 20; i++) {
        T_TRUE(closure_dropped(&c, 1000));
        T_GE(c.not_before_ms - 1000, waited);
        waited = c.not_before_ms - 1000;
    }
    T_EQ(waited, CLOSURE_DROP_MOST_MS);
}

TEST(closure, a_worker_that_is_found_dead_later_is_blamed_all_the_same)
{
    struct closure c;

    closure_init(&c, 1, 2);
    closure_killed(&c, ALICE);
    T_EQ(c.state, CLOSURE_WAITING);
    T_TRUE(closure_blames(&c, ALICE));
    closure_killed(&c, ALICE); // the same again is one worker
    T_EQ(c.state, CLOSURE_WAITING);
    T_OK(closure_lease(&c, CAROL, at(1), 0));
    closure_killed(&c, EVE); // who has it by now may get it done
    T_EQ(c.state, CLOSURE_LEASED);
    closure_lost(&c);
    T_EQ(c.state, CLOSURE_FAILED);
    closure_forgiven(&c);
    T_EQ(c.state, CLOSURE_WAITING);
    T_EQ(c.blamed_count, 0);
    T_TRUE(c.again);
}

TEST(closure, is_kept_back_while_suspicions_would_make_it_poison)
{
    struct closure c;

    closure_init(&c, 1, 2);
    T_TRUE(closure_ready(&c, 0));
    c.suspected = 1;
    T_TRUE(closure_ready(&c, 0));
    c.suspected = 2;
    T_FALSE(closure_ready(&c, 0));
    c.suspected = 0;
    c.not_before_ms = 5;
    T_FALSE(closure_ready(&c, 4));
    T_TRUE(closure_ready(&c, 5));
}
