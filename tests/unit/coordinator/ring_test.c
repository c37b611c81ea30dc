// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/ring.h"

#include "tests/harness/t.h"

#define MOST 1000000 // rounds

static const struct wire_tag none = {0, 0};

// Ranks 1 .. n join at 0 and generation g is opened.
static void open_ring(struct ring *r, uint32_t n, uint64_t g)
{
    ring_init(r, g - 1, 1, 100, MOST);
    for (uint32_t i = 1; i <= n; i++)
        T_OK(ring_join(r, i, 1000 + i, 0));
    ring_open(r, g);
}

static void answer_all(struct ring *r, struct wire_tag tag)
{
    for (uint32_t i = 0; i < r->count; i++)
        T_OK(ring_answer(r, r->rank[i].member, r->generation, tag));
    T_TRUE(ring_answered(r));
}

static void run_ring(struct ring *r)
{
    const struct wire_tag tag = {r->generation, r->base.sequence};

    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rank[i].in)
            T_OK(ring_ready(r, r->rank[i].member, r->generation, tag));
    }
    T_EQ(r->state, RING_RUNNING);
}

TEST(ring, waits_for_enough_ranks_and_for_those_who_come_together)
{
    struct ring r;

    ring_init(&r, 0, 2, 100, MOST);
    T_TRUE(!ring_due(&r, 1000));
    T_OK(ring_join(&r, 1, 11, 50));
    T_TRUE(!ring_due(&r, 1000)); // one is too few
    T_OK(ring_join(&r, 2, 12, 60));
    T_TRUE(!ring_due(&r, 149));
    T_TRUE(ring_due(&r, 150));
    ring_open(&r, 1);
    T_TRUE(!ring_due(&r, 5000));
    T_OK(ring_join(&r, 3, 13, 200));
    T_TRUE(!ring_due(&r, 5000)); // not while it copies
    T_OK(ring_answer(&r, 1, 1, none));
    T_TRUE(!ring_answered(&r));
    T_OK(ring_answer(&r, 2, 1, none));
    T_TRUE(ring_answered(&r));
    ring_choose(&r, none, false);
    T_TRUE(r.base_is_file && !r.rank[0].holds);
    T_TRUE(!ring_due(&r, 5000));
    run_ring(&r);
    T_TRUE(!ring_due(&r, 200 + RING_SETTLE_MS - 1));
    T_TRUE(ring_due(&r, 200 + RING_SETTLE_MS));
    ring_open(&r, 2);
    T_EQ(r.members, 3);
    T_EQ(ring_index(&r, 3), 2);
    T_EQ(ring_member(&r, 2)->process, 13);
    T_PTR(ring_member(&r, 3), NULL);
    ring_release(&r);
}

TEST(ring, waits_for_a_newcomer_that_copies_unless_it_is_torn)
{
    struct ring r;

    open_ring(&r, 2, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    T_OK(ring_join(&r, 3, 13, 100));
    ring_find(&r, 3)->able = true;
    T_TRUE(ring_copier(&r) == NULL); // nothing goes on yet
    run_ring(&r);
    T_TRUE(ring_copier(&r) == ring_find(&r, 3));
    ring_copies(&r, ring_find(&r, 3));
    T_TRUE(ring_copier(&r) == NULL);
    T_OK(ring_join(&r, 4, 14, 150)); // one that cannot, and waits with it
    T_TRUE(ring_copier(&r) == NULL);
    T_TRUE(!ring_due(&r, 150 + RING_SETTLE_MS));
    T_EQ(ring_copied(&r, 3, 2), SL_ESTALE);
    T_EQ(ring_copied(&r, 4, 1), SL_ESTALE);
    T_TRUE(!ring_due(&r, 150 + RING_SETTLE_MS));
    T_TRUE(ring_due(&r, 100 + RING_COPY_MS)); // not for ever
    T_OK(ring_copied(&r, 3, 1));
    T_EQ(ring_copied(&r, 3, 1), SL_ESTALE);
    T_TRUE(ring_due(&r, 150 + RING_SETTLE_MS));
    ring_find(&r, 3)->copies = true;
    T_TRUE(ring_leave(&r, 1));
    T_TRUE(ring_due(&r, 151));
    ring_open(&r, 2);
    T_EQ(r.members, 3);
    T_EQ(ring_copied(&r, 3, 1), SL_ESTALE);
    // Its copy is of the base's generation, but for rounds that it lacks.
    T_OK(ring_answer(&r, 2, 2, (struct wire_tag){1, 6}));
    T_OK(ring_answer(&r, 3, 2, (struct wire_tag){1, 6}));
    T_OK(ring_answer(&r, 4, 2, none));
    ring_choose(&r, none, false);
    T_TRUE(ring_find(&r, 2)->holds && ring_find(&r, 3)->holds &&
           !ring_find(&r, 4)->holds);
    ring_release(&r);
}

TEST(ring, has_lanes_and_marks_if_all_members_have)
{
    struct ring r;

    ring_init(&r, 0, 1, 0, MOST);
    T_TRUE(!ring_lanes(&r) && !ring_marks(&r)); // of nobody
    for (uint32_t i = 1; i <= 2; i++) {
        T_OK(ring_join(&r, i, 10 + i, 0));
        ring_find(&r, i)->lanes = ring_find(&r, i)->marks = true;
    }
    ring_open(&r, 1);
    T_TRUE(ring_lanes(&r) && ring_marks(&r));
    T_OK(ring_join(&r, 3, 13, 10)); // an old one, of the next generation
    T_TRUE(ring_lanes(&r) && ring_marks(&r));
    ring_open(&r, 2);
    T_TRUE(!ring_lanes(&r) && !ring_marks(&r));
    T_TRUE(ring_leave(&r, 3));
    ring_open(&r, 3);
    T_TRUE(ring_lanes(&r) && ring_marks(&r)); // they have not forgotten
    T_OK(ring_join(&r, 1, 21, 20));           // back, as an older version
    ring_open(&r, 4);
    T_TRUE(!ring_lanes(&r) && !ring_marks(&r));
    ring_release(&r);
}

TEST(ring, R1_a_rank_that_is_back_forces_a_new_generation)
{
    struct ring r;

    open_ring(&r, 2, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    run_ring(&r);
    T_TRUE(!ring_due(&r, 100000));
    T_OK(ring_join(&r, 2, 2000, 10)); // another process, or the same again
    T_TRUE(ring_due(&r, 10));
    T_FAILS(SL_ESTALE, ring_step(&r, 2, 1, 1));
    ring_open(&r, 2);
    T_FAILS(SL_ESTALE, ring_answer(&r, 2, 1, none));
    T_OK(ring_answer(&r, 2, 2, none));
    ring_release(&r);
}

TEST(ring, R2_only_answers_to_the_present_generation_count)
{
    struct ring r;

    open_ring(&r, 3, 4);
    T_OK(ring_answer(&r, 1, 4, (struct wire_tag){3, 7}));
    T_FAILS(SL_ESTALE, ring_answer(&r, 1, 4, (struct wire_tag){3, 8}));
    T_FAILS(SL_ESTALE, ring_answer(&r, 9, 4, none));
    T_FAILS(SL_EINVAL, ring_answer(&r, 2, 4, (struct wire_tag){4, 0}));
    T_TRUE(ring_leave(&r, 3));
    T_TRUE(ring_due(&r, 0));
    ring_open(&r, 5);
    T_TRUE(!ring_answered(&r));
    T_FAILS(SL_ESTALE, ring_answer(&r, 1, 4, (struct wire_tag){3, 7}));
    T_OK(ring_answer(&r, 1, 5, (struct wire_tag){3, 7}));
    T_OK(ring_answer(&r, 2, 5, (struct wire_tag){3, 6}));
    T_TRUE(ring_answered(&r));
    ring_release(&r);
}

TEST(ring, R3_the_base_is_the_highest_tag_or_the_last_cut)
{
    struct ring r;

    open_ring(&r, 3, 9);
    T_OK(ring_answer(&r, 1, 9, (struct wire_tag){3, 50}));
    T_OK(ring_answer(&r, 2, 9, (struct wire_tag){8, 20}));
    T_OK(ring_answer(&r, 3, 9, (struct wire_tag){8, 19}));
    ring_choose(&r, (struct wire_tag){8, 5}, false);
    T_TRUE(r.base.incarnation == 8 && r.base.sequence == 20);
    T_TRUE(!r.base_is_file);
    T_TRUE(!r.rank[0].holds && r.rank[1].holds && !r.rank[2].holds);
    ring_release(&r);

    open_ring(&r, 2, 9); // the cut is above all who are left
    answer_all(&r, (struct wire_tag){8, 4});
    ring_choose(&r, (struct wire_tag){8, 5}, false);
    T_TRUE(r.base_is_file && r.base.sequence == 5);
    T_TRUE(!r.rank[0].holds);
    ring_release(&r);

    open_ring(&r, 2, 9); // it is what they have
    answer_all(&r, (struct wire_tag){8, 5});
    ring_choose(&r, (struct wire_tag){8, 5}, false);
    T_TRUE(!r.base_is_file && r.rank[0].holds);
    ring_release(&r);
}

TEST(ring, R5_progress_is_what_every_member_reported)
{
    struct ring r;

    open_ring(&r, 2, 3);
    T_OK(ring_answer(&r, 1, 3, (struct wire_tag){2, 10}));
    T_OK(ring_answer(&r, 2, 3, none));
    ring_choose(&r, none, false);
    T_EQ(r.progress, 10);
    T_FAILS(SL_ESTALE, ring_step(&r, 1, 3, 11)); // nobody is ready
    T_FAILS(SL_EINVAL, ring_ready(&r, 2, 3, (struct wire_tag){3, 9}));
    T_FAILS(SL_EINVAL, ring_ready(&r, 2, 3, (struct wire_tag){2, 10}));
    run_ring(&r);
    T_OK(ring_step(&r, 1, 3, 12));
    T_EQ(r.progress, 10);
    T_EQ(r.highest, 12);
    T_OK(ring_step(&r, 2, 3, 11));
    T_EQ(r.progress, 11);
    T_OK(ring_step(&r, 1, 3, 11)); // late
    T_EQ(r.progress, 11);
    T_FAILS(SL_EINVAL, ring_step(&r, 1, 3, 9));
    T_FAILS(SL_ESTALE, ring_step(&r, 1, 2, 13));
    T_TRUE(ring_leave(&r, 2));
    T_FAILS(SL_ESTALE, ring_step(&r, 1, 3, 13)); // its round 12 is a lone one
    T_EQ(r.progress, 11);
    ring_open(&r, 4);
    T_OK(ring_answer(&r, 1, 4, (struct wire_tag){3, 12}));
    ring_choose(&r, none, false);
    T_EQ(r.progress, 12);
    ring_release(&r);
}

TEST(ring, R7_a_rank_that_was_cut_off_is_a_newcomer)
{
    struct ring r;

    open_ring(&r, 2, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    run_ring(&r);
    T_TRUE(ring_leave(&r, 2)); // only silent: it goes on by itself
    ring_open(&r, 2);
    T_OK(ring_answer(&r, 1, 2, (struct wire_tag){1, 5}));
    ring_choose(&r, none, false);
    run_ring(&r);
    T_OK(ring_step(&r, 1, 2, 6));
    T_OK(ring_join(&r, 2, 1002, 50));
    T_FAILS(SL_ESTALE, ring_step(&r, 2, 1, 7));
    T_FAILS(SL_ESTALE, ring_step(&r, 2, 2, 7));
    T_EQ(r.progress, 6);
    ring_open(&r, 3);
    T_OK(ring_answer(&r, 2, 3, (struct wire_tag){1, 6})); // its private round
    T_OK(ring_answer(&r, 1, 3, (struct wire_tag){2, 6}));
    ring_choose(&r, none, false);
    T_TRUE(r.rank[0].holds && !r.rank[1].holds);
    ring_release(&r);
}

TEST(ring, who_is_accused_by_most_is_put_out)
{
    struct ring r;

    open_ring(&r, 4, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    run_ring(&r);
    T_FAILS(SL_EINVAL, ring_accuse(&r, 1, 1, 4, 100));
    T_FAILS(SL_EINVAL, ring_accuse(&r, 1, 1, 0, 100)); // itself
    T_OK(ring_accuse(&r, 1, 1, 2, 100));
    T_EQ(ring_accused(&r, 101), 0);
    T_TRUE(!ring_due(&r, 101));
    T_OK(ring_accuse(&r, 3, 1, 0, 110)); // who is cut off accuses too
    T_OK(ring_accuse(&r, 2, 1, 2, 120));
    T_EQ(ring_accused(&r, 100 + RING_ACCUSED_MS - 1), 0);
    T_EQ(ring_accused(&r, 100 + RING_ACCUSED_MS), 3);
    T_OK(ring_accuse(&r, 4, 1, 2, 130));
    T_EQ(ring_accused(&r, 131), 3); // all others say so
    T_TRUE(ring_leave(&r, 3));
    T_TRUE(ring_due(&r, 131));
    T_EQ(ring_accused(&r, 9999), 0);
    ring_open(&r, 2);
    T_EQ(ring_accused(&r, 9999), 0);
    T_FAILS(SL_ESTALE, ring_accuse(&r, 1, 1, 1, 140));
    ring_release(&r);
}

TEST(ring, a_rank_that_cannot_sum_at_all_accuses_itself)
{
    struct ring r;

    open_ring(&r, 3, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    run_ring(&r);
    T_OK(ring_accuse(&r, 2, 1, RING_SELF, 100));
    T_EQ(ring_accused(&r, 101), 0);
    T_EQ(ring_accused(&r, 100 + RING_ACCUSED_MS), 2);
    ring_release(&r);
}

// Newcomers would wait for ever for a rank that is gone.
TEST(ring, the_last_rank_takes_its_accusation_along)
{
    struct ring r;

    open_ring(&r, 1, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    run_ring(&r);
    T_OK(ring_join(&r, 2, 1002, 100));
    T_OK(ring_accuse(&r, 1, 1, RING_SELF, 110));
    T_TRUE(!ring_due(&r, 99999));
    T_TRUE(ring_leave(&r, 1));
    T_EQ(r.state, RING_NONE);
    T_TRUE(ring_due(&r, 99999));
    T_EQ(ring_accused(&r, 99999), 0);
    ring_release(&r);
}

TEST(ring, below_min_the_ranks_that_are_left_stop_and_wait)
{
    struct ring r;

    ring_init(&r, 0, 2, 0, MOST);
    T_OK(ring_join(&r, 1, 11, 0));
    T_OK(ring_join(&r, 2, 12, 0));
    ring_open(&r, 1);
    answer_all(&r, none);
    ring_choose(&r, none, false);
    run_ring(&r);
    T_TRUE(ring_leave(&r, 1));
    T_TRUE(ring_due(&r, 0));
    ring_open(&r, 2);
    T_OK(ring_answer(&r, 2, 2, (struct wire_tag){1, 3}));
    T_TRUE(!ring_answered(&r));
    T_TRUE(!ring_due(&r, 99999));
    T_OK(ring_join(&r, 3, 13, 100));
    T_TRUE(ring_due(&r, 100));
    T_TRUE(ring_leave(&r, 2));
    T_TRUE(ring_leave(&r, 3));
    T_EQ(r.state, RING_NONE);
    T_TRUE(!ring_due(&r, 99999));
    ring_release(&r);
}

// Nothing that counts or compares them need go as far as a peer may say.
TEST(ring, numbers_that_no_state_can_have_are_refused)
{
    struct ring r;

    open_ring(&r, 1, 3);
    T_EQ(ring_answer(&r, 1, 3, (struct wire_tag){2, MOST + 1}), SL_ERANGE);
    T_EQ(ring_answer(&r, 1, 3, (struct wire_tag){2, UINT64_MAX}), SL_ERANGE);
    T_EQ(ring_answer(&r, 1, 3, (struct wire_tag){0, 1}), SL_ERANGE);
    T_OK(ring_answer(&r, 1, 3, (struct wire_tag){2, 40}));
    ring_choose(&r, none, false);
    r.last = 90; // as its base says
    run_ring(&r);
    T_EQ(ring_step(&r, 1, 3, 91), SL_ERANGE);
    T_EQ(ring_step(&r, 1, 3, UINT64_MAX), SL_ERANGE);
    T_EQ(r.progress, 40);
    T_EQ(r.highest, 40);
    T_OK(ring_step(&r, 1, 3, 90));
    T_EQ(r.progress, 90);
    T_TRUE(ring_may_have(&r, (struct wire_tag){3, 90}));
    T_TRUE(!ring_may_have(&r, (struct wire_tag){3, 91}));
    T_TRUE(ring_may_have(&r, (struct wire_tag){2, MOST}));
    T_TRUE(!ring_may_have(&r, (struct wire_tag){2, MOST + 1}));
    T_TRUE(!ring_may_have(&r, (struct wire_tag){4, 1}));
    ring_release(&r);
}
