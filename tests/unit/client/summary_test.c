// SPDX-License-Identifier: Apache-2.0
#include "client/show/summary.h"

#include <string.h>

#include "plan/schedule.h"
#include "proto/wire.h"
#include "tests/harness/t.h"
#include "tests/unit/client/json_short.h"

enum { SHARDS = 2, EPOCHS = 2, SAMPLES = 10, STEPS = 6 };

// A finished job as an honest cluster reports it.
struct job {
    Sluice__V1__JobStatus status;
    Sluice__V1__Geometry geometry;
    Sluice__V1__ShardStatus shard[SHARDS], *shards[SHARDS];
    Sluice__V1__ShardCounts counts[SHARDS];
    Sluice__V1__EpochCount epoch[SHARDS][EPOCHS], *epochs[SHARDS][EPOCHS];
};

static void honest(struct job *j)
{
    struct schedule schedule = {SAMPLES, 4, EPOCHS, 2};

    sluice__v1__job_status__init(&j->status);
    j->geometry = wire_geometry(&schedule);
    j->status.id = (char *)"j-1";
    j->status.name = (char *)"toy";
    j->status.state = SLUICE__V1__JOB_STATE__JOB_FINISHED;
    j->status.epochs = EPOCHS;
    j->status.steps_asked = j->status.steps_counted = STEPS;
    j->status.samples_per_epoch = SAMPLES;
    j->status.elapsed_seconds = 4;
    j->status.workers_lost = 1;
    j->status.geometry = &j->geometry;
    j->status.n_shards = SHARDS;
    j->status.shards = j->shards;
    for (int i = 0; i < SHARDS; i++) {
        sluice__v1__shard_status__init(&j->shard[i]);
        sluice__v1__shard_counts__init(&j->counts[i]);
        j->shards[i] = &j->shard[i];
        j->shard[i].counts = &j->counts[i];
        j->counts[i].applied = STEPS - 1;
        j->counts[i].skipped = 1;
        j->counts[i].counted = STEPS;
        j->counts[i].n_epochs = EPOCHS;
        j->counts[i].epochs = j->epochs[i];
        for (uint32_t e = 0; e < EPOCHS; e++) {
            sluice__v1__epoch_count__init(&j->epoch[i][e]);
            j->epochs[i][e] = &j->epoch[i][e];
            j->epoch[i][e].epoch = e;
            j->epoch[i][e].samples = SAMPLES;
            j->epoch[i][e].digest = schedule_epoch_digest(&schedule, e);
        }
    }
}

TEST(summary, an_honest_job_holds)
{
    struct job j;

    honest(&j);
    T_TRUE(summary_once(&j.status));
    T_TRUE(summary_cover(&j.status));
    T_EQ(summary_samples(&j.status, 0), SAMPLES);
    T_EQ(summary_samples(&j.status, 7), 0);
    T_NEAR(summary_rate(&j.status), 5.0, 1e-9);
}

// What a resumed job found counted was trained by another one.
TEST(summary, a_rate_is_of_what_the_job_did_itself)
{
    struct job j;

    honest(&j);
    j.status.resumed_steps = STEPS / EPOCHS; // an epoch of 10 samples
    T_NEAR(summary_rate(&j.status), 2.5, 1e-9);
    j.status.resumed_steps = STEPS / EPOCHS + 1;
    T_NEAR(summary_rate(&j.status), 1.5, 1e-9);
    j.status.resumed_steps = STEPS - 1; // all but a last batch of 2 samples
    T_NEAR(summary_rate(&j.status), 0.5, 1e-9);
    j.status.resumed_steps = STEPS;
    T_NEAR(summary_rate(&j.status), 0, 1e-9);
}

TEST(summary, once_is_broken_by_any_shard)
{
    struct job j;

    honest(&j);
    j.counts[1].applied++; // one update twice
    T_FALSE(summary_once(&j.status));
    honest(&j);
    j.counts[0].counted--;
    j.counts[0].applied--;
    T_FALSE(summary_once(&j.status));
    honest(&j);
    j.status.steps_counted--;
    T_FALSE(summary_once(&j.status));
    honest(&j);
    j.status.n_shards = 0; // no evidence is not proof
    T_FALSE(summary_once(&j.status));
    T_FALSE(summary_cover(&j.status));
}

TEST(summary, cover_is_broken_by_any_epoch)
{
    struct job j;

    honest(&j);
    j.epoch[1][1].digest ^= 1; // a sample twice, another one never
    T_FALSE(summary_cover(&j.status));
    T_TRUE(summary_once(&j.status));
    honest(&j);
    j.epoch[0][0].samples--;
    T_FALSE(summary_cover(&j.status));
    T_EQ(summary_samples(&j.status, 0), SAMPLES - 1);
    honest(&j);
    j.counts[0].n_epochs = 1;
    T_FALSE(summary_cover(&j.status));
    T_EQ(summary_samples(&j.status, 1), 0);
    honest(&j);
    j.epoch[0][1].epoch = 0; // the same epoch twice
    T_FALSE(summary_cover(&j.status));
    honest(&j);
    j.status.geometry = NULL;
    T_FALSE(summary_cover(&j.status));
}

TEST(summary, json_has_what_scripts_read)
{
    Sluice__V1__Evaluation e = SLUICE__V1__EVALUATION__INIT, *list[] = {&e, &e};
    struct job j;
    json_t *object = NULL;
    char *text;

    honest(&j);
    WIRE_SET_KNOWN(&e, accuracy,
                   SLUICE__V1__EVALUATION__KNOWN_ACCURACY_ACCURACY, 0.5);
    WIRE_SET_KNOWN(&e, loss, SLUICE__V1__EVALUATION__KNOWN_LOSS_LOSS, 0.25);
    j.status.n_evaluations = 2;
    j.status.evaluations = list;
    T_OK(summary_json(&object, &j.status));
    text = json_dumps(object, JSON_COMPACT);
    T_HAS(text, "\"test_accuracy\":[0.5,0.5]");
    T_HAS(text, "\"test_loss\":[0.25,0.25]");
    T_HAS(text, "\"samples_per_epoch\":10,\"samples_counted\":[10,10]");
    T_HAS(text, "\"samples\":10");
    T_HAS(text, "\"steps_asked\":6,\"steps_counted\":6");
    T_HAS(text, "\"workers_killed\":1");
    T_HAS(text, "\"once\":true,\"cover\":true");
    T_HAS(text, "\"state\":\"finished\"");
    T_HAS(text, "\"training_loss\":null"); // not 0: nothing is known
    free(text);
    json_decref(object);

    e.loss = 1.0 / 0.0; // no JSON number
    T_OK(summary_json(&object, &j.status));
    text = json_dumps(object, JSON_COMPACT);
    T_HAS(text, "\"test_loss\":[null,null]");
    free(text);
    json_decref(object);

    e.known_loss_case = 0; // no finite one is known
    T_OK(summary_json(&object, &j.status));
    text = json_dumps(object, JSON_COMPACT);
    T_HAS(text, "\"test_loss\":[null,null]");
    free(text);
    json_decref(object);
}

// Without memory at one moment a list lacks nothing: there is no summary.
TEST(summary, json_is_whole_or_none)
{
    Sluice__V1__Evaluation e = SLUICE__V1__EVALUATION__INIT, *list[] = {&e, &e};
    Sluice__V1__EvaluateSpec evaluate = SLUICE__V1__EVALUATE_SPEC__INIT;
    Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
    char *metrics[] = {(char *)"auc"}, *warnings[] = {(char *)"slow"};
    json_t *whole = NULL, *object = NULL;
    enum sl_err rc = SL_ENOMEM;
    struct job j;

    honest(&j);
    evaluate.metrics = metrics;
    evaluate.n_metrics = 1;
    spec.evaluate = &evaluate;
    j.status.spec = &spec;
    j.status.n_evaluations = 2;
    j.status.evaluations = list;
    j.status.warnings = warnings;
    j.status.n_warnings = 1;
    T_OK(summary_json(&whole, &j.status));
    for (size_t before = 0; rc == SL_ENOMEM; before++) {
        json_short(before);
        rc = summary_json(&object, &j.status);
        json_enough();
    }
    T_OK(rc);
    T_TRUE(json_equal(object, whole));
    json_decref(object);
    json_decref(whole);
}

TEST(summary, text_says_no_where_it_must)
{
    struct job j;
    struct buf text = BUF_INIT;

    honest(&j);
    T_OK(summary_text(&text, &j.status));
    T_HAS(buf_text(&text), "each step counted once      yes");
    buf_reset(&text);
    j.counts[0].applied++;
    T_OK(summary_text(&text, &j.status));
    T_HAS(buf_text(&text), "each step counted once      NO");
    buf_release(&text);
}

// Of all shards: three of the ages are 0, and two up to 4.
TEST(summary, text_has_the_ages_of_contributions_that_are_merged_as_they_come)
{
    uint64_t ages[2][4] = {{2, 0, 0, 1}, {1, 0, 0, 1}};
    Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
    Sluice__V1__TrainSpec train = SLUICE__V1__TRAIN_SPEC__INIT;
    struct buf text = BUF_INIT;
    struct job j;

    honest(&j);
    for (int i = 0; i < SHARDS; i++) {
        j.counts[i].staleness = ages[i];
        j.counts[i].n_staleness = 4;
    }
    j.status.spec = &spec;
    spec.train = &train;
    train.mode = (char *)"local";
    train.contributions = 3;
    T_OK(summary_text(&text, &j.status));
    T_TRUE(strstr(buf_text(&text), "age of what is merged") == NULL);
    buf_reset(&text);
    train.has_quorum = true;
    train.quorum = 2;
    T_OK(summary_text(&text, &j.status));
    T_HAS(buf_text(&text), "half up to 0, all up to 4 updates");
    buf_release(&text);
}

// What a callback has ended is judged by what it had counted by then.
TEST(summary, text_has_the_best_and_the_last_of_many_evaluations)
{
    Sluice__V1__Evaluation e[8], *list[8];
    struct buf text = BUF_INIT;
    struct job j;

    honest(&j);
    for (unsigned i = 0; i < 8; i++) {
        sluice__v1__evaluation__init(&e[i]);
        e[i].epoch = i + 1;
        e[i].samples = 10;
        WIRE_SET_KNOWN(&e[i], loss, SLUICE__V1__EVALUATION__KNOWN_LOSS_LOSS, 1);
        WIRE_SET_KNOWN(&e[i], accuracy,
                       SLUICE__V1__EVALUATION__KNOWN_ACCURACY_ACCURACY,
                       i == 1 ? 0.75 : 0.25);
        list[i] = &e[i];
    }
    e[2].accuracy = 0.99; // of no evaluation that succeeded
    e[2].failed = true;
    j.status.evaluations = list;
    j.status.n_evaluations = 8;
    T_OK(summary_text(&text, &j.status));
    T_HAS(buf_text(&text), "best test, epoch 2          accuracy 0.7500");
    T_HAS(buf_text(&text), "  test, epoch 4 ");
    T_HAS(buf_text(&text), "  test, epoch 8 ");
    T_HAS(buf_text(&text), "8, the last 5 are shown; -o json has all");
    T_TRUE(strstr(buf_text(&text), "  test, epoch 3 ") == NULL);
    buf_reset(&text);
    j.status.n_evaluations = 5;
    T_OK(summary_text(&text, &j.status));
    T_HAS(buf_text(&text), "  test, epoch 1 ");
    T_TRUE(strstr(buf_text(&text), "best") == NULL);
    buf_release(&text);
}

TEST(summary, a_job_that_was_stopped_early_holds)
{
    Sluice__V1__CallbacksStatus callbacks = SLUICE__V1__CALLBACKS_STATUS__INIT;
    struct job j;

    honest(&j);
    j.status.callbacks = &callbacks;
    j.status.steps_counted = STEPS / 2; // of the first of two epochs
    for (int i = 0; i < SHARDS; i++) {
        j.counts[i].counted = STEPS / 2;
        j.counts[i].applied = STEPS / 2 - 1;
        j.counts[i].n_epochs = 1;
    }
    T_FALSE(summary_once(&j.status) || summary_cover(&j.status));
    callbacks.stopped = true;
    T_TRUE(summary_once(&j.status) && summary_cover(&j.status));
    j.epoch[1][0].digest++;
    T_FALSE(summary_cover(&j.status));
}
