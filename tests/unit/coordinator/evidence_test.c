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
    T_TRUE(counted_closure_full(evidence_counted(&e, 0), 0));
    T_FALSE(counted_closure_full(evidence_counted(&e, 1), 0));
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

// A shard may say that it has counted as far as it likes.
TEST(evidence, what_one_shard_says_of_far_closures_is_no_walk)
{
    const struct schedule far = {UINT64_C(1) << 40, 1, 1000, 1};
    const struct counted_plain all = {UINT64_C(1) << 49, 0, NULL};
    struct evidence e;
    struct counted set;

    T_OK(evidence_init(&e, &far, 2, t_err()));
    T_OK(counted_init(&set, &far));
    T_OK(counted_add_closure(&set, 7));
    evidence_admit(&e, 0, 1, &set);
    T_OK(counted_decode(&set, &far, &all, t_err()));
    evidence_admit(&e, 1, 1, &set);
    T_EQ(evidence_closures(&e), 1);
    T_OK(evidence_low_take(&e, 0, 1, UINT64_C(1) << 48));
    T_EQ(evidence_low(&e), UINT64_C(1) << 48);
    T_EQ(evidence_closures(&e), UINT64_C(1) << 48);
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
    say(&e, 1, false, true); // it closed the round on shard 0
    T_EQ(counted_low(evidence_counted(&e, 0)), 2); // which counted slot 0 too
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

// It holds what is of its open round alone, so the one before is counted there,
// whoever has not said so yet. And what is said of that one comes too late.
TEST(evidence, Y2_what_is_held_of_the_next_round_counts_the_one_before)
{
    struct evidence e = rounds();

    say(&e, 0, true, true);
    T_EQ(evidence_limit_ahead(&e, 1), 3);
    say(&e, 2, true, true); // of the round that begins at 2
    T_EQ(evidence_low(&e), 2);
    T_EQ(evidence_limit(&e, 100), 3);
    T_EQ(evidence_limit_ahead(&e, 0), 3);
    T_EQ(evidence_limit_ahead(&e, 1), 5);
    T_EQ(evidence_limit_ahead(&e, 2), 6); // an epoch ends there
    T_EQ(evidence_limit_ahead(&e, 1000), e.closures);
    T_TRUE(evidence_closure_held(&e, 2));
    say(&e, 1, true, true);
    T_TRUE(evidence_closure_held(&e, 2));
    T_EQ(evidence_low(&e), 2);
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
    T_TRUE(counted_closure_full(evidence_counted(&e, 0), 0));
    T_FALSE(counted_closure_full(evidence_counted(&e, 0), 1));
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

// ---- rounds without slots

// 3000 closures of one step, two shards, rounds of at most 4.
static struct evidence open_rounds(void)
{
    static const struct schedule s = {
        .samples = 3000, .batch = 1, .epochs = 1, .steps_per_closure = 1};
    struct evidence e;

    T_OK(evidence_init(&e, &s, 2, t_err()));
    e.open = 4;
    for (uint32_t i = 0; i < 2; i++) {
        struct counted none;

        T_OK(counted_init(&none, &s));
        evidence_admit(&e, i, 1, &none);
    }
    return e;
}

// A shard says that it has counted closures [0, low) and one more.
static void told(struct evidence *e, uint32_t shard, uint64_t incarnation,
                 uint64_t low, uint64_t more)
{
    struct counted c;

    T_OK(counted_init(&c, &e->schedule));
    T_OK(counted_raise(&c, low));
    (void)counted_add_closure(&c, more);
    T_OK(evidence_set_take(e, shard, incarnation, &c));
    counted_release(&c);
}

TEST(evidence, L4_a_shard_says_what_it_has_counted_of_what_it_held)
{
    struct evidence e = open_rounds();

    say(&e, 5, true, true);
    say(&e, 7, true, true);
    T_TRUE(evidence_closure_held(&e, 5));
    T_FALSE(evidence_closure_full(&e, 5));
    T_FALSE(evidence_closure_held(&e, 6));
    T_EQ(evidence_held(&e, 0), 2);
    T_EQ(evidence_held_first(&e, 0), 5);
    told(&e, 0, 7, 3000, 0); // of a memory that is gone (C1)
    T_EQ(evidence_held(&e, 0), 2);
    T_EQ(evidence_next(&e, 0), 0);
    told(&e, 0, 1, 0, 5);
    T_TRUE(counted_closure_full(evidence_counted(&e, 0), 5));
    T_FALSE(counted_closure_full(evidence_counted(&e, 0), 7));
    T_EQ(evidence_held_first(&e, 0), 7);
    T_TRUE(evidence_closure_held(&e, 5)); // counted there, and held here
    told(&e, 1, 1, 8, 9);
    T_EQ(evidence_held(&e, 1), 0);
    T_EQ(evidence_held_first(&e, 1), e.closures);
    told(&e, 1, 1, 0, 0); // late: nothing is taken back
    T_EQ(counted_low(evidence_counted(&e, 1)), 8);
    evidence_release(&e);
}

TEST(evidence, Y3_what_open_rounds_held_goes_with_the_memory)
{
    struct evidence e = open_rounds();
    struct counted none;

    say(&e, 5, true, true);
    T_OK(counted_init(&none, &e.schedule));
    evidence_admit(&e, 1, 2, &none);
    T_FALSE(evidence_closure_held(&e, 5));
    T_EQ(evidence_held(&e, 0), 1);
    T_EQ(evidence_held(&e, 1), 0);
    evidence_release(&e);
}

// One bit stands for one closure and for that EVIDENCE_ROUND_MOST behind it.
TEST(evidence, what_open_rounds_have_counted_is_no_more_held_behind_the_window)
{
    struct evidence e = open_rounds();
    const uint64_t most = EVIDENCE_ROUND_MOST;
    struct evidence_item items[] = {{0, 1, false, false}, {1, 1, false, false}};
    bool full;

    T_EQ(evidence_limit(&e, 100000), most);
    T_EQ(evidence_limit(&e, 100), 100);
    say(&e, 5, true, true);
    say(&e, 6, true, true);
    T_OK(evidence_complete(&e, 5, items, 2, &full)); // by another worker
    evidence_name(&e, 0, 1);
    evidence_name(&e, 1, 1);
    T_OK(evidence_complete_by_map(&e, 6, 1, &full));
    for (uint32_t shard = 0; shard < 2; shard++)
        told(&e, shard, 1, 100, 0);
    T_FALSE(evidence_closure_held(&e, 5 + most));
    T_FALSE(evidence_closure_held(&e, 6 + most));
    evidence_release(&e);
}

TEST(evidence, a_shard_is_believed_that_it_does_not_hold_what_a_worker_says)
{
    struct evidence e = open_rounds();
    uint64_t before = e.admissions;

    say(&e, 5, true, true);
    evidence_not_held(&e, 0, 2, 5); // of another memory
    evidence_not_held(&e, 7, 1, 5); // no such shard
    evidence_not_held(&e, 0, 1, 5 + EVIDENCE_ROUND_MOST);
    evidence_not_held(&e, 0, 1, 6);
    T_TRUE(evidence_closure_held(&e, 5));
    T_EQ(e.admissions, before);
    evidence_not_held(&e, 0, 1, 5);
    T_FALSE(evidence_closure_held(&e, 5));
    T_NE(e.admissions, before); // it is looked for anew
    evidence_release(&e);
}

// ---- by the version of a map

static bool by_map(struct evidence *e, uint64_t closure, uint64_t version)
{
    bool full = false;

    T_OK(evidence_complete_by_map(e, closure, version, &full));
    return full;
}

// W2: a map of an older version named another incarnation of shard 1.
TEST(evidence, W2_a_map_that_named_another_incarnation_is_not_believed)
{
    struct evidence e = two_shards();

    T_FALSE(by_map(&e, 0, 5)); // no map names any of them yet
    T_EQ(evidence_closure_steps(&e, 0), 0);
    evidence_name(&e, 0, 1);
    evidence_name(&e, 1, 2);
    T_TRUE(by_map(&e, 0, 2));
    T_TRUE(by_map(&e, 1, 9)); // of an address that changed, say
    admit(&e, 1, 2, 1);
    evidence_name(&e, 1, 10);
    T_FALSE(by_map(&e, 2, 9));
    T_TRUE(counted_closure_full(evidence_counted(&e, 0), 2));
    T_FALSE(counted_closure_full(evidence_counted(&e, 1), 2));
    T_TRUE(by_map(&e, 2, 10));
    T_EQ(evidence_next(&e, 0), 1); // which shard 1 has lost
    T_TRUE(by_map(&e, 1, 10));
    // Counted again, the incarnation is the same: what named it still does.
    admit(&e, 1, 2, 3);
    T_TRUE(by_map(&e, 3, 10));
    T_FAILS(SL_ERANGE, evidence_complete_by_map(&e, 6, 10, &(bool){false}));
    evidence_release(&e);
}

// ---- sets that shards share

#define MANY 2560

static uint32_t used(const struct evidence *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->sets_end; i++)
        n += e->sets[i].shards > 0;
    return n;
}

TEST(evidence, shards_that_have_counted_the_same_share_a_set)
{
    struct evidence e;

    T_OK(evidence_init(&e, &schedule, MANY, t_err()));
    for (uint32_t i = 0; i < MANY; i++) {
        admit(&e, i, 1, 1);
        evidence_name(&e, i, i + 1);
    }
    T_EQ(used(&e), 1);
    T_TRUE(by_map(&e, 1, MANY));
    T_TRUE(by_map(&e, 2, MANY));
    T_EQ(used(&e), 1);
    // One comes back with less, and then all with less still.
    admit(&e, 7, 2, 2);
    evidence_name(&e, 7, MANY + 1);
    T_EQ(used(&e), 2);
    T_EQ(evidence_next(&e, 0), 2);
    T_TRUE(by_map(&e, 2, MANY + 1));
    T_EQ(evidence_next(&e, 0), 3);
    T_EQ(used(&e), 1);
    for (uint32_t i = 0; i < MANY; i++)
        admit(&e, i, 3, 1);
    T_EQ(used(&e), 1);
    T_EQ(evidence_closures(&e), 1);
    evidence_release(&e);
}

// As if each shard had a set of its own.
struct plain {
    uint64_t incarnation, named;
    bool has[6];
};

static uint64_t plain_low(const struct plain *p, uint32_t shards)
{
    uint64_t low = 6;

    for (uint32_t i = 0; i < shards; i++) {
        uint64_t n = 0;

        while (n < 6 && p[i].has[n])
            n++;
        low = n < low ? n : low;
    }
    return low;
}

static void as_plain(const struct evidence *e, const struct plain *p)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < e->shards; i++)
        for (uint64_t k = 0; k < 6; k++)
            T_EQ(counted_closure_full(evidence_counted(e, i), k), p[i].has[k]);
    T_EQ(evidence_low(e), plain_low(p, e->shards));
    for (uint32_t i = 0; i < e->sets_end; i++) {
        members += e->sets[i].shards;
        T_EQ(e->sets[i].marked, 0);
    }
    T_EQ(members, e->shards);
    T_LE(used(e), e->shards);
}

static void some_items(struct evidence *e, struct plain *p, uint64_t closure)
{
    struct evidence_item items[5];
    size_t n = 0;
    bool full;

    for (uint32_t i = 0; i < 5; i++) {
        if (t_rand() % 4 == 0)
            continue;
        items[n] = (struct evidence_item){
            i, p[i].incarnation - (t_rand() % 4 == 0), false, false};
        if (items[n].incarnation == p[i].incarnation && items[n].incarnation)
            p[i].has[closure] = true;
        n++;
    }
    T_OK(evidence_complete(e, closure, items, n, &full));
}

static void come_back(struct evidence *e, struct plain *p, uint32_t shard,
                      uint64_t version)
{
    struct counted c;

    T_OK(counted_init(&c, &schedule));
    for (uint64_t k = 0; k < 6; k++) {
        p->has[k] = p->has[k] && t_rand() % 3 != 0;
        if (p->has[k])
            T_OK(counted_add_closure(&c, k));
    }
    evidence_admit(e, shard, ++p->incarnation, &c);
    evidence_name(e, shard, version);
    p->named = version;
}

TEST(evidence, shared_sets_say_what_sets_of_each_shard_would)
{
    for (unsigned round = 0; round < 200; round++) {
        struct plain p[5] = {{0}};
        uint64_t version = 0;
        struct evidence e;

        T_OK(evidence_init(&e, &schedule, 5, t_err()));
        for (unsigned step = 0; step < 60; step++) {
            uint64_t closure = t_rand() % 6, asked = t_rand() % (version + 2);
            uint32_t shard = (uint32_t)(t_rand() % 5);
            bool full;

            switch (t_rand() % 4) {
            case 0:
                come_back(&e, &p[shard], shard, ++version);
                break;
            case 1:
                some_items(&e, p, closure);
                break;
            case 2:
                T_OK(evidence_complete_by_map(&e, closure, asked, &full));
                for (uint32_t i = 0; i < 5; i++)
                    p[i].has[closure] |= p[i].named > 0 && p[i].named <= asked;
                break;
            default:
                T_OK(evidence_low_take(&e, shard, p[shard].incarnation,
                                       closure));
                for (uint64_t k = 0; p[shard].incarnation && k < closure; k++)
                    p[shard].has[k] = true;
            }
            as_plain(&e, p);
        }
        evidence_release(&e);
    }
}
