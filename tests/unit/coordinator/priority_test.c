// SPDX-License-Identifier: Apache-2.0
// tests/unit/coordinator/priority_test.c -- who is served, of jobs of different
// priorities.
#include "coordinator/core/job.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static struct world *begin(void)
{
    static struct world w;

    world_init(&w, WORLD_SITUATION);
    return &w;
}

TEST(priority, a_free_worker_is_given_the_highest)
{
    Sluice__V1__LeaseKind kinds[8];
    struct world *w = begin();
    struct fake_member *worker = world_add(w, FAKE_WORKER, "w");
    uint64_t jobs[8];

    world_submit_as(w, world_graph_job, "low", -7);
    world_submit_as(w, world_graph_job, "none", 0);
    world_submit_as(w, world_graph_job, "high", 7);
    world_attach(w, worker);
    T_EQ(world_leases(worker, jobs, kinds, 8), 2);
    T_EQ(jobs[0], 3);
    T_EQ(jobs[1], 2);
    world_release(w);
}

TEST(priority, is_in_the_status_also_after_a_restart)
{
    struct world *w = begin();
    Sluice__V1__JobStatus *s;

    world_submit_as(w, world_graph_job, "low", -7);
    world_stop_coord(w);
    world_start_coord(w);
    s = world_status(w);
    T_EQ(s->priority, -7);
    wire_free(&s->base);
    world_release(w);
}

// A newcomer's leases where a ring of priority 0 runs and a job of another is
// being placed: the probe of that, and then a place in the ring, if it is not
// above the ring.
static unsigned with_a_ring(int priority, Sluice__V1__LeaseKind kinds[8])
{
    struct world *w = begin();
    uint64_t ring, jobs[8];
    struct fake_member *worker;
    unsigned count;

    world_people(w, 1, 1);
    ring = world_submit_as(w, world_ring_job, "ring", 0);
    T_TRUE(world_run(w, JOB_RUNNING, LIMIT));
    world_submit_as(w, world_graph_job, "other", priority);
    w->job = ring;
    worker = world_add(w, FAKE_WORKER, "w-1");
    world_attach(w, worker);
    count = world_leases(worker, jobs, kinds, 8);
    world_release(w);
    return count;
}

TEST(priority, a_ring_takes_no_worker_while_a_higher_one_is_being_placed)
{
    Sluice__V1__LeaseKind kinds[8];

    T_EQ(with_a_ring(1, kinds), 1);
    T_EQ(kinds[0], SLUICE__V1__LEASE_KIND__LEASE_PROBE);
    T_EQ(with_a_ring(-1, kinds), 1); // a rank does nothing else
    T_EQ(kinds[0], SLUICE__V1__LEASE_KIND__LEASE_RING);
    T_EQ(with_a_ring(0, kinds), 2);
}
