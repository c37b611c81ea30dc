// SPDX-License-Identifier: Apache-2.0
// Jobs in hybrid mode: see world.h.
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/drains.h"
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

// ---- audits

enum { MEMBERS = 4 };

// A group of four members on four hosts, or of four on one, of which all steps
// are audited; its leader has a closure.
static struct fake_member *begin_audited(struct world *w, const char *by,
                                         uint64_t *closure)
{
    static const char *const hosts[] = {"h-0", "h-1", "h-2", "h-3"};
    static char json[1200];
    const char *tail = strstr(world_group_job, "\"group\":{");

    snprintf(json, sizeof(json),
             "%.*s\"group\":{\"by\":\"%s\",\"size\":4},\"audit\":1%s",
             (int)(tail - world_group_job), world_group_job, by,
             strstr(tail, ",\"batch\""));
    world_init(w, WORLD_SITUATION);
    w->groups = true;
    world_people(w, 1, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        world_break(w, worker(w, i));
        worker(w, i)->host = strcmp(by, "host") == 0 ? "one" : hosts[i];
        world_attach(w, worker(w, i));
    }
    world_submit(w, json);
    for (unsigned i = 0; i < LIMIT; i++) {
        for (unsigned k = 0; k < MEMBERS; k++)
            for (*closure = 0; *closure < schedule_closures(&w->schedule);
                 ++*closure)
                if (worker(w, k)->rank.ranks == MEMBERS &&
                    worker(w, k)->rank.going != 0 &&
                    w->holder[*closure] == worker(w, k)->stream)
                    return worker(w, k);
        world_pass(w, 20);
        fake_turn(w);
    }
    T_ASSERT(!"a leader of four members with a closure");
    return NULL;
}

// Says what m computed of `n` shares of a step; `off`: what is wrong in the
// last one.
static void say_shares_of(struct world *w, struct fake_member *m,
                          uint64_t closure, const uint32_t *shares, size_t n,
                          uint64_t off)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__RingStep step = SLUICE__V1__RING_STEP__INIT;
    Sluice__V1__ShardCounts none = SLUICE__V1__SHARD_COUNTS__INIT;
    Sluice__V1__Repeat items[4], *list[4];

    for (size_t i = 0; i < n; i++) {
        sluice__v1__repeat__init(&items[i]);
        items[i].closure = closure;
        items[i].inputs = 7;
        items[i].share = shares[i];
        items[i].output = 1000 + shares[i] + (i + 1 == n ? off : 0);
        list[i] = &items[i];
    }
    step.job = w->job;
    step.job_incarnation = jobs_get(w->coord, w->job)->incarnation;
    step.generation = m->rank.going;
    step.counts = &none;
    step.repeats = list;
    step.n_repeats = n;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_RING_STEP;
    up.ring_step = &step;
    fake_send(m, &up);
    fake_deliver_all(w, m);
}

static bool is_suspect(struct world *w, const struct fake_member *m)
{
    const struct drain *d = drains_find(w->coord, MEMBER_WORKER, m->name);

    return d != NULL && drain_is_audit(d);
}

// The second member is wrong in the share that it computes for the last one.
TEST(group_life, A2_a_member_that_two_others_outvote_is_suspect)
{
    struct world w;
    uint64_t closure;
    struct fake_member *wrong = NULL;
    const struct job *job;

    (void)begin_audited(&w, "any", &closure);
    job = jobs_get(w.coord, w.job);
    for (unsigned k = 0; k < MEMBERS; k++) {
        uint32_t self = worker(&w, k)->rank.self;
        const uint32_t shares[] = {self, (self + 1) % MEMBERS,
                                   (self + 2) % MEMBERS};

        if (self == 1)
            wrong = worker(&w, k);
        say_shares_of(&w, worker(&w, k), closure, shares, 3, self == 1);
    }
    T_ASSERT(wrong != NULL);
    T_GE(job->audit.compared, MEMBERS - 1);
    T_EQ(job->audit.differed, 1);
    T_EQ(job->audit.decided, 1);
    for (unsigned k = 0; k < MEMBERS; k++)
        T_EQ(is_suspect(&w, worker(&w, k)), worker(&w, k) == wrong);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT)); // without it, and all counted
    world_release(&w);
}

// Of the fourth share a member is no witness, nor of a closure that was never
// leased.
TEST(group_life, A1_a_member_votes_for_its_share_and_those_of_the_next_members)
{
    struct world w;
    uint64_t closure;

    (void)begin_audited(&w, "any", &closure);
    for (unsigned k = 0; k < MEMBERS; k++) {
        uint32_t self = worker(&w, k)->rank.self;
        const uint32_t not_its = (self + 3) % MEMBERS, far = MEMBERS;

        say_shares_of(&w, worker(&w, k), closure, &not_its, 1, 0);
        say_shares_of(&w, worker(&w, k), closure, &far, 1, 0);
        say_shares_of(&w, worker(&w, k), jobs_get(w.coord, w.job)->leases.end,
                      &self, 1, 0);
        say_shares_of(&w, worker(&w, k), UINT64_MAX, &self, 1, 0);
    }
    T_EQ(jobs_get(w.coord, w.job)->audit.votes.capacity, 0); // not one
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    world_release(&w);
}

TEST(group_life, A5_a_member_of_a_group_of_one_host_is_suspect_by_its_own_word)
{
    Sluice__V1__JobStatus *s;
    struct world w;
    uint64_t closure;

    (void)begin_audited(&w, "host", &closure);
    for (unsigned k = 0; k < MEMBERS; k++) {
        uint32_t self = worker(&w, k)->rank.self;
        const uint32_t twice[] = {self, self};

        say_shares_of(&w, worker(&w, k), closure, twice, 2, self == 2);
        T_EQ(is_suspect(&w, worker(&w, k)), self == 2);
    }
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    s = world_status(&w);
    T_ASSERT(s->audit != NULL);
    T_GE(s->audit->compared, MEMBERS);
    T_EQ(s->audit->decided, 1);
    wire_free(&s->base);
    world_release(&w);
}
