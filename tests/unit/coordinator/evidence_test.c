// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/evidence.h"

#include "tests/harness/t.h"

// 2 epochs of 3 closures of at most 4 steps: 10 steps in an epoch.
static const struct schedule schedule = {
    .samples = 100, .batch = 10, .epochs = 2, .steps_per_closure = 4};

static void admit(struct evidence *e, uint32_t shard, uint64_t incarnation,
                  uint64_t closures)
{
    struct counted c;

    T_OK(counted_init(&c, &schedule));
    for (uint64_t i = 0; i < closures; i++)
        T_OK(counted_add_closure(&c, i));
    evidence_admit(e, shard, incarnation, &c);
}

static struct evidence two_shards(void)
{
    struct evidence e;

    T_OK(evidence_init(&e, &schedule, 2, t_err()));
    admit(&e, 0, 1, 0);
    admit(&e, 1, 1, 0);
    return e;
}

static bool complete(struct evidence *e, uint64_t closure, uint64_t i0,
                     uint64_t i1)
{
    struct evidence_item items[] = {{0, i0, false, false},
                                    {1, i1, false, false}};
    bool full = false;

    T_OK(evidence_complete(e, closure, items, 2, &full));
    return full;
}

TEST(evidence, C1_a_completion_naming_an_old_incarnation_is_not_believed)
{
    struct evidence e = two_shards();

    admit(&e, 1, 2, 0); // shard 1 was replaced
    T_FALSE(complete(&e, 0, 1, 1));
    T_TRUE(counted_closure_full(&e.shard[0].counted, 0));
    T_FALSE(counted_closure_full(&e.shard[1].counted, 0));
    T_FALSE(complete(&e, 0, 1, 3)); // nor one of an incarnation to come
    T_TRUE(complete(&e, 0, 1, 2));
    evidence_release(&e);
}

// W2: the worker names what its evidence is from. One that named the map in
// force, having asked before the replacement, would be believed wrongly; so
// only the pair decides, whatever attempt or term brings it.
TEST(evidence, W2_only_the_named_incarnation_decides)
{
    struct evidence e = two_shards();
    struct evidence_item only_first[] = {{0, 1, false, false}};
    struct evidence_item stranger[] = {
        {0, 1, false, false}, {1, 1, false, false}, {7, 1, false, false}};
    bool full = true;

    T_OK(evidence_complete(&e, 2, only_first, 1, &full));
    T_FALSE(full); // said nothing of shard 1
    T_OK(evidence_complete(&e, 2, stranger, 3, &full));
    T_TRUE(full);
    T_FAILS(SL_ERANGE, evidence_complete(&e, 6, only_first, 1, &full));
    evidence_release(&e);
}

TEST(evidence, before_the_first_admission_nothing_is_believed)
{
    struct evidence e;

    T_OK(evidence_init(&e, &schedule, 2, t_err()));
    T_FALSE(complete(&e, 0, 0, 0));
    T_EQ(evidence_steps(&e), 0);
    evidence_release(&e);
}

TEST(evidence, C2_a_shard_that_fell_back_makes_closures_issuable_again)
{
    struct evidence e = two_shards();

    for (uint64_t i = 0; i < 4; i++)
        T_TRUE(complete(&e, i, 1, 1));
    T_EQ(evidence_next(&e, 0), 4);
    T_EQ(evidence_epochs(&e), 1);
    admit(&e, 1, 2, 2); // loaded a snapshot that holds two closures
    T_EQ(evidence_next(&e, 0), 2);
    T_EQ(evidence_low(&e), 2);
    T_EQ(evidence_epochs(&e), 0);
    T_EQ(evidence_closures(&e), 2);
    T_TRUE(complete(&e, 2, 1, 2));
    T_EQ(evidence_next(&e, 0), 3);
    evidence_release(&e);
}

TEST(evidence, C3_what_lacks_a_step_on_any_shard_is_issued)
{
    struct evidence e = two_shards();
    struct counted part;

    for (uint64_t i = 0; i < 6; i++)
        T_TRUE(complete(&e, i, 1, 1));
    T_TRUE(evidence_full(&e));
    T_EQ(evidence_next(&e, 0), 6); // nothing left

    // One step of closure 1 is missing on shard 0, all else is there: no
    // watermark hides it.
    T_OK(counted_init(&part, &schedule));
    for (uint64_t i = 0; i < 6; i++) {
        for (uint32_t s = 0; s < schedule_closure_steps(&schedule, i); s++) {
            if (i != 1 || s != 2)
                T_OK(counted_add(&part, i, s));
        }
    }
    evidence_admit(&e, 0, 2, &part);
    T_EQ(evidence_next(&e, 0), 1);
    T_EQ(evidence_next(&e, 2), 6);
    T_FALSE(evidence_full(&e));
    T_EQ(evidence_steps(&e), 19);
    T_EQ(evidence_closures(&e), 5);
    evidence_release(&e);
}

TEST(evidence, C5_nothing_is_issued_beyond_the_window)
{
    struct evidence e = two_shards();

    T_EQ(evidence_limit(&e, 2), 2);
    T_TRUE(complete(&e, 1, 1, 1)); // above the watermark
    T_EQ(evidence_limit(&e, 2), 2);
    T_TRUE(complete(&e, 0, 1, 1));
    T_EQ(evidence_limit(&e, 2), 4);
    T_EQ(evidence_limit(&e, 4), 6); // never beyond the end
    T_EQ(evidence_limit(&e, UINT64_MAX), 6);
    evidence_release(&e);
}

TEST(evidence, counts_closures_with_holes)
{
    struct evidence e = two_shards();

    T_TRUE(complete(&e, 0, 1, 1));
    T_TRUE(complete(&e, 2, 1, 1));
    T_FALSE(complete(&e, 3, 1, 9));
    T_TRUE(complete(&e, 5, 1, 1));
    T_EQ(evidence_closures(&e), 3);
    evidence_release(&e);
}

// ---- rounds of two, of three closures: the last one of an epoch is short

static struct evidence rounds(void)
{
    static const struct schedule one_step = {
        .samples = 30, .batch = 10, .epochs = 2, .steps_per_closure = 1};
    struct evidence e;
    struct counted none;

    T_OK(evidence_init(&e, &one_step, 2, t_err()));
    e.round = 2;
    for (uint32_t i = 0; i < 2; i++) {
        T_OK(counted_init(&none, &one_step));
        evidence_admit(&e, i, 1, &none);
    }
    return e;
}

static void say(struct evidence *e, uint64_t closure, bool held0, bool held1)
{
    struct evidence_item items[] = {{0, 1, held0, !held0},
                                    {1, 1, held1, !held1}};
    bool full;

    T_OK(evidence_complete(e, closure, items, 2, &full));
}

TEST(evidence, Y3_held_frees_the_worker_and_counts_nothing)
{
    struct evidence e = rounds();
    struct counted none;

    say(&e, 0, true, true);
    T_TRUE(evidence_closure_held(&e, 0)); // nobody needs to compute it
    T_FALSE(evidence_closure_held(&e, 1));
    T_FALSE(evidence_closure_full(&e, 0));
    T_EQ(evidence_steps(&e), 0);
    T_EQ(evidence_next(&e, 0), 0);
    // Shard 1 comes back: what it held is gone, and is computed again.
    T_OK(counted_init(&none, &e.schedule));
    evidence_admit(&e, 1, 2, &none);
    T_FALSE(evidence_closure_held(&e, 0));
    // What the incarnation before held is no fact of this one.
    say(&e, 0, true, true);
    T_FALSE(evidence_closure_held(&e, 0));
    evidence_release(&e);
}

TEST(evidence, Y4_the_next_round_is_issued_when_every_shard_counted_this_one)
{
    struct evidence e = rounds();
    struct counted none;

    T_EQ(evidence_limit(&e, 100), 2);
    say(&e, 0, true, true);
    T_EQ(evidence_limit(&e, 100), 2);
    say(&e, 1, false, true);                   // it closed the round on shard 0
    T_EQ(counted_low(&e.shard[0].counted), 2); // which counted slot 0 too
    T_EQ(evidence_limit(&e, 100), 2);
    say(&e, 0, false, false); // and another one on shard 1
    T_EQ(evidence_steps(&e), 2);
    T_EQ(evidence_limit(&e, 100), 3); // the short one
    T_OK(evidence_low_take(&e, 0, 1, 3));
    T_OK(evidence_low_take(&e, 1, 7, 3)); // a stranger's (C1)
    T_EQ(evidence_limit(&e, 100), 3);
    T_OK(evidence_low_take(&e, 1, 1, 3));
    T_EQ(evidence_limit(&e, 100), 5); // of the next epoch
    // A shard falls back, and its round comes first.
    T_OK(counted_init(&none, &e.schedule));
    evidence_admit(&e, 1, 2, &none);
    T_EQ(evidence_limit(&e, 100), 2);
    evidence_release(&e);
}

// A slot that a shard had counted before the job came to rounds says nothing of
// the others of its round.
TEST(evidence, a_duplicate_counts_itself_and_not_its_round)
{
    struct evidence e = rounds();
    struct evidence_item items[] = {{0, 1, false, false}, {1, 1, true, false}};
    bool full;

    T_OK(evidence_complete(&e, 0, items, 2, &full));
    T_TRUE(counted_closure_full(&e.shard[0].counted, 0));
    T_FALSE(counted_closure_full(&e.shard[0].counted, 1));
    evidence_release(&e);
}

TEST(evidence, without_rounds_what_is_held_is_not_believed)
{
    struct evidence e = two_shards();
    struct evidence_item items[] = {{0, 1, true, false}, {1, 1, true, false}};
    bool full;

    T_OK(evidence_complete(&e, 0, items, 2, &full));
    T_FALSE(full);
    T_FALSE(evidence_closure_held(&e, 0));
    evidence_release(&e);
}
