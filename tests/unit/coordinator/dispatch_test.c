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
    T_EQ(dispatch_most(1000, 4, DISPATCH_LEASES_MOST), DISPATCH_LEASES_LEAST);
    T_EQ(dispatch_most(4, 4, DISPATCH_LEASES_MOST), DISPATCH_LEASES_LEAST);
    T_EQ(dispatch_most(1, 4, DISPATCH_LEASES_MOST), 4);
    T_EQ(dispatch_most(0.5, 4, DISPATCH_LEASES_MOST), DISPATCH_LEASES_MOST);
    T_EQ(dispatch_most(0, 4, DISPATCH_LEASES_MOST), DISPATCH_LEASES_MOST);
    T_EQ(dispatch_most(10, 64, DISPATCH_LEASES_MOST), 6);
    T_EQ(dispatch_most(10, 160, DISPATCH_LEASES_WIDEST),
         DISPATCH_LEASES_WIDEST);
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

TEST(dispatch, a_worker_for_one_job_is_given_of_no_other)
{
    struct dispatch_job jobs[] = {{.id = 3}, {.id = 7, .held = 9}};
    struct dispatch_worker w = idle;

    w.only = 7;
    T_EQ(choose(&w, jobs, 2), 1);
    T_EQ(choose(&w, jobs, 1), -1);
}

TEST(dispatch, max_workers_counts_workers_not_leases)
{
    struct dispatch_job job = {.max_workers = 2, .workers = 2, .held = 3};

    T_EQ(choose(&idle, &job, 1), -1);
    job.held_here = true;
    T_EQ(choose(&idle, &job, 1), 0);
}

TEST(dispatch, fewest_leases_first_then_who_was_served_least)
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

TEST(dispatch, the_highest_priority_first_then_as_among_equals)
{
    struct dispatch_job jobs[] = {
        {.priority = -1},
        {.priority = 5, .held = 9, .served = 90, .apart = 9},
        {.priority = 0},
        {.priority = 5, .held = 9, .served = 98},
        {.priority = 5, .held = 9, .served = 97, .max_workers = 1},
    };

    T_EQ(choose(&idle, jobs, 5), 4);
    jobs[4].workers = 1; // it has all that it may have
    T_EQ(choose(&idle, jobs, 5), 3);
    T_EQ(choose(&idle, jobs, 3), 1);
    T_EQ(choose(&idle, jobs, 1), 0); // what is left
}

TEST(dispatch, a_job_stays_with_its_worker_until_it_is_behind)
{
    struct dispatch_job jobs[] = {
        {.served = 20},              // this worker's
        {.served = 12, .apart = 10}, // another's
    };

    T_EQ(choose(&idle, jobs, 2), 0);
    jobs[0].served = 23;
    T_EQ(choose(&idle, jobs, 2), 1);
    jobs[0].served = 12; // one that nobody has comes by its turn
    jobs[1].apart = 0;
    jobs[1].served = 11;
    T_EQ(choose(&idle, jobs, 2), 1);
}

TEST(dispatch, long_leases_are_not_worth_a_wait)
{
    T_EQ(dispatch_apart(0), DISPATCH_APART_MOST);
    T_EQ(dispatch_apart(5), DISPATCH_APART_MOST);
    T_EQ(dispatch_apart(DISPATCH_APART_MS / 2), 2);
    T_EQ(dispatch_apart(DISPATCH_APART_MS + 1), 0);
}

TEST(dispatch, who_had_nothing_to_offer_is_not_served_alone_afterwards)
{
    uint64_t front = 0;

    T_EQ(dispatch_served(0, &front, 16), 1);
    T_EQ(front, 1);
    T_EQ(dispatch_served(100, &front, 16), 101);
    T_EQ(front, 101);
    T_EQ(dispatch_served(90, &front, 16), 91); // so far behind it may be
    T_EQ(dispatch_served(1, &front, 16), 86);
    T_EQ(dispatch_served(1, &front, 0), 102); // a turn
    T_EQ(front, 102);
}

// 32 jobs on two workers of different paces: each worker goes on with a part of
// them, and no job is ever further ahead than was said.
TEST(dispatch, many_jobs_share_evenly_and_seldom_move)
{
    enum { JOBS = 32, WORKERS = 2, LEASES = 8, ROUNDS = 40000, APART = 32 };
    struct dispatch_worker w = {.most = LEASES, .ready = true};
    struct dispatch_job jobs[JOBS] = {0};
    int has[WORKERS][LEASES], by[JOBS];
    unsigned at[WORKERS] = {0}, moves = 0;
    uint64_t count[JOBS] = {0}, front = 0, least, most;

    memset(has, -1, sizeof(has));
    memset(by, -1, sizeof(by));
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned me = t_below(10) < 7 ? 0 : 1; // the first is the faster one
        int *slot = &has[me][at[me]++ % LEASES], j;

        if (*slot >= 0)
            jobs[*slot].held--;
        for (unsigned k = 0; k < JOBS; k++)
            jobs[k].apart = by[k] >= 0 && by[k] != (int)me ? APART : 0;
        j = choose(&w, jobs, JOBS);
        moves += by[j] >= 0 && by[j] != (int)me;
        by[j] = (int)me;
        *slot = j;
        jobs[j].held++;
        jobs[j].served = dispatch_served(jobs[j].served, &front, APART);
        count[j]++;
    }
    least = most = count[0];
    for (unsigned k = 1; k < JOBS; k++) {
        least = count[k] < least ? count[k] : least;
        most = count[k] > most ? count[k] : most;
    }
    T_LE(most - least, APART + 2);
    T_LE(moves, ROUNDS / 20);
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
        jobs[j].served = dispatch_served(jobs[j].served, &turn, 0);
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
