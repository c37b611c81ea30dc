// SPDX-License-Identifier: Apache-2.0
// What clients do to a job that goes on (world.h): a cut on demand; and the
// time that it says it has taken.
#include "coordinator/core/coord.h"

#include "coordinator/core/job.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct sl_error err; // of the call that a test looks at

static struct world *begin(uint64_t seed, const char *json, unsigned psservers,
                           unsigned workers)
{
    static struct world w;

    world_init(&w, seed);
    w.groups = json == world_group_job;
    world_people(&w, psservers, workers);
    world_submit(&w, json);
    return &w;
}

// The job makes no cuts by itself while it trains.
static const char *without_cuts(const char *json)
{
    static char text[4096];
    char *at;

    snprintf(text, sizeof(text), "%s", json);
    at = strstr(text, "\"every_seconds\":2");
    T_ASSERT(at != NULL);
    memcpy(at, "\"every_seconds\":0", 17);
    at = strstr(text, "\"epochs\":3");
    T_ASSERT(at != NULL);
    memcpy(at, "\"epochs\":1", 10);
    return text;
}

static void run_to_steps(struct world *w, uint64_t least)
{
    uint64_t steps = 0;

    for (unsigned i = 0; i < LIMIT && steps < least; i++) {
        Sluice__V1__JobStatus *s;

        world_step(w);
        s = world_status(w);
        steps = s->steps_counted;
        wire_free(&s->base);
    }
    T_GE(steps, least);
}

static enum sl_err ask(struct world *w,
                       const Sluice__V1__CheckpointReply *before,
                       Sluice__V1__CheckpointReply **reply)
{
    Sluice__V1__CheckpointRequest request =
        SLUICE__V1__CHECKPOINT_REQUEST__INIT;

    request.id = "j-1";
    request.asked = before == NULL ? NULL : before->asked;
    return coord_checkpoint(w->coord, &request, reply, &err);
}

// Asks again, as a client does, until it is there.
static Sluice__V1__CheckpointReply *
granted(struct world *w, const Sluice__V1__CheckpointReply *first)
{
    Sluice__V1__CheckpointReply *r = NULL;

    for (unsigned i = 0; i < LIMIT; i++) {
        T_OK(ask(w, first, &r));
        if (r->checkpoint != NULL)
            return r;
        wire_free(&r->base);
        world_step(w);
    }
    T_ASSERT(!"a checkpoint in time");
    return NULL;
}

static void makes_one(const char *json, unsigned psservers, unsigned workers)
{
    struct world *w = begin(t_seed(), json, psservers, workers);
    Sluice__V1__CheckpointReply *first = NULL, *then, *again = NULL;
    Sluice__V1__JobStatus *s;

    run_to_steps(w, 2);
    s = world_status(w);
    T_OK(ask(w, NULL, &first));
    T_EQ(first->begun, first->checkpoint == NULL); // else it is there already
    T_GE(first->asked->steps, s->steps_counted);
    T_OK(ask(w, NULL, &again)); // joins it
    then = granted(w, first);
    T_FALSE(then->begun);
    T_GE(then->checkpoint->steps, s->steps_counted);
    T_TRUE(fs_exists(crash_fs_ops(w->fs), then->checkpoint->manifest));
    wire_free(&s->base);
    wire_free(&first->base);
    wire_free(&again->base);
    wire_free(&then->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(calls, a_checkpoint_on_demand_holds_what_was_counted)
{
    makes_one(world_graph_job, 2, 2);
}

TEST(calls, a_ring_makes_a_checkpoint_on_demand)
{
    makes_one(world_ring_job, 0, 3);
}

TEST(calls, groups_make_a_checkpoint_on_demand)
{
    makes_one(world_group_job, 1, 4);
}

// A cut that nobody ever heard of: the next one will do. Else cuts would follow
// each other for as long as the job runs.
TEST(calls, a_wish_for_a_cut_of_any_number_is_one_cut)
{
    struct world *w =
        begin(WORLD_SITUATION, without_cuts(world_graph_job), 1, 1);
    Sluice__V1__CheckpointAsked never = SLUICE__V1__CHECKPOINT_ASKED__INIT;
    Sluice__V1__CheckpointReply *then = NULL,
                                asked = SLUICE__V1__CHECKPOINT_REPLY__INIT;
    Sluice__V1__JobStatus *s;

    never.steps = never.after = UINT64_MAX;
    asked.asked = &never;
    run_to_steps(w, 1);
    T_OK(ask(w, &asked, &then));
    wire_free(&then->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_LE(s->cuts, 2); // it, and the last one
    wire_free(&s->base);
    world_release(w);
}

TEST(calls, a_checkpoint_under_way_is_joined_if_it_holds_enough)
{
    struct world *w =
        begin(WORLD_SITUATION, without_cuts(world_graph_job), 1, 1);
    Sluice__V1__CheckpointReply *first = NULL, *second = NULL, *then;
    Sluice__V1__JobStatus *s;

    run_to_steps(w, 3);
    T_OK(ask(w, NULL, &first));
    w->hold_tasks = true;
    while (w->tasks_count == 0)
        world_step(w);
    // Its files are there: what is counted from now on is not in them.
    s = world_status(w);
    run_to_steps(w, s->steps_counted + 1);
    wire_free(&s->base);
    T_OK(ask(w, NULL, &second));
    T_TRUE(second->begun);
    T_GT(second->asked->steps, first->asked->steps);
    world_task(w);
    w->hold_tasks = false;
    then = granted(w, first);
    T_EQ(then->checkpoint->cut, 1);
    wire_free(&then->base);
    then = granted(w, second);
    T_EQ(then->checkpoint->cut, 2);
    T_GE(then->checkpoint->steps, second->asked->steps);
    wire_free(&then->base);
    wire_free(&first->base);
    wire_free(&second->base);
    world_release(w);
}

TEST(calls, a_wish_outlives_the_coordinator_by_who_asks_again)
{
    struct world *w =
        begin(WORLD_SITUATION, without_cuts(world_graph_job), 1, 1);
    Sluice__V1__CheckpointReply *first = NULL, *then;

    run_to_steps(w, 3);
    T_OK(ask(w, NULL, &first));
    world_stop_coord(w);
    world_start_coord(w);
    then = granted(w, first);
    T_TRUE(then->checkpoint->steps >= first->asked->steps ||
           then->checkpoint->cut > first->asked->after);
    wire_free(&then->base);
    wire_free(&first->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// A restarted coordinator knows no counts until the shards say them: a cut that
// there is from before is not taken for what is asked for.
TEST(calls, what_is_not_known_yet_is_not_taken_for_nothing)
{
    struct world *w =
        begin(WORLD_SITUATION, without_cuts(world_graph_job), 1, 1);
    Sluice__V1__CheckpointReply *r = NULL, *then;

    run_to_steps(w, 1);
    T_OK(ask(w, NULL, &r));
    then = granted(w, r);
    T_EQ(then->checkpoint->cut, 1);
    wire_free(&then->base);
    wire_free(&r->base);
    run_to_steps(w, 6);
    world_stop_coord(w);
    world_start_coord(w);
    T_OK(ask(w, NULL, &r));
    T_TRUE(r->checkpoint == NULL);
    T_HAS(r->waits, "waiting for psserver");
    then = granted(w, r);
    T_GT(then->checkpoint->cut, 1);
    T_GE(then->checkpoint->steps, 6);
    wire_free(&then->base);
    wire_free(&r->base);
    world_release(w);
}

TEST(calls, a_checkpoint_that_cannot_be_made_is_refused_with_the_reason)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 0, 0);
    struct fake_member *ps;
    Sluice__V1__CheckpointReply *r = NULL;

    T_FAILS(SL_ESTATE, ask(w, NULL, &r));
    T_HAS(err.text, "no state to write into a checkpoint yet");
    world_people(w, 1, 1);
    ps = &w->members[0];
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    ps->shards[0].incarnation = 9; // as if a newer journal had admitted it
    world_break(w, ps);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_FAILS(SL_ESTATE, ask(w, NULL, &r));
    T_HAS(err.text, "I7");
    world_release(w);
}

TEST(calls, of_an_ended_job_the_last_checkpoint_is_named)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__CheckpointReply *first = NULL, *r = NULL;

    run_to_steps(w, 1);
    T_OK(ask(w, NULL, &first));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_FAILS(SL_ESTATE, ask(w, NULL, &r));
    T_HAS(err.text, "finished");
    T_HAS(err.text, "cut-");
    // Who had asked before is told of the one that holds it all.
    T_OK(ask(w, first, &r));
    T_TRUE(r->checkpoint->complete);
    wire_free(&r->base);
    wire_free(&first->base);
    world_release(w);
}

// Another one would be due by then: its epoch is over.
TEST(calls, a_stop_waits_for_one_checkpoint_alone)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__StopRequest request = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;
    uint64_t cuts;

    run_to_steps(w, 3);
    s = world_status(w);
    cuts = s->cuts;
    wire_free(&s->base);
    request.id = "j-1";
    request.checkpoint = true;
    w->hold_tasks = true;
    T_OK(coord_stop(w->coord, &request, &s, t_err()));
    T_TRUE(s->state != SLUICE__V1__JOB_STATE__JOB_STOPPED);
    wire_free(&s->base);
    while (w->tasks_count == 0)
        world_step(w);
    run_to_steps(w, 15);
    world_task(w);
    s = world_status(w);
    T_EQ(s->state, SLUICE__V1__JOB_STATE__JOB_STOPPED);
    T_EQ(s->cuts, cuts + 1);
    wire_free(&s->base);
    world_release(w);
}

// ---- time

static double elapsed(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    double seconds = s->elapsed_seconds;

    wire_free(&s->base);
    return seconds;
}

static void away(struct world *w, uint64_t ms, int64_t wall_ms)
{
    world_stop_coord(w);
    clock_fake_advance_ms(&w->clock, ms);
    w->clock.wall_us += (uint64_t)(wall_ms * 1000);
    world_start_coord(w);
}

TEST(calls, time_goes_on_while_the_coordinator_is_away)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__JobStatus *s;
    double was, then;

    T_EQ((uint64_t)elapsed(w), 0); // it does not run yet
    run_to_steps(w, 1);
    world_pass(w, 2000);
    was = elapsed(w);
    T_TRUE(was >= 2);
    away(w, 3600000, 0);
    then = elapsed(w);
    T_TRUE(then >= was + 3600 && then < was + 3601);
    // Also before its shards are there again.
    clock_fake_advance_ms(&w->clock, 5000);
    T_TRUE(elapsed(w) >= then + 5);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_TRUE(s->elapsed_seconds >= then + 5);
    T_TRUE(s->elapsed_seconds <= s->ended_unix - s->submitted_unix);
    was = s->elapsed_seconds;
    wire_free(&s->base);
    away(w, 3600000, 0); // it has ended
    T_TRUE(elapsed(w) == was);
    world_release(w);
}

TEST(calls, a_wall_clock_that_is_set_back_takes_no_time_away)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    double was;

    run_to_steps(w, 1);
    world_pass(w, 2000);
    was = elapsed(w);
    w->clock.wall_us -= UINT64_C(86400000000); // while it runs: nothing
    T_TRUE(elapsed(w) == was);
    away(w, 1000, -86400000);
    T_TRUE(elapsed(w) >= 0 && elapsed(w) < was + 1.5);
    was = elapsed(w);
    clock_fake_advance_ms(&w->clock, 3000);
    T_TRUE(elapsed(w) >= was + 3 && elapsed(w) < was + 3.5);
    world_release(w);
}

TEST(calls, a_job_that_never_ran_has_taken_no_time)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 0, 0);

    world_pass(w, 2000);
    away(w, 3600000, 0);
    T_TRUE(elapsed(w) == 0);
    world_release(w);
}
