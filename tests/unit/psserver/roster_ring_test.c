// SPDX-License-Identifier: Apache-2.0
// What a psserver does with a shard beside a ring, by the coordinator's
// messages. Rounds of two contributions, which are to be skipped: what is
// counted shows all.
#include "psserver/roster/roster.h"
#include "tests/unit/psserver/kit.h"

struct scene {
    struct kit kit;
    struct loop *loop;
    struct shard_table *store;
    struct roster *roster;
    unsigned hellos, applied;
    // As the last hello said, and the last report of a snapshot.
    uint64_t live, rounds, steps, request;
    struct wire_tag loaded;
    bool whole;
    char failure[160];
};

static void heard(void *arg, const Sluice__V1__AttendUp *up)
{
    const Sluice__V1__ShardHello *hello = up->shard_hello;
    struct scene *s = arg;

    if (up->kind_case == SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT) {
        s->request = up->snapshot->request;
        snprintf(s->failure, sizeof(s->failure), "%s", up->snapshot->failure);
        s->steps =
            up->snapshot->counted == NULL ? 0 : up->snapshot->counts->counted;
        loop_stop(s->loop);
    }
    if (up->kind_case != SLUICE__V1__ATTEND_UP__KIND_SHARD_HELLO)
        return;
    T_STR(hello->failure, "");
    s->hellos++;
    s->live = hello->live_incarnation;
    s->loaded = wire_tag_of(hello->loaded);
    s->rounds = hello->rounds;
    s->whole = hello->whole;
    loop_stop(s->loop);
}

static void applied(void *arg, struct shard *shard)
{
    ((struct scene *)arg)->applied++;
    (void)shard;
}

// Placed and loaded.
static void scene_open(struct scene *s)
{
    struct roster_setup setup = {.fs = fs_posix(),
                                 .send = heard,
                                 .arg = s,
                                 .applied = applied,
                                 .applied_arg = s};
    Sluice__V1__Place m = SLUICE__V1__PLACE__INIT;
    Sluice__V1__Tag at_least = SLUICE__V1__TAG__INIT;

    memset(s, 0, sizeof(*s));
    kit_clear(&s->kit);
    kit_table(&s->kit, "users", 3);
    s->kit.geometry.steps_per_closure = 1;
    s->kit.spec.contributions = 2;
    s->kit.spec.decided = true;
    T_OK(loop_new(&s->loop, t_err()));
    T_OK(store_new(&s->store));
    setup.loop = s->loop;
    setup.store = s->store;
    setup.folder = t_path("store");
    T_OK(roster_new(&s->roster, &setup));
    m.term = 3;
    m.shard = &s->kit.spec;
    m.at_least = &at_least;
    roster_place(s->roster, &m);
    loop_run(s->loop);
}

static void scene_close(struct scene *s)
{
    roster_free(s->roster);
    store_free(s->store);
    loop_free(s->loop);
}

static void admit(struct scene *s, uint64_t generation, struct wire_tag base)
{
    Sluice__V1__Admit m = SLUICE__V1__ADMIT__INIT;
    Sluice__V1__Tag tag = wire_tag_msg(base);

    m.term = 3;
    m.job = 7;
    m.shard = 2;
    m.incarnation = generation;
    m.base_tag = &tag;
    roster_admit(s->roster, &m);
}

static void hold_round(struct scene *s, uint64_t generation, uint64_t first)
{
    struct shard *shard = store_find(s->store, 7, 2);
    struct wire_push_reply reply;

    for (uint64_t closure = first; closure < first + 2; closure++) {
        struct wire_push push = kit_push(closure, 0, NULL);

        push.incarnation = generation;
        T_OK(shard_push(shard, &push, &reply, NULL, t_err()));
        T_EQ(reply.result, WIRE_PUSH_HELD);
    }
    shard_unref(shard);
}

static void decide(struct scene *s, uint64_t generation, uint64_t rounds)
{
    Sluice__V1__CloseRound m = SLUICE__V1__CLOSE_ROUND__INIT;

    m.term = 3;
    m.job = 7;
    m.job_incarnation = 1;
    m.shard = 2;
    m.generation = generation;
    m.rounds = rounds;
    roster_close_round(s->roster, &m);
}

static void snapshot(struct scene *s, uint64_t generation, uint64_t request,
                     uint64_t at_round)
{
    Sluice__V1__SnapshotRequest m = SLUICE__V1__SNAPSHOT_REQUEST__INIT;

    m.job = 7;
    m.shard = 2;
    m.incarnation = generation;
    m.request = request;
    m.at_round = at_round;
    roster_snapshot(s->roster, &m);
}

static void ask_hello(struct scene *s)
{
    Sluice__V1__HelloWanted m = SLUICE__V1__HELLO_WANTED__INIT;

    m.term = 3;
    m.job = 7;
    m.shard = 2;
    roster_hello(s->roster, &m);
}

TEST(roster_ring, R8_a_round_is_applied_when_a_message_says_so)
{
    struct scene s;

    scene_open(&s);
    admit(&s, 1, (struct wire_tag){0, 0});
    T_EQ(roster_admitted(s.roster), 1);
    hold_round(&s, 1, 0);
    ask_hello(&s);
    T_EQ(s.live, 1);
    T_EQ(s.rounds, 0);
    T_TRUE(s.whole);
    s.applied = 0;
    decide(&s, 1, 1);
    T_EQ(s.applied, 1);
    ask_hello(&s);
    T_EQ(s.rounds, 1);
    T_FALSE(s.whole);
    scene_close(&s);
}

// R6: the instant is between two rounds, though the next one comes at once.
TEST(roster_ring, R6_a_snapshot_is_of_the_round_that_it_names)
{
    struct scene s;

    scene_open(&s);
    admit(&s, 1, (struct wire_tag){0, 0});
    snapshot(&s, 1, 11, 2);
    for (uint64_t round = 1; round <= 3; round++) {
        hold_round(&s, 1, 2 * (round - 1));
        decide(&s, 1, round);
    }
    snapshot(&s, 1, 11, 2); // again, while it is being written
    T_EQ(s.request, 0);
    loop_run(s.loop);
    T_EQ(s.request, 11);
    T_STR(s.failure, "");
    T_EQ(s.steps, 4);
    snapshot(&s, 1, 12, 2);
    T_EQ(s.request, 12);
    T_STR(s.failure, "that round is past");
    scene_close(&s);
}

TEST(roster_ring, R9_a_shard_that_cannot_make_the_base_is_loaded_anew)
{
    struct scene s;

    scene_open(&s);
    admit(&s, 1, (struct wire_tag){0, 0});
    hold_round(&s, 1, 0);
    admit(&s, 2, (struct wire_tag){1, 1});
    T_EQ(roster_admitted(s.roster), 1);
    s.hellos = 0;
    admit(&s, 3, (struct wire_tag){2, 5});
    T_EQ(roster_admitted(s.roster), 0);
    loop_run(s.loop);
    T_EQ(s.hellos, 1);
    T_EQ(s.live, 0);
    scene_close(&s);
}

TEST(roster_ring, R9_a_cut_is_loaded_though_a_newer_file_is_there)
{
    Sluice__V1__Tag cut = wire_tag_msg((struct wire_tag){1, 1});
    Sluice__V1__Refuse m = SLUICE__V1__REFUSE__INIT;
    struct scene s;

    scene_open(&s);
    admit(&s, 1, (struct wire_tag){0, 0});
    for (uint64_t n = 1; n <= 2; n++) {
        hold_round(&s, 1, 2 * (n - 1));
        decide(&s, 1, n);
        snapshot(&s, 1, n, n);
        loop_run(s.loop);
        T_STR(s.failure, "");
    }
    m.term = 3;
    m.job = 7;
    m.shard = 2;
    m.load = &cut;
    m.exact = true;
    roster_refuse(s.roster, &m);
    loop_run(s.loop);
    T_EQ(s.live, 0);
    T_EQ(s.loaded.sequence, 1);
    m.exact = false;
    roster_refuse(s.roster, &m); // it is new enough
    T_EQ(roster_admitted(s.roster), 0);
    admit(&s, 2, (struct wire_tag){1, 1});
    ask_hello(&s);
    T_EQ(s.live, 2);
    T_EQ(s.rounds, 1);
    scene_close(&s);
}
