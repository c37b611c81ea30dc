// SPDX-License-Identifier: Apache-2.0
#include "client/show/progress.h"

#include "proto/pbjson.h"
#include "proto/wire.h"
#include "tests/harness/t.h"

static void reads(const Sluice__V1__JobStatus *s, const char *want)
{
    struct buf line = BUF_INIT;

    T_OK(progress_line(&line, s));
    T_STR(buf_text(&line), want);
    buf_release(&line);
}

TEST(progress, a_running_job)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;

    s.state = SLUICE__V1__JOB_STATE__JOB_RUNNING;
    s.epoch = 2;
    s.epochs = 5;
    s.steps_asked = 4690;
    s.steps_counted = 1860;
    WIRE_SET_KNOWN(&s, loss, SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS, 0.41234);
    WIRE_SET_KNOWN(&s, accuracy,
                   SLUICE__V1__JOB_STATUS__KNOWN_ACCURACY_ACCURACY, 0.853);
    s.images_per_second = 8123.4;
    s.workers = 3;
    s.staleness_p50 = 1;
    s.remaining_seconds = 124;
    reads(&s, "epoch 2/5  step 1,860/4,690 (39 %, 2m04s left)  loss 0.4123  "
              "acc 0.8530  "
              "8,123 samples/s  3 workers  staleness 1");
    s.workers = 1;
    s.remaining_seconds = 0;
    s.steps_counted = 0;
    s.known_accuracy_case = 0;
    reads(&s, "epoch 2/5  step 0/4,690 (0 %)  8,123 samples/s  1 worker  "
              "staleness 1");
    // Where every step was skipped there is no loss.
    s.steps_counted = 9;
    s.known_loss_case = 0;
    reads(&s, "epoch 2/5  step 9/4,690 (0 %)  loss -  8,123 samples/s  "
              "1 worker  staleness 1");
    s.steps_counted = 0;
    // One that waits says for what first, and shows no rate, no time left.
    s.reason = (char *)"waits for psserver ps-1";
    s.remaining_seconds = 124;
    reads(&s, "waits for psserver ps-1  epoch 2/5  step 0/4,690 (0 %)");
}

// "10h18m left" of a job of an hour: the first steps are slow, and a rate that
// is not the job's own says nothing of what is to come.
TEST(progress, a_time_left_is_told_when_it_means_something)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;

    s.state = SLUICE__V1__JOB_STATE__JOB_RUNNING;
    s.epoch = s.epochs = 1;
    s.steps_asked = 10000;
    s.steps_counted = 100;
    WIRE_SET_KNOWN(&s, loss, SLUICE__V1__JOB_STATUS__KNOWN_LOSS_LOSS, 1);
    s.elapsed_seconds = 360;
    s.remaining_seconds = 37080;
    reads(&s, "epoch 1/1  step 100/10,000 (1 %)  loss 1.0000  0 samples/s  "
              "0 workers  staleness 0");
    s.steps_counted = 2000;
    reads(&s, "epoch 1/1  step 2,000/10,000 (20 %)  loss 1.0000  0 samples/s  "
              "0 workers  staleness 0");
    s.remaining_seconds = 1500;
    reads(&s, "epoch 1/1  step 2,000/10,000 (20 %, 25m00s left)  loss 1.0000  "
              "0 samples/s  0 workers  staleness 0");
    s.resumed_steps = 1900; // what it did itself is not enough to tell
    reads(&s, "epoch 1/1  step 2,000/10,000 (20 %)  loss 1.0000  0 samples/s  "
              "0 workers  staleness 0");
}

TEST(progress, a_narrow_terminal_shows_whole_fields)
{
    const char *line = "epoch 2/5  step 1/9 (11 %)  loss 0.4123  acc 0.8530";

    T_EQ(progress_fit(line, 80), strlen(line));
    T_EQ(progress_fit(line, strlen(line)), strlen(line));
    T_EQ(progress_fit(line, strlen(line) - 1),
         strlen("epoch 2/5  step 1/9 (11 %)  loss 0.4123"));
    T_EQ(progress_fit(line, 38), strlen("epoch 2/5  step 1/9 (11 %)"));
    T_EQ(progress_fit(line, 12), strlen("epoch 2/5"));
    T_EQ(progress_fit(line, 5), 5); // no field fits
}

TEST(progress, a_waiting_and_an_ended_job)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;

    s.state = SLUICE__V1__JOB_STATE__JOB_PLACING;
    reads(&s, "placing");
    s.reason = (char *)"no psserver is attached";
    reads(&s, "placing  no psserver is attached");
    s.state = SLUICE__V1__JOB_STATE__JOB_FINISHED;
    s.reason = (char *)"";
    s.epoch = s.epochs = 5;
    s.steps_asked = s.steps_counted = 10;
    reads(&s, "finished  epoch 5/5  step 10/10 (100 %)");
}

TEST(progress, evaluations)
{
    Sluice__V1__Evaluation e = SLUICE__V1__EVALUATION__INIT;
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;
    Sluice__V1__CallbacksStatus callbacks = SLUICE__V1__CALLBACKS_STATUS__INIT;
    Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
    struct buf line = BUF_INIT;

    s.steps_asked = 4500;
    s.epochs = 3;
    e.epoch = 1;
    WIRE_SET_KNOWN(&e, accuracy,
                   SLUICE__V1__EVALUATION__KNOWN_ACCURACY_ACCURACY, 0.87123);
    WIRE_SET_KNOWN(&e, loss, SLUICE__V1__EVALUATION__KNOWN_LOSS_LOSS, 0.3561);
    e.samples = 10000;
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line),
          "epoch 1: test accuracy 0.8712, loss 0.3561 (10,000 samples)");
    buf_reset(&line);
    s.spec = &spec;
    spec.loss = (char *)"mean_squared_error";
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line), "epoch 1: test loss 0.3561 (10,000 samples)");
    // Of the epoch's end, and not.
    buf_reset(&line);
    e.steps = 1500;
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line), "epoch 1: test loss 0.3561 (10,000 samples)");
    buf_reset(&line);
    e.steps = 1501;
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line),
          "epoch 1 at step 1,501: test loss 0.3561 (10,000 samples)");
    // By steps, or with callbacks; and of what was trained since the last.
    buf_reset(&line);
    s.callbacks = &callbacks;
    e.steps = 1500;
    e.train_samples = 800;
    WIRE_SET_KNOWN(&e, train_loss,
                   SLUICE__V1__EVALUATION__KNOWN_TRAIN_LOSS_TRAIN_LOSS, 0.5);
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line), "step 1,500: test loss 0.3561 (10,000 samples); "
                           "trained loss 0.5000");
    buf_reset(&line);
    e.samples = 0;
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line), "step 1,500: trained loss 0.5000");
    // Of which every step was skipped.
    buf_reset(&line);
    e.known_train_loss_case = 0;
    e.train_samples = 0;
    T_OK(progress_evaluation(&line, &s, &e));
    T_STR(buf_text(&line), "step 1,500: trained loss -");
    buf_release(&line);
}

TEST(progress, states_are_spelled_as_in_json)
{
    for (int s = SLUICE__V1__JOB_STATE__JOB_PLACING;
         s <= SLUICE__V1__JOB_STATE__JOB_STOPPED; s++) {
        char text[PBJSON_ENUM_TEXT];

        T_STR(progress_state((Sluice__V1__JobState)s),
              pbjson_enum(text, &sluice__v1__job_state__descriptor, s));
    }
    T_FALSE(progress_ended(SLUICE__V1__JOB_STATE__JOB_FINISHING));
    T_TRUE(progress_ended(SLUICE__V1__JOB_STATE__JOB_STOPPED));
}

TEST(progress, a_paused_job_says_so_in_every_state)
{
    Sluice__V1__JobStatus s = SLUICE__V1__JOB_STATUS__INIT;
    Sluice__V1__JobPause pause = SLUICE__V1__JOB_PAUSE__INIT;

    s.state = SLUICE__V1__JOB_STATE__JOB_PLACING;
    s.pause = &pause;
    s.reason = (char *)"is being paused by ada: a checkpoint is made first";
    T_STR(progress_word(&s), "placing");
    reads(&s, s.reason);
    pause.holds = true;
    s.reason = (char *)"paused by ada";
    T_STR(progress_word(&s), "paused");
    reads(&s, "paused by ada");
    s.state = SLUICE__V1__JOB_STATE__JOB_RUNNING;
    T_STR(progress_word(&s), "paused");
    reads(&s, "paused by ada");
    s.pause = NULL;
    s.paused = true; // by I7
    T_STR(progress_word(&s), "paused");
}
