// SPDX-License-Identifier: Apache-2.0
// tests/unit/proto/curves_test.c -- statuses in, the files of a reader out.
#include "proto/curves.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fs.h"
#include "common/base/mem.h"
#include "proto/tensorboard.pb-c.h"
#include "proto/wire.h"
#include "tests/harness/t.h"

typedef Sluice__Tensorboard__Event event;

static struct clock_fake fake;
static Sluice__V1__JobStatus status;
static Sluice__V1__JobSpec spec;
static Sluice__V1__OptimizerSpec optimizer;
static Sluice__V1__ScheduleSpec decay;

static struct curves *open_in(const char *root, bool histograms)
{
    struct curves_options options = {.root = root,
                                     .below = "mine",
                                     .job = "j-7",
                                     .histograms = histograms,
                                     .clock = &fake.clock};
    struct curves *c = NULL;

    T_OK(curves_new(&c, &options, t_err()));
    return c;
}

static void set_up(void)
{
    clock_fake_init(&fake, 1000000, 1700000000000000);
    sluice__v1__job_status__init(&status);
    sluice__v1__job_spec__init(&spec);
    sluice__v1__optimizer_spec__init(&optimizer);
    sluice__v1__schedule_spec__init(&decay);
    spec.loss = "sparse_categorical_crossentropy";
    spec.optimizer = &optimizer;
    optimizer.type = "sgd";
    optimizer.has_learning_rate = optimizer.has_momentum = true;
    optimizer.learning_rate = 0.5;
    optimizer.has_nesterov = true;
    status.spec = &spec;
    WIRE_SET_KNOWN(&status, loss, SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS,
                   0.25);
    WIRE_SET_KNOWN(&status, accuracy,
                   SLUICE__V1__JOB_STATUS__KNOWN_ACCURACY_ACCURACY, 0.75);
    status.workers = 3;
    status.epochs = 4;
    status.steps_asked = 400;
}

// Each event of a run's files, in the order of their names.
struct reader {
    char folder[512];
    void (*see)(const event *e);
    unsigned files, events;
};

static enum sl_err read_file(void *arg, const char *name)
{
    struct reader *r = arg;
    struct buf b = BUF_INIT;
    char path[1024];

    if (strstr(name, "tfevents") == NULL)
        return SL_OK;
    snprintf(path, sizeof(path), "%s/%s", r->folder, name);
    T_OK(fs_read_all(fs_posix(), path, 1 << 22, &b, t_err()));
    r->files++;
    for (size_t at = 0; at < b.len;) {
        size_t n = b.data[at] | (size_t)b.data[at + 1] << 8;
        event *e =
            sluice__tensorboard__event__unpack(NULL, n, b.data + at + 12);

        T_ASSERT(e != NULL);
        r->see(e);
        r->events++;
        sluice__tensorboard__event__free_unpacked(e, NULL);
        at += 16 + n;
        T_LE(at, b.len);
    }
    buf_release(&b);
    return SL_OK;
}

static struct reader read_run(const char *root, const char *run,
                              void (*see)(const event *e))
{
    struct reader r = {.see = see};

    snprintf(r.folder, sizeof(r.folder), "%s/mine/%s", root, run);
    T_OK(fs_list(fs_posix(), r.folder, read_file, &r, t_err()));
    return r;
}

// What the last read saw.
static unsigned versions, starts, scalars, histograms, texts;
static int64_t last_step, start_step;
static double last_loss, last_rate;

static void see(const event *e)
{
    if (e->what_case == SLUICE__TENSORBOARD__EVENT__WHAT_FILE_VERSION)
        versions++;
    if (e->what_case == SLUICE__TENSORBOARD__EVENT__WHAT_SESSION_LOG) {
        starts++;
        start_step = e->step;
        last_step = 0;
    }
    if (e->what_case != SLUICE__TENSORBOARD__EVENT__WHAT_SUMMARY)
        return;
    for (size_t i = 0; i < e->summary->n_value; i++) {
        const Sluice__Tensorboard__Summary__Value *v = e->summary->value[i];

        if (strcmp(v->tag, "job/spec") == 0)
            texts +=
                strstr((char *)v->tensor->string_val[0].data, "sgd") != NULL;
        else if (strcmp(v->tag, "staleness") == 0)
            histograms += v->tensor->n_float_val == 6;
        else if (strcmp(v->tag, "loss") == 0) {
            T_GT(e->step, last_step);
            last_step = e->step;
            last_loss = v->tensor->float_val[0];
            scalars++;
        } else if (strcmp(v->tag, "lr") == 0)
            last_rate = v->tensor->float_val[0];
    }
}

static struct reader look(const char *root, const char *run)
{
    versions = starts = scalars = histograms = texts = 0;
    last_step = start_step = 0;
    last_loss = last_rate = 0;
    return read_run(root, run, see);
}

static void take(struct curves *c, uint64_t steps)
{
    status.steps_counted = steps;
    status.updates_applied = steps;
    clock_fake_advance_ms(&fake, 1000);
    T_OK(curves_take(c, &status, false));
    T_OK(curves_write(c, t_err()));
}

TEST(curves, a_point_a_second_and_the_spec_once)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    c = open_in(root, false);
    take(c, 0);
    take(c, 10);
    take(c, 10); // where the last one was
    take(c, 20);
    status.steps_counted = 21;
    T_OK(curves_take(c, &status, false)); // too soon
    T_EQ(curves_wait(c), false);
    status.loss = 0.125;
    T_OK(curves_take(c, &status, true)); // the last one
    T_OK(curves_write(c, t_err()));
    curves_free(c);
    T_EQ(look(root, "j-7").files, 1);
    T_EQ(versions, 1);
    T_EQ(texts, 1);
    T_EQ(scalars, 3);
    T_EQ(starts, 0);
    T_EQ(last_step, 21);
    T_EQ(last_loss * 1000, 125);
    T_EQ(last_rate * 10, 5);
}

// A status without its spec lies between two that have it.
TEST(curves, the_spec_that_was_told_is_not_told_again)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    c = open_in(root, false);
    take(c, 0);
    status.spec = NULL;
    take(c, 10);
    status.spec = &spec;
    take(c, 20);
    curves_free(c);
    look(root, "j-7");
    T_EQ(last_step, 20);
    T_EQ(texts, 1);
}

TEST(curves, a_point_that_found_no_memory_leaves_nothing_unsaid)
{
    struct reader whole;
    bool failed = true;
    char root[512];

    set_up();
    status.steps_counted = status.updates_applied = 10;
    for (uint64_t n = 0; failed; n++) {
        struct curves *c;
        struct reader r;
        enum sl_err rc;

        snprintf(root, sizeof(root), "%s/%u", t_tmpdir(), (unsigned)n);
        T_EQ(mkdir(root, 0700), 0);
        c = open_in(root, false);
        sl_mem_fail_at(n);
        clock_fake_advance_ms(&fake, 1000);
        rc = curves_take(c, &status, false);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        clock_fake_advance_ms(&fake, 1000);
        T_OK(curves_take(c, &status, false));
        T_OK(curves_write(c, t_err()));
        curves_free(c);
        r = look(root, "j-7");
        if (n == 0) { // none fails
            whole = r;
            failed = true;
        }
        T_EQ(r.events, whole.events);
        T_EQ(versions, 1);
        T_EQ(texts, 1);
    }
}

TEST(curves, a_rate_that_callbacks_reduced_is_told)
{
    Sluice__V1__CallbacksStatus callbacks = SLUICE__V1__CALLBACKS_STATUS__INIT;
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    c = open_in(root, false);
    take(c, 10);
    callbacks.learning_rate = 0.25;
    status.callbacks = &callbacks;
    take(c, 20);
    curves_free(c);
    look(root, "j-7");
    T_EQ(last_rate * 100, 25);
}

TEST(curves, the_last_point_has_the_updates_of_all_steps)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    optimizer.schedule = &decay;
    decay.type = "exponential_decay";
    decay.has_decay_steps = decay.has_decay_rate = true;
    decay.decay_steps = 399;
    decay.decay_rate = 0.5;
    c = open_in(root, false);
    take(c, 200);
    status.steps_counted = 400; // the shards have not said how many updates
    clock_fake_advance_ms(&fake, 1000);
    T_OK(curves_take(c, &status, false));
    status.updates_applied = 400;
    T_OK(curves_take(c, &status, true));
    T_OK(curves_write(c, t_err()));
    curves_free(c);
    look(root, "j-7");
    T_EQ(scalars, 2);
    T_EQ(last_step, 400);
    T_EQ(last_rate * 100, 25);
}

TEST(curves, a_long_job_has_few_points)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    c = open_in(root, false);
    for (unsigned i = 1; i <= 20000; i++)
        take(c, i);
    curves_free(c);
    look(root, "j-7");
    // 2,000 in the first 2,000 seconds, then 2,000 for each factor of e.
    T_GT(scalars, 2000);
    T_LT(scalars, 7500);
}

// Readers forget what the older file says of later steps.
TEST(curves, a_run_that_is_taken_up_again_begins_with_a_start)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    c = open_in(root, false);
    take(c, 10);
    take(c, 30);
    curves_free(c);
    c = open_in(root, false);
    take(c, 20);
    curves_free(c);
    T_EQ(look(root, "j-7").files, 2);
    T_EQ(versions, 2);
    T_EQ(starts, 2); // the first one began at 10
    T_EQ(start_step, 20);
    T_EQ(last_step, 20);
}

// Also if it was seen before it was placed.
TEST(curves, a_resumed_job_begins_with_a_start)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    status.state = SLUICE__V1__JOB_STATE__JOB_PLACING;
    c = open_in(root, false);
    take(c, 0);
    status.state = SLUICE__V1__JOB_STATE__JOB_RUNNING;
    take(c, 200);
    take(c, 210);
    curves_free(c);
    look(root, "j-7");
    T_EQ(starts, 1);
    T_EQ(start_step, 200);
    T_EQ(last_step, 210);
}

// A psserver was lost, and steps with it.
TEST(curves, a_job_that_falls_back_says_so)
{
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    c = open_in(root, false);
    take(c, 0);
    take(c, 30);
    take(c, 20);
    curves_free(c);
    look(root, "j-7");
    T_EQ(starts, 1);
    T_EQ(start_step, 20);
    T_EQ(last_step, 20);
}

TEST(curves, evaluations_are_a_run_of_their_own)
{
    Sluice__V1__Evaluation e[2];
    Sluice__V1__Evaluation *list[4] = {&e[0], &e[1]};
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    for (unsigned i = 0; i < 2; i++) {
        sluice__v1__evaluation__init(&e[i]);
        e[i].epoch = i + 1;
        WIRE_SET_KNOWN(&e[i], loss, SLUICE__V1__EVALUATION__KNOWN_LOSS_LOSS,
                       0.5);
    }
    status.evaluations = list;
    c = open_in(root, false);
    status.n_evaluations = 1;
    take(c, 100);
    e[1].steps = 203; // of which parameters it is, where that is said
    status.n_evaluations = 2;
    take(c, 200);
    e[0].known_loss_case = 0;
    list[2] = &e[0]; // nothing is known of it: no point
    list[3] = &e[1]; // of the same parameters: the same point
    status.n_evaluations = 4;
    take(c, 300);
    curves_free(c);
    T_EQ(look(root, "j-7/validation").files, 1);
    T_EQ(scalars, 2);
    T_EQ(last_step, 203); // the other at 100, of 400 in 4 epochs
}

TEST(curves, staleness_is_a_histogram_of_what_was_new)
{
    Sluice__V1__ShardStatus shard = SLUICE__V1__SHARD_STATUS__INIT;
    Sluice__V1__ShardStatus *shards[] = {&shard};
    Sluice__V1__ShardCounts shard_counts = SLUICE__V1__SHARD_COUNTS__INIT;
    uint64_t buckets[WIRE_STALENESS_BUCKETS] = {0, 4, 2};
    const char *root = t_tmpdir();
    struct curves *c;

    set_up();
    shard_counts.staleness = buckets;
    shard_counts.n_staleness = WIRE_STALENESS_BUCKETS;
    shard.counts = &shard_counts;
    status.shards = shards;
    status.n_shards = 1;
    c = open_in(root, true);
    take(c, 6);
    take(c, 7); // nothing new
    buckets[1] = 9;
    buckets[2] = 3;
    take(c, 13);
    curves_free(c);
    look(root, "j-7");
    T_EQ(histograms, 2);
}

// A folder that cannot be made: points wait, and are there when it can.
TEST(curves, what_cannot_be_written_is_tried_again)
{
    const char *root = t_tmpdir();
    struct curves *c;
    char path[512];
    FILE *f;

    set_up();
    snprintf(path, sizeof(path), "%s/mine", root);
    f = fopen(path, "w"); // a file stands where the folder is to be
    T_ASSERT(f != NULL);
    fclose(f);
    c = open_in(root, false);
    status.steps_counted = 10;
    T_OK(curves_take(c, &status, false));
    T_FAILS(SL_EINVAL, curves_write(c, t_err()));
    T_EQ(curves_wait(c), true);
    T_EQ(unlink(path), 0);
    take(c, 20);
    curves_free(c);
    look(root, "j-7");
    T_EQ(scalars, 2);
}
