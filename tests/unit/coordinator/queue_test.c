// SPDX-License-Identifier: Apache-2.0
// tests/unit/coordinator/queue_test.c -- queued jobs run one after another.
#include <stdio.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static const char runs[] = "waiting for a worker to open the data";

static struct world *begin(void)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    w.queue = true;
    return &w;
}

static const char *reason(struct world *w, uint64_t job)
{
    w->job = job;
    return world_reason(w);
}

static void check_behind(struct world *w, uint64_t job, uint64_t last,
                         unsigned before)
{
    Sluice__V1__JobStatus *s;
    char want[80];

    snprintf(want, sizeof(want),
             "queued behind j-%llu (jobs before this one: %u)", (ull)last,
             before);
    T_STR(reason(w, job), want);
    s = world_status(w);
    T_TRUE(s->queued);
    T_EQ(s->queued_before, before);
    T_EQ(s->state, JOB_PLACING);
    wire_free(&s->base);
}

// Three that are queued; the first one has its turn.
static struct world *three(void)
{
    struct world *w = begin();

    world_submit_as(w, world_graph_job, "a", 0);
    world_submit_as(w, world_graph_job, "b", 0);
    world_submit_as(w, world_graph_job, "c", 0);
    T_STR(reason(w, 1), runs);
    check_behind(w, 2, 1, 1);
    check_behind(w, 3, 2, 2);
    return w;
}

static void restart(struct world *w)
{
    world_stop_coord(w);
    world_start_coord(w);
}

static void stop(struct world *w, const char *id)
{
    Sluice__V1__StopRequest request = SLUICE__V1__STOP_REQUEST__INIT;
    Sluice__V1__JobStatus *s = NULL;

    request.id = (char *)id;
    request.checkpoint = true;
    T_OK(coord_stop(w->coord, &request, &s, t_err()));
    T_EQ(s->state, JOB_STOPPED); // at once
    T_EQ(s->queued_before, 0);
    wire_free(&s->base);
}

TEST(queue, jobs_wait_in_the_order_in_which_they_came)
{
    struct world *w = three();

    stop(w, "j-1");
    T_STR(reason(w, 2), runs);
    check_behind(w, 3, 2, 1);
    stop(w, "j-2");
    T_STR(reason(w, 3), runs);
    world_release(w);
}

TEST(queue, one_that_waits_is_stopped_at_once)
{
    struct world *w = three();

    stop(w, "j-2");
    T_STR(reason(w, 1), runs);
    check_behind(w, 3, 1, 1);
    restart(w);
    T_EQ(coord_term(w->coord), 2);
    check_behind(w, 3, 1, 1);
    world_release(w);
}

TEST(queue, a_restart_keeps_turn_and_order)
{
    struct world *w = three();

    restart(w);
    world_pass(w, 100);
    T_STR(reason(w, 1), runs);
    check_behind(w, 2, 1, 1);
    check_behind(w, 3, 2, 2);
    stop(w, "j-1");
    restart(w); // the turn of the second one is journalled
    world_submit_as(w, world_graph_job, "high", 50);
    world_pass(w, 100);
    T_STR(reason(w, 2), runs);
    check_behind(w, 4, 2, 1);
    check_behind(w, 3, 4, 2);
    world_release(w);
}

// It goes before those that wait, and takes nothing from the one that runs.
TEST(queue, a_higher_priority_goes_first)
{
    struct world *w = three();

    world_submit_as(w, world_graph_job, "high", 1);
    T_STR(reason(w, 1), runs);
    check_behind(w, 4, 1, 1);
    check_behind(w, 2, 4, 2);
    check_behind(w, 3, 2, 3);
    restart(w);
    stop(w, "j-1");
    T_STR(reason(w, 4), runs);
    check_behind(w, 2, 4, 1);
    world_release(w);
}

TEST(queue, no_worker_hears_of_one_that_waits)
{
    Sluice__V1__LeaseKind kinds[8];
    struct world *w = three();
    struct fake_member *worker = world_add(w, FAKE_WORKER, "w");
    uint64_t jobs[8];

    w->queue = false;
    world_submit_as(w, world_graph_job, "free", -5); // it does not wait
    T_STR(reason(w, 4), runs);
    world_attach(w, worker);
    T_EQ(world_leases(worker, jobs, kinds, 8), 2);
    T_EQ(jobs[0], 1);
    T_EQ(jobs[1], 4);
    world_release(w);
}

// The worker cannot read the data of what it has.
static void fail_the_probe(struct world *w, struct fake_member *m)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;

    fake_read_all(w, m);
    T_GT(m->leases_count, 0);
    T_OF_LEASE(&failed, m->leases[0].lease);
    failed.code = SL_ENOENT;
    failed.text = "no such file";
    failed.job_error = true;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &failed;
    fake_send(m, &up);
    fake_deliver_up(w, m);
}

TEST(queue, one_that_fails_lets_the_next_one_go)
{
    struct world *w = three();
    struct fake_member *worker = world_add(w, FAKE_WORKER, "w");

    world_attach(w, worker);
    w->job = 1;
    fail_the_probe(w, worker);
    T_EQ(world_state(w), JOB_FAILED);
    w->job = 2;
    T_STR(world_reason(w), "a worker opens the data");
    check_behind(w, 3, 2, 1);
    world_release(w);
}

TEST(queue, one_that_finishes_lets_the_next_one_go)
{
    struct world *w = begin();
    uint64_t first = world_submit(w, world_graph_job);

    world_people(w, 1, 1);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_submit_as(w, world_graph_job, "next", 0);
    check_behind(w, 2, 1, 1);
    w->job = first;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(w->fatal, SL_OK);
    T_TRUE(strncmp(reason(w, 2), "queued", 6) != 0);
    world_release(w);
}

TEST(queue, each_tenant_has_its_own)
{
    struct world *w = begin();

    coord_ask_as(w->coord, "a", true);
    world_submit_as(w, world_graph_job, "a-1", 0);
    world_submit_as(w, world_graph_job, "a-2", 0);
    coord_ask_as(w->coord, "b", true);
    world_submit_as(w, world_graph_job, "b-1", 0);
    T_STR(reason(w, 3), runs);
    coord_ask_as(w->coord, "", false);
    check_behind(w, 2, 1, 1);
    restart(w);
    world_pass(w, 100);
    T_STR(reason(w, 3), runs);
    check_behind(w, 2, 1, 1);
    stop(w, "j-3");
    check_behind(w, 2, 1, 1);
    world_release(w);
}

TEST(queue, a_deleted_job_is_out_of_the_journal)
{
    struct world *w = three();
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__DeleteReply *reply = NULL;
    enum journal_turn turn = JOURNAL_TURN_CAME;

    T_OK(journal_job_turn(w->journal, 2, &turn, t_err()));
    T_EQ(turn, JOURNAL_TURN_WAITS);
    stop(w, "j-2");
    request.id = "j-2";
    T_OK(coord_delete(w->coord, &request, &reply, t_err()));
    wire_free(&reply->base);
    T_OK(journal_job_turn(w->journal, 2, &turn, t_err()));
    T_EQ(turn, JOURNAL_TURN_NONE);
    world_release(w);
}
