// SPDX-License-Identifier: Apache-2.0
// The driver of a lease's steps over a sync that is a script: which calls it
// makes, and that it passes on each result, waiting never.
#include "trainer/lease/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/model.h"
#include "tests/harness/t.h"

#define RANGES 2

static struct script {
    struct sync sync; // first
    char calls[200];  // one letter for each call
    enum sync_result begin, settle, wait, send;
    uint32_t step; // where the shards stand
    bool done;
    uint32_t counted; // step that shard 0 has counted; UINT32_MAX: none
} script;

static enum sync_result said(const char *call, enum sync_result result)
{
    size_t at = strlen(script.calls);

    snprintf(script.calls + at, sizeof(script.calls) - at, "%s", call);
    return result;
}

static enum sync_result fake_open(struct sync *s, const struct sync_closure *c,
                                  struct sl_error *err)
{
    T_EQ(c->steps, 4);
    return said("o", SYNC_OK);
}

static enum sync_result fake_begin(struct sync *s, uint32_t *step, bool *done,
                                   struct sl_error *err)
{
    *step = script.step;
    *done = script.done;
    return said("b", script.begin);
}

static uint32_t fake_next(struct sync *s, uint32_t after)
{
    said("n", SYNC_OK);
    return after + 1;
}

static enum sync_result fake_wait(struct sync *s, uint32_t range,
                                  struct sl_error *err)
{
    return said(range == 0 ? "0" : "1", script.wait);
}

static enum sync_result fake_send(struct sync *s, uint32_t range,
                                  const struct sync_step *step, bool skip,
                                  struct sl_error *err)
{
    return said(skip ? "-" : "+", script.send);
}

static enum sync_result fake_settle(struct sync *s, struct sl_error *err)
{
    return said("s", script.settle);
}

static bool fake_counted(const struct sync *s, uint32_t step)
{
    return step == script.counted;
}

static void fake_seen(const struct sync *s, struct sync_seen *out)
{
    *out = (struct sync_seen){.refused = 0};
}

static void fake_await(struct sync *s)
{
    script.begin = script.wait = SYNC_OK;
    said("a", SYNC_OK);
}

static const struct sync_ops fake_ops = {
    .open = fake_open,
    .begin = fake_begin,
    .next = fake_next,
    .wait = fake_wait,
    .send = fake_send,
    .settle = fake_settle,
    .counted = fake_counted,
    .seen = fake_seen,
    .await = fake_await,
};

static struct lease lease;
static struct nonfinite rule;
static struct steps steps;

static void begin(void)
{
    script = (struct script){
        .sync = {.ops = &fake_ops, .ranges_count = RANGES},
        .counted = UINT32_MAX,
    };
    lease = (struct lease){.closure = 9, .steps = 4, .kind = LEASE_TRAIN};
    pthread_mutex_init(&lease.progress.lock, NULL);
    rule = (struct nonfinite){.skip = true, .most = 1};
    steps_init(&steps, &lease, &script.sync, &rule);
    T_EQ(steps_open(&steps), SYNC_OK);
}

static void check_calls(const char *calls)
{
    T_STR(script.calls, calls);
    script.calls[0] = '\0';
}

static void send_all(bool finite)
{
    const struct sync_step step = {.step = steps.step};

    for (uint32_t i = RANGES; i-- > 0;)
        T_EQ(steps_whole(&steps, i, &step, finite), SYNC_OK);
}

TEST(steps, go_from_where_the_shards_stand_to_the_end)
{
    begin();
    script.step = 2;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_STEP);
    T_EQ(steps.step, 2);
    T_EQ(steps_fresh(&steps), SYNC_OK);
    send_all(true);
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_STEP);
    T_EQ(steps.step, 3);
    check_calls("ob01++n");
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_SETTLE);
    T_TRUE(steps_between(&steps));
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_ASK);
    script.done = true;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_DONE);
    check_calls("nsb");
    T_EQ(steps_move(&steps), SYNC_OK); // and nothing is asked any more
    check_calls("");
}

// It waits nowhere by itself.
TEST(steps, a_call_that_is_busy_is_made_again)
{
    begin();
    script.begin = script.wait = SYNC_BUSY;
    T_EQ(steps_move(&steps), SYNC_BUSY);
    T_EQ(steps_move(&steps), SYNC_BUSY);
    T_EQ(steps.at, STEPS_ASK);
    check_calls("obb");
    T_EQ(steps_go(&steps), SYNC_OK);
    check_calls("bab");
    script.wait = SYNC_BUSY;
    T_EQ(steps_fresh(&steps), SYNC_BUSY);
    T_EQ(steps_fresh_wait(&steps), SYNC_OK);
    check_calls("00a01");
    script.settle = SYNC_BUSY;
    steps.step = 3;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps_move(&steps), SYNC_BUSY);
    T_EQ(steps.at, STEPS_SETTLE);
}

TEST(steps, W1_what_does_not_hold_is_asked_again)
{
    begin();
    T_EQ(steps_move(&steps), SYNC_OK);
    script.send = SYNC_AGAIN;
    T_EQ(steps_whole(&steps, 1, &(struct sync_step){.step = 0}, true),
         SYNC_AGAIN);
    steps_again(&steps);
    T_EQ(steps.at, STEPS_ASK);
    T_EQ(steps_move(&steps), SYNC_OK);
    check_calls("ob+b");
    steps.step = 3;
    T_EQ(steps_move(&steps), SYNC_OK);
    script.settle = SYNC_AGAIN; // also when the last answers come
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_ASK);
    script.begin = SYNC_FENCED;
    T_EQ(steps_move(&steps), SYNC_FENCED);
}

// Nobody should conclude so, and no closure is complete because somebody did.
TEST(steps, W1_what_does_not_hold_is_not_complete)
{
    begin();
    T_EQ(steps_move(&steps), SYNC_OK);
    steps_conclude(&steps, SYNC_AGAIN);
    T_EQ(lease.outcome.kind, OUTCOME_HAND_BACK);
    T_TRUE(lease.outcome.incarnations == NULL);
}

TEST(steps, a_drain_lets_the_step_under_way_end)
{
    begin();
    T_EQ(steps_move(&steps), SYNC_OK);
    atomic_store(&lease.gate.draining, true);
    send_all(true);
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_SETTLE); // though steps are left
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps_move(&steps), SYNC_STOPPED);
    T_EQ(atomic_load(&lease.gate.closed), GATE_DRAIN);
    check_calls("ob++nsb");

    begin(); // what is done is no work for another worker
    atomic_store(&lease.gate.draining, true);
    script.done = true;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps.at, STEPS_DONE);
}

TEST(steps, a_step_that_is_not_finite_is_judged_once_and_skipped)
{
    const struct sync_step step = {.step = 0};

    begin();
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps_whole(&steps, 1, &step, true), SYNC_OK);
    T_EQ(steps_whole(&steps, 0, &step, false), SYNC_OK);
    check_calls("ob+-");
    steps_note(&steps, 8, 3, 1);
    steps_end(&steps);
    T_EQ(rule.row, 1);
    script.counted = 0;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps_fresh(&steps), SYNC_OK);
    T_EQ(lease_progress(&lease).skipped, 1);
    T_EQ(lease_progress(&lease).loss_samples, 0);
    T_EQ(steps_whole(&steps, 1, &step, false), SYNC_FAILED); // the second
    T_EQ(steps.err.code, SL_ENUMERIC);
    check_calls("n01"); // and its gradient is not sent
}

TEST(steps, a_step_counts_when_shard_0_has_counted_it)
{
    begin();
    rule.row = 1;
    T_EQ(steps_move(&steps), SYNC_OK);
    send_all(true);
    steps_note(&steps, 8, 3, 1);
    steps_end(&steps);
    T_EQ(rule.row, 0);
    steps_report(&steps);
    T_EQ(lease_progress(&lease).steps, 0);
    steps_note(&steps, 8, 3, 1);
    script.counted = 0;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps_fresh(&steps), SYNC_OK);
    T_EQ(lease_progress(&lease).steps, 1);
    T_EQ(lease_progress(&lease).samples, 8);
    T_NEAR(lease_progress(&lease).loss_sum, 3, 0);
}

// What the program or the group says leaves the row as it is.
TEST(steps, a_step_that_is_left_out_is_not_judged)
{
    begin();
    rule.row = 1;
    T_EQ(steps_move(&steps), SYNC_OK);
    T_EQ(steps_skip(&steps, 0, &(struct sync_step){.step = 0}), SYNC_OK);
    steps_note(&steps, 8, NAN, NAN);
    steps_end(&steps);
    T_EQ(rule.row, 1);
    T_TRUE(steps.tally.skipped);
    check_calls("ob-");
}

TEST(steps, a_contribution_above_the_bound_of_its_lease_is_handed_back)
{
    static const struct {
        float trained; // a moving statistic is larger
        double most;
        const char *rule; // train.norm
        bool aside;
        float then;
    } cases[] = {
        {3, 0, NULL, false, 3},           {3, 3, NULL, false, 3},
        {-3, 2.9, NULL, true, -3},        {0, 5, NULL, false, 0},
        {INFINITY, 5, NULL, true, 0},     {INFINITY, 0, NULL, false, 0},
        {3, 0, "median", false, 3},       {3, 4, "median", false, 3},
        {-3, 1.5, "median", false, -1.5}, {INFINITY, 5, "median", true, 0},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        static struct lease l;
        bool finite = isfinite(cases[i].trained);
        Sluice__V1__TrainSpec train = SLUICE__V1__TRAIN_SPEC__INIT;
        Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
        Sluice__V1__JobOpen open = SLUICE__V1__JOB_OPEN__INIT;
        struct record record = {.open = &open};
        struct model_variable variables[] = {
            {.kind = MODEL_MOVING, .first = 0, .elements = 2},
            {.kind = MODEL_TRAINABLE, .first = 2, .elements = 1}};
        struct model model = {.variables = variables, .variables_count = 2};
        float grads[] = {50, -60, cases[i].trained};

        train.norm = (char *)(uintptr_t)cases[i].rule;
        spec.train = &train;
        open.spec = &spec;
        l = (struct lease){.record = &record, .norm_most = cases[i].most};
        T_EQ(lease_change(&l, &model, grads, finite), cases[i].aside);
        T_TRUE(grads[0] == 50 && grads[1] == -60);
        T_TRUE(!finite || grads[2] == cases[i].then);
        T_TRUE(l.outcome.changed);
        T_EQ(l.outcome.aside, cases[i].aside);
        T_EQ(l.outcome.kind == OUTCOME_HAND_BACK, cases[i].aside);
    }
}
