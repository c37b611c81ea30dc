// SPDX-License-Identifier: Apache-2.0
// Closures of a contribution by its worker's pace: see coordinator/rules/pace.h
// and coordinator/core/leases/paces.h.
#include "coordinator/rules/pace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/offers.h"
#include "coordinator/core/leases/paces.h"
#include "tests/harness/t.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

// ---- rules

TEST(pace, a_share_of_the_closures_is_rounded_and_at_least_one)
{
    static const struct {
        double own, fastest;
        uint32_t most, want;
    } rows[] = {
        {10, 10, 4, 4}, {20, 10, 4, 2},      {40, 10, 4, 1}, {1e9, 1e-9, 4, 1},
        {11, 10, 4, 4}, {10.5, 10, 8, 8},    {12, 10, 8, 7}, {9, 10, 4, 4},
        {0, 10, 4, 4},  {10, 0, 4, 4},       {30, 10, 1, 1}, {20, 10, 8, 4},
        {30, 10, 8, 3}, {INFINITY, 1, 8, 1},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++)
        T_EQ(pace_closures(rows[i].own, rows[i].fastest, rows[i].most),
             rows[i].want);
}

TEST(pace, the_first_contribution_and_impossible_times_count_for_nothing)
{
    static const double wrong[] = {0, -1, NAN, INFINITY, -INFINITY};
    struct pace p = {0};

    pace_take(&p, 900, 3);
    T_EQ(p.step_ms, 0);
    pace_take(&p, 90, 3);
    T_EQ(p.step_ms, 30);
    for (size_t i = 0; i < SL_COUNT(wrong); i++)
        pace_take(&p, wrong[i], 3);
    pace_take(&p, 90, 0);
    T_EQ(p.step_ms, 30);
}

TEST(pace, a_worker_that_was_stopped_for_a_while_is_not_slow)
{
    struct pace p = {.warm = true};

    pace_take(&p, 30, 3);
    pace_take(&p, 3600000, 3);
    T_EQ(p.step_ms, 15);
    T_EQ(pace_closures(p.step_ms, 10, 4), 3);
    pace_take(&p, 30, 3);
    T_EQ(pace_closures(p.step_ms, 10, 8), 6);
    for (int i = 0; i < 8; i++) // and one that has become slow is
        pace_take(&p, 300, 3);
    T_GT(p.step_ms, 90);
    for (int i = 0; i < 12; i++)
        pace_take(&p, 30, 3);
    T_EQ(pace_closures(p.step_ms, 10, 8), 8);
}

// ---- a job

enum { LIMIT = 60000 };

// A job of contributions of four closures, each an update by itself.
static struct world *begin(unsigned workers, const char *inner)
{
    static struct world w;
    static char json[4096];
    char words[256];

    snprintf(words, sizeof(words),
             "\"quorum\":1,\"inner\":{%s\"closure\":1%s},",
             strstr(inner, "steps") == NULL ? "\"steps\":4," : "", inner);
    world_local_job(json, sizeof(json), words);
    world_init(&w, t_seed());
    world_people(&w, 1, workers);
    for (unsigned i = 1; i <= workers; i++) {
        w.members[i].norm = 2;
        w.members[i].step_ms = 10;
        w.members[i].told_steps = 2 + i;
    }
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static const struct member *member_of(struct world *w, unsigned worker)
{
    return members_find(&w->coord->members, MEMBER_WORKER,
                        w->members[1 + worker].name);
}

// Checks that the status has the steps of the last contribution of each worker,
// which are members 1 to `workers`.
static void check_shown(struct world *w, unsigned workers)
{
    Sluice__V1__JobStatus *s = world_status(w);
    unsigned found = 0;

    T_ASSERT(s->local != NULL);
    T_EQ(s->local->n_workers, workers);
    for (size_t i = 0; i < s->local->n_workers; i++)
        for (unsigned k = 1; k <= workers; k++) {
            if (strcmp(s->local->workers[i]->worker, w->members[k].name) != 0)
                continue;
            T_EQ(s->local->workers[i]->steps, w->members[k].told_steps);
            found++;
        }
    T_EQ(found, workers);
    wire_free(&s->base);
}

// Works for a while, but not to the end.
static void work(struct world *w)
{
    for (unsigned i = 0; i < 12; i++) {
        world_pass(w, PACES_LOOK_MS);
        fake_turn(w);
    }
}

// Works until the worker is leased contributions of so many closures.
static void work_until(struct world *w, unsigned worker, uint32_t closures)
{
    for (unsigned i = 0; i < 60; i++) {
        if (w->members[1 + worker].closures == closures)
            return;
        world_pass(w, 50);
        fake_turn(w);
    }
    T_EQ(w->members[1 + worker].closures, closures);
}

static uint32_t closures_of(struct world *w, unsigned worker)
{
    struct job *job = jobs_get(w->coord, w->job);
    const struct member *m = member_of(w, worker);

    world_pass(w, PACES_LOOK_MS);
    T_ASSERT(m != NULL);
    return paces_closures(w->coord, job, m);
}

TEST(pace, a_slower_worker_is_leased_contributions_of_fewer_closures)
{
    struct world *w = begin(3, ",\"pace\":\"own\"");

    w->members[2].step_ms = 20;
    w->members[3].step_ms = 500;
    T_EQ(closures_of(w, 1), 4); // of unknown pace
    work(w);
    T_EQ(closures_of(w, 0), 4);
    T_EQ(closures_of(w, 1), 2);
    T_EQ(closures_of(w, 2), 1);
    T_NEAR(jobs_get(w->coord, w->job)->paces.mean, (4 + 2 + 1) / 3.0, 1e-9);
    work_until(w, 1, 2);
    work_until(w, 2, 1);
    work_until(w, 0, 4);
    check_shown(w, 3);
    // A new worker's pace is not known; and none is, but its own, of one that
    // is alone.
    world_attach(w, world_add(w, FAKE_WORKER, "w-3"));
    T_EQ(closures_of(w, 3), 4);
    world_kill(w, &w->members[1]);
    world_kill(w, &w->members[3]);
    for (unsigned i = 0; i < 20; i++)
        world_pass(w, 1000); // until they are lost
    T_EQ(closures_of(w, 1), 4);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(pace, contributions_are_of_equal_steps_unless_the_job_says_so)
{
    struct world *w = begin(2, "");

    w->members[2].step_ms = 500;
    work(w);
    T_EQ(closures_of(w, 1), 0);
    T_EQ(jobs_get(w->coord, w->job)->paces.mean, 4);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// What a worker says of its time is not believed if it cannot be.
TEST(pace, a_worker_that_says_anything_does_no_harm)
{
    static const double said[] = {NAN, -1, 1e-300, 1e300};

    for (size_t i = 0; i < SL_COUNT(said); i++) {
        struct world *w = begin(2, ",\"pace\":\"own\"");

        w->members[1].step_ms = said[i];
        work(w);
        T_GE(closures_of(w, 1), 1);
        T_LE(closures_of(w, 1), 4);
        T_GE(closures_of(w, 0), 1);
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        world_release(w);
    }
}

// All leases of a contribution end with it: those of the next one wait behind.
TEST(pace, a_worker_has_the_leases_of_two_contributions)
{
    static const struct {
        const char *inner;
        uint32_t most;
    } cases[] = {
        {"", DISPATCH_LEASES_MOST}, // four closures
        {",\"steps\":8", DISPATCH_LEASES_WIDEST},
    };

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct world *w = begin(2, cases[i].inner);
        struct job *job = jobs_get(w->coord, w->job);

        T_EQ(offers_leases_most(job), cases[i].most);
        work(w);
        T_EQ(member_of(w, 0)->lease_most, cases[i].most);
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        world_release(w);
    }
}
