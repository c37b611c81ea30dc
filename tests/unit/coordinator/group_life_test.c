// SPDX-License-Identifier: Apache-2.0
// Jobs in hybrid mode: see world.h.
#include "coordinator/core/job.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 }; // actions after which a job that stands still fails

static void begin(struct world *w, unsigned workers)
{
    world_init(w, WORLD_SITUATION);
    w->groups = true;
    world_people(w, 1, workers);
    world_submit(w, world_group_job);
}

static struct fake_member *worker(struct world *w, unsigned i)
{
    return &w->members[1 + i]; // behind ps-0
}

TEST(group_life, a_quiet_job_finishes)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    begin(&w, 3);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    s = world_status(&w);
    T_EQ(s->steps_counted, schedule_steps(&w.schedule));
    T_EQ(s->workers_lost, 0);
    T_GT(w.generation, 0);
    wire_free(&s->base);
    world_release(&w);
}

// The worker that died at closure 1, which is blamed for it.
static struct fake_member *victim(struct world *w)
{
    for (unsigned i = 0; i < LIMIT; i++) {
        for (unsigned k = 0; k < 2; k++) {
            if (!worker(w, k)->alive)
                return worker(w, k);
        }
        world_step(w);
    }
    T_ASSERT(!"a worker that dies of closure 1");
    return NULL;
}

static void leave_without_blame(struct world *w, struct fake_member *m)
{
    m->draining = true;
    for (unsigned i = 0; i < 20; i++) {
        world_pass(w, 100);
        fake_turn(w);
    }
    T_EQ(m->leases_count, 0);
    world_kill(w, m);
}

static void take_a_place(struct world *w, struct fake_member *m)
{
    world_restart(w, m);
    for (unsigned i = 0; i < 4 && !m->rank.joined; i++) {
        fake_read_all(w, m);
        fake_work(w, m);
        fake_deliver_all(w, m);
    }
    T_TRUE(m->rank.joined);
}

// Nobody is lost meanwhile.
static bool is_leased(struct world *w, uint64_t closure,
                      const struct fake_member *m)
{
    for (unsigned i = 0; i < 200; i++) {
        world_pass(w, 100);
        if (w->holder[closure] == m->stream)
            return true;
        fake_turn(w);
    }
    return false;
}

// Followers are not blamed, and are never given any of it.
TEST(group_life, a_leader_takes_what_every_leader_is_blamed_for)
{
    struct world w;
    struct fake_member *blamed, *other;

    begin(&w, 2);
    w.poison = true;
    blamed = victim(&w);
    other = blamed == worker(&w, 0) ? worker(&w, 1) : worker(&w, 0);
    leave_without_blame(&w, other);
    w.poison = false;
    // It joins first, so that it leads, and the one without blame follows.
    take_a_place(&w, blamed);
    take_a_place(&w, other);
    T_TRUE(is_leased(&w, 1, blamed));
    T_EQ(blamed->rank.ranks, 2);
    T_EQ(blamed->rank.self, 0);
    T_EQ(other->rank.going, blamed->rank.going);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    world_release(&w);
}

// Who can be a rank need not know groups: it would refuse the lease.
TEST(group_life, a_job_of_a_program_is_for_external_workers_that_know_groups)
{
    const char *tail = strstr(world_external_job, "\"batch\"");
    Sluice__V1__JobStatus *s;
    struct fake_member *m;
    struct world w;
    char json[600];

    snprintf(json, sizeof(json), "%.*s\"mode\":\"hybrid\",%s",
             (int)(tail - world_external_job), world_external_job, tail);
    world_init(&w, t_seed());
    w.groups = true;
    world_people(&w, 1, 1);
    m = world_add(&w, FAKE_WORKER, "older");
    m->external = m->ranks = true;
    world_submit(&w, json);
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    s = world_status(&w);
    T_EQ(s->steps_counted, 0);
    T_HAS(s->reason, "an external worker that can be a member of a group");
    wire_free(&s->base);
    m = world_add(&w, FAKE_WORKER, "newer");
    m->external = m->groups = true;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    s = world_status(&w);
    T_EQ(s->steps_counted, schedule_steps(&w.schedule));
    wire_free(&s->base);
    world_release(&w);
}
