// SPDX-License-Identifier: Apache-2.0
// Members that say what is not so: what the coordinator believes of it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/rules/conduct.h"
#include "tests/harness/lease.h"
#include "tests/unit/coordinator/world.h"
#include "tests/unit/coordinator/world_members.h"

enum { LIMIT = 60000 };

static char attempts = '8'; // train.max_attempts of the next job

static struct world *begin(unsigned workers)
{
    static struct world w;
    static char json[4096];

    snprintf(json, sizeof(json), "%s", world_graph_job);
    strstr(json, "\"max_attempts\":8")[15] = attempts;
    attempts = '8';
    world_init(&w, t_seed());
    world_people(&w, 1, workers);
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static struct job *job_of(struct world *w)
{
    struct job *job = jobs_get(w->coord, w->job);

    T_ASSERT(job != NULL);
    return job;
}

// ---- completions

static void complete(struct world *w, struct fake_member *m, uint64_t closure)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Complete done = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;
    Sluice__V1__ShardEvidence items[WORLD_SHARDS], *list[WORLD_SHARDS];
    const struct job *job = job_of(w);

    for (uint32_t i = 0; i < job->shards.count; i++) {
        items[i] = (Sluice__V1__ShardEvidence)SLUICE__V1__SHARD_EVIDENCE__INIT;
        items[i].shard = i;
        items[i].incarnation = job->shards.evidence.shard[i].incarnation;
        list[i] = &items[i];
    }
    done.job = job->id;
    done.job_incarnation = job->incarnation;
    done.closure = closure;
    done.attempt = &attempt;
    attempt.term = 1;
    attempt.n = 77;
    done.kind = SLUICE__V1__LEASE_KIND__LEASE_TRAIN;
    done.evidence = list;
    done.n_evidence = job->shards.count;
    done.metrics = &metrics;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &done;
    coord_receive(w->coord, m->stream, &up);
}

// Anybody who is attached can say it, of all closures at once.
TEST(trust, only_the_holder_of_a_lease_completes_it)
{
    struct world *w = begin(2);
    uint64_t before = evidence_steps(&job_of(w)->shards.evidence);

    for (uint64_t i = 0; i < job_of(w)->shards.evidence.closures; i++)
        complete(w, &w->members[2], i);
    T_EQ(evidence_steps(&job_of(w)->shards.evidence), before);
    T_EQ(world_state(w), JOB_RUNNING);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// It would be more ranges than an evaluation may have, or samples than a set.
TEST(trust, facts_that_cannot_be_are_that_workers_failure)
{
    static const uint64_t tests[] = {UINT64_C(1) << 40, UINT64_MAX,
                                     64 * SPEC_RANGES_MAX};

    for (unsigned i = 0; i < SL_COUNT(tests); i++) {
        static struct world w;
        struct fake_member *liar;

        world_init(&w, t_seed());
        world_people(&w, 1, 0);
        world_attach(&w, liar = world_add(&w, FAKE_WORKER, "liar"));
        liar->tests = tests[i];
        world_submit(&w, world_graph_job);
        for (int n = 0;
             n < LIMIT && job_of(&w)->leases.probe.closure.failures == 0; n++)
            world_step(&w);
        T_EQ(job_of(&w)->leases.probe.closure.failures, 1);
        T_FALSE(job_of(&w)->reports.has_facts);
        world_attach(&w, world_add(&w, FAKE_WORKER, "honest"));
        T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
        T_EQ(job_of(&w)->reports.facts.test_samples, 20);
        world_release(&w);
    }
}

// They are the job's, if all say them.
TEST(trust, ranges_that_are_too_many_are_named)
{
    static struct world w;
    static char json[4096];
    struct fake_member *m;

    snprintf(json, sizeof(json), "%s", world_graph_job);
    strstr(json, "\"max_attempts\":8")[15] = '1';
    world_init(&w, t_seed());
    world_people(&w, 1, 0);
    world_attach(&w, m = world_add(&w, FAKE_WORKER, "a"));
    m->tests = UINT64_C(1) << 36;
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_FAILED, LIMIT));
    T_HAS(world_reason(&w), "ranges of the 68719476736 samples of data.test; "
                            "an evaluation has at most 16777216: set it to");
    world_release(&w);
}

static void all_is_counted(struct world *w)
{
    for (unsigned i = 0; i < w->shards; i++)
        T_TRUE(counted_full(&w->members[0].shards[i].counted));
}

// The holder says it and has not pushed: no file holds it, and it is computed.
TEST(trust, a_completion_without_a_push_is_found_out_by_the_next_cut)
{
    struct world *w = begin(2);

    w->members[1].lies = 3;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_EQ(w->members[1].lies, 0);
    all_is_counted(w);
    world_release(w);
}

static uint64_t cuts_begun(struct world *w)
{
    return job_of(w)->cuts.last;
}

// All that it says is false, for ever: cuts are made with a pause in between.
TEST(trust, a_liar_does_not_make_cuts_in_a_loop)
{
    struct world *w = begin(1);
    uint64_t before;

    w->members[1].lies = UINT32_MAX;
    world_pass(w, 1000);
    before = cuts_begun(w);
    for (unsigned i = 0; i < 2000; i++)
        world_step(w);
    T_EQ(w->fatal, SL_OK);
    T_TRUE(cuts_begun(w) - before <= 2 + coord_now(w->coord) / CUT_RETRY_MS);
    w->members[1].lies = 0;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    all_is_counted(w);
    world_release(w);
}

// ---- a closure that nobody gets done

static bool warned(const Sluice__V1__JobStatus *s, const char *part)
{
    for (size_t i = 0; i < s->n_warnings; i++)
        if (strstr(s->warnings[i], part) != NULL)
            return true;
    return false;
}

// A shard has seen an attempt that no coordinator gave: it refuses all others.
TEST(trust, a_closure_that_is_dropped_again_and_again_is_told_and_waits)
{
    struct world *w = begin(2);
    struct fake_member *ps = &w->members[0];
    uint64_t closure = job_of(w)->shards.evidence.closures - 1; // nobody's yet
    Sluice__V1__JobStatus *s;
    unsigned leased = 0;

    for (uint32_t i = 0; i < job_of(w)->shards.count; i++)
        ps->shards[i].newest[closure] = (struct wire_attempt){1, 1 << 30};
    for (unsigned i = 0;
         i < LIMIT && strstr(world_reason(w), "handed back") == NULL; i++) {
        world_pass(w, 50);
        fake_turn(w);
    }
    T_HAS(world_reason(w), "was handed back");
    T_HAS(world_reason(w), "times in a row");
    s = world_status(w); // whatever else the job waits for
    T_TRUE(warned(s, "was handed back"));
    wire_free(&s->base);
    for (unsigned second = 0; second < 60; second++) {
        uint64_t before = w->coord->attempts;

        for (unsigned i = 0; i < 20; i++) {
            world_pass(w, 50);
            fake_turn(w);
        }
        leased += w->coord->attempts > before;
    }
    T_GT(leased, 2); // it is tried again
    T_LE(leased, 30);
    for (uint32_t i = 0; i < job_of(w)->shards.count; i++)
        ps->shards[i].newest[closure] = (struct wire_attempt){0, 0};
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    T_STR(world_reason(w), "");
    world_release(w);
}

// ---- workers that go

static struct fake_member *worker(struct world *w, unsigned number)
{
    return &w->members[1 + number];
}

static void until_it_trains(struct world *w, struct fake_member *m)
{
    for (unsigned i = 0; i < LIMIT && !world_trains(m); i++) {
        world_pass(w, 50);
        fake_read_all(w, m);
        if (!world_trains(m))
            fake_turn(w);
    }
    T_ASSERT(world_trains(m));
}

static const struct closure *closure_of(struct world *w, uint64_t id)
{
    const struct work *work = map_get(&job_of(w)->leases.active, id);

    return work == NULL ? NULL : &work->closure;
}

// The stream breaks again and again in the midst of one closure, and the same
// process is back: nobody died of it.
TEST(trust, a_link_that_flaps_blames_nothing)
{
    struct world *w;
    struct fake_member *m;

    attempts = '2';
    w = begin(1);
    m = worker(w, 0);
    for (unsigned i = 0; i < 50; i++) {
        until_it_trains(w, m);
        world_break(w, m);
        world_attach(w, m);
    }
    until_it_trains(w, m);
    T_EQ(closure_of(w, m->leases[0].lease->closure)->failures, 0);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// One that died is blamed when its successor comes, or after a lease's time.
TEST(trust, a_process_that_died_is_blamed)
{
    struct world *w = begin(1);
    struct fake_member *m = worker(w, 0);
    uint64_t closure;

    until_it_trains(w, m);
    closure = m->leases[0].lease->closure;
    world_kill(w, m);
    T_EQ(closure_of(w, closure)->failures, 0); // it may have been the link
    world_restart(w, m);
    T_EQ(closure_of(w, closure)->failures, 1);
    until_it_trains(w, m);
    T_EQ(m->leases[0].lease->closure, closure);
    world_kill(w, m);
    world_pass(w, 10000);
    T_EQ(closure_of(w, closure)->failures, 2);
    T_EQ(closure_of(w, closure)->blamed_count, 1); // one worker
    world_restart(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Four names that come with one certificate and vanish, or say that they fail:
// the closure goes to a worker of another certificate, if there is one.
TEST(trust, names_of_one_certificate_do_not_fail_a_job)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct world *w;
    uint64_t closure;

    attempts = '4';
    w = begin(1);
    until_it_trains(w, worker(w, 0));
    closure = worker(w, 0)->leases[0].lease->closure;
    world_kill(w, worker(w, 0));
    world_pass(w, 5000);
    for (unsigned i = 0; i < SL_COUNT(names); i++) {
        struct fake_member *m = world_add(w, FAKE_WORKER, names[i]);

        m->certificate = "sluice://worker/*";
        m->host = names[i];
        world_attach(w, m);
        until_it_trains(w, m);
        T_EQ(m->leases[0].lease->closure, closure);
        world_kill(w, m);
        world_pass(w, 5000);
        T_EQ(world_state(w), JOB_RUNNING);
    }
    T_EQ(closure_of(w, closure)->failures, 1 + SL_COUNT(names));
    world_restart(w, worker(w, 0));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

static bool got_on(struct world *w, uint64_t closure, uint32_t step)
{
    for (uint32_t i = 0; i < job_of(w)->shards.count; i++)
        if (!counted_has(&w->members[0].shards[i].counted, closure, step))
            return false;
    return true;
}

// Dies with its first closure, at its beginning or when so many of its steps
// are counted; the shards say so if they are asked.
static uint64_t die_in(struct world *w, struct fake_member *m, uint32_t steps)
{
    uint64_t closure;

    until_it_trains(w, m);
    closure = m->leases[0].lease->closure;
    for (unsigned i = 0;
         steps > 0 && i < LIMIT && !got_on(w, closure, steps - 1); i++) {
        fake_work(w, m);
        fake_deliver_all(w, m);
        fake_read_all(w, m);
    }
    world_kill(w, m);
    world_pass(w, 5000);
    fake_read_all(w, &w->members[0]);
    fake_deliver_all(w, &w->members[0]);
    return closure;
}

// Each died before it said what it had got done; the shards know.
TEST(trust, what_shards_counted_forgives_before_a_job_is_failed)
{
    struct world *w;
    uint64_t closure;

    attempts = '2';
    w = begin(1);
    closure = die_in(w, worker(w, 0), 1);
    world_attach(w, world_add(w, FAKE_WORKER, "b"));
    T_EQ(die_in(w, worker(w, 1), 2), closure);
    T_EQ(world_state(w), JOB_RUNNING);
    T_EQ(closure_of(w, closure)->state, CLOSURE_WAITING);
    T_EQ(closure_of(w, closure)->blamed_count, 0);
    // Two more, and nothing gets on.
    world_attach(w, world_add(w, FAKE_WORKER, "c"));
    T_EQ(die_in(w, worker(w, 2), 2), closure);
    world_add(w, FAKE_WORKER, "d");
    worker(w, 3)->memory_bytes = 3 << 20;
    world_attach(w, worker(w, 3));
    T_EQ(die_in(w, worker(w, 3), 2), closure);
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), "besides activations and data; one that was lost "
                           "may use 3 MiB; give workers more");
    T_HAS(world_reason(w), "2 attempts on 2 distinct workers: c (lost), d");
    T_HAS(world_reason(w), "perhaps killed by its host's kernel for want of "
                           "memory: look for exit code 137, `dmesg`, and "
                           "oom_kill in memory.events of its cgroup. The job "
                           "needs at least 1 MiB in each worker (2 x 1: "
                           "parameters, gradients), besides");
    world_release(w);
}

// A psserver of before does not know the question.
TEST(trust, shards_that_do_not_answer_are_not_waited_for)
{
    struct world *w;

    attempts = '2';
    w = begin(1);
    die_in(w, worker(w, 0), 0);
    world_attach(w, world_add(w, FAKE_WORKER, "b"));
    until_it_trains(w, worker(w, 1));
    world_kill(w, worker(w, 1));
    world_pass(w, 5000);
    T_EQ(world_state(w), JOB_RUNNING); // asked, and not heard
    world_pass(w, 20000);
    T_EQ(world_state(w), JOB_FAILED);
    world_release(w);
}

// ---- cuts that take long

static unsigned cut_number(struct world *w)
{
    return job_of(w)->cuts.now == NULL ? 0 : (unsigned)job_of(w)->cuts.now->n;
}

// Workers that rest hold nothing, so none of them stands still.
static void rest(struct world *w, bool on)
{
    for (unsigned i = 1; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (!m->used)
            continue;
        m->draining = on;
        fake_read_all(w, m);
        fake_work(w, m);
        fake_deliver_all(w, m);
    }
}

// A psserver writes for ten minutes: whoever wrote is not asked again, and the
// cut is the one that was begun.
TEST(trust, a_cut_that_takes_ten_minutes_is_not_begun_anew)
{
    struct world *w = begin(2);
    struct fake_member *ps = &w->members[0];
    unsigned number;

    while (cut_number(w) == 0)
        world_step(w);
    number = cut_number(w);
    rest(w, true);
    fake_read_all(w, ps);
    for (unsigned i = 0; i < 600; i++) { // in which nobody writes
        world_pass(w, 1000);
        for (unsigned k = 0; k < WORLD_MEMBERS; k++)
            fake_read_all(w, &w->members[k]);
    }
    T_EQ(cut_number(w), number);
    T_ASSERT(job_of(w)->cuts.why != NULL);
    T_HAS(job_of(w)->cuts.why, "not written its file for");
    rest(w, false);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// ---- numbers

static void until_closures(struct world *w, uint64_t count)
{
    for (unsigned i = 0;
         i < LIMIT && evidence_closures(&job_of(w)->shards.evidence) < count;
         i++)
        world_step(w);
}

TEST(trust, metrics_that_cannot_be_are_not_shown)
{
    struct world *w = begin(1);
    Sluice__V1__JobStatus *s;

    worker(w, 0)->raves = true;
    until_closures(w, 2);
    s = world_status(w);
    T_TRUE(isfinite(s->loss) && s->accuracy <= 1);
    T_TRUE(warned(s, "worker w-0 reported impossible numbers"));
    wire_free(&s->base);
    worker(w, 0)->raves = false;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

static bool number_warned(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    bool yes = warned(s, "worker w-0 reported impossible numbers");

    wire_free(&s->base);
    return yes;
}

// A worker tells each step of a closure once, however often it computes it.
TEST(trust, only_steps_that_a_closure_does_not_have_are_warned_of)
{
    struct world *w = begin(1);

    world_kill(w, &w->members[0]);
    world_pass(w, 500);
    world_restart(w, &w->members[0]);
    until_closures(w, 2);
    T_FALSE(number_warned(w));
    worker(w, 0)->boasts = 1;
    until_closures(w, 4);
    T_TRUE(number_warned(w));
    world_release(w);
}

static void until_a_cut(struct world *w)
{
    for (unsigned i = 0; i < LIMIT && job_of(w)->cuts.published == 0; i++)
        world_step(w);
}

TEST(trust, values_that_overflow_are_told_with_the_next_cut)
{
    struct world *w = begin(1);
    Sluice__V1__JobStatus *s;

    w->members[0].overflows = true;
    until_a_cut(w);
    s = world_status(w);
    T_EQ(s->state, JOB_RUNNING);
    T_TRUE(warned(s, "values of dense/kernel are not finite"));
    wire_free(&s->base);
    world_release(w);
}

TEST(trust, values_that_overflow_fail_a_job_that_says_so)
{
    struct world *w = begin(1);
    Sluice__V1__TrainSpec *train = job_of(w)->spec->train;

    sl_free(train->nonfinite);
    train->nonfinite = sl_strdup("fail");
    T_ASSERT(train->nonfinite != NULL);
    w->members[0].overflows = true;
    for (unsigned i = 0; i < LIMIT && world_state(w) < JOB_FINISHED; i++)
        world_step(w);
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), "values of dense/kernel are not finite");
    world_release(w);
}

// ---- what one worker cannot do

static bool has(const struct fake_member *m, Sluice__V1__LeaseKind kind)
{
    return m->leases_count > 0 && m->leases[0].lease->kind == kind;
}

static void say_failed(struct world *w, struct fake_member *m, enum sl_err code,
                       const char *text)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;

    T_OF_LEASE(&failed, m->leases[0].lease);
    failed.code = code;
    failed.text = (char *)text;
    failed.job_error = code != SL_EINTERNAL && code != SL_EUNAVAIL;
    failed.data = code == SL_EUNAVAIL;
    if (failed.kind == SLUICE__V1__LEASE_KIND__LEASE_TRAIN)
        world_let_go(w, failed.closure, m->stream);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &failed;
    coord_receive(w->coord, m->stream, &up);
    fake_worker_drop(m);
    fake_read_all(w, m);
}

static void until_has(struct world *w, struct fake_member *m,
                      Sluice__V1__LeaseKind kind)
{
    for (unsigned i = 0; i < LIMIT && !has(m, kind); i++) {
        for (unsigned k = 0; k < WORLD_MEMBERS; k++)
            if (w->members[k].used)
                fake_work(w, &w->members[k]);
        world_pass(w, 50);
        for (unsigned k = 0; k < WORLD_MEMBERS; k++)
            fake_read_all(w, &w->members[k]);
        while (w->tasks_count > 0 && !has(m, kind))
            world_task(w);
    }
    T_ASSERT(has(m, kind));
}

static void fails(struct world *w, struct fake_member *m,
                  Sluice__V1__LeaseKind kind, enum sl_err code,
                  const char *text)
{
    until_has(w, m, kind);
    say_failed(w, m, code, text);
}

// Who is to look at the data; nothing is computed meanwhile.
static struct fake_member *prober(struct world *w)
{
    for (unsigned i = 0; i < LIMIT; i++) {
        for (unsigned k = 0; k < WORLD_MEMBERS; k++) {
            struct fake_member *m = &w->members[k];

            if (m->used && has(m, SLUICE__V1__LEASE_KIND__LEASE_PROBE))
                return m;
        }
        world_pass(w, 50);
        for (unsigned k = 0; k < WORLD_MEMBERS; k++)
            fake_read_all(w, &w->members[k]);
        while (w->tasks_count > 0)
            world_task(w);
    }
    T_FAIL("nobody is asked to look at the data");
}

// A worker without a root for it, say. Once the last one has said so, it is the
// job; if one can, it goes on.
TEST(trust, data_that_one_worker_cannot_probe_is_probed_by_another)
{
    for (unsigned able = 0; able < 2; able++) {
        static struct world w;
        struct fake_member *first, *other;
        Sluice__V1__JobStatus *s;

        world_init(&w, t_seed());
        world_people(&w, 1, 2);
        world_submit(&w, world_graph_job);
        first = prober(&w);
        say_failed(&w, first, SL_EDENIED, "no --data-root");
        T_NE(world_state(&w), JOB_FAILED);
        s = world_status(&w);
        T_TRUE(warned(s, first == worker(&w, 0)
                             ? "w-0 cannot read the data: no --data-root"
                             : "w-1 cannot read the data: no --data-root"));
        wire_free(&s->base);
        other = prober(&w);
        T_TRUE(other != first);
        if (able) {
            T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
        } else {
            say_failed(&w, other, SL_ENOENT, "it is not there");
            T_EQ(world_state(&w), JOB_FAILED);
            T_HAS(world_reason(&w), "it is not there");
        }
        world_release(&w);
    }
}

TEST(trust, data_that_one_worker_cannot_read_does_not_fail_the_job)
{
    static const enum sl_err codes[] = {SL_ENOENT, SL_EDENIED, SL_ECORRUPT};

    for (size_t i = 0; i < SL_COUNT(codes); i++) {
        struct world *w = begin(2);
        Sluice__V1__JobStatus *s;

        fails(w, worker(w, 0), SLUICE__V1__LEASE_KIND__LEASE_TRAIN, codes[i],
              "train-images: not there");
        s = world_status(w);
        T_EQ(s->state, JOB_RUNNING);
        T_TRUE(warned(s, "worker w-0 cannot read the data: train-images"));
        wire_free(&s->base);
        // The last one that could: it is the job.
        fails(w, worker(w, 1), SLUICE__V1__LEASE_KIND__LEASE_TRAIN, codes[i],
              "train-images: not there either");
        T_EQ(world_state(w), JOB_FAILED);
        T_HAS(world_reason(w), "not there either");
        world_release(w);
    }
}

static void says_found(struct world *w, struct fake_member *m, uint64_t samples)
{
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;
    Sluice__V1__DataFacts found = SLUICE__V1__DATA_FACTS__INIT;

    until_has(w, m, SLUICE__V1__LEASE_KIND__LEASE_TRAIN);
    T_OF_LEASE(&failed, m->leases[0].lease);
    failed.code = SL_EINVAL;
    failed.text = "data.train: x.csv has other samples here";
    failed.job_error = failed.data = true;
    failed.found = &found;
    found.train_samples = samples;
    world_let_go(w, failed.closure, m->stream);
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &failed;
    coord_receive(w->coord, m->stream, &up);
    fake_worker_drop(m);
    fake_read_all(w, m);
}

// Time in which nothing is computed: heartbeats alone.
static void pass(struct world *w, uint64_t ms)
{
    for (uint64_t t = 0; t < ms; t += 500) {
        world_pass(w, 500);
        for (unsigned i = 0; i < WORLD_MEMBERS; i++)
            fake_read_all(w, &w->members[i]);
    }
}

// A folder that is half copied.
TEST(trust, who_has_other_data_is_left_out_and_asked_again_in_a_minute)
{
    struct world *w = begin(2);
    struct fake_member *m = worker(w, 0);
    Sluice__V1__JobStatus *s;

    m->host = "h";
    world_kill(w, m);
    world_restart(w, m);
    says_found(w, m, 39);
    s = world_status(w);
    T_EQ(s->state, JOB_RUNNING);
    T_TRUE(warned(s, "worker w-0 has other data: data.train: x.csv has other "
                     "samples here; this worker, on host h, is left out of "
                     "this job and asked again in 60 s"));
    wire_free(&s->base);
    worker(w, 1)->waits = true; // the job stays
    pass(w, 58000);
    T_EQ(m->leases_count, 0);
    pass(w, 4000);
    T_GT(m->leases_count, 0);
    says_found(w, m, 39); // still so: again a minute, not two
    T_EQ(world_state(w), JOB_RUNNING);
    pass(w, 58000);
    T_EQ(m->leases_count, 0);
    pass(w, 4000);
    T_GT(m->leases_count, 0);
    worker(w, 1)->waits = false; // by now it is whole
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    all_is_counted(w);
    s = world_status(w);
    T_FALSE(warned(s, "has other data"));
    wire_free(&s->base);
    world_release(w);
}

static struct fake_member *comes(struct world *w, const char *name,
                                 const char *host)
{
    struct fake_member *m = world_add(w, FAKE_WORKER, name);

    m->host = host;
    world_attach(w, m);
    return m;
}

// w-0 looked first; then more of other hosts than stand for it found the same.
TEST(trust, a_majority_of_hosts_outvotes_who_looked_first)
{
    for (unsigned hosts = 1; hosts <= 3; hosts++) {
        static const char *const names[] = {"a", "b", "c"};
        struct world *w = begin(1);

        for (unsigned i = 0; i < SL_COUNT(names); i++) {
            struct fake_member *m =
                comes(w, names[i], hosts == 1 ? "a" : names[i]);

            if (world_state(w) != JOB_RUNNING)
                break;
            says_found(w, m, hosts == 3 && i == 1 ? 38 : 39);
            T_EQ(world_state(w) == JOB_FAILED,
                 (hosts == 2 && i == 1) || (hosts == 3 && i == 2));
        }
        if (hosts == 1) {
            T_TRUE(world_run(w, JOB_FINISHED, LIMIT)); // one host, one copy
        } else {
            T_HAS(world_reason(w), "data.train was seen first by w-0 on host ");
            T_HAS(world_reason(w), "with 40 samples; 2 independent workers "
                                   "found other files, 39 samples");
            T_HAS(world_reason(w), "submit it again");
        }
        world_release(w);
    }
}

TEST(trust, one_worker_that_says_the_job_is_wrong_is_left_out)
{
    struct world *w = begin(2);
    Sluice__V1__JobStatus *s;

    fails(w, worker(w, 0), SLUICE__V1__LEASE_KIND__LEASE_TRAIN, SL_EINVAL,
          "I say so");
    s = world_status(w);
    T_EQ(s->state, JOB_RUNNING);
    T_TRUE(warned(s, "worker w-0 says that the job is wrong: I say so"));
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    all_is_counted(w);
    world_release(w);
}

TEST(trust, all_workers_that_say_the_job_is_wrong_fail_it_at_once)
{
    struct world *w = begin(3);

    for (unsigned i = 0; i < 3; i++) {
        T_EQ(world_state(w), JOB_RUNNING);
        fails(w, worker(w, i), SLUICE__V1__LEASE_KIND__LEASE_TRAIN, SL_EINVAL,
              "shapes do not fit");
    }
    T_EQ(world_state(w), JOB_FAILED);
    T_HAS(world_reason(w), "shapes do not fit (said by worker 'w-2')");
    world_release(w);
}

// Of one closure, while there is one that did not say it.
TEST(trust, max_attempts_of_independent_workers_fail_the_job)
{
    static const char *const names[] = {"a", "b", "c"};
    struct fake_member *m[SL_COUNT(names)];
    struct world *w;
    uint64_t closure;

    attempts = '2';
    w = begin(1);
    for (unsigned i = 0; i < SL_COUNT(names); i++)
        m[i] = comes(w, names[i], names[i]);
    world_kill(w, worker(w, 0));
    until_it_trains(w, m[0]);
    closure = m[0]->leases[0].lease->closure;
    say_failed(w, m[0], SL_EINVAL, "labels are out of range");
    T_EQ(world_state(w), JOB_RUNNING);
    m[2]->hangs = true;
    while (!has(m[1], SLUICE__V1__LEASE_KIND__LEASE_TRAIN) ||
           m[1]->leases[0].lease->closure != closure)
        world_step(w);
    say_failed(w, m[1], SL_EINVAL, "labels are out of range");
    world_pass(w, 1000); // shards are asked how far it got
    T_TRUE(world_run(w, JOB_FAILED, LIMIT));
    T_HAS(world_reason(w),
          "2 distinct workers: a (labels are out of range), b");
    world_release(w);
}

// It is only away for a moment: a spot machine that comes back.
TEST(trust, who_was_lost_a_moment_ago_may_say_otherwise)
{
    struct world *w = begin(2);
    const struct member *m =
        members_find(&w->coord->members, MEMBER_WORKER, "w-0");
    const struct conduct *conduct;

    do {
        world_step(w);
        conduct = map_get(&m->conduct, w->job);
    } while (conduct == NULL || !conduct->good);
    world_kill(w, worker(w, 0));
    world_pass(w, 3000);
    fails(w, worker(w, 1), SLUICE__V1__LEASE_KIND__LEASE_TRAIN, SL_ENOENT,
          "not mounted");
    T_EQ(world_state(w), JOB_RUNNING);
    world_restart(w, worker(w, 0));
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// Each worker would fail, and more often than train.max_attempts allows.
TEST(trust, a_place_that_is_away_for_long_fails_no_job)
{
    struct world *w;
    Sluice__V1__JobStatus *s;

    attempts = '2';
    w = begin(2);
    for (unsigned i = 0; i < 12; i++)
        fails(w, worker(w, i % 2), SLUICE__V1__LEASE_KIND__LEASE_TRAIN,
              SL_EUNAVAIL, "s3://b/a.tar: does not answer");
    T_EQ(world_state(w), JOB_RUNNING);
    s = world_status(w);
    T_TRUE(warned(s, "s3://b/a.tar: does not answer"));
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    all_is_counted(w);
    world_release(w);
}

// A host whose name is wrong never answers: the job ends by what it says.
TEST(trust, a_place_that_has_never_answered_fails_the_job)
{
    static struct world w;

    world_init(&w, t_seed());
    world_people(&w, 1, 2);
    world_submit(&w, world_graph_job);
    for (unsigned i = 0; i < 100 && world_state(&w) != JOB_FAILED; i++)
        say_failed(&w, prober(&w), SL_EUNAVAIL, "https://h/a: no such host");
    T_EQ(world_state(&w), JOB_FAILED);
    T_HAS(world_reason(&w), "no such host");
    world_release(&w);
}

// ---- samples that cannot be read

static struct world *begin_skipping(unsigned most)
{
    static struct world w;
    char json[4096], *at;

    snprintf(json, sizeof(json), "%s", world_graph_job);
    at = strstr(json, "\"data\":{") + strlen("\"data\":{");
    snprintf(at, sizeof(json) - (size_t)(at - json), "\"skip_bad\":%u,%s", most,
             strstr(world_graph_job, "\"data\":{") + 8);
    world_init(&w, t_seed());
    world_people(&w, 1, 2);
    world_submit(&w, json);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    return &w;
}

static void says_bad(struct world *w, unsigned who, bool test, uint64_t number,
                     char *what)
{
    struct fake_member *m = worker(w, who);
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Heartbeat beat = SLUICE__V1__HEARTBEAT__INIT;
    Sluice__V1__LeaseProgress progress = SLUICE__V1__LEASE_PROGRESS__INIT;
    Sluice__V1__LeaseProgress *list[] = {&progress};
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;
    Sluice__V1__BadSample bad = SLUICE__V1__BAD_SAMPLE__INIT, *bads[] = {&bad};
    const Sluice__V1__Lease *l;

    until_has(w, m, SLUICE__V1__LEASE_KIND__LEASE_TRAIN);
    l = m->leases[0].lease;
    bad.test = test;
    bad.number = number;
    bad.what = what;
    metrics.bad = bads;
    metrics.n_bad = 1;
    progress.job = l->job;
    progress.closure = l->closure;
    progress.attempt = l->attempt;
    progress.metrics = &metrics;
    beat.leases = list;
    beat.n_leases = 1;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_HEARTBEAT;
    up.heartbeat = &beat;
    coord_receive(w->coord, m->stream, &up);
}

static void bad_is(struct world *w, uint32_t count, const char *last)
{
    Sluice__V1__JobStatus *s = world_status(w);

    T_EQ(s->bad_samples, count);
    T_EQ(s->n_bad_names, count);
    if (count > 0)
        T_STR(s->bad_names[count - 1], last);
    T_EQ(warned(s, "cannot be read"), count > 0);
    if (count > 0)
        T_TRUE(warned(s, last));
    wire_free(&s->base);
}

TEST(trust, each_sample_that_cannot_be_read_is_counted_once)
{
    struct world *w = begin_skipping(3);

    bad_is(w, 0, NULL);
    says_bad(w, 0, false, 7, "x/7.png: broken");
    says_bad(w, 0, false, 7, "x/7.png: broken");
    says_bad(w, 1, false, 7, "x/7.png: broken here, too");
    bad_is(w, 1, "x/7.png: broken");
    says_bad(w, 1, true, 7, "t/7.png: broken");
    says_bad(w, 1, false, 39, "x/39.png: broken");
    says_bad(w, 1, false, 40, "there is none");
    says_bad(w, 1, true, 20, "there is none");
    says_bad(w, 1, false, UINT64_C(1) << 39, "there is none");
    bad_is(w, 3, "x/39.png: broken");
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    bad_is(w, 3, "x/39.png: broken"); // its last status, too
    world_release(w);
}

// Neither of the two has seen more than one; then each has said that these are
// too many, or it would be the disk of one of them.
TEST(trust, more_than_may_be_passed_over_fail_the_job_and_are_named)
{
    for (unsigned most = 0; most < 2; most++) {
        struct world *w = begin_skipping(most);

        for (unsigned i = 0; i <= most; i++)
            says_bad(w, i, false, i, i == 0 ? "one.png" : "two.png");
        bad_is(w, most, "one.png");
        T_EQ(world_state(w), JOB_RUNNING);
        says_bad(w, 1 - most, false, most, most == 0 ? "one.png" : "two.png");
        T_EQ(world_state(w), JOB_FAILED);
        T_HAS(world_reason(w), most == 0 ? "1 sample cannot be read"
                                         : "2 samples cannot be read");
        T_HAS(world_reason(w),
              most == 0 ? "skip_bad is 0, but 1" : ": one.png; two.png");
        bad_is(w, most + 1, most == 0 ? "one.png" : "two.png");
        world_release(w);
    }
}

TEST(trust, who_has_no_lease_does_not_fail_a_job)
{
    struct world *w = begin(2);
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__AttemptFailed failed = SLUICE__V1__ATTEMPT_FAILED__INIT;
    Sluice__V1__Attempt attempt = SLUICE__V1__ATTEMPT__INIT;

    attempt.term = 1;
    attempt.n = 1 << 20;
    failed.job = w->job;
    failed.attempt = &attempt;
    failed.code = SL_EINVAL;
    failed.text = "all of it is wrong";
    failed.job_error = true;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_FAILED;
    up.failed = &failed;
    coord_receive(w->coord, worker(w, 1)->stream, &up);
    T_EQ(world_state(w), JOB_RUNNING);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

TEST(trust, an_evaluation_that_cannot_be_made_fails_alone)
{
    struct world *w;
    Sluice__V1__JobStatus *s;

    attempts = '1';
    w = begin(1);
    fails(w, worker(w, 0), SLUICE__V1__LEASE_KIND__LEASE_EVALUATE, SL_EINTERNAL,
          "the cut cannot be read");
    s = world_status(w);
    T_LE(s->state, JOB_FINISHING);
    T_EQ(s->n_evaluations, 1);
    T_TRUE(s->evaluations[0]->failed);
    T_TRUE(warned(s, "the evaluation of epoch 1 failed"));
    T_TRUE(warned(s, "the cut cannot be read"));
    wire_free(&s->base);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    s = world_status(w);
    T_EQ(s->n_evaluations, 3);
    T_FALSE(s->evaluations[2]->failed);
    wire_free(&s->base);
    world_release(w);
}

// What is asked for is not what it becomes: that is said.
TEST(trust, placement_that_becomes_another_number_of_shards_is_told)
{
    struct world *w = begin(1);
    Sluice__V1__JobStatus *s = world_status(w);

    T_EQ(job_of(w)->shards.count, 1);
    T_TRUE(warned(s, "placement.shards: 2 parts of each variable make 1 shard "
                     "here"));
    wire_free(&s->base);
    world_release(w);
}

// ---- many jobs

enum { MANY = 500 };

// Each always has something to do, and a worker does two at a time.
TEST(trust, of_five_hundred_jobs_none_starves)
{
    static struct world w;
    static char json[4096];
    bool served[MANY + 1] = {false};
    unsigned count = 0;
    struct fake_member *m;

    world_init(&w, t_seed());
    world_people(&w, 1, 1);
    m = worker(&w, 0);
    for (unsigned i = 0; i < MANY; i++) {
        const char *rest_of = strstr(world_graph_job, "\",\"model");

        snprintf(json, sizeof(json), "{\"name\":\"life-%u%s", i, rest_of);
        world_submit(&w, json);
    }
    for (unsigned i = 0; i < 2 * MANY && count < MANY; i++) {
        world_pass(&w, 200);
        fake_read_all(&w, m);
        for (unsigned k = 0; k < m->leases_count; k++) {
            uint64_t job = m->leases[k].lease->job;

            T_LE(job, MANY);
            count += !served[job];
            served[job] = true;
        }
        m->draining = true; // hands back what it has, and is there again
        fake_work(&w, m);
        m->draining = false;
    }
    T_EQ(count, MANY);
    world_release(&w);
}

static void attach_workers(struct world *w, unsigned first, unsigned count)
{
    Sluice__V1__Hello h = SLUICE__V1__HELLO__INIT;
    char name[16];

    h.role = SLUICE__V1__ROLE__ROLE_WORKER;
    h.name = name;
    h.protocol = WIRE_PROTOCOL;
    for (unsigned i = first; i < first + count; i++) {
        snprintf(name, sizeof(name), "many-%u", i);
        h.process = 5000 + i;
        T_OK(coord_attach(w->coord, 5000 + i, &h, MEMBER_LOCAL, t_err()));
    }
}

// Jobs whose data is being probed, each by one worker: they have nothing for
// hundreds of others, and each is asked that once.
TEST(trust, workers_that_nothing_is_left_for_cost_a_look_each)
{
    enum { JOBS = 100, BUSY = 50, IDLE = 300 }; // two leases each
    static struct world w;
    static char json[4096];
    uint64_t before;

    world_init(&w, t_seed());
    for (unsigned i = 0; i < JOBS; i++) {
        const char *rest_of = strstr(world_graph_job, "\",\"model");

        snprintf(json, sizeof(json), "{\"name\":\"life-%u%s", i, rest_of);
        world_submit(&w, json);
    }
    attach_workers(&w, 0, BUSY);
    for (unsigned i = 1; i <= JOBS; i++)
        T_EQ(jobs_get(w.coord, i)->leases.held, 1);
    attach_workers(&w, BUSY, IDLE);
    before = w.coord->offers.compared;
    coord_tick(w.coord);
    T_GT(w.coord->offers.compared - before, 0);
    T_LE(w.coord->offers.compared - before, JOBS + BUSY + IDLE);
    world_release(&w);
}

// ---- maps

// C1, W2: it holds the lease, and names what does not exist.
TEST(trust, a_map_that_nobody_was_sent_names_nothing)
{
    struct world *w = begin(1);
    struct fake_member *m = &w->members[1];
    Sluice__V1__AttendUp up = SLUICE__V1__ATTEND_UP__INIT;
    Sluice__V1__Complete done = SLUICE__V1__COMPLETE__INIT;
    Sluice__V1__StepMetrics metrics = SLUICE__V1__STEP_METRICS__INIT;
    uint64_t before;

    until_it_trains(w, m);
    before = evidence_steps(&job_of(w)->shards.evidence);
    T_OF_LEASE(&done, m->leases[0].lease);
    done.job_incarnation = job_of(w)->incarnation;
    done.metrics = &metrics;
    done.map_version = job_of(w)->map.version + 1;
    up.kind_case = SLUICE__V1__ATTEND_UP__KIND_COMPLETE;
    up.complete = &done;
    world_let_go(w, done.closure, m->stream);
    coord_receive(w->coord, m->stream, &up);
    T_EQ(evidence_steps(&job_of(w)->shards.evidence), before);
    world_kill(w, m);
    world_restart(w, m);
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    world_release(w);
}

// A psserver comes back: workers are sent its shards, not all of them.
TEST(trust, a_map_has_what_changed)
{
    static struct world w;
    struct fake_member *m;

    world_init(&w, t_seed());
    world_people(&w, 2, 1);
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    m = &w.members[2];
    until_it_trains(&w, m);
    T_EQ(job_of(&w)->shards.count, 2);
    T_EQ(m->map_entries, 2); // with JobOpen
    m->hangs = true;         // it asks for none
    world_kill(&w, &w.members[1]);
    world_pass(&w, 500);
    fake_read_all(&w, m);
    T_EQ(m->map_entries, 1);
    world_restart(&w, &w.members[1]);
    for (unsigned i = 0; i < 100 && !job_served(job_of(&w)); i++) {
        world_pass(&w, 50);
        fake_turn(&w);
    }
    T_TRUE(job_served(job_of(&w)));
    fake_read_all(&w, m);
    T_EQ(m->map_entries, 1);
    T_EQ(m->map_version, job_of(&w)->map.version);
    for (uint32_t i = 0; i < 2; i++)
        T_EQ(m->map[i], job_of(&w)->shards.evidence.shard[i].incarnation);
    m->hangs = false;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    world_release(&w);
}

// One that does not know changes is sent all of it.
TEST(trust, a_worker_of_before_is_sent_whole_maps)
{
    static struct world w;
    struct fake_member *m;

    world_init(&w, t_seed());
    w.whole_maps = true;
    world_people(&w, 2, 1);
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    m = &w.members[2];
    until_it_trains(&w, m);
    world_kill(&w, &w.members[1]);
    world_pass(&w, 500);
    fake_read_all(&w, m);
    T_EQ(m->map_entries, 2);
    world_release(&w);
}
