// SPDX-License-Identifier: Apache-2.0
#include "coordinator/rules/dispatch.h"

#include "tests/harness/t.h"

// Of jobs that have something, as the coordinator chooses; -1: none fits.
static int choose(const struct dispatch_worker *w,
                  const struct dispatch_job *jobs, size_t count)
{
    int best = -1;

    for (size_t i = 0; i < count && dispatch_worker_free(w); i++)
        if (dispatch_fits(w, &jobs[i]) &&
            (best < 0 || dispatch_before(&jobs[i], &jobs[best])))
            best = (int)i;
    return best;
}

static const struct dispatch_worker idle = {.most = DISPATCH_LEASES_LEAST,
                                            .ready = true};

TEST(dispatch, a_full_or_silent_worker_gets_nothing)
{
    struct dispatch_job job = {0};
    struct dispatch_worker w = idle;

    T_EQ(choose(&w, &job, 1), 0);
    w.leases = DISPATCH_LEASES_LEAST;
    T_EQ(choose(&w, &job, 1), -1);
    w.leases = 1;
    T_EQ(choose(&w, &job, 1), 0);
    w.ready = false;
    T_EQ(choose(&w, &job, 1), -1);
    T_EQ(choose(&idle, NULL, 0), -1);
}

TEST(dispatch, short_leases_are_held_by_the_several)
{
    T_EQ(dispatch_most(1000), DISPATCH_LEASES_LEAST);
    T_EQ(dispatch_most(DISPATCH_AHEAD_MS), DISPATCH_LEASES_LEAST);
    T_EQ(dispatch_most(1), 4);
    T_EQ(dispatch_most(0.5), DISPATCH_LEASES_MOST);
    T_EQ(dispatch_most(0), DISPATCH_LEASES_MOST);
}

TEST(dispatch, external_jobs_and_workers_keep_to_themselves)
{
    struct dispatch_job jobs[] = {
        {.external = true},
        {.held = 9},
    };
    struct dispatch_worker w = idle;

    T_EQ(choose(&w, jobs, 2), 1);
    w.external = true;
    T_EQ(choose(&w, jobs, 2), 0);
    T_EQ(choose(&w, jobs + 1, 1), -1);
}

TEST(dispatch, max_workers_counts_workers_not_leases)
{
    struct dispatch_job job = {.max_workers = 2, .workers = 2, .held = 3};

    T_EQ(choose(&idle, &job, 1), -1);
    job.held_here = true;
    T_EQ(choose(&idle, &job, 1), 0);
}

TEST(dispatch, fewest_leases_first_then_who_waited_longest)
{
    struct dispatch_job jobs[] = {
        {.held = 2, .served = 1},
        {.held = 1, .served = 9},
        {.held = 1, .served = 4},
    };

    T_EQ(choose(&idle, jobs, 3), 2);
    jobs[2].held = 5;
    T_EQ(choose(&idle, jobs, 3), 1);
}

// Whatever order closures end in, jobs with work enough never differ by more
// than one lease once every worker was served, and nobody starves.
TEST(dispatch, fairness_holds_under_random_endings)
{
    enum { JOBS = 5, WORKERS = 23, ROUNDS = 4000 };
    struct dispatch_job jobs[JOBS] = {0};
    int has[WORKERS][DISPATCH_LEASES_LEAST];
    uint64_t served[JOBS] = {0}, turn = 0;

    memset(has, -1, sizeof(has));
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned w = (unsigned)t_below(WORKERS);
        unsigned slot = (unsigned)t_below(DISPATCH_LEASES_LEAST);
        int j = has[w][slot];

        if (j >= 0)
            jobs[j].held--;
        j = choose(&idle, jobs, JOBS);
        T_GE(j, 0);
        for (unsigned k = 0; k < JOBS; k++)
            T_LE(jobs[j].held, jobs[k].held);
        has[w][slot] = j;
        jobs[j].held++;
        jobs[j].served = ++turn;
        served[j]++;
    }
    for (unsigned k = 0; k < JOBS; k++) // within a tenth of an even share
        T_TRUE(served[k] > ROUNDS / JOBS * 9 / 10 &&
               served[k] < ROUNDS / JOBS * 11 / 10);
}

TEST(dispatch, a_window_follows_the_number_of_workers)
{
    enum { USUAL = 1024, MOST = 65536 };

    T_EQ(dispatch_window(USUAL, 2, USUAL, MOST), USUAL);
    T_EQ(dispatch_window(USUAL, 100, USUAL, MOST), 12800);
    T_EQ(dispatch_window(USUAL, 1000, USUAL, MOST), MOST); // a set must fit
    T_EQ(dispatch_window(USUAL, 1000, USUAL, 7000), 7000);
    T_EQ(dispatch_window(8, 1000, USUAL, MOST), 8); // the job wants it so
    T_EQ(dispatch_window(30000, 100, USUAL, MOST), 30000);
}
