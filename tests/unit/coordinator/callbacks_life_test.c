// SPDX-License-Identifier: Apache-2.0
// Whole lives of jobs with callbacks: the loss of the world's workers never
// changes, so nothing ever gets better. 4 closures an epoch.
#include <string.h>

#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/job.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, EPOCH = 4, EPOCH_STEPS = 10 };

static struct world world;

#define EARLY "{\"early_stopping\":{\"patience\":2}}"
#define PLATEAU "{\"reduce_on_plateau\":{\"patience\":1,\"factor\":0.5}}"

static struct world *begin(const char *callbacks)
{
    struct world *w = &world;

    world_init(w, t_seed());
    world_people(w, 2, 3);
    world_submit_callbacks(w, callbacks);
    return w;
}

// D2: nobody holds what lies beyond the evaluation that is to come.
static void check_held(struct world *w)
{
    const struct job *job =
        w->coord == NULL ? NULL : jobs_get(w->coord, w->job);
    uint64_t hold;

    if (job == NULL || !job->shards.placed || job_ended(job))
        return;
    hold = (job->evaluations.count + 1) * EPOCH;
    T_EQ(evaluations_hold(job), hold < 8 * EPOCH ? hold : 8 * EPOCH);
    for (uint64_t at = hold; at < 8 * EPOCH; at++)
        T_EQ(w->holder[at], 0);
}

static void lose(struct world *w, struct fake_member *m)
{
    if (m->alive)
        world_kill(w, m);
    world_restart(w, m);
}

static size_t evaluations(struct world *w)
{
    const struct job *job =
        w->coord == NULL ? NULL : jobs_get(w->coord, w->job);

    return job == NULL ? 0 : job->evaluations.count;
}

// With members and coordinators that die on the way; one of these behind each
// evaluation, if there are losses at all.
static void live(struct world *w, unsigned losses)
{
    bool dies = losses > 0;
    size_t seen = 0;

    for (unsigned i = 0; i < LIMIT; i++) {
        world_step(w);
        check_held(w);
        if (dies && evaluations(w) > seen) {
            seen = evaluations(w);
            world_stop_coord(w);
            world_start_coord(w);
        }
        if (w->coord != NULL && world_state(w) >= JOB_FINISHED)
            return;
        if (losses == 0 || world_below(w, 60) != 0)
            continue;
        losses--;
        switch (world_below(w, 3)) {
        case 0:
            world_stop_coord(w);
            world_start_coord(w);
            break;
        case 1:
            lose(w, &w->members[world_below(w, 2)]);
            break;
        default:
            lose(w, &w->members[2 + world_below(w, 3)]);
            break;
        }
    }
    T_FAIL("it has not ended: %s", world_reason(w));
}

TEST(callbacks_life, D2_what_an_evaluation_comes_to_survives_everybody)
{
    for (unsigned losses = 0; losses < 12; losses += 3) {
        struct world *w = begin(EARLY);
        Sluice__V1__JobStatus *s;

        live(w, losses);
        T_EQ(world_state(w), JOB_FINISHED);
        s = world_status(w);
        T_EQ(s->n_evaluations, 3); // the first, and two that are no better
        T_EQ(s->steps_counted, 3 * EPOCH_STEPS);
        T_HAS(s->reason, "stopped early: val_loss did not get better in 2 "
                         "evaluations; the best was 1 after step 10");
        T_TRUE(s->callbacks->stopped);
        for (size_t i = 0; i < s->n_shards; i++)
            T_EQ(s->shards[i]->counts->counted, 3 * EPOCH_STEPS);
        wire_free(&s->base);
        world_release(w);
    }
}

TEST(callbacks_life, D1_nothing_is_leased_at_a_rate_that_a_shard_does_not_know)
{
    for (unsigned losses = 0; losses < 12; losses += 3) {
        struct world *w = begin(PLATEAU);
        Sluice__V1__JobStatus *s;

        live(w, losses); // whose workers look, with every step
        T_EQ(world_state(w), JOB_FINISHED);
        s = world_status(w);
        T_EQ(s->steps_counted, s->steps_asked);
        T_EQ(s->n_evaluations, 8);
        T_EQ(s->callbacks->n_rates, 7);
        for (size_t i = 0; i < 7; i++) {
            T_EQ(s->callbacks->rates[i]->closure, (i + 2) * EPOCH);
            T_NEAR(s->callbacks->rates[i]->rate, 0.01 / (2 << i), 1e-12);
        }
        wire_free(&s->base);
        world_release(w);
    }
}

// One that does not know of rates would apply others than the rest.
TEST(callbacks_life, a_psserver_that_is_too_old_is_waited_for)
{
    struct world *w = begin(PLATEAU);

    w->members[0].old = true;
    for (unsigned i = 0; i < 4000; i++) {
        world_step(w);
        check_held(w);
    }
    T_EQ(world_state(w), JOB_RUNNING);
    T_HAS(world_reason(w), "waiting for psserver ps-0 to take the reduced "
                           "learning rate of shard 0");
    w->members[0].old = false;
    lose(w, &w->members[0]);
    live(w, 0);
    T_EQ(world_state(w), JOB_FINISHED);
    world_release(w);
}

TEST(callbacks_life, the_best_cut_is_kept_and_marked)
{
    struct world *w = begin("{\"best_checkpoint\":{},\"early_stopping\":"
                            "{\"patience\":6,\"restore_best_weights\":true}}");
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__CheckpointsReply *cuts = NULL;
    Sluice__V1__JobStatus *s;

    live(w, 6);
    world_stop_coord(w); // it is in the journal
    world_start_coord(w);
    request.id = (char *)"j-1";
    T_OK(status_checkpoints(w->coord, &request, &cuts, t_err()));
    T_EQ(cuts->n_checkpoints, 3); // the best, and the two of checkpoint.keep
    T_EQ(cuts->checkpoints[0]->steps, EPOCH_STEPS);
    T_TRUE(cuts->checkpoints[0]->best && cuts->checkpoints[0]->restored);
    T_FALSE(cuts->checkpoints[2]->best || cuts->checkpoints[2]->restored);
    s = world_status(w);
    T_STR(s->checkpoint, cuts->checkpoints[0]->manifest);
    T_EQ(s->callbacks->restored, cuts->checkpoints[0]->cut);
    wire_free(&s->base);
    wire_free(&cuts->base);
    world_release(w);
}
