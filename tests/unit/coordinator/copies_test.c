// SPDX-License-Identifier: Apache-2.0
// Slots of a round that two workers have: see coordinator/core/modes/copies.h.
#include <string.h>

#include "common/run/log.h"
#include "coordinator/core/modes/copies.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 20000 };

// One psserver and so many workers, and a job with rounds of three slots, which
// has so many copies at most. It runs.
static struct world *begin(unsigned workers, char copies)
{
    static struct world w;
    static char json[4096];

    snprintf(json, sizeof(json), "%s", world_sync_job);
    strstr(json, "\"backup\":1")[9] = copies;
    world_init(&w, t_seed());
    w.copies = true;
    world_people(&w, 1, workers);
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static struct fake_member *worker(struct world *w, unsigned number)
{
    return &w->members[1 + number];
}

// All that is said is heard; those who do not hang work once.
static void turn(struct world *w)
{
    world_pass(w, 50);
    fake_turn(w);
}

// Works until this one has a slot, and hangs with it.
static uint64_t hang(struct world *w, struct fake_member *m)
{
    for (unsigned i = 0; i < LIMIT && !world_trains(m); i++)
        turn(w);
    T_ASSERT(world_trains(m));
    m->hangs = true;
    return m->leases[0].lease->closure;
}

// Works until another worker has the slot of this one; that worker.
static struct fake_member *copier(struct world *w, const struct fake_member *m)
{
    uint64_t closure = m->leases[0].lease->closure;

    for (unsigned i = 0; i < LIMIT; i++) {
        for (unsigned k = 0; k < WORLD_MEMBERS; k++) {
            struct fake_member *other = &w->members[k];

            if (other != m && other->used && world_trains(other) &&
                other->leases[0].lease->closure == closure)
                return other;
        }
        turn(w);
    }
    T_ASSERT(false);
    return NULL;
}

// With its next heartbeat: the step of its slot is counted, at this loss.
static void say_step(struct world *w, struct fake_member *m, double loss)
{
    const Sluice__V1__Lease *l = m->leases[0].lease;
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__LeaseProgress progress = SLUICE__V1__LEASE_PROGRESS__INIT;
    Sluice__V1__LeaseProgress *list[] = {&progress};
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;

    metrics.steps = 1;
    metrics.samples = l->count;
    metrics.loss_sum = loss * (double)l->count;
    progress.job = l->job;
    progress.attempt = l->attempt;
    progress.metrics = &metrics;
    beat.leases = list;
    beat.n_leases = 1;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &beat;
    coord_receive(w->coord, m->stream, &up);
}

static char *reason_of(struct world *w, const char *name)
{
    static char reason[512];
    Sluice__V1__ClusterRequest request = SLUICE__V1__CLUSTER_REQUEST__INIT;
    Sluice__V1__ClusterReply *reply = NULL;

    reason[0] = '\0';
    T_OK(status_cluster(w->coord, &request, &reply, t_err()));
    for (size_t i = 0; i < reply->n_members; i++) {
        if (strcmp(reply->members[i]->name, name) == 0)
            snprintf(reason, sizeof(reason), "%s", reply->members[i]->reason);
    }
    wire_free(&reply->base);
    return reason;
}

// stall_seconds is 0: it may take for ever, and nobody takes it away.
TEST(copies, a_job_goes_on_without_a_worker_that_hangs)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0);

    hang(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_HAS(reason_of(w, "w-0"), "another worker was first with closure");
    world_release(w);
}

TEST(copies, without_copies_it_waits)
{
    struct world *w = begin(3, '0');

    hang(w, worker(w, 0));
    T_FALSE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(w->copied, 0);
    world_release(w);
}

// All but one are there, for as long as that one hangs.
TEST(copies, a_round_says_what_it_waits_for)
{
    struct world *w = begin(3, '0');
    Sluice__V1__JobStatus *s;
    struct fake_member *m = worker(w, 0);
    uint64_t closure = hang(w, m);

    for (unsigned i = 0; i < 200; i++)
        turn(w);
    s = world_status(w);
    T_EQ(s->round_slots, closure % 10 == 9 ? 1 : 3); // ten steps an epoch
    T_EQ(s->round_held + 1, s->round_slots);
    wire_free(&s->base);
    m->hangs = false;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_TRUE(jobs_get(w->coord, w->job)->sync.last_ms > 0);
    world_release(w);
}

TEST(copies, who_was_second_works_again_when_it_lets_go)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0);
    uint64_t was = hang(w, m);

    for (unsigned i = 0; i < LIMIT && !m->leases[0].revoked; i++)
        turn(w);
    T_ASSERT(m->leases[0].revoked);
    for (unsigned i = 0; i < 5; i++)
        turn(w);
    T_EQ(m->leases_count, 1); // nothing more until then
    m->hangs = false;
    for (unsigned i = 0;
         i < LIMIT && !(world_trains(m) && !m->leases[0].revoked); i++)
        turn(w);
    T_ASSERT(world_trains(m));
    T_NE(m->leases[0].lease->closure, was);
    T_STR(reason_of(w, "w-0"), "");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(copies, a_copy_that_is_second_is_taken_back)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0), *other;

    hang(w, m);
    other = copier(w, m);
    other->hangs = true;
    m->hangs = false;
    for (unsigned i = 0; i < LIMIT && !other->leases[0].revoked; i++)
        turn(w);
    T_TRUE(other->leases[0].revoked);
    T_HAS(reason_of(w, other->name), "another worker was first");
    other->hangs = false;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(copies, I4_a_copy_is_the_attempt_that_runs)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0), *other;

    hang(w, m);
    other = copier(w, m);
    T_EQ(wire_attempt_cmp(wire_attempt_of(other->leases[0].lease->attempt),
                          wire_attempt_of(m->leases[0].lease->attempt)),
         0);
    world_release(w);
}

TEST(copies, a_copy_survives_what_it_is_a_copy_of)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0), *other;
    uint64_t closure = hang(w, m);
    struct wire_attempt attempt;
    unsigned copied;

    other = copier(w, m);
    other->hangs = true;
    attempt = w->attempt[closure];
    copied = w->copied;
    world_kill(w, m);
    for (unsigned i = 0; i < 20; i++)
        turn(w);
    T_EQ(w->holder[closure], 0); // not leased anew
    T_EQ(w->second[closure], other->stream);
    T_EQ(w->copied, copied);
    other->hangs = false;
    while (w->second[closure] != 0)
        turn(w);
    T_EQ(wire_attempt_cmp(w->attempt[closure], attempt), 0);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(copies, when_both_die_it_is_leased_anew)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0), *other;
    uint64_t closure = hang(w, m);
    struct wire_attempt attempt = w->attempt[closure];
    Sluice__V1__JobStatus *s;

    other = copier(w, m);
    other->hangs = true;
    world_kill(w, m);
    world_kill(w, other);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_GT(wire_attempt_cmp(w->attempt[closure], attempt), 0);
    s = world_status(w);
    T_EQ(s->workers_lost, 2);
    wire_free(&s->base);
    world_release(w);
}

// A copy that takes its worker down is no less poison than the first.
TEST(copies, both_are_blamed)
{
    struct world *w = begin(3, '1');

    w->poison = true;
    for (unsigned i = 0; i < LIMIT && world_state(w) < JOB_FINISHED; i++) {
        turn(w);
        for (unsigned k = 0; k < 3; k++) {
            if (!worker(w, k)->alive)
                world_restart(w, worker(w, k));
        }
    }
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), "closure 1");
    T_HAS(world_reason(w), "did not end in 32 attempts on 3 distinct workers");
    world_release(w);
}

// Who has nothing to do in any round need not wait until somebody is late.
TEST(copies, a_spare_worker_has_one_at_once)
{
    struct world *w = begin(4, '1');
    unsigned turns = 0;

    while (w->copied == 0 && turns++ < 4)
        turn(w);
    T_EQ(w->copied, 1);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// The one that is second has said how its step went before the other completes.
TEST(copies, a_slot_that_two_workers_have_is_counted_once_in_the_loss)
{
    struct world *w = begin(3, '1');
    struct fake_member *m = worker(w, 0), *other;
    uint64_t closure = hang(w, m);
    struct job *job = jobs_get(w->coord, w->job);
    uint64_t epoch = schedule_epoch(&job->shards.schedule, closure);
    struct meter_sums sums;

    other = copier(w, m);
    other->hangs = true;
    say_step(w, m, 9);
    other->hangs = false;
    for (unsigned i = 0; i < LIMIT && !m->leases[0].revoked; i++)
        turn(w);
    T_TRUE(m->leases[0].revoked);
    for (unsigned i = 0;
         i < LIMIT && evidence_epochs(&job->shards.evidence) <= epoch; i++)
        turn(w);
    sums = meter_loss(&job->reports.meter, (uint32_t)epoch);
    T_EQ(sums.samples, job->shards.schedule.samples);
    T_NEAR(sums.loss_sum, (double)sums.samples, 1e-9); // 1 each
    world_release(w);
}
