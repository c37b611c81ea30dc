// SPDX-License-Identifier: Apache-2.0
// Whole lives of jobs in one process: see world.h.
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/cuts/evaluations.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "tests/unit/coordinator/world.h"

// The sanitizers look at the code, not at chance.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 50
#else
#define SEEDS 1000
#endif

enum { LIMIT = 60000 }; // actions after which a job that stands still fails

// E1, once and honest: at the end, files and numbers hold everything.
static void check_end(struct world *w)
{
    Sluice__V1__JobStatus *s = world_status(w);
    Sluice__V1__CheckpointsReply *cuts = NULL;
    Sluice__V1__JobRequest request = SLUICE__V1__JOB_REQUEST__INIT;
    Sluice__V1__Checkpoint *last;

    request.id = s->id;
    T_OK(status_checkpoints(w->coord, &request, &cuts, t_err()));
    T_GT(cuts->n_checkpoints, 0);
    last = cuts->checkpoints[cuts->n_checkpoints - 1];
    T_TRUE(last->complete);
    T_EQ(last->n_shards, w->shards);
    T_TRUE(fs_exists(crash_fs_ops(w->fs), last->manifest));
    T_STR(s->checkpoint, last->manifest);
    for (uint32_t i = 0; i < w->shards; i++) {
        struct wire_tag tag = wire_tag_of(last->shards[i]->tag);
        bool found = false;

        for (unsigned k = 0; k < WORLD_MEMBERS; k++) {
            struct fake_shard *f = &w->members[k].shards[i];

            for (unsigned n = 0; n < f->snaps_count; n++) {
                if (wire_tag_cmp(f->snaps[n].tag, tag) != 0)
                    continue;
                found = true;
                T_TRUE(counted_full(&f->snaps[n].counted));
            }
        }
        T_TRUE(found); // K3: what the last cut names is there
    }
    T_EQ(s->steps_counted, schedule_steps(&w->schedule));
    T_EQ(s->steps_asked, s->steps_counted);
    T_EQ(s->closures_counted, s->closures_asked);
    T_EQ(s->closures_running, 0);
    T_EQ(s->workers, 0);
    T_EQ(s->epoch, s->epochs);
    wire_free(&cuts->base);
    wire_free(&s->base);
}

TEST(life, a_quiet_job_finishes_with_honest_numbers)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 2, 3);
    world_submit(&w, world_graph_job);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    s = world_status(&w);
    T_EQ(s->closures_retried, 0);
    T_EQ(s->workers_lost, 0);
    T_EQ(s->psservers_lost, 0);
    T_EQ(s->n_evaluations, 3);
    T_EQ(s->evaluations[2]->epoch, 3);
    T_EQ(s->evaluations[2]->samples, 20);
    T_NEAR(s->evaluations[2]->accuracy, 0.5, 1e-12);
    T_NEAR(s->loss, 1, 1e-12);
    T_EQ(s->n_shards, w.shards);
    T_GT(w.leases_at_once, 1); // what was given at once, was said at once
    wire_free(&s->base);
    world_release(&w);
}

TEST(life, an_external_job_runs_on_external_workers_only)
{
    struct world w;
    Sluice__V1__JobStatus *s;
    struct fake_member *m;

    world_init(&w, t_seed());
    world_people(&w, 1, 1);
    world_submit(&w, world_external_job);
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    s = world_status(&w);
    T_EQ(s->state, JOB_RUNNING);
    T_HAS(s->reason, "waiting for an external worker");
    wire_free(&s->base);
    m = world_add(&w, FAKE_WORKER, "mine");
    m->external = true;
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// Older members leave an external job with tables where it is. Returns a newer
// psserver, which has its shards; a newer worker is still wanted.
static struct fake_member *older_ones_wait(struct world *w, const char *job,
                                           unsigned older, unsigned newer,
                                           const char *reason)
{
    Sluice__V1__JobStatus *s;
    struct fake_member *m;

    world_init(w, t_seed());
    w->edition = newer;
    world_add(w, FAKE_PSSERVER, "ps-old")->edition = older;
    m = world_add(w, FAKE_WORKER, "w-old");
    m->edition = older;
    m->external = true;
    world_submit(w, job);
    T_FALSE(world_run(w, JOB_RUNNING, 4000));
    s = world_status(w);
    T_EQ(s->state, JOB_PLACING);
    T_HAS(s->reason, reason);
    wire_free(&s->base);
    m = world_add(w, FAKE_PSSERVER, "ps-new");
    m->edition = newer;
    T_FALSE(world_run(w, JOB_FINISHED, 4000));
    s = world_status(w);
    T_EQ(s->state, JOB_RUNNING);
    T_EQ(s->n_shards, 1);
    T_EQ(s->steps_counted, 0);
    wire_free(&s->base);
    return m;
}

static void newer_worker_finishes(struct world *w)
{
    struct fake_member *m = world_add(w, FAKE_WORKER, "w-new");

    m->edition = w->edition;
    m->external = true;
    T_TRUE(world_run(w, JOB_FINISHED, LIMIT));
    check_end(w);
    world_release(w);
}

static const char tables_job[] =
    "{\"name\":\"tables\",\"model\":{\"type\":\"external\",\"variables\":[{"
    "\"name\":\"w\",\"shape\":[8,2]}],\"tables\":[{\"name\":\"users\","
    "\"dim\":16},{\"name\":\"items\",\"dim\":24,\"optimizer\":{\"type\":"
    "\"rowwise_adagrad\",\"learning_rate\":0.25}}]},\"optimizer\":{\"type\":"
    "\"sgd\",\"learning_rate\":0.5},\"data\":{\"train\":{\"format\":"
    "\"external\",\"samples\":40}},\"train\":{\"batch\":4,\"epochs\":2,"
    "\"steps_per_closure\":2}}";

// An older psserver would keep no rows, and an older program push none.
TEST(life, tables_are_for_members_that_know_them)
{
    struct world w;
    const struct fake_member *m = older_ones_wait(
        &w, tables_job, MODEL_EDITION_TABLES - 1, MODEL_EDITION_TABLES,
        "waiting for a psserver that keeps tables (edition 9)");

    T_EQ(m->shards[0].tables, 2);
    T_EQ(m->shards[0].width, 24);
    T_NEAR(m->shards[0].scale, 0.5, 1e-12);
    newer_worker_finishes(&w);
}

static const char alone_job[] =
    "{\"name\":\"alone\",\"model\":{\"type\":\"external\",\"tables\":[{"
    "\"name\":\"users\",\"dim\":16}]},\"optimizer\":{\"type\":"
    "\"sgd\",\"learning_rate\":0.5},\"data\":{\"train\":{\"format\":"
    "\"external\",\"samples\":40}},\"train\":{\"batch\":4,\"epochs\":2,"
    "\"steps_per_closure\":2}}";

// Older members know no shard without variables.
TEST(life, tables_alone_are_for_members_that_know_such_shards)
{
    struct world w;
    const struct fake_member *m = older_ones_wait(
        &w, alone_job, MODEL_EDITION_AUDITED, MODEL_EDITION_BESIDE,
        "waiting for a psserver that keeps tables alone (edition 23)");

    T_EQ(m->shards[0].tables, 1);
    newer_worker_finishes(&w);
}

static const char rounds_job[] =
    "{\"name\":\"rounds\",\"model\":{\"input_shape\":[2],\"layers\":[{\"type\":"
    "\"embedding\",\"ids\":\"user\",\"rows\":\"dynamic\",\"output_dim\":8},{"
    "\"type\":\"dense\",\"units\":1}]},\"loss\":\"mean_squared_error\","
    "\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":0.5},\"data\":{"
    "\"train\":{"
    "\"format\":\"csv\",\"x\":\"/"
    "a.csv\",\"header\":true,\"label_column\":\"y\","
    "\"ids\":[\"user\"]}},\"train\":{\"mode\":\"sync\",\"contributions\":2,"
    "\"batch\":4,\"epochs\":2,\"steps_per_closure\":1}}";

// An older psserver keeps tables, and takes no rows in rounds.
TEST(life, rows_in_rounds_are_for_psservers_that_average_them)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    world_init(&w, t_seed());
    w.edition = MODEL_EDITION_ROUNDS;
    world_add(&w, FAKE_PSSERVER, "ps-old")->edition = MODEL_EDITION_ROWS;
    world_add(&w, FAKE_WORKER, "w-0")->edition = MODEL_EDITION_ROUNDS;
    world_submit(&w, rounds_job);
    T_FALSE(world_run(&w, JOB_RUNNING, 4000));
    s = world_status(&w);
    T_HAS(s->reason, "waiting for a psserver that keeps tables (edition 11)");
    wire_free(&s->base);
    world_add(&w, FAKE_PSSERVER, "ps-new")->edition = MODEL_EDITION_ROUNDS;
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    world_release(&w);
}

static const char int8_job[] =
    "{\"name\":\"int8\",\"model\":{\"type\":\"external\",\"variables\":[{"
    "\"name\":\"w\",\"shape\":[4]}],\"tables\":[{\"name\":\"users\",\"dim\":"
    "16}]},\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":0.5},\"data\":{"
    "\"train\":{\"format\":\"external\",\"samples\":40}},\"train\":{\"batch\":"
    "4,\"epochs\":2,\"steps_per_closure\":2,\"rows_wire\":\"int8\"}}";

// An older psserver would refuse each push of these rows.
TEST(life, rows_in_8_bits_are_for_members_that_read_them)
{
    struct world w;

    older_ones_wait(&w, int8_job, MODEL_EDITION_ROUNDS, MODEL_EDITION_INT8,
                    "waiting for a psserver that keeps tables (edition 13)");
    newer_worker_finishes(&w);
}

// A shard stays where it was placed; its psserver is asked again once it is
// new.
TEST(life, a_psserver_that_became_older_is_not_asked_for_tables)
{
    struct world w;
    struct fake_member *ps, *m;

    world_init(&w, t_seed());
    w.edition = MODEL_EDITION_TABLES;
    ps = world_add(&w, FAKE_PSSERVER, "ps-0");
    ps->edition = MODEL_EDITION_TABLES;
    world_submit(&w, tables_job);
    T_TRUE(world_run(&w, JOB_RUNNING, LIMIT));
    world_kill(&w, ps);
    ps->shards[0].tables = 0;
    ps->edition--;
    world_restart(&w, ps);
    m = world_add(&w, FAKE_WORKER, "w-0");
    m->edition = MODEL_EDITION_TABLES;
    m->external = true;
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    T_EQ(ps->shards[0].tables, 0);
    world_kill(&w, ps);
    ps->edition++;
    world_restart(&w, ps);
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

TEST(life, an_older_worker_is_leased_nothing_of_layers_that_it_does_not_know)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    world_init(&w, t_seed());
    w.edition = 1;
    world_people(&w, 1, 0);
    world_add(&w, FAKE_WORKER, "older")->edition = 0;
    world_submit(&w, world_silu_job);
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    s = world_status(&w);
    T_EQ(s->state, JOB_PLACING);
    T_HAS(s->reason, "knows the job's layers (edition 1)");
    wire_free(&s->base);
    world_add(&w, FAKE_WORKER, "newer");
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}

// ---- losses

static struct fake_member *any(struct world *w)
{
    return &w->members[world_below(w, WORLD_MEMBERS)];
}

static void misfortune(struct world *w)
{
    struct fake_member *m = any(w);
    uint64_t now = sl_now_ms(&w->clock.clock);

    switch (world_below(w, w->copies ? 8 : 7)) {
    case 0:
    case 1:
        if (m->used && m->alive)
            world_kill(w, m);
        break;
    case 2:
        if (m->used && m->alive) // SIGSTOP: slow, suspect or lost
            m->stuck_until = now + 500 + world_below(w, 3000);
        break;
    case 3:
        if (m->used)
            world_break(w, m);
        break;
    case 4:
        m->draining = m->used && m->role == FAKE_WORKER && !m->draining;
        break;
    case 5:
        if (world_below(w, 3) == 0) {
            world_stop_coord(w);
            world_start_coord(w);
        }
        break;
    case 6:
        m->hangs = w->copies && m->role == FAKE_WORKER;
        break;
    default:
        break;
    }
}

static void heal(struct world *w)
{
    for (unsigned i = 0; i < WORLD_MEMBERS; i++) {
        struct fake_member *m = &w->members[i];

        if (m->used && !m->alive)
            world_restart(w, m);
        m->draining = m->hangs = false;
    }
}

// What the seeds together went through: a test that tries nothing proves
// nothing.
struct seen {
    uint64_t retried, workers, psservers, restarts, fallbacks, cuts, copied;
    uint64_t evaluated, begun_anew;
};

// Of 20 samples, each once: what score() in world_worker.c tells of them.
static void check_metrics(const struct world *w, const Sluice__V1__JobStatus *s,
                          struct seen *seen)
{
    uint64_t good = 0;

    for (size_t i = 0; i < s->n_evaluations; i++) {
        const Sluice__V1__Evaluation *e = s->evaluations[i];

        T_EQ(e->failed, e->n_metrics == 0);
        if (e->failed)
            continue;
        good++;
        T_EQ(e->samples, 20);
        T_EQ(e->n_metrics, 4);
        T_STR(e->metrics[0]->name, "auc");
        T_NEAR(e->metrics[0]->value, 0.55, 1e-12);
        T_STR(e->metrics[1]->name, "precision");
        T_NEAR(e->metrics[1]->value, 10.0 / 15, 0);
        T_STR(e->metrics[2]->name, "mean_absolute_error");
        T_NEAR(e->metrics[2]->value, 9.5, 0);
        T_STR(e->metrics[3]->name, "accuracy");
        T_NEAR(e->metrics[3]->value, 0.5, 0);
    }
    seen->evaluated += good;
    seen->begun_anew += w->evaluated_ranges > 10 * good;
}

static void look(struct world *w, struct seen *seen)
{
    Sluice__V1__JobStatus *s = world_status(w);

    seen->retried += s->closures_retried;
    seen->workers += s->workers_lost;
    seen->psservers += s->psservers_lost;
    seen->restarts += s->coordinator_restarts;
    seen->cuts += s->cuts;
    seen->fallbacks += w->incarnations[0] > 1;
    seen->copied += w->copied;
    if (w->scores)
        check_metrics(w, s, seen);
    wire_free(&s->base);
}

static void live(uint64_t seed, const char *json, struct seen *seen)
{
    struct world w;
    unsigned faults;

    world_init(&w, seed);
    world_people(&w, 1 + (unsigned)world_below(&w, 3),
                 1 + (unsigned)world_below(&w, 4));
    w.copies = json == world_sync_job;
    w.scores = json == world_scored_job;
    world_submit(&w, json);
    faults = (unsigned)world_below(&w, 40);
    for (unsigned i = 0; i < faults; i++) {
        for (uint64_t k = world_below(&w, 120); k > 0; k--) {
            world_step(&w);
            if (world_below(&w, 50) == 0)
                heal(&w);
        }
        if (w.fatal != SL_OK || world_state(&w) >= JOB_FINISHED)
            break;
        misfortune(&w);
    }
    heal(&w);
    if (!world_run(&w, JOB_FINISHED, LIMIT)) {
        Sluice__V1__JobStatus *s = world_status(&w);

        T_FAIL("seed %llu: job is %d, %llu of %llu steps, '%s'; fatal %d %s",
               (unsigned long long)seed, (int)s->state,
               (unsigned long long)s->steps_counted,
               (unsigned long long)s->steps_asked, s->reason, (int)w.fatal,
               w.why.text);
    }
    check_end(&w);
    look(&w, seen);
    world_release(&w);
}

TEST(life, live_whatever_is_lost_the_job_finishes)
{
    const char *many = getenv("LIFE_SEEDS");
    unsigned seeds = many == NULL ? SEEDS : (unsigned)atoi(many);
    struct seen seen = {0};

    log_set_level(LOG_LEVEL_ERROR);

    for (unsigned i = 0; i < seeds; i++)
        live(t_seed() + i, world_graph_job, &seen);
    T_GT(seen.retried, seeds / 4);
    T_GT(seen.workers, seeds / 4);
    T_GT(seen.psservers, seeds / 4);
    T_GT(seen.restarts, seeds / 4);
    T_GT(seen.fallbacks, seeds / 4);
    T_GT(seen.cuts, seeds * 3);
}

TEST(life, live_whoever_has_a_copy_of_a_slot)
{
    unsigned seeds = SEEDS / 4;
    struct seen seen = {0};

    log_set_level(LOG_LEVEL_ERROR);
    for (unsigned i = 0; i < seeds; i++)
        live(t_seed() + i, world_sync_job, &seen);
    T_GT(seen.copied, seeds);
    T_GT(seen.retried, seeds / 4);
    T_GT(seen.workers, seeds / 4);
    T_GT(seen.fallbacks, seeds / 6); // rounds of few seconds: fewer blows
}

// Without memory it goes on as it was; nothing is in the journal alone.
TEST(life, an_evaluation_that_cannot_be_ended_goes_on)
{
    struct evaluation *e;
    struct world w;
    struct job *job;

    world_init(&w, WORLD_SITUATION);
    world_people(&w, 1, 2);
    world_submit(&w, world_graph_job);
    while ((job = jobs_get(w.coord, w.job))->evaluations.running == NULL)
        world_step(&w);
    e = job->evaluations.running;
    e->sums.samples = 7;
    for (uint64_t n = 1; n <= 2; n++) { // the rows; room for them
        sl_mem_fail_at(n);
        evaluations_fail(w.coord, job, "a test");
        T_TRUE(sl_mem_failed());
        T_PTR(job->evaluations.running, e);
        T_EQ(e->sums.samples, 7);
        T_EQ(job->evaluations.count, 0);
    }
    evaluations_fail(w.coord, job, "a test");
    T_PTR(job->evaluations.running, NULL);
    T_EQ(job->evaluations.count, 1);
    T_EQ(job->evaluations.list[0].samples, 0);
    world_release(&w);
}

// Whatever becomes of who evaluates, and of the coordinator: each range is in
// the metrics once, before and after its journal was read again.
TEST(life, live_metrics_are_of_each_sample_once)
{
    unsigned seeds = SEEDS / 4;
    struct seen seen = {0};

    log_set_level(LOG_LEVEL_ERROR);
    for (unsigned i = 0; i < seeds; i++)
        live(t_seed() + i, world_scored_job, &seen);
    T_GT(seen.evaluated, seeds);
    T_GT(seen.begun_anew, seeds / 8);
    T_GT(seen.restarts, seeds / 4);
}

TEST(life, an_older_worker_is_leased_nothing_of_metrics)
{
    struct world w;
    Sluice__V1__JobStatus *s;

    world_init(&w, t_seed());
    w.edition = MODEL_EDITION_METRICS;
    w.scores = true;
    world_people(&w, 1, 0);
    world_add(&w, FAKE_WORKER, "older")->edition = MODEL_EDITION;
    world_submit(&w, world_scored_job);
    T_FALSE(world_run(&w, JOB_FINISHED, 4000));
    s = world_status(&w);
    T_EQ(s->state, JOB_PLACING);
    T_HAS(s->reason, "(edition 3)");
    wire_free(&s->base);
    world_add(&w, FAKE_WORKER, "newer");
    T_TRUE(world_run(&w, JOB_FINISHED, LIMIT));
    check_end(&w);
    world_release(&w);
}
