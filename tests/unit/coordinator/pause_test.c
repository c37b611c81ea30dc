// SPDX-License-Identifier: Apache-2.0
// A job that a client pauses, and sets going again (world.h).
#include "coordinator/core/pause.h"

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
    w.copies = json == world_sync_job;
    world_people(&w, psservers, workers);
    world_submit(&w, json);
    return &w;
}

static uint64_t steps_of(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    uint64_t steps = s->steps_counted;

    wire_free(&s->base);
    return steps;
}

static void run_to_steps(struct world *w, uint64_t least)
{
    for (unsigned i = 0; i < LIMIT && steps_of(w) < least; i++)
        world_step(w);
    T_GE(steps_of(w), least);
}

static enum sl_err pause_job(struct world *w, bool checkpoint)
{
    Sluice__V1__PauseRequest request = SLUICE__V1__PAUSE_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;
    enum sl_err rc;

    request.id = "j-1";
    request.checkpoint = checkpoint;
    request.who = "ada";
    request.why = "the GPUs are needed";
    rc = coord_pause(w->coord, &request, &s, &err);
    wire_free((ProtobufCMessage *)s);
    return rc;
}

static enum sl_err resume_job(struct world *w)
{
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;
    enum sl_err rc;

    request.id = "j-1";
    rc = coord_resume(w->coord, &request, &s, &err);
    wire_free((ProtobufCMessage *)s);
    return rc;
}

static bool holds(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    bool yes = s->pause != NULL && s->pause->holds;

    wire_free(&s->base);
    return yes;
}

static void until_it_holds(struct world *w)
{
    for (unsigned i = 0; i < LIMIT && !holds(w); i++)
        world_step(w);
    T_TRUE(holds(w));
}

// Whatever happens meanwhile, nothing of it is leased.
static void lies_still(struct world *w, unsigned steps)
{
    Sluice__V1__JobStatus *s;

    for (unsigned i = 0; i < steps; i++) {
        world_step(w);
        s = world_status(w);
        T_TRUE(s->pause != NULL && s->pause->holds);
        T_EQ(s->closures_running, 0);
        T_EQ(s->workers, 0);
        wire_free(&s->base);
    }
    T_EQ(w->fatal, SL_OK);
}

static struct fake_member *named(struct world *w, const char *name)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++)
        if (w->members[i].used && strcmp(w->members[i].name, name) == 0)
            return &w->members[i];
    return NULL;
}

static void bounce(struct world *w, const char *name)
{
    struct fake_member *m = named(w, name);

    if (m == NULL)
        return;
    world_kill(w, m);
    world_restart(w, m);
}

// Paused in its midst, a psserver and the coordinator die, and it goes on.
static void is_paused(const char *json, unsigned psservers, unsigned workers)
{
    struct world *w = begin(t_seed(), json, psservers, workers);
    Sluice__V1__JobStatus *s;
    uint64_t had;

    run_to_steps(w, 4);
    had = steps_of(w);
    T_OK(pause_job(w, true));
    T_OK(pause_job(w, true)); // again: the same
    until_it_holds(w);
    s = world_status(w);
    T_HAS(s->reason, "paused by ada: the GPUs are needed");
    T_HAS(s->reason, "sluice resume j-1");
    T_TRUE(!s->paused); // which is I7's
    T_GT(s->cuts, 0);
    T_GE(s->steps_counted, had);
    wire_free(&s->base);
    lies_still(w, 200);
    bounce(w, "ps-0");
    lies_still(w, 200);
    world_stop_coord(w);
    world_start_coord(w);
    lies_still(w, 400);
    T_HAS(world_reason(w), "paused by ada");
    bounce(w, "w-0"); // who comes is given nothing
    lies_still(w, 200);
    T_OK(resume_job(w));
    T_OK(resume_job(w)); // again: the same
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_EQ(s->steps_counted, s->steps_asked);
    T_EQ(s->closures_counted, s->closures_asked);
    T_TRUE(s->paused_seconds > 0 && s->paused_seconds < s->elapsed_seconds);
    T_TRUE(s->pause == NULL);
    wire_free(&s->base);
    world_release(w);
}

TEST(pause, async_goes_on_where_it_was)
{
    is_paused(world_graph_job, 2, 3);
}

TEST(pause, sync_goes_on_where_it_was)
{
    is_paused(world_sync_job, 2, 4);
}

TEST(pause, a_ring_goes_on_from_the_cut)
{
    is_paused(world_ring_job, 0, 3);
}

TEST(pause, groups_go_on_where_they_were)
{
    is_paused(world_group_job, 1, 4);
}

TEST(pause, its_cut_is_wanted_after_a_restart_too)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__JobStatus *s;

    run_to_steps(w, 2);
    w->hold_tasks = true;
    T_OK(pause_job(w, true));
    T_TRUE(!holds(w));
    T_HAS(world_reason(w), "is being paused by ada: a checkpoint");
    world_stop_coord(w);
    w->hold_tasks = false;
    world_start_coord(w);
    T_TRUE(!holds(w));
    until_it_holds(w);
    s = world_status(w);
    T_GT(s->cuts, 0);
    wire_free(&s->base);
    T_OK(resume_job(w));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(pause, now_waits_for_no_cut)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 2);

    run_to_steps(w, 2);
    w->hold_tasks = true;
    T_OK(pause_job(w, true));
    T_TRUE(!holds(w));
    T_OK(pause_job(w, false));
    T_TRUE(holds(w));
    w->hold_tasks = false;
    lies_still(w, 200);
    T_OK(resume_job(w));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Its own pauses mean want of memory (memory_holds).
TEST(pause, a_client_is_not_taken_for_the_coordinator)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__PauseRequest request = SLUICE__V1__PAUSE_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    run_to_steps(w, 2);
    request.id = "j-1";
    request.who = PAUSE_BY_US;
    request.why = "";
    T_OK(coord_pause(w->coord, &request, &s, t_err()));
    T_STR(s->pause->who, "somebody");
    wire_free(&s->base);
    world_release(w);
}

TEST(pause, one_that_waits_for_its_cut_is_given_up)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__JobStatus *s;

    run_to_steps(w, 2);
    w->hold_tasks = true;
    T_OK(pause_job(w, true));
    T_OK(resume_job(w));
    w->hold_tasks = false;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_TRUE(s->paused_seconds == 0);
    wire_free(&s->base);
    world_release(w);
}

TEST(pause, a_ring_without_a_cut_is_not_paused_at_once)
{
    struct world *w = begin(WORLD_SITUATION, world_ring_job, 0, 2);
    Sluice__V1__JobStatus *s;

    run_to_steps(w, 2);
    s = world_status(w);
    T_EQ(s->cuts, 0);
    wire_free(&s->base);
    T_FAILS(SL_ESTATE, pause_job(w, false));
    T_HAS(err.text, "pause it without --now");
    run_to_steps(w, 14); // an epoch has its cut by then
    s = world_status(w);
    T_GT(s->cuts, 0);
    wire_free(&s->base);
    T_OK(pause_job(w, false));
    T_TRUE(holds(w));
    T_HAS(world_reason(w), "steps again");
    lies_still(w, 300);
    T_OK(resume_job(w));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(pause, a_ring_that_never_went_is_paused_at_once)
{
    struct world *w = begin(WORLD_SITUATION, world_ring_job, 0, 0);

    T_OK(pause_job(w, true));
    T_TRUE(holds(w));
    world_people(w, 0, 2);
    lies_still(w, 300); // not even its data is looked at
    T_OK(resume_job(w));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Its leases were given by a coordinator of before, and it computes on.
TEST(pause, a_worker_that_comes_back_lets_go)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    struct fake_member *m = named(w, "w-0");

    run_to_steps(w, 2);
    T_OK(pause_job(w, false));
    world_stop_coord(w);
    world_start_coord(w);
    m->inbox_count = 0;
    world_attach(w, m);
    T_GE(m->inbox_count, 2);
    T_EQ(m->inbox[1]->kind_case, SLUICE__V1__ATTEND_DOWN__KIND_REVOKE);
    T_TRUE(m->inbox[1]->revoke->whole_job);
    world_release(w);
}

TEST(pause, of_I7_none_is_asked_for_and_none_is_ended)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    struct fake_member *ps = named(w, "ps-0");

    run_to_steps(w, 2);
    ps->shards[0].incarnation = 9; // as if a newer journal had admitted it
    world_break(w, ps);
    world_attach(w, ps);
    fake_deliver_all(w, ps);
    T_FAILS(SL_ESTATE, resume_job(w));
    T_HAS(err.text, "I7");
    T_HAS(err.text, "restore the newest journal.sqlite");
    T_HAS(err.text, "sluice stop j-1");
    T_FAILS(SL_ESTATE, pause_job(w, true));
    T_HAS(err.text, "I7");
    world_release(w);
}

TEST(pause, a_paused_job_is_stopped_before_it_is_deleted)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__StopRequest stop = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__DeleteReply *deleted = NULL;
    Sluice__V1__JobStatus *s = NULL;

    run_to_steps(w, 2);
    T_OK(pause_job(w, false));
    request.id = stop.id = "j-1";
    T_FAILS(SL_ESTATE, coord_delete(w->coord, &request, &deleted, &err));
    T_HAS(err.text, "j-1 is paused; stop it first");
    stop.checkpoint = true; // its shards are there, and have what is in no cut
    T_OK(coord_stop(w->coord, &stop, &s, t_err()));
    T_TRUE(s->state != SLUICE__V1__JOB_STATE__JOB_STOPPED);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_STOPPED, LIMIT));
    s = world_status(w);
    T_GT(s->cuts, 0);
    T_TRUE(s->pause == NULL);
    wire_free(&s->base);
    T_FAILS(SL_ESTATE, pause_job(w, true));
    T_HAS(err.text, "j-1 is stopped");
    T_FAILS(SL_ESTATE, resume_job(w));
    T_HAS(err.text, "--resume j-1");
    T_OK(coord_delete(w->coord, &request, &deleted, t_err()));
    wire_free(&deleted->base);
    world_release(w);
}

TEST(pause, its_time_is_told_apart)
{
    struct world *w = begin(WORLD_SITUATION, world_graph_job, 1, 1);
    Sluice__V1__JobStatus *s;
    double paused;

    run_to_steps(w, 2);
    T_OK(pause_job(w, false));
    world_pass(w, 10000);
    world_stop_coord(w);
    clock_fake_advance_ms(&w->clock, 3600000);
    world_start_coord(w);
    world_pass(w, 10000);
    T_OK(resume_job(w));
    s = world_status(w);
    paused = s->paused_seconds;
    T_TRUE(paused >= 3620 && paused < 3621);
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_TRUE(s->paused_seconds == paused);
    T_TRUE(s->elapsed_seconds > paused && s->images_per_second > 0.1);
    wire_free(&s->base);
    world_release(w);
}
