// SPDX-License-Identifier: Apache-2.0
// Slots of rounds behind the open one, in sync mode (Y4): see
// coordinator/core/leases/leases.h and offers.c.
#include <stdio.h>
#include <string.h>

#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/leases/offers.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 20000, ROUND = 3, WORKERS = 3 };

struct job_text {
    const char *stall_seconds, *backup, *every_epochs;
};

// With the value of "name" changed.
static void set(char *json, size_t size, const char *name, const char *value)
{
    static char rest[4096];
    char *at = strstr(json, name);

    at += strlen(name) + 2; // the quote and the colon
    snprintf(rest, sizeof(rest), "%s", at + 1);
    snprintf(at, size - (size_t)(at - json), "%s%s", value, rest);
}

// A job with rounds of three slots that runs, and three workers.
static struct world *begin_job(bool ahead, struct job_text t)
{
    static struct world w;
    static char json[4096];

    snprintf(json, sizeof(json), "%s", world_sync_job);
    set(json, sizeof(json), "stall_seconds", t.stall_seconds);
    set(json, sizeof(json), "backup", t.backup);
    set(json, sizeof(json), "every_epochs", t.every_epochs);
    world_init(&w, t_seed());
    w.ahead = ahead;
    w.copies = true;
    world_people(&w, 1, WORKERS);
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static struct world *begin(bool ahead, const char *stall, const char *backup)
{
    return begin_job(ahead, (struct job_text){stall, backup, "1"});
}

static struct fake_member *worker(struct world *w, unsigned number)
{
    return &w->members[1 + number];
}

static void hang(struct world *w, bool hangs)
{
    for (unsigned i = 0; i < WORKERS; i++)
        worker(w, i)->hangs = hangs;
}

static void turns(struct world *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        world_pass(w, 50);
        fake_turn(w);
    }
}

static uint64_t lease_of(const struct fake_member *m, unsigned i)
{
    T_LT(i, m->leases_count);
    return m->leases[i].lease->closure;
}

// A round of which each has a slot, and does nothing. Where it ends.
static uint64_t manned(struct world *w)
{
    struct job *job = jobs_get(w->coord, w->job);
    unsigned have = 0;

    for (unsigned i = 0; i < LIMIT && have < WORKERS; i++) {
        turns(w, 1);
        for (unsigned k = have = 0; k < WORKERS; k++) {
            worker(w, k)->hangs = worker(w, k)->leases_count > 0;
            have += worker(w, k)->hangs;
        }
    }
    T_EQ(have, WORKERS);
    turns(w, 4);
    return evidence_limit(&job->shards.evidence, 0);
}

TEST(ahead, Y4_a_slot_of_the_next_round_waits_behind_one_of_the_open_round)
{
    struct world *w = begin(true, "0", "0");
    uint64_t end = manned(w), all = 0;

    for (unsigned i = 0; i < WORKERS; i++) {
        struct fake_member *m = worker(w, i);

        T_EQ(m->leases_count, 2); // no more than one ahead
        T_LT(lease_of(m, 0), end);
        T_GE(lease_of(m, 1), end);
        T_LT(lease_of(m, 1), end + ROUND);
        all |= UINT64_C(1) << (lease_of(m, 1) - end);
    }
    T_EQ(all, 7); // each another one
    hang(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

static void nothing_ahead(struct world *w)
{
    uint64_t end = manned(w);

    for (unsigned i = 0; i < WORKERS; i++) {
        T_EQ(worker(w, i)->leases_count, 1);
        T_LT(lease_of(worker(w, i), 0), end);
    }
    hang(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(ahead, workers_that_would_hand_it_back_are_leased_none)
{
    nothing_ahead(begin(false, "0", "0"));
}

// Those who have nothing to do are given copies.
TEST(ahead, a_job_with_copies_leases_none)
{
    nothing_ahead(begin(true, "0", "2"));
}

// All others could wait for a round that lacks this slot.
TEST(ahead, Y4_a_slot_that_is_nobodys_takes_the_later_ones_back)
{
    struct world *w = begin(true, "0", "0");
    struct fake_member *m = worker(w, 0);
    uint64_t end = manned(w), lost = lease_of(m, 0);

    world_kill(w, m);
    turns(w, 4);
    for (unsigned i = 1; i < WORKERS; i++) {
        T_EQ(worker(w, i)->leases_count, 2);
        T_FALSE(worker(w, i)->leases[0].revoked);
        T_TRUE(worker(w, i)->leases[1].revoked);
    }
    worker(w, 1)->hangs = false;
    for (unsigned i = 0; i < LIMIT && w->holder[lost] == 0; i++)
        turns(w, 1);
    T_EQ(w->holder[lost], worker(w, 1)->stream); // before anything later
    for (unsigned i = 0; i < worker(w, 1)->leases_count; i++)
        T_TRUE(lease_of(worker(w, 1), i) < end ||
               worker(w, 1)->leases[i].revoked);
    hang(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// A worker that waits for its round stands still for as long as the slowest
// contribution takes, and is not to blame.
TEST(ahead, who_waits_for_a_slow_contribution_does_not_stand_still)
{
    struct world *w = begin(true, "9", "0");
    struct fake_member *m = worker(w, 0), *slow = worker(w, 1);
    uint64_t end = manned(w), waits;
    Sluice__V1__JobStatus *s;

    m->hangs = worker(w, 2)->hangs = false;
    for (unsigned i = 0; i < LIMIT && lease_of(m, 0) < end; i++)
        turns(w, 1);
    waits = lease_of(m, 0);
    m->hangs = true;
    for (unsigned i = 0; i < 400; i++) { // 20 s
        slow->progress++;
        turns(w, 1);
    }
    T_EQ(lease_of(m, 0), waits);
    T_FALSE(m->leases[0].revoked);
    s = world_status(w);
    T_EQ(s->closures_retried, 0);
    wire_free(&s->base);
    hang(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// One that dies while it waits has not died of what it waits for.
TEST(ahead, who_dies_waiting_leaves_no_blame)
{
    struct world *w = begin(true, "0", "0");
    struct fake_member *m = worker(w, 0);
    uint64_t end = manned(w), waits;
    struct work *work;

    m->hangs = false;
    for (unsigned i = 0; i < LIMIT && lease_of(m, 0) < end; i++)
        turns(w, 1);
    waits = lease_of(m, 0);
    world_kill(w, m);
    turns(w, 400);
    work = leases_get(jobs_get(w->coord, w->job), waits);
    T_EQ(work == NULL ? 0 : work->closure.blamed_count, 0);
    hang(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// ---- slots that take no time

static bool is_taken(const struct job *job, uint64_t closure)
{
    const struct work *w = leases_get(job, closure);

    return evidence_closure_held(&job->shards.evidence, closure) ||
           (w != NULL && w->closure.state == CLOSURE_LEASED);
}

// Each worker has slots of one round after the other, and nobody has one while
// another before it is nobody's. How many the one has that has most.
static unsigned check_slots(struct world *w)
{
    struct job *job = jobs_get(w->coord, w->job);
    const struct evidence *e = &job->shards.evidence;
    uint64_t end = evidence_limit(e, 0), last = 0;
    unsigned most = 0;

    list_for(n, &w->coord->members.all)
    {
        const struct member *m = list_entry(n, struct member, node);
        uint64_t from = 0;

        most = m->lease_count > most ? m->lease_count : most;
        list_for(k, &m->leases)
        {
            const struct work *work = list_entry(k, struct work, on_holder);

            T_GE(work->closure.id, from);
            from = evidence_round_end(e, work->closure.id);
            last = work->closure.id > last ? work->closure.id : last;
        }
    }
    for (uint64_t at = evidence_low(e); last >= end && at < last; at++)
        T_TRUE(is_taken(job, at));
    return most;
}

#define MANY 6 // slots that a worker has

// Workers that have many, and do nothing.
static struct world *quick(void)
{
    struct world *w = begin_job(true, (struct job_text){"0", "0", "0"});

    for (unsigned i = 0; i < LIMIT; i++) {
        fake_turn(w); // the clock stands still
        if (check_slots(w) >= MANY)
            break;
    }
    T_GE(check_slots(w), MANY);
    hang(w, true);
    for (unsigned i = 0; i < WORKERS; i++)
        fake_turn(w);
    (void)check_slots(w);
    return w;
}

TEST(ahead, Y4_short_slots_are_leased_several_rounds_ahead)
{
    struct world *w = quick();
    struct job *job = jobs_get(w->coord, w->job);

    hang(w, false);
    for (unsigned i = 0; i < LIMIT && job->state == JOB_RUNNING; i++) {
        fake_turn(w);
        T_LE(check_slots(w), DISPATCH_LEASES_MOST);
    }
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(ahead, Y4_all_rounds_ahead_are_taken_back_for_a_slot_that_is_nobodys)
{
    struct world *w = quick();
    struct job *job = jobs_get(w->coord, w->job);
    uint64_t end = evidence_limit(&job->shards.evidence, 0);
    struct fake_member *m = NULL;
    unsigned had[WORKERS], revoked = 0;

    for (unsigned i = 0; i < WORKERS; i++) {
        had[i] = worker(w, i)->leases_count;
        if (had[i] > 0 && lease_of(worker(w, i), 0) < end)
            m = worker(w, i);
    }
    T_TRUE(m != NULL); // the open round is somebody's
    world_kill(w, m);
    turns(w, 4); // what is leased anew comes behind
    for (unsigned i = 0; i < WORKERS; i++) {
        for (unsigned k = 0; worker(w, i) != m && k < had[i]; k++) {
            T_EQ(worker(w, i)->leases[k].revoked,
                 lease_of(worker(w, i), k) >= end);
            revoked += worker(w, i)->leases[k].revoked;
        }
    }
    T_GT(revoked, WORKERS);
    hang(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// What the other job has would wait behind all of them.
TEST(ahead, who_another_job_wants_has_few)
{
    struct world *w = quick();
    struct job *job = jobs_get(w->coord, w->job);
    struct member *m =
        members_find(&w->coord->members, MEMBER_WORKER, worker(w, 0)->name);
    uint64_t first = w->job;

    T_EQ((uint64_t)offers_ahead_ms(w->coord, job, m), DISPATCH_ROUNDS_MS);
    world_submit(w, world_silu_job); // by another name
    w->job = first;
    turns(w, 1);
    T_EQ((uint64_t)offers_ahead_ms(w->coord, job, m), DISPATCH_AHEAD_MS);
    world_release(w);
}
