// SPDX-License-Identifier: Apache-2.0
// Whole lives of jobs in allreduce mode: see world.h.
#include <stdio.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/mode.h"
#include "proto/token.h"
#include "tests/unit/coordinator/world_members.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 25
#else
#define SEEDS 500
#endif

enum { LIMIT = 60000 }; // actions after which a job that stands still fails

// One file, of one moment, holds all steps; every rank's rounds are in it.
static void check_end(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    Sluice__V1__CheckpointsReply *cuts = NULL;
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__Checkpoint *last;
    bool found = false;
    struct wire_tag tag;

    request.id = s->id;
    T_OK(status_checkpoints(w->coord, &request, &cuts, t_err()));
    T_GT(cuts->n_checkpoints, 0);
    last = cuts->checkpoints[cuts->n_checkpoints - 1];
    T_TRUE(last->complete);
    T_EQ(last->n_shards, w->shards);
    tag = wire_tag_of(last->shards[0]->tag);
    for (uint32_t i = 1; i < w->shards; i++) // all parts are of one round
        T_EQ(wire_tag_cmp(wire_tag_of(last->shards[i]->tag), tag), 0);
    for (unsigned i = 0; i < w->files_count; i++) {
        if (wire_tag_cmp(w->files[i].tag, tag) != 0)
            continue;
        found = true;
        T_TRUE(counted_full(&w->files[i].counted));
        T_EQ(tag.sequence, 15); // 3 epochs of 5 rounds of 2 steps
    }
    T_TRUE(found); // K3
    T_EQ(s->steps_counted, schedule_steps(&w->schedule));
    T_EQ(s->closures_counted, s->closures_asked);
    T_EQ(s->workers, 0);
    T_EQ(s->n_evaluations, 3);
    wire_free(&cuts->base);
    wire_free(&s->base);
}

static struct fake_member *worker(struct world *w, unsigned i)
{
    char name[16];

    snprintf(name, sizeof(name), "w-%u", i);
    for (unsigned k = 0; k < WORLD_MEMBERS; k++) {
        if (w->members[k].used && strcmp(w->members[k].name, name) == 0)
            return &w->members[k];
    }
    T_ASSERT(!"a worker of that number");
    return NULL;
}

static uint64_t steps_of(const Sluice__V1__JobStatus *s)
{
    return s->steps_counted;
}

static uint64_t ranks_of(const Sluice__V1__JobStatus *s)
{
    return s->ring_ranks;
}

static uint64_t cuts_of(const Sluice__V1__JobStatus *s)
{
    return s->cuts;
}

static uint64_t generation_of(const Sluice__V1__JobStatus *s)
{
    return s->ring_generation;
}

static uint64_t redone_of(const Sluice__V1__JobStatus *s)
{
    return s->steps_redone;
}

static uint64_t number(struct world *w,
                       uint64_t (*of)(const Sluice__V1__JobStatus *s))
{
    Sluice__V1__JobStatus *s = world_status(w);
    uint64_t n = of(s);

    wire_free(&s->base);
    return n;
}

// Until a number of the status is at least so large.
static void run_to(struct world *w,
                   uint64_t (*of)(const Sluice__V1__JobStatus *s),
                   uint64_t least)
{
    for (unsigned i = 0; i < LIMIT; i++) {
        if (number(w, of) >= least)
            return;
        world_step(w);
    }
    T_ASSERT(!"so much in time");
}

static void begin(struct world *w, uint64_t seed, unsigned workers)
{
    world_init(w, seed);
    world_people(w, 0, workers);
    world_submit(w, world_ring_job);
}

TEST(ring_life, a_quiet_job_finishes_without_a_psserver)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    begin(&w, WORLD_SITUATION, 3);
    run_to(&w, ranks_of, 3);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    s = world_status(&w);
    T_EQ(s->ring_generation, w.generation);
    T_EQ(s->workers_lost, 0);
    T_EQ(s->updates_applied, 30);
    T_EQ(s->psservers_lost, 0);
    wire_free(&s->base);
    world_release(&w);
}

TEST(ring_life, no_psserver_is_missed_for_its_parts)
{
    static struct world w;
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, ranks_of, 1);
    T_OK(status_cluster(w.coord, &request, &reply, t_err()));
    T_EQ(reply->n_members, 2);
    T_OK(wire_check(&reply->base, t_err()));
    wire_free(&reply->base);
    world_release(&w);
}

// Who sums for a program must say that it can: others would refuse the lease.
TEST(ring_life, a_job_of_a_program_is_for_external_workers_that_can_be_ranks)
{
    const char *tail = strstr(world_external_job, "\"batch\"");
    Sluice__V1__JobStatus *s;
    struct fake_member *m;
    struct world w;
    char json[600];

    snprintf(json, sizeof(json), "%.*s\"mode\":\"allreduce\",%s",
             (int)(tail - world_external_job), world_external_job, tail);
    world_init(&w, t_seed());
    world_people(&w, 0, 2);
    world_add(&w, FAKE_WORKER, "older")->external = true;
    world_submit(&w, json);
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    s = world_status(&w);
    T_EQ(s->ring_ranks, 0);
    T_HAS(s->reason, "an external worker that can be a rank");
    wire_free(&s->base);
    m = world_add(&w, FAKE_WORKER, "newer");
    m->external = m->ranks = true;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    s = world_status(&w);
    T_EQ(s->steps_counted, schedule_steps(&w.schedule));
    wire_free(&s->base);
    world_release(&w);
}

TEST(ring_life, R1_who_comes_and_who_dies_makes_a_new_generation)
{
    struct world w;
    Sluice__V1__JobStatus *s;
    uint64_t before;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, steps_of, 4);
    before = number(&w, generation_of);
    world_attach(&w, world_add(&w, FAKE_WORKER, "w-9"));
    run_to(&w, ranks_of, 3);
    T_GT(number(&w, generation_of), before);
    T_EQ(w.copied_ahead, 1); // before it was a member
    before = number(&w, generation_of);
    world_kill(&w, worker(&w, 0));
    s = world_status(&w);
    T_EQ(s->ring_ranks, 2); // at once
    T_EQ(s->ring_generation, before + 1);
    T_HAS(s->reason, "forming the ring again");
    T_EQ(s->workers_lost, 1);
    wire_free(&s->base);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// Ranks tell results of the few rounds that are audited, and of no other.
TEST(ring_life, A3_a_round_without_results_is_counted)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, steps_of, 4);
    s = world_status(&w);
    T_TRUE(s->audit != NULL && s->audit->compared == 0);
    T_EQ(s->ring_generation, 1); // it was not opened anew for that
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    wire_free(&s->base);
    check_end(&w);
    world_release(&w);
}

// Until these workers sum in the newest generation.
static void run_to_going(struct world *w, struct fake_member *const *m,
                         unsigned count)
{
    for (unsigned i = 0; i < LIMIT; i++) {
        unsigned going = 0;

        for (unsigned k = 0; k < count; k++)
            going += m[k]->rank.going == number(w, generation_of);
        if (going == count && number(w, ranks_of) == count)
            return;
        world_step(w);
    }
    T_ASSERT(!"a generation of them in time");
}

// An older worker among them knows of one lane alone.
TEST(ring_life, sums_have_two_lanes_while_all_ranks_have)
{
    struct fake_member *m[3];
    struct world w;

    begin(&w, WORLD_SITUATION, 2);
    m[0] = worker(&w, 0);
    m[1] = worker(&w, 1);
    run_to_going(&w, m, 2);
    T_TRUE(m[0]->rank.lanes && m[1]->rank.lanes);
    m[2] = world_add(&w, FAKE_WORKER, "w-9");
    m[2]->one_lane = true;
    world_attach(&w, m[2]);
    run_to_going(&w, m, 3);
    T_FALSE(m[0]->rank.lanes || m[1]->rank.lanes || m[2]->rank.lanes);
    world_kill(&w, m[2]);
    run_to_going(&w, m, 2);
    T_TRUE(m[0]->rank.lanes && m[1]->rank.lanes);
    world_release(&w);
}

TEST(ring_life, a_generation_has_a_token_where_all_its_ranks_show_it)
{
    struct fake_member *m[3];
    struct wire_token first;
    struct world w;

    world_init(&w, WORLD_SITUATION);
    w.secret[0] = 5;
    world_stop_coord(&w);
    world_start_coord(&w);
    world_people(&w, 0, 2);
    world_submit(&w, world_ring_job);
    m[0] = worker(&w, 0);
    m[1] = worker(&w, 1);
    run_to_going(&w, m, 2);
    first = m[0]->rank.token;
    T_TRUE(!token_absent(&first) && token_same(&first, &m[1]->rank.token));
    m[2] = world_add(&w, FAKE_WORKER, "w-9");
    m[2]->one_lane = true; // of before tokens, too
    world_attach(&w, m[2]);
    run_to_going(&w, m, 3);
    for (unsigned i = 0; i < 3; i++)
        T_TRUE(token_absent(&m[i]->rank.token));
    world_kill(&w, m[2]);
    run_to_going(&w, m, 2);
    T_TRUE(!token_absent(&m[0]->rank.token));
    T_TRUE(token_same(&m[0]->rank.token, &m[1]->rank.token));
    T_TRUE(!token_same(&m[0]->rank.token, &first)); // of another generation
    world_release(&w);
}

static const struct job *job_of(const struct world *w)
{
    return jobs_get(w->coord, w->job);
}

static bool evaluates(const struct fake_member *m)
{
    for (unsigned i = 0; i < m->leases_count; i++) {
        if (m->leases[i].lease->kind == SLUICE__V1__LEASE_KIND__LEASE_EVALUATE)
            return true;
    }
    return false;
}

// It holds a ring lease and is no member yet: alone it would fail.
TEST(ring_life, a_rank_without_the_state_evaluates_nothing)
{
    static char json[4096];
    struct world w;
    struct fake_member *m;

    snprintf(json, sizeof(json), "%s", world_ring_job);
    strstr(json, "\"epochs\":3")[9] = '9';
    world_init(&w, WORLD_SITUATION);
    world_people(&w, 0, 2);
    world_submit(&w, json);
    while (job_of(&w)->evaluations.running == NULL)
        world_step(&w);
    T_FALSE(evidence_full(&job_of(&w)->shards.evidence));
    // Those who have it leave ranges for others.
    worker(&w, 0)->hangs = worker(&w, 1)->hangs = true;
    m = world_add(&w, FAKE_WORKER, "w-9");
    world_attach(&w, m);
    for (unsigned i = 0; i < 50; i++) {
        world_pass(&w, 50);
        fake_read_all(&w, m);
        T_TRUE(job_of(&w)->evaluations.running != NULL);
        T_FALSE(evaluates(m));
    }
    T_EQ(m->leases_count, 1);
    worker(&w, 0)->hangs = worker(&w, 1)->hangs = false;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    world_release(&w);
}

TEST(ring_life, R1_a_coordinator_that_restarts_opens_a_higher_one)
{
    struct world w;
    uint64_t before;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, steps_of, 8);
    before = w.generation;
    world_stop_coord(&w);
    world_start_coord(&w);
    run_to(&w, steps_of, 8); // nothing of what the ranks have is lost
    T_GT(w.generation, before);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

TEST(ring_life, what_ranks_lost_is_told_after_a_restart_too)
{
    struct world w;
    uint64_t redone;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, cuts_of, 1);
    run_to(&w, steps_of, number(&w, steps_of) + 4);
    for (unsigned i = 0; i < 2; i++)
        world_kill(&w, worker(&w, i));
    for (unsigned i = 0; i < 2; i++)
        world_restart(&w, worker(&w, i));
    run_to(&w, redone_of, 1);
    redone = number(&w, redone_of);
    world_stop_coord(&w);
    world_start_coord(&w);
    T_EQ(number(&w, redone_of), redone);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

TEST(ring_life, I7_a_rank_above_the_journal_pauses_its_job)
{
    static struct world w;
    Sluice__V1__JobStatus *s = NULL;
    uint64_t opened;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, steps_of, 4);
    // As if a newer journal had opened generations since.
    worker(&w, 0)->rank.state.tag.incarnation = 77;
    world_break(&w, worker(&w, 1)); // and now one is opened
    for (unsigned i = 0; i < LIMIT && (s == NULL || !s->paused); i++) {
        wire_free((ProtobufCMessage *)s);
        world_step(&w);
        s = world_status(&w);
    }
    T_EQ(w.fatal, SL_OK);
    T_TRUE(s->paused);
    T_HAS(s->reason, "generation 77");
    wire_free(&s->base);
    opened = w.opened;
    world_pass(&w, 10000);
    T_EQ(w.opened, opened); // no further number
    T_EQ(number(&w, ranks_of), 0);
    world_release(&w);
}

// A rank that says it has applied so many rounds.
static void boast(struct world *w, struct fake_member *m, uint64_t rounds)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingStep step = SLUICE__V1__RING_STEP__INIT;
    Sluice__V1__ShardCounts counts = SLUICE__V1__SHARD_COUNTS__INIT;

    step.job = w->job;
    step.job_incarnation = 1;
    step.generation = m->rank.going;
    step.sequence = rounds;
    step.counts = &counts;
    counts.version = rounds;
    counts.counted = rounds;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_STEP;
    up.ring_step = &step;
    fake_send(m, &up);
    fake_deliver_all(w, m);
}

TEST(ring_life, a_rank_that_counts_rounds_that_do_not_exist_is_put_out)
{
    struct world w;
    uint64_t had;

    begin(&w, WORLD_SITUATION, 1);
    run_to(&w, steps_of, 4);
    had = number(&w, steps_of);
    fake_deliver_all(&w, worker(&w, 0));
    T_EQ(number(&w, ranks_of), 1);
    boast(&w, worker(&w, 0), UINT64_C(1) << 63);
    T_EQ(number(&w, ranks_of), 0);
    T_EQ(number(&w, steps_of), had);
    world_attach(&w, world_add(&w, FAKE_WORKER, "w-9"));
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

TEST(ring_life, a_rank_whose_part_is_of_no_round_is_put_out)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__SnapshotReport report = SLUICE__V1__SNAPSHOT_REPORT__INIT;
    Sluice__V1__CountedSet nothing = SLUICE__V1__COUNTED_SET__INIT;
    Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__Tag tag = SLUICE__V1__TAG__INIT;
    struct world w;

    begin(&w, WORLD_SITUATION, 1);
    run_to(&w, steps_of, 4);
    tag.incarnation = worker(&w, 0)->rank.going;
    tag.sequence = UINT64_MAX - 1; // the next cut would be of a round near 0
    report.job = w.job;
    report.job_incarnation = 1;
    report.tag = &tag;
    report.counted = &nothing;
    report.counts = &none;
    report.failure = "passed";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_SNAPSHOT;
    up.snapshot = &report;
    fake_send(worker(&w, 0), &up);
    fake_deliver_all(&w, worker(&w, 0));
    T_EQ(number(&w, ranks_of), 0);
    world_attach(&w, world_add(&w, FAKE_WORKER, "w-9"));
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// Whoever is the only rank says what it has applied, and is believed. No turn
// of the loop counts all of that.
TEST(ring_life, rounds_are_counted_as_many_as_a_turn_has_time_for)
{
    const uint64_t all = 1 << 18;
    struct fake_member *m;
    struct world w;
    uint64_t had;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    T_SKIP("one thread; a sanitizer takes minutes to count to it");
#endif
    world_init(&w, WORLD_SITUATION);
    m = world_add(&w, FAKE_WORKER, "w-0");
    m->external = m->ranks = true;
    world_attach(&w, m);
    world_submit(&w,
                 "{\"name\":\"long\",\"model\":{\"type\":\"external\","
                 "\"variables\":[{\"name\":\"w\",\"shape\":[8]}]},"
                 "\"optimizer\":{\"type\":\"sgd\"},\"data\":{\"train\":"
                 "{\"format\":\"external\",\"samples\":262144}},"
                 "\"train\":{\"mode\":\"allreduce\",\"batch\":1,\"epochs\":1,"
                 "\"steps_per_closure\":4096,\"workers\":{\"max\":1}}}");
    run_to(&w, ranks_of, 1);
    for (unsigned i = 0; i < LIMIT && m->rank.going == 0; i++)
        world_step(&w);
    boast(&w, m, all);
    had = number(&w, steps_of);
    T_GT(had, 0);
    T_LT(had, all / 2);
    world_pass(&w, 50); // a tick
    T_GT(number(&w, steps_of), had);
    T_LT(number(&w, steps_of), all);
    world_pass(&w, 5000);
    T_EQ(number(&w, steps_of), all);
    world_release(&w);
}

TEST(ring_life, R3_when_all_ranks_have_died_the_last_cut_is_the_base)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    begin(&w, WORLD_SITUATION, 2);
    run_to(&w, cuts_of, 1);
    for (unsigned i = 0; i < 2; i++)
        world_kill(&w, worker(&w, i));
    s = world_status(&w);
    T_HAS(s->reason, "waiting for workers: 0 of at least 1");
    wire_free(&s->base);
    for (unsigned i = 0; i < 2; i++)
        world_restart(&w, worker(&w, i));
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

static unsigned requests_of(const struct fake_member *m)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < WORLD_SHARDS; i++)
        count += m->rank.request[i] != 0;
    return count;
}

// Every part is written, and only then a rank dies: what is said of the files
// arrives after the next generation was opened.
TEST(ring_life, R6_a_report_of_an_older_generation_makes_no_cut)
{
    struct fake_member *idle = NULL;
    struct world w;
    unsigned asked = 0;

    begin(&w, WORLD_SITUATION, 3);
    w.hold_tasks = true;
    run_to(&w, ranks_of, 3);
    world_attach(&w, world_add(&w, FAKE_WORKER, "w-3")); // has no part
    run_to(&w, ranks_of, 4);
    while (asked < w.shards) {
        world_step(&w);
        asked = 0;
        for (unsigned i = 0; i < 4; i++)
            asked += requests_of(worker(&w, i));
    }
    T_EQ(w.tasks_count, 0);
    for (unsigned i = 0; i < 4; i++) {
        fake_read_all(&w, worker(&w, i));
        if (requests_of(worker(&w, i)) == 0)
            idle = worker(&w, i);
    }
    T_TRUE(idle != NULL);
    for (unsigned i = 0; i < 100; i++)
        fake_work(&w, worker(&w, i % 4)); // says, and is not heard yet
    for (unsigned i = 0; i < 4; i++)
        T_EQ(requests_of(worker(&w, i)), 0);
    world_kill(&w, idle);
    for (unsigned i = 0; i < 4; i++)
        fake_deliver_all(&w, worker(&w, i));
    coord_tick(w.coord);
    T_EQ(w.tasks_count, 0); // no manifest
    w.hold_tasks = false;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// Nobody computes any more then, and no round will be counted that forgives.
// Returns the round of a cut that is asked for in the first epoch of 5 rounds,
// when rounds are so short that very many fit into the time of a request.
static uint64_t round_of_a_cut(struct world *w)
{
    struct job *job;

    run_to(w, steps_of, 2);
    job = jobs_get(w->coord, w->job);
    T_TRUE(job_served(job));
    T_LT(job->rounds.counted, 5);
    job->rounds.each_ms = 0.01;
    return job->mode->cut_round(job);
}

// Shards beside a ring do not know where it waits, and a later round comes only
// when the evaluation is over, which may want this very cut.
TEST(ring_life, R6_a_cut_is_of_no_later_round_than_the_ring_gets_to)
{
    struct world w;
    char text[2048];

    begin(&w, WORLD_SITUATION, 2);
    T_EQ(round_of_a_cut(&w), 15); // all
    world_release(&w);
    world_init(&w, WORLD_SITUATION);
    world_people(&w, 0, 2);
    snprintf(text, sizeof(text),
             "%.*s,\"callbacks\":{\"early_stopping\":{\"patience\":2}}}",
             (int)strlen(world_ring_job) - 1, world_ring_job);
    world_submit(&w, text);
    T_EQ(round_of_a_cut(&w), 5);
    world_release(&w);
}

TEST(ring_life, ranks_that_die_when_all_is_counted_are_not_blamed)
{
    struct world w;

    begin(&w, WORLD_SITUATION, 3);
    w.no_files = true;
    run_to(&w, steps_of, 30);
    for (unsigned i = 0; i < 60; i++) {
        world_kill(&w, worker(&w, i % 3));
        world_restart(&w, worker(&w, i % 3));
        for (unsigned k = 0; k < 300; k++)
            world_step(&w);
    }
    T_LT(world_state(&w), JOB_FINISHED);
    w.no_files = false;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// K5: what the base is compared with is what is published, not what is being.
TEST(ring_life, K5_no_base_is_chosen_while_a_manifest_is_written)
{
    struct world w;
    uint64_t generation;

    begin(&w, WORLD_SITUATION, 2);
    w.hold_tasks = true;
    for (unsigned i = 0; i < LIMIT && w.tasks_count == 0; i++)
        world_step(&w);
    T_EQ(w.tasks_count, 1); // its intent is journalled
    world_kill(&w, worker(&w, 0));
    generation = w.generation;
    for (unsigned i = 0; i < 2000; i++) {
        world_step(&w);
        T_TRUE(w.generation == generation || worker(&w, 1)->rank.going == 0);
        T_PTR(worker(&w, 1)->rank.begun, NULL);
    }
    T_GT(w.generation, generation);
    w.hold_tasks = false;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// ---- who cannot be reached

static uint32_t index_of(const struct fake_member *m)
{
    uint32_t index = m->rank.self;

    T_GT(m->rank.going, 0);
    return index;
}

// It leaves the generation for that, and waits for the next.
static void accuse(struct world *w, struct fake_member *m, uint32_t suspect)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingBroken broken = SLUICE__V1__RING_BROKEN__INIT;

    broken.job = w->job;
    broken.job_incarnation = 1;
    broken.generation = m->rank.going;
    broken.suspect = suspect;
    broken.why = "it does not answer";
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_BROKEN;
    up.ring_broken = &broken;
    fake_deliver_all(w, m);
    fake_send(m, &up);
    fake_deliver_all(w, m);
    m->rank.going = 0;
}

TEST(ring_life, a_rank_that_the_others_cannot_reach_is_put_out)
{
    struct world w;
    Sluice__V1__JobStatus *s;
    uint32_t bad;

    begin(&w, WORLD_SITUATION, 3);
    run_to(&w, ranks_of, 3);
    for (unsigned i = 0; i < 3; i++)
        while (worker(&w, i)->rank.going == 0 ||
               worker(&w, i)->rank.going != w.opened)
            world_step(&w);
    bad = index_of(worker(&w, 1));
    accuse(&w, worker(&w, 1), (bad + 1) % 3); // it cannot reach anybody
    accuse(&w, worker(&w, 0), bad);
    accuse(&w, worker(&w, 2), bad);
    for (unsigned i = 0; i < 2; i++) { // it gets on with what it does alone
        worker(&w, 0)->progress++;
        fake_beat(&w, worker(&w, 0));
        fake_deliver_all(&w, worker(&w, 0));
    }
    s = world_status(&w);
    T_EQ(s->ring_ranks, 2);
    T_EQ(s->workers, 2);
    T_EQ(s->n_warnings, 1);
    T_HAS(s->warnings[0], "cannot sum with");
    T_HAS(s->warnings[0], "it does not answer");
    T_HAS(s->reason, "cannot sum with");
    wire_free(&s->base);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    s = world_status(&w);
    T_EQ(s->n_warnings, 0); // rounds were counted since
    wire_free(&s->base);
    check_end(&w);
    world_release(&w);
}

// ---- losses

static struct fake_member *any(struct world *w)
{
    return &w->members[world_below(w, WORLD_MEMBERS)];
}

static void misfortune(struct world *w)
{
    struct fake_member *m = any(w);
    uint64_t now = sl_now_ms(&w->clock.clock);

    switch (world_below(w, 7)) {
    case 0:
    case 1:
        if (m->used && m->alive)
            world_kill(w, m);
        break;
    case 2:
        if (m->used && m->alive) // SIGSTOP: slow, suspect or lost
            m->stuck_until = now + 500 + world_below(w, 3000);
        break;
    case 3:
        if (m->used)
            world_break(w, m);
        break;
    case 4:
        m->draining = m->used && !m->draining;
        break;
    case 5:
        if (world_below(w, 3) == 0) {
            world_stop_coord(w);
            world_start_coord(w);
        }
        break;
    default:
        break;
    }
}

static void recover(struct world *w)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (m->used && !m->alive)
            world_restart(w, m);
        m->draining = false;
    }
}

static void live_through(uint64_t seed)
{
    struct world w;
    unsigned troubles = 0;
    char name[32];

    begin(&w, seed, 1 + (unsigned)(seed % 3));
    for (unsigned i = 0; i < LIMIT; i++) {
        if (troubles < 30 && world_below(&w, 120) == 0) {
            misfortune(&w);
            troubles++;
        }
        if (i == 2000) {
            snprintf(name, sizeof(name), "late");
            world_attach(&w, world_add(&w, FAKE_WORKER, name));
        }
        if (world_below(&w, 300) == 0)
            recover(&w);
        world_step(&w);
        T_EQ(w.fatal, SL_OK);
        if (i % 64 == 0 && world_state(&w) >= JOB_FINISHED)
            break;
    }
    T_EQ(world_state(&w), JOB_FINISHED);
    check_end(&w);
    world_release(&w);
}

TEST(ring_life, every_life_ends_with_each_step_once)
{
    for (uint64_t i = 0; i < SEEDS; i++)
        live_through(t_seed() * SEEDS + i);
}
