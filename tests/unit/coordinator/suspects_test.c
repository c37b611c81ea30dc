// SPDX-License-Identifier: Apache-2.0
// Audits of a sync job by scripted workers: see
// coordinator/core/leases/suspects.h.
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/drains.h"
#include "coordinator/core/leases/suspects.h"
#include "coordinator/core/leases/tainted.h"
#include "plan/audited.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000, WORKERS = 4 };

static const char *const hosts[] = {"h-0", "h-1", "h-2", "h-3"};

// A psserver, four workers of four hosts, and a job in which what `text` says
// is replaced by words that have all of it audited.
static struct world *begin_job(uint64_t seed, const char *job, const char *text,
                               const char *audit)
{
    static struct world w;
    static char json[4096];

    snprintf(json, sizeof(json), "%s", job);
    memcpy(strstr(json, text), audit, strlen(audit));
    world_init(&w, seed);
    world_people(&w, 1, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        world_break(&w, &w.members[1 + i]);
        w.members[1 + i].host = hosts[i];
        world_attach(&w, &w.members[1 + i]);
    }
    world_submit(&w, json);
    return &w;
}

// Rounds of `slots` slots.
static struct world *begin_rounds(uint64_t seed, unsigned slots)
{
    char words[64];

    snprintf(words, sizeof(words), "\"contributions\":%u,\"audit\":1 ", slots);
    return begin_job(seed, world_sync_job, "\"contributions\":3", words);
}

static struct world *begin(uint64_t seed)
{
    return begin_rounds(seed, 3);
}

// Closures of three steps, in async.
static struct world *begin_async(uint64_t seed)
{
    return begin_job(seed, world_graph_job, "\"max_attempts\":8",
                     "\"audit\":1       ");
}

static struct fake_member *worker(struct world *w, unsigned k)
{
    return &w->members[1 + k];
}

static const struct drain *suspect(struct world *w, unsigned k)
{
    const struct drain *d =
        drains_find(w->coord, MEMBER_WORKER, worker(w, k)->name);

    return d != NULL && drain_is_audit(d) ? d : NULL;
}

TEST(suspects, A2_a_worker_that_is_wrong_is_suspect_and_the_counts_are_exact)
{
    struct world *w = begin(WORLD_SITUATION);
    Sluice__V1__JobStatus *s;

    worker(w, 2)->flips = 1;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // its checks: A3
    T_EQ(suspects_count(w->coord), 1);
    T_ASSERT(suspect(w, 2) != NULL);
    T_HAS(suspect(w, 2)->why, "its gradient of closure");
    T_HAS(suspect(w, 2)->why, "no audit of j-1 found it right before");
    s = world_status(w);
    T_ASSERT(s->audit != NULL);
    T_TRUE(s->audit->decided >= 1 && s->audit->differed >= s->audit->decided &&
           s->audit->compared > 40);
    wire_free(&s->base);
    world_release(w);
}

// Two of the four are of another kind; or each is of its own.
TEST(suspects, A2_a_worker_that_is_wrong_is_found_by_hosts_of_other_kinds)
{
    for (unsigned kinds = 2; kinds <= 4; kinds += 2) {
        for (unsigned flips = 0; flips < 2; flips++) {
            struct world *w = begin(WORLD_SITUATION);
            Sluice__V1__JobStatus *s;

            for (unsigned k = 0; k < WORKERS; k++)
                worker(w, k)->kind = 1 + k % kinds;
            worker(w, 2)->flips = 2 * flips; // right ones show what is near
            T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // its checks: A3
            T_EQ(suspects_count(w->coord), flips);
            s = world_status(w);
            T_GE(s->audit->compared, 20);
            T_EQ(s->audit->differed > 0, flips);
            wire_free(&s->base);
            if (flips > 0)
                T_HAS(suspect(w, 2)->why, "of another kind");
            world_release(w);
        }
    }
}

// Each slot has two votes: other workers meet in other rounds.
TEST(suspects, A6_rounds_of_two_find_the_worker_that_is_wrong)
{
    struct world *w = begin_rounds(WORLD_SITUATION, 2);
    const struct job *job;

    worker(w, 2)->flips = 1;
    for (unsigned i = 0; i < LIMIT && suspect(w, 2) == NULL; i++) {
        world_pass(w, 50);
        fake_turn(w);
    }
    T_ASSERT(suspect(w, 2) != NULL);
    T_EQ(suspects_count(w->coord), 1);
    T_HAS(suspect(w, 2)->why, "; that of closure");
    job = jobs_get(w->coord, w->job);
    T_EQ(job->audit.decided, 1);
    T_GE(job->audit.differed, 2);
    T_EQ(job->audit.differences.count, 0);     // nothing is held against others
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // its checks: A3
    T_EQ(suspects_count(w->coord), 1);
    world_release(w);
}

TEST(suspects, A6_with_one_wrong_worker_no_other_is_blamed)
{
    for (unsigned run = 0; run < 20; run++) {
        struct world *w = begin_rounds(t_seed() + run, 2);

        worker(w, run % WORKERS)->flips = 1 + run % 5;
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        for (unsigned k = 0; k < WORKERS; k++)
            T_TRUE(k == run % WORKERS || suspect(w, k) == NULL);
        world_release(w);
    }
}

// Returns what is in doubt of a worker, if there is one piece of work; for
// wire_free.
static Sluice__V1__TaintedWork *tainted(struct world *w, unsigned k)
{
    Sluice__V1__TaintedWork **list = NULL, *one;
    size_t count = 0;

    tainted_list(w->coord, worker(w, k)->name, "j-1", &list, &count);
    T_LE(count, 1);
    one = count == 0 ? NULL : list[0];
    sl_free(list);
    return one;
}

// What it contributed since it was right, as listed, also by a coordinator that
// started again, until it is undrained.
TEST(suspects, what_a_suspect_contributed_since_it_was_right_is_listed)
{
    struct world *w = begin(WORLD_SITUATION);
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__TaintedWork *was, *is;
    const struct contributed *r = NULL;
    bool changed = false;

    for (unsigned i = 0; i < LIMIT && (r == NULL || r->closure < 9); i++) {
        world_pass(w, 50);
        fake_turn(w);
        r = tainted_of(jobs_get(w->coord, w->job), worker(w, 1)->name);
    }
    T_ASSERT(r != NULL);
    T_TRUE(r->audited);
    worker(w, 1)->flips = 1;
    for (unsigned i = 0; i < LIMIT && suspect(w, 1) == NULL; i++) {
        world_pass(w, 50);
        fake_turn(w);
    }
    T_ASSERT(suspect(w, 1) != NULL);
    T_HAS(suspect(w, 1)->why, " closures of j-1 that it computed since");
    was = tainted(w, 1);
    T_ASSERT(was != NULL);
    T_TRUE(was->audited && was->closure >= 9);
    T_TRUE(was->n_ranges >= 1 && was->closures >= 1);
    T_EQ(was->steps, was->closures); // a closure has one
    for (size_t i = 0; i < was->n_ranges; i++)
        T_GT(was->ranges[i]->first, was->closure);
    T_TRUE(tainted(w, 0) == NULL);
    world_stop_coord(w);
    world_start_coord(w);
    is = tainted(w, 1);
    T_ASSERT(is != NULL);
    T_EQ(is->closures, was->closures);
    T_EQ(is->cut, was->cut);
    request.name = worker(w, 1)->name;
    request.undrain = true;
    request.who = "ada";
    request.why = "";
    T_OK(coord_drain(w->coord, &request, &changed, t_err()));
    T_TRUE(changed && tainted(w, 1) == NULL);
    wire_free(&was->base);
    wire_free(&is->base);
    worker(w, 1)->flips = 0;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Two workers alone have one word against another, for ever.
TEST(suspects, A6_two_workers_decide_nothing)
{
    struct world *w = begin_rounds(WORLD_SITUATION, 2);
    Sluice__V1__JobStatus *s;

    world_kill(w, worker(w, 0));
    world_kill(w, worker(w, 1));
    worker(w, 2)->flips = 1;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(suspects_count(w->coord), 0);
    s = world_status(w);
    T_TRUE(s->audit->differed > 10 && s->audit->decided == 0);
    wire_free(&s->base);
    world_release(w);
}

TEST(suspects, A2_nobody_is_blamed_where_all_compute_alike)
{
    struct world *w = begin(t_seed());
    Sluice__V1__JobStatus *s;

    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(suspects_count(w->coord), 0);
    s = world_status(w);
    T_TRUE(s->audit->compared > 40);
    T_EQ(s->audit->differed, 0);
    wire_free(&s->base);
    world_release(w);
}

// What is believed of a shard is what it has counted.
static void check_believed(struct world *w)
{
    const struct job *job = jobs_get(w->coord, w->job);
    const struct evidence *e = &job->shards.evidence;

    for (uint32_t s = 0; job->shards.placed && s < w->shards; s++)
        for (uint64_t at = 0; !job_ended(job) && at < e->closures; at++)
            T_TRUE(!counted_closure_full(evidence_counted(e, s), at) ||
                   counted_closure_full(&w->members[0].shards[s].counted, at));
}

// With two workers no slot has three votes: the job goes on all the same.
TEST(suspects, A3_an_audit_counts_nothing_and_holds_nothing_up)
{
    for (unsigned workers = 2; workers <= WORKERS; workers += 2) {
        struct world *w = begin(WORLD_SITUATION);

        for (unsigned k = workers; k < WORKERS; k++)
            world_kill(w, worker(w, k));
        for (unsigned i = 0;
             i < LIMIT && jobs_get(w->coord, w->job)->state < JOB_FINISHING;
             i++) {
            world_pass(w, 50);
            fake_turn(w);
            check_believed(w);
        }
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        T_EQ(suspects_count(w->coord), 0);
        world_release(w);
    }
}

// A suspect stays one when it comes again and when the coordinator does, until
// it is forgiven.
TEST(suspects, A4_a_suspect_gets_nothing_until_it_is_undrained)
{
    struct world *w = begin(WORLD_SITUATION);
    Sluice__V1__DrainRequest request = SLUICE__V1__DRAIN_REQUEST__INIT;
    struct fake_member *m = worker(w, 0);
    bool changed = false;

    m->flips = 1;
    for (unsigned i = 0; i < LIMIT && suspect(w, 0) == NULL; i++) {
        world_pass(w, 50);
        fake_turn(w);
    }
    T_ASSERT(suspect(w, 0) != NULL);
    m->flips = 0;
    world_stop_coord(w);
    world_start_coord(w);
    world_restart(w, m);
    T_ASSERT(suspect(w, 0) != NULL);
    request.name = m->name;
    request.undrain = true;
    request.who = "ada";
    request.why = "";
    for (unsigned i = 0; i < 200; i++) {
        world_pass(w, 50);
        fake_turn(w);
        T_EQ(m->leases_count, 0);
    }
    T_OK(coord_drain(w->coord, &request, &changed, t_err()));
    T_TRUE(changed && suspect(w, 0) == NULL);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(suspects_count(w->coord), 0);
    world_release(w);
}

// One that says of every slot, its own and others', what nobody else computed.
TEST(suspects, A2_the_word_of_one_party_blames_nobody_else)
{
    for (unsigned run = 0; run < 20; run++) {
        struct world *w = begin(t_seed() + run);

        worker(w, 1)->flips = 1 + run % 3;
        worker(w, 3)->flips = 2; // a second name of the same party
        worker(w, 3)->host = hosts[1];
        world_break(w, worker(w, 3));
        world_attach(w, worker(w, 3));
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        T_TRUE(suspect(w, 0) == NULL && suspect(w, 2) == NULL);
        world_release(w);
    }
}

// Results of slots that its lease does not name are not taken.
TEST(suspects, A1_a_worker_votes_for_the_slots_of_its_lease_alone)
{
    struct world *w = begin(WORLD_SITUATION);

    for (unsigned k = 0; k < WORKERS; k++)
        worker(w, k)->meddles = true;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(jobs_get(w->coord, w->job)->audit.compared, 0);
    world_release(w);
}

// ---- a worker's own word

TEST(suspects, A5_a_worker_that_contradicts_itself_is_suspect_by_its_own_word)
{
    struct world *w = begin_async(WORLD_SITUATION);
    Sluice__V1__JobStatus *s;

    worker(w, 2)->flips = 4;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // its checks: A3
    T_EQ(suspects_count(w->coord), 1);
    T_ASSERT(suspect(w, 2) != NULL);
    T_HAS(suspect(w, 2)->why, "it computed a gradient of closure");
    T_HAS(suspect(w, 2)->why,
          "twice from the same parameters: 00000000000003e8");
    s = world_status(w);
    T_ASSERT(s->audit != NULL);
    T_EQ(s->audit->differed, 1);
    T_EQ(s->audit->decided, 1);
    T_GE(s->audit->compared, 10);
    wire_free(&s->base);
    world_release(w);
}

// Two results of other parameters, or of a closure that it does not hold.
TEST(suspects, A5_what_cannot_be_compared_blames_nobody)
{
    for (unsigned run = 0; run < 2; run++) {
        struct world *w = begin_async(WORLD_SITUATION);

        for (unsigned k = 0; k < WORKERS; k++) {
            worker(w, k)->flips = 3;
            worker(w, k)->rereads = run == 0;
            worker(w, k)->meddles = run == 1;
        }
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        T_EQ(suspects_count(w->coord), 0);
        T_EQ(jobs_get(w->coord, w->job)->audit.compared, 0);
        world_release(w);
    }
}

// A closure is audited when it is leased again, too, so one that is wrong after
// the other goes, and what they handed back is counted, once.
TEST(suspects, A5_what_is_handed_back_is_computed_by_others)
{
    for (unsigned run = 0; run < 20; run++) {
        struct world *w = begin_async(t_seed() + run);

        for (unsigned k = 0; k + 1 < WORKERS; k++)
            worker(w, k)->flips = 1 + run % 5;
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        T_TRUE(suspect(w, WORKERS - 1) == NULL);
        T_GE(suspects_count(w->coord), 1);
        world_release(w);
    }
}

// An admin can drain members, however many names a party makes suspect.
TEST(suspects, A5_no_party_fills_the_list_of_drains)
{
    struct world *w = begin_async(WORLD_SITUATION);
    char name[16];

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "one-%u", i);
        T_OK(drains_set(w->coord, MEMBER_WORKER, name, "", "", t_err()));
    }
    worker(w, 2)->flips = 1;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_GE(jobs_get(w->coord, w->job)->audit.decided, 1);
    T_TRUE(suspect(w, 2) == NULL);
    T_EQ(suspects_count(w->coord), 1000);
    world_release(w);
}

// ---- in allreduce

// Four ranks of four hosts, and rounds of `slots` slots that are all audited.
// It begins with `least` ranks or more.
static struct world *begin_ring(uint64_t seed, unsigned slots, unsigned least)
{
    static struct world w;
    static char json[4096];
    const char *tail = strstr(world_ring_job, "\"contributions\":2");

    snprintf(json, sizeof(json), "%.*s\"audit\":1,\"contributions\":%u%s",
             (int)(tail - world_ring_job), world_ring_job, slots, tail + 17);
    *(strstr(json, "\"min\":1") + 6) = (char)('0' + least);
    world_init(&w, seed);
    world_people(&w, 0, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        world_break(&w, &w.members[i]);
        w.members[i].host = hosts[i];
        world_attach(&w, &w.members[i]);
    }
    world_submit(&w, json);
    return &w;
}

static const struct drain *rank_suspect(struct world *w, unsigned k)
{
    const struct drain *d =
        drains_find(w->coord, MEMBER_WORKER, w->members[k].name);

    return d != NULL && drain_is_audit(d) ? d : NULL;
}

static void check_ring_end(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);

    T_EQ(s->steps_counted, schedule_steps(&w->schedule));
    wire_free(&s->base);
}

TEST(suspects, A2_a_rank_that_is_wrong_is_suspect_and_the_counts_are_exact)
{
    for (unsigned slots = 1; slots <= 6; slots++) {
        struct world *w = begin_ring(WORLD_SITUATION, slots, 3);
        Sluice__V1__JobStatus *s;

        w->members[2].flips = 1;
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // its checks: A3
        T_EQ(suspects_count(w->coord), 1);
        T_ASSERT(rank_suspect(w, 2) != NULL);
        s = world_status(w);
        T_TRUE(s->audit->decided >= 1 &&
               s->audit->differed >= s->audit->decided);
        T_GE(s->ring_generation, 2); // the suspect has left the first
        wire_free(&s->base);
        check_ring_end(w);
        world_release(w);
    }
}

TEST(suspects, A2_a_rank_that_is_wrong_is_found_by_hosts_of_other_kinds)
{
    for (unsigned flips = 0; flips < 2; flips++) {
        struct world *w = begin_ring(WORLD_SITUATION, 4, 3);
        Sluice__V1__JobStatus *s;

        for (unsigned k = 0; k < WORKERS; k++)
            w->members[k].kind = 1 + k % 2;
        w->members[2].flips = 2 * flips;
        T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
        T_EQ(suspects_count(w->coord), flips);
        s = world_status(w);
        T_GE(s->audit->compared, 5);
        T_EQ(s->audit->differed > 0, flips);
        wire_free(&s->base);
        T_EQ(rank_suspect(w, 2) != NULL, flips);
        check_ring_end(w);
        world_release(w);
    }
}

TEST(suspects, A2_no_rank_is_blamed_where_all_compute_alike)
{
    struct world *w = begin_ring(t_seed(), 4, 3);
    Sluice__V1__JobStatus *s;

    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(suspects_count(w->coord), 0);
    s = world_status(w);
    T_GE(s->audit->compared, 10);
    T_EQ(s->audit->differed, 0);
    wire_free(&s->base);
    check_ring_end(w);
    world_release(w);
}

// Two ranks see that they differ; a third is wanted to say which is wrong.
TEST(suspects, A3_two_ranks_blame_nobody_and_are_not_held_up)
{
    struct world *w = begin_ring(WORLD_SITUATION, 2, 1);
    Sluice__V1__JobStatus *s;

    world_kill(w, &w->members[2]);
    world_kill(w, &w->members[3]);
    w->members[1].flips = 1;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(suspects_count(w->coord), 0);
    s = world_status(w);
    T_GE(s->audit->differed, 1);
    T_EQ(s->audit->decided, 0);
    wire_free(&s->base);
    check_ring_end(w);
    world_release(w);
}

// No slot has more votes than ranks that were to compute it, and is one of the
// job; *most: of any.
static void check_votes(struct world *w, unsigned *most)
{
    const struct votes *v = &jobs_get(w->coord, w->job)->audit.votes;

    for (uint32_t i = 0; i < v->capacity; i++) {
        T_LE(v->slots[i].count, AUDITED_WORKERS);
        T_TRUE(v->slots[i].count == 0 ||
               v->slots[i].closure < 3 * schedule_closures(&w->schedule));
        if (v->slots[i].count > *most)
            *most = v->slots[i].count;
    }
}

// Each rank says results of all slots of the round, and one of another round.
TEST(suspects, A1_a_rank_votes_for_its_slots_and_those_of_the_next_ranks)
{
    struct world *w = begin_ring(WORLD_SITUATION, 6, 4);
    unsigned most = 0;

    for (unsigned k = 0; k < WORKERS; k++)
        w->members[k].meddles = true;
    for (unsigned i = 0;
         i < LIMIT && jobs_get(w->coord, w->job)->state < JOB_FINISHING; i++) {
        world_step(w);
        check_votes(w, &most);
    }
    T_EQ(most, AUDITED_WORKERS);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    check_ring_end(w);
    world_release(w);
}
