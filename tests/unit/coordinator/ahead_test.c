// SPDX-License-Identifier: Apache-2.0
// Slots of the round behind the open one, in sync mode (Y4): see
// coordinator/core/leases.h and offers.c.
#include <stdio.h>
#include <string.h>

#include "coordinator/core/jobs.h"
#include "coordinator/core/leases.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 20000, ROUND = 3, WORKERS = 3 };

// A job with rounds of three slots that runs, and so many workers. The text is
// put in place of "stall_seconds":0 or of "backup":1.
static struct world *begin(bool ahead, const char *stall, const char *backup)
{
    static struct world w;
    static char json[4096];
    const char *at = strstr(world_sync_job, "\"stall_seconds\":0");
    const char *copies = strstr(world_sync_job, "\"backup\":1");

    snprintf(json, sizeof(json), "%.*s\"backup\":%s%.*s\"stall_seconds\":%s%s",
             (int)(copies - world_sync_job), world_sync_job, backup,
             (int)(at - copies - (int)strlen("\"backup\":1")),
             copies + strlen("\"backup\":1"), stall,
             at + strlen("\"stall_seconds\":0"));
    world_init(&w, t_seed());
    w.ahead = ahead;
    w.copies = true;
    world_people(&w, 1, WORKERS);
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
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
    return evidence_limit(&job->evidence, 0);
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
