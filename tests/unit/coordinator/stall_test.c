// SPDX-License-Identifier: Apache-2.0
// Workers that are heard of but are of no use: they stand still, or nothing
// that they compute counts. See world.h.
#include <string.h>

#include "coordinator/rules/conduct.h"
#include "coordinator/core/job.h"
#include "coordinator/rules/member.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, STALL_MS = 5000 };

// The job of the world with other numbers in it, from the first to the last
// pair: {what, by what}, of the same length or not.
static uint64_t submit(struct world *w, const char *const change[][2],
                       unsigned changes)
{
    char json[4096], *at;

    snprintf(json, sizeof(json), "%s", world_graph_job);
    for (unsigned i = 0; i < changes; i++) {
        size_t was = strlen(change[i][0]), is = strlen(change[i][1]);

        at = strstr(json, change[i][0]);
        T_ASSERT(at != NULL);
        memmove(at + is, at + was, strlen(at + was) + 1);
        memcpy(at, change[i][1], is);
    }
    return world_submit(w, json);
}

static struct world *begin(unsigned workers)
{
    static const char *const change[][2] = {
        {"\"max_attempts\":8", "\"max_attempts\":3,\"stall_seconds\":5"},
        {"\"epochs\":3", "\"epochs\":30"},
        {"\"window_closures\":6", "\"window_closures\":100"},
    };
    static struct world w;

    world_init(&w, t_seed());
    world_people(&w, 1, workers);
    submit(&w, change, SL_COUNT(change));
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static struct fake_member *worker(struct world *w, unsigned number)
{
    return &w->members[1 + number];
}

// What `sluice status` says of a member.
struct seen {
    uint32_t leases;
    char reason[1024];
};

static struct seen *see(struct world *w, const char *name)
{
    static struct seen seen;
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    memset(&seen, 0, sizeof(seen));
    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_members; i++) {
        const Sluice__V1__MemberStatus *m = reply->members[i];

        if (strcmp(m->name, name) != 0)
            continue;
        seen.leases = m->leases;
        snprintf(seen.reason, sizeof(seen.reason), "%s", m->reason);
    }
    wire_free(&reply->base);
    return &seen;
}

// Leases of any kind, by the coordinator's own count.
static uint32_t held_by(struct world *w, const struct fake_member *m)
{
    return see(w, m->name)->leases;
}

static const char *why_nothing(struct world *w, const char *name)
{
    return see(w, name)->reason;
}

// Time passes, all that is said is heard at once, and everybody does a piece
// of work every 50 ms.
static void work_for(struct world *w, uint64_t ms)
{
    for (uint64_t t = 0; t < ms; t += 50) {
        world_pass(w, 50);
        fake_turn(w);
    }
}

// Works until it holds two leases and computes; then it stands still.
static uint64_t hang(struct world *w, struct fake_member *m)
{
    while (held_by(w, m) < 2 || m->leases_count < 2 || !world_trains(m))
        work_for(w, 50);
    m->hangs = true;
    return m->leases[0].lease->closure;
}

// Much time, with heartbeats and nothing else.
static void pass(struct world *w, uint64_t ms)
{
    for (uint64_t t = 0; t < ms; t += 1000) {
        world_pass(w, 1000);
        for (unsigned i = 0; i < WORLD_MEMBERS; i++)
            fake_read_all(w, &w->members[i]);
    }
}

// ---- no progress

TEST(stall, a_closure_that_stands_still_goes_to_somebody_else)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    work_for(w, STALL_MS - 1500);
    T_EQ(held_by(w, m), 2);
    T_STR(why_nothing(w, "w-0"), "");
    work_for(w, 3000);
    T_EQ(held_by(w, m), 0);
    T_HAS(why_nothing(w, "w-0"), "made no progress with closure");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // without it
    T_EQ(held_by(w, m), 0);
    world_release(w);
}

TEST(stall, who_lets_go_of_it_works_again)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    work_for(w, STALL_MS + 1500);
    T_EQ(held_by(w, m), 0);
    m->hangs = false;
    work_for(w, 1000);
    T_GT(held_by(w, m), 0);
    T_STR(why_nothing(w, "w-0"), "");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(stall, a_new_stream_of_the_same_process_changes_nothing)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    work_for(w, STALL_MS + 1500);
    T_EQ(held_by(w, m), 0);
    world_break(w, m);
    world_attach(w, m);
    T_EQ(held_by(w, m), 0);
    world_kill(w, m);
    world_restart(w, m); // another process
    T_GT(held_by(w, m), 0);
    world_release(w);
}

TEST(stall, one_that_never_answers_is_tried_again_after_long)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    worker(w, 1)->waits = true; // keeps the job from ending
    pass(w, STALL_MS + 1500);
    T_EQ(held_by(w, m), 0);
    world_kill(w, worker(w, 1));
    T_HAS(world_reason(w),
          "waiting for a worker: the attached workers make no progress");
    pass(w, MEMBER_DEBT_MS - 5000);
    T_EQ(held_by(w, m), 0);
    pass(w, 6000);
    T_GT(held_by(w, m), 0);
    world_release(w);
}

TEST(stall, slow_but_moving_is_left_alone)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    for (unsigned i = 0; i < 20; i++) {
        m->progress++;
        world_pass(w, STALL_MS - 1000);
        T_EQ(held_by(w, m), 2);
    }
    world_release(w);
}

TEST(stall, the_lease_behind_is_not_expected_to_move)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);
    uint64_t closure = hang(w, m);

    for (unsigned i = 0; i < 4; i++) {
        m->progress++;
        world_pass(w, STALL_MS - 1000);
    }
    m->hangs = false;
    while (m->leases_count == 0 || m->leases[0].lease->closure == closure)
        work_for(w, 1); // everybody: a shard that was slow is counted on again
    m->hangs = true;    // in the one that waited for so long: it begins anew
    world_pass(w, STALL_MS - 1000);
    T_EQ(held_by(w, m), 2);
    world_pass(w, 2500);
    T_EQ(held_by(w, m), 0);
    world_release(w);
}

// It goes on with what it has when its stream ends, and says so.
TEST(stall,
     what_waits_behind_a_lease_of_an_older_stream_is_not_expected_to_move)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    while (m->leases_count > 1)
        wire_free(&m->leases[--m->leases_count].lease->base);
    world_break(w, m);
    world_attach(w, m);
    while (held_by(w, m) < 2)
        world_pass(w, 50);
    for (unsigned i = 0; i < 20;
         i++) { // not listed, those it holds do not move
        m->progress++;
        world_pass(w, STALL_MS - 1000);
        T_EQ(held_by(w, m), 2);
    }
    pass(w, STALL_MS + 1500); // it does not move any more
    T_EQ(held_by(w, m), 0);
    world_release(w);
}

TEST(stall, nobody_can_move_without_the_shards)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    world_kill(w, &w->members[0]);
    world_pass(w, 3 * STALL_MS);
    T_EQ(held_by(w, m), 2);
    world_release(w);
}

TEST(stall, a_sleep_of_the_coordinator_is_nobodys_hang)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    clock_fake_advance_ms(&w->clock, 10 * STALL_MS);
    coord_tick(w->coord);
    T_EQ(held_by(w, m), 2);
    world_release(w);
}

TEST(stall, poison_that_hangs_fails_the_job_and_says_where)
{
    struct world *w = begin(4);
    uint64_t closure = hang(w, worker(w, 0));
    char what[64];

    snprintf(what, sizeof(what), "closure %llu (epoch ",
             (unsigned long long)closure);
    // Whoever gets it hangs in it.
    for (unsigned i = 0; i < LIMIT && world_state(w) == JOB_RUNNING; i++) {
        for (unsigned k = 0; k < 4; k++) {
            struct fake_member *m = worker(w, k);

            fake_read_all(w, m);
            if (m->leases_count > 0 && m->leases[0].lease->closure == closure)
                m->hangs = true;
        }
        work_for(w, 50);
    }
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), what);
    T_HAS(world_reason(w), "3 distinct workers");
    T_HAS(world_reason(w), "made no progress for 5 s");
    world_release(w);
}

// ---- shards that one cannot reach

TEST(stall, who_waits_for_shards_that_others_reach_is_put_aside_unblamed)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    m->hangs = false;
    m->waits = true;
    work_for(w, STALL_MS + 1500);
    T_EQ(held_by(w, m), 0);
    T_HAS(why_nothing(w, "w-0"), "waits for shards that other workers reach");
    m->waits = false;
    fake_read_all(w, m);
    T_EQ(m->leases_count, 0);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(stall, when_everybody_waits_nobody_is_moved)
{
    struct world *w = begin(2);

    for (unsigned i = 0; i < 2; i++) {
        hang(w, worker(w, i));
        worker(w, i)->hangs = false;
        worker(w, i)->waits = true;
    }
    world_pass(w, 600); // what is under way arrives
    world_pass(w, 10 * STALL_MS);
    T_EQ(held_by(w, worker(w, 1)), 2);
    T_STR(why_nothing(w, "w-1"), "");
    world_release(w);
}

// ---- steps that do not count

TEST(stall, who_only_skips_is_put_aside_and_tried_again)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    m->skips = true;
    while (why_nothing(w, "w-0")[0] == '\0')
        work_for(w, 50);
    T_HAS(why_nothing(w, "w-0"), "put aside for j-1, 30 s more");
    T_HAS(why_nothing(w, "w-0"), "not finite");
    T_EQ(held_by(w, m), 0);
    worker(w, 1)->waits = true; // the job stays
    pass(w, CONDUCT_FIRST_MS - 2000);
    T_EQ(held_by(w, m), 0);
    pass(w, 3000);
    T_GT(held_by(w, m), 0);
    world_release(w);
}

TEST(stall, when_all_skip_it_is_the_job)
{
    struct world *w = begin(2);

    worker(w, 0)->skips = worker(w, 1)->skips = true;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_STR(why_nothing(w, "w-0"), "");
    T_STR(why_nothing(w, "w-1"), "");
    world_release(w);
}

static void send_not_finite(struct world *w, struct fake_member *m,
                            unsigned lease)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;

    T_GT(m->leases_count, lease);
    T_OF_LEASE(&failed, m->leases[lease].lease);
    failed.code = SL_ENUMERIC;
    failed.text = "101 steps in a row";
    failed.job_error = true;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &failed;
    fake_send(m, &up);
    fake_deliver_all(w, m);
}

// Nor by what it says before it has heard that it is put aside: of the lease
// behind. That changes nothing, the time neither.
TEST(stall, one_worker_alone_cannot_fail_the_job_with_its_numbers)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    m->hangs = false;
    m->waits = true;
    for (unsigned i = 0; i < 4; i++) { // the other gets on
        m->progress++;
        work_for(w, STALL_MS - 1500);
    }
    m->waits = false;
    for (unsigned lease = 0; lease < 2; lease++) {
        send_not_finite(w, m, lease);
        T_EQ(world_state(w), JOB_RUNNING);
        T_HAS(why_nothing(w, "w-0"), "put aside for j-1, 30 s more");
        T_HAS(why_nothing(w, "w-0"), "not finite");
    }
    fake_read_all(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// It comes, and is at its limit before others have got on at all.
TEST(stall, a_newcomer_cannot_fail_the_job_with_its_numbers)
{
    struct world *w = begin(1);
    struct fake_member *m;
    Sluice__V1__JobStatus *s;
    bool counted = false;

    while (!counted) {
        work_for(w, 50);
        s = world_status(w);
        counted = s->closures_counted > 0; // so w-0 has said that it got on
        wire_free(&s->base);
    }
    worker(w, 0)->waits = true;
    m = world_add(w, FAKE_WORKER, "bad");
    world_attach(w, m);
    fake_read_all(w, m);
    send_not_finite(w, m, 0);
    T_EQ(world_state(w), JOB_RUNNING);
    T_HAS(why_nothing(w, "bad"), "not finite");
    worker(w, 0)->waits = false;
    fake_read_all(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(stall, the_last_worker_fails_the_job_with_its_numbers)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    send_not_finite(w, m, 0);
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), "101 steps in a row");
    world_release(w);
}

// ---- progress that nothing shows

// Says that it gets on, for so long as it has a lease; true: it was let.
static bool boasts_for(struct world *w, struct fake_member *m, uint64_t ms)
{
    for (uint64_t t = 0; t < ms; t += 1000) {
        if (held_by(w, m) == 0)
            return false;
        m->progress++;
        world_pass(w, 1000);
        for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
            fake_read_all(w, &w->members[i]);
            fake_deliver_all(w, &w->members[i]);
        }
    }
    return held_by(w, m) > 0;
}

TEST(stall, a_number_alone_that_changes_does_not_hold_a_closure_for_ever)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    worker(w, 1)->waits = true; // the job stays
    T_TRUE(boasts_for(w, m, 15 * STALL_MS));
    T_FALSE(boasts_for(w, m, 3 * STALL_MS));
    T_HAS(why_nothing(w, "w-0"), "made no progress with closure");
    worker(w, 1)->waits = false;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// A step now and then, which shards say when they are asked, is enough.
TEST(stall, what_shards_have_counted_lets_a_slow_closure_go_on)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);
    struct fake_member *ps = &w->members[0];
    uint64_t closure = hang(w, m);
    const Sluice__V1__Lease *l = m->leases[0].lease;
    uint32_t steps = l->steps;

    T_GT(steps, 1);
    for (uint32_t step = 0; step < steps; step++) {
        T_TRUE(boasts_for(w, m, 14 * STALL_MS));
        for (uint32_t i = 0; i < w->shards; i++)
            counted_add(&ps->shards[i].counted, closure, step);
    }
    T_TRUE(boasts_for(w, m, 14 * STALL_MS));
    T_FALSE(boasts_for(w, m, 20 * STALL_MS)); // no more of it is counted
    world_release(w);
}
