// SPDX-License-Identifier: Apache-2.0
// Contributions that are too large: see coordinator/core/leases/guard.h.
#include <math.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/suspects.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

// A job in mode local, of 50 contributions in rounds of three. `more`: further
// words of train.
static struct world *begin(unsigned workers, const char *more)
{
    static struct world w;
    static char json[4096];
    char words[256];

    snprintf(words, sizeof(words), "%s\"inner\":{\"steps\":1},", more);
    world_local_job(json, sizeof(json), words);
    world_init(&w, t_seed());
    world_people(&w, 1, workers);
    for (unsigned i = 0; i < workers; i++)
        w.members[1 + i].norm = 2;
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static const struct changes *changes_of(struct world *w)
{
    return jobs_get(w->coord, w->job)->guard;
}

// Works until the median of the norms is known.
static void learn(struct world *w)
{
    for (unsigned i = 0; i < LIMIT; i++) {
        if (changes_of(w) != NULL && changes_median(changes_of(w)) > 0)
            return;
        world_pass(w, 50);
        fake_turn(w);
    }
    T_ASSERT(false);
}

// All of it is counted once: world_run looks.
TEST(guard, a_worker_whose_contributions_are_too_large_is_suspect)
{
    static const double norms[] = {21, -1}; // more than ten times 2; not finite

    for (unsigned i = 0; i < 2; i++) {
        struct world *w = begin(3, "");
        Sluice__V1__JobStatus *s;

        learn(w);
        w->members[2].norm = norms[i];
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        T_TRUE(suspects_is(w->coord, w->members[2].name));
        T_EQ(suspects_count(w->coord), 1);
        s = world_status(w);
        T_ASSERT(s->local != NULL);
        T_GE(s->local->set_aside, CHANGES_WRONG);
        T_NEAR(s->local->norm, 2, 1e-9);
        T_NEAR(s->local->norm_most, 20, 1e-9);
        for (size_t k = 0; k < s->local->n_workers; k++) {
            const Sluice__V1__Contributor *one = s->local->workers[k];
            bool bad = strcmp(one->worker, w->members[2].name) == 0;

            T_EQ(one->wrong, bad ? CHANGES_WRONG : 0);
            T_NEAR(one->norm, 2, 1e-9); // of those that were counted
            T_EQ(one->known_angle_case,
                 SLUICE__V1__CONTRIBUTOR__KNOWN_ANGLE_ANGLE);
            T_EQ(one->loss, 1);
        }
        wire_free(&s->base);
        world_release(w);
    }
}

// Each of two workers hands its slot back, and takes that of the other one.
TEST(guard, a_step_that_is_large_for_all_workers_passes)
{
    struct world *w = begin(2, "");

    learn(w);
    for (unsigned i = 0; i < 2; i++)
        w->members[1 + i].norm = 500;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_GE(changes_of(w)->set_aside, 1);
    T_EQ(suspects_count(w->coord), 0);
    T_EQ(changes_median(changes_of(w)), 500); // which is usual by now
    world_release(w);
}

TEST(guard, a_worker_alone_is_not_stopped)
{
    struct world *w = begin(1, "");

    learn(w);
    w->members[1].norm = -1;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_GE(changes_of(w)->set_aside, 1);
    T_EQ(suspects_count(w->coord), 0);
    world_release(w);
}

TEST(guard, of_a_job_in_another_mode_nothing_is_taken)
{
    static struct world w;

    world_init(&w, t_seed());
    world_people(&w, 1, 2);
    w.members[1].norm = w.members[2].norm = 2;
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    T_TRUE(changes_of(&w) == NULL);
    world_release(&w);
}

TEST(guard, a_ratio_of_0_sets_nothing_aside)
{
    struct world *w = begin(3, "\"max_norm_ratio\":0,");

    learn(w);
    w->members[2].norm = 1e9;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(changes_of(w)->set_aside, 0);
    world_release(w);
}

// The worker makes it as long; nothing is set aside for its norm.
TEST(guard, a_lease_names_the_median_where_norms_are_made_as_long)
{
    struct world *w = begin(3, "\"norm\":\"median\",");
    double most = 0;

    for (unsigned k = 1; k <= 3; k++)
        w->members[k].shortens = true;
    w->members[1].norm = 1;
    w->members[3].norm = 8;
    learn(w);
    for (unsigned i = 0; most == 0 && i < LIMIT; i++) {
        for (unsigned k = 1; k <= 3; k++)
            for (unsigned n = 0; n < w->members[k].leases_count; n++)
                most = fmax(most, w->members[k].leases[n].lease->norm_most);
        world_pass(w, 50);
        fake_turn(w);
    }
    T_NEAR(most, 2, 1e-9);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(changes_of(w)->set_aside, 0);
    world_release(w);
}

// Streams, and programs of the user's.
TEST(guard, bytes_and_samples_are_told_without_a_norm)
{
    static struct world w;
    static char json[4096];
    Sluice__V1__JobStatus *status;

    world_local_job(json, sizeof(json), "\"inner\":{\"steps\":1},");
    world_init(&w, t_seed());
    world_people(&w, 1, 2);
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    T_GT(changes_of(&w)->samples, 0);
    T_EQ(changes_of(&w)->norms_count, 0);
    status = world_status(&w);
    T_TRUE(status->local != NULL);
    T_EQ(status->local->n_workers, 0);
    wire_free(&status->base);
    world_release(&w);
}
