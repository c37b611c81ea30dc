// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/member.h"

#include "common/base/moves.h"
#include "coordinator/rules/work.h"
#include "tests/harness/t.h"

enum { BEAT = 500, LEASE = 2000 };

static struct member *add(struct members *ms, const char *name,
                          enum member_role role, uint64_t id, uint64_t now)
{
    struct member_hello hello = {
        .role = role, .name = name, .process = id * 10};
    struct member *m = NULL;

    T_OK(members_add(ms, &m, id, &hello, now));
    return m;
}

TEST(member, silence_makes_suspect_after_two_heartbeats_lost_after_a_lease)
{
    struct members ms;
    struct member *m;

    members_init(&ms, BEAT, LEASE);
    m = add(&ms, "w", MEMBER_WORKER, 1, 10000);
    T_EQ(member_judge(&ms, m, 10999), MEMBER_READY);
    T_EQ(member_judge(&ms, m, 11000), MEMBER_SUSPECT);
    T_EQ(member_judge(&ms, m, 11999), MEMBER_SUSPECT);
    T_EQ(member_judge(&ms, m, 12000), MEMBER_LOST);

    T_FALSE(member_check(&ms, m, 10999));
    T_TRUE(member_check(&ms, m, 11000)); // told once
    T_FALSE(member_check(&ms, m, 11050));
    T_TRUE(member_seen(m, 11100)); // back
    T_EQ(m->state, MEMBER_READY);
    T_FALSE(member_seen(m, 11200));
    T_EQ(member_judge(&ms, m, 12199), MEMBER_READY);
    members_release(&ms);
}

TEST(member, whose_name_it_is)
{
    static const struct {
        enum member_claim holder, other;
        bool same, silent, yields;
    } table[] = {
        {MEMBER_LOCAL, MEMBER_LOCAL, false, false, true},
        {MEMBER_LOCAL, MEMBER_OWN, false, false, true},
        {MEMBER_LOCAL, MEMBER_ANY, false, false, false},
        {MEMBER_LOCAL, MEMBER_ANY, false, true, true},
        {MEMBER_ANY, MEMBER_LOCAL, false, false, true},
        {MEMBER_ANY, MEMBER_OWN, false, false, true},
        {MEMBER_ANY, MEMBER_ANY, false, false, false},
        {MEMBER_ANY, MEMBER_ANY, false, true, true},
        {MEMBER_ANY, MEMBER_ANY, true, false, true},
        {MEMBER_OWN, MEMBER_LOCAL, false, false, true},
        {MEMBER_OWN, MEMBER_OWN, false, false, true},
        {MEMBER_OWN, MEMBER_ANY, false, false, false},
        {MEMBER_OWN, MEMBER_ANY, false, true, false},
        {MEMBER_OWN, MEMBER_ANY, true, false, false},
    };

    for (size_t i = 0; i < SL_COUNT(table); i++) {
        struct member m = {.claim = table[i].holder,
                           .process = 7,
                           .state =
                               table[i].silent ? MEMBER_SUSPECT : MEMBER_READY};

        if (member_yields(&m, table[i].other, table[i].same ? 7 : 8) !=
            table[i].yields)
            T_FAIL("row %zu", i);
    }
}

// Its device went away and another came.
TEST(member, says_why_it_takes_nothing_and_what_it_computes_on)
{
    struct members ms;
    struct member *m;

    members_init(&ms, BEAT, LEASE);
    m = add(&ms, "w", MEMBER_WORKER, 1, 0);
    T_STR(m->device, "");
    member_describe(m, "", "");
    T_PTR(m->why, NULL);
    T_STR(m->device, "");
    member_describe(m, "its device is lost", "cuda:0");
    T_STR(m->why, "its device is lost");
    T_STR(m->device, "cuda:0");
    member_describe(m, "its device is lost again", "");
    T_STR(m->why, "its device is lost again");
    T_STR(m->device, "cuda:0");
    member_describe(m, "", "cpu");
    T_PTR(m->why, NULL);
    T_STR(m->device, "cpu");
    T_PTR(m->left_out, NULL);
    member_leaves_out(m, "a kernel");
    T_STR(m->left_out, "a kernel");
    member_leaves_out(m, "");
    T_PTR(m->left_out, NULL);
    members_release(&ms);
}

// Returns whether two workers with these devices are on the same kind of one.
static bool same_device(char *a, char *b)
{
    struct member x = {.device = a}, y = {.device = b};

    return member_same_device(&x, &y);
}

TEST(member, which_gpu_of_its_host_it_has_makes_no_other_device)
{
    static char *const kinds[] = {
        "", "cpu: oneDNN 2.6.3, avx512 loops", "cuda:0: NVIDIA H200, sm_90",
        "cuda:0: NVIDIA H100, sm_90", "2 devices, cuda:0: NVIDIA H200, sm_90"};

    for (size_t i = 0; i < SL_COUNT(kinds); i++)
        for (size_t k = 0; k < SL_COUNT(kinds); k++)
            T_EQ(same_device(kinds[i], kinds[k]), i == k);
    T_TRUE(same_device(kinds[2], "cuda:13: NVIDIA H200, sm_90"));
    T_TRUE(same_device(kinds[4], "2 devices, cuda:2: NVIDIA H200, sm_90"));
    T_FALSE(same_device(kinds[4], "3 devices, cuda:0: NVIDIA H200, sm_90"));
}

TEST(member, drains_and_pauses)
{
    struct members ms;
    struct member *m;

    members_init(&ms, BEAT, LEASE);
    m = add(&ms, "w", MEMBER_WORKER, 1, 0);
    T_TRUE(member_ready(m, 0));
    m->pause_until_ms = 100;
    T_FALSE(member_ready(m, 99));
    T_TRUE(member_ready(m, 100));
    m->draining = true;
    member_seen(m, 150);
    T_EQ(m->state, MEMBER_DRAINING);
    T_FALSE(member_ready(m, 150));
    m->draining = false; // the notice was withdrawn (a cloud may do so)
    member_seen(m, 160);
    T_TRUE(member_ready(m, 160));
    members_release(&ms);
}

// From every state, a message, silence of every length, and the end.
TEST(member, every_move_from_every_state_is_one_of_the_picture)
{
    struct members ms;

    members_init(&ms, BEAT, LEASE);
    for (unsigned from = 0; from < MEMBER_STATES; from++) {
        unsigned seen = 0;

        for (unsigned i = 0; from != MEMBER_LOST && i < 10; i++) {
            struct member *m = add(&ms, "w", MEMBER_WORKER, 1, 0);

            m->state = (enum member_state)from;
            m->draining = i % 2 == 1;
            if (i / 2 == 0)
                member_seen(m, 0);
            else if (i / 2 == 1)
                member_lost(m);
            else
                member_check(&ms, m, (i / 2 - 2) * LEASE / 2);
            if (m->state != from)
                seen |= MOVES_TO(m->state);
            members_remove(&ms, m);
        }
        T_EQ(seen, member_moves[from]);
    }
    members_release(&ms);
}

TEST(member, names_are_per_role)
{
    struct members ms;
    struct member *w, *p;

    members_init(&ms, BEAT, LEASE);
    w = add(&ms, "a", MEMBER_WORKER, 1, 0);
    p = add(&ms, "a", MEMBER_PSSERVER, 2, 0);
    T_PTR(members_find(&ms, MEMBER_WORKER, "a"), w);
    T_PTR(members_find(&ms, MEMBER_PSSERVER, "a"), p);
    T_PTR(members_get(&ms, 2), p);
    T_EQ(ms.workers, 1);
    members_remove(&ms, w);
    T_PTR(members_find(&ms, MEMBER_WORKER, "a"), NULL);
    T_EQ(ms.workers, 0);
    T_EQ(ms.psservers, 1);
    members_release(&ms);
}

static struct member *first(struct members *ms, uint32_t leases)
{
    struct list_node *n = list_first(&ms->open[leases]);

    return n == NULL ? NULL : list_entry(n, struct member, open);
}

// Who may be given more is found without looking at the others.
TEST(member, workers_stand_by_the_leases_they_hold)
{
    struct members ms;
    struct member *a, *b;

    members_init(&ms, BEAT, LEASE);
    add(&ms, "p", MEMBER_PSSERVER, 1, 0);
    a = add(&ms, "a", MEMBER_WORKER, 2, 0);
    b = add(&ms, "b", MEMBER_WORKER, 3, 0);
    T_PTR(first(&ms, 0), a);
    member_holds(a, 1);
    T_PTR(first(&ms, 0), b);
    T_PTR(first(&ms, 1), a);
    member_holds(a, DISPATCH_LEASES_LEAST);
    T_PTR(first(&ms, 1), NULL); // all that it may
    T_EQ(a->lease_count, DISPATCH_LEASES_LEAST);
    member_holds(b, 1);
    member_holds(a, 1);
    T_PTR(first(&ms, 1), b); // who waits longer is the first
    members_remove(&ms, b);
    T_PTR(first(&ms, 1), a);
    member_holds(a, 0);
    T_PTR(first(&ms, 0), a);
    members_release(&ms);
}

static void complete_one(struct member *m, uint64_t now_ms)
{
    member_completes(m, now_ms, DISPATCH_AHEAD_MS, DISPATCH_LEASES_MOST);
    member_holds(m, m->lease_count - 1);
}

// One whose leases end at once.
static struct member *quick(struct members *ms)
{
    struct member *m;

    members_init(ms, BEAT, LEASE);
    m = add(ms, "a", MEMBER_WORKER, 2, 0);
    member_begins(m, 1000);
    T_EQ(m->lease_most, DISPATCH_LEASES_LEAST);
    for (int i = 0; i < 100; i++) {
        complete_one(m, 1000);
        member_begins(m, 1000);
    }
    T_EQ(m->lease_most, DISPATCH_LEASES_MOST);
    while (m->lease_count < DISPATCH_LEASES_MOST) {
        T_PTR(first(ms, m->lease_count), m);
        member_begins(m, 1000);
    }
    return m;
}

TEST(member, short_leases_are_given_out_several_at_a_time)
{
    struct members ms;
    struct member *m = quick(&ms);

    while (m->lease_count > DISPATCH_LEASES_MOST / 2 + 1) {
        complete_one(m, 1000);
        T_PTR(first(&ms, m->lease_count), m->refills ? m : NULL);
    }
    T_FALSE(m->refills);
    complete_one(m, 1000);
    T_PTR(first(&ms, m->lease_count), m); // it has few left
    // And now one takes its time.
    member_completes(m, 1100, DISPATCH_AHEAD_MS, DISPATCH_LEASES_MOST);
    T_EQ(m->lease_most, DISPATCH_LEASES_LEAST);
    member_completes(
        m, 1100, 100,
        DISPATCH_LEASES_MOST); // which is little where more may wait
    T_GT(m->lease_most, DISPATCH_LEASES_LEAST);
    members_release(&ms);
}

TEST(member, after_a_loss_leases_are_given_out_one_by_one)
{
    struct members ms;
    struct member *m = quick(&ms);

    members_forget_pace(&ms);
    T_EQ(m->lease_most, DISPATCH_LEASES_LEAST);
    while (m->lease_count > DISPATCH_LEASES_LEAST / 2) {
        T_PTR(first(&ms, m->lease_count), NULL);
        complete_one(m, 1000);
    }
    T_PTR(first(&ms, m->lease_count), m);
    members_release(&ms);
}

// Nothing that outlives the members points at one.
TEST(member, none_is_left_in_any_list_after_the_release)
{
    struct members ms;
    struct member *m;
    struct work held = {.cut = 0};

    members_init(&ms, BEAT, LEASE);
    m = add(&ms, "a", MEMBER_WORKER, 1, 0);
    member_sends(m);
    list_push_back(&m->leases, &held.on_holder);
    members_lose(&ms, add(&ms, "b", MEMBER_PSSERVER, 2, 0), "it is gone");
    members_release(&ms);
    T_PTR(first(&ms, 0), NULL);
    T_TRUE(list_empty(&ms.all) && list_empty(&ms.lost));
    T_TRUE(list_empty(&ms.unsent));
    T_FALSE(list_on(&held.on_holder));
    T_EQ(ms.workers + ms.psservers, 0);
}
