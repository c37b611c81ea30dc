// SPDX-License-Identifier: Apache-2.0
// tests/unit/worker/device_lost_test.c -- what becomes of a lost device; pure
// parts.
#include "worker/lease/device_lost.h"

#include <string.h>

#include "tests/harness/t.h"

TEST(loss, policies_have_the_names_of_the_option)
{
    T_STR(LOST_POLICIES, "exit|reopen|cpu");
    T_EQ(lost_policy_of("exit"), LOST_EXIT);
    T_EQ(lost_policy_of("reopen"), LOST_REOPEN);
    T_EQ(lost_policy_of("cpu"), LOST_CPU);
}

TEST(loss, opening_again_has_an_end)
{
    struct lost_rule rule = {LOST_REOPEN, 2, 100};

    T_EQ(lost_next(&rule, 0), LOST_WAIT_AND_START_ANEW);
    T_EQ(lost_next(&rule, 1), LOST_WAIT_AND_START_ANEW);
    T_EQ(lost_next(&rule, 2), LOST_END);
    T_EQ(lost_next(&rule, 3), LOST_END);
    rule.policy = LOST_EXIT;
    T_EQ(lost_next(&rule, 0), LOST_END);
    rule.policy = LOST_CPU;
    T_EQ(lost_next(&rule, 7), LOST_TAKE_CPU);
}

TEST(loss, the_row_goes_from_life_to_life)
{
    struct lost_row row = {7, "cuda:1"};
    char note[LOST_NOTE];

    lost_note(note, &row);
    row = lost_row_of(note);
    T_EQ(row.tried, 7);
    T_STR(row.name, "cuda:1");
    memset(row.name, 'x', sizeof(row.name) - 1); // the longest
    row.tried = UINT32_MAX;
    lost_note(note, &row);
    T_EQ(lost_row_of(note).tried, UINT32_MAX);
    T_STR(lost_row_of(note).name, row.name);
    T_EQ(lost_row_of("").tried, 0);
    T_EQ(lost_row_of("lost-device 3").tried, 0);
    T_EQ(lost_row_of("lost-device many cuda").tried, 0);
    T_STR(lost_row_of("something else").name, "");
}

TEST(loss, the_same_device_is_opened_again)
{
    struct kern_backend b = {.name = "cuda"};
    struct kern_dev dev = {.backend = &b};

    T_STR(lost_name("auto", &dev), "cuda");
    T_STR(lost_name("cuda:1", &dev), "cuda:1");
}

static struct lease ended(enum outcome_kind kind, enum sl_err code)
{
    struct lease l = {.outcome = {.kind = kind, .job_error = true}};

    sl_fail(&l.outcome.err, code, "matmul of layer 3 failed");
    return l;
}

static const char *fault(struct kern_dev *dev)
{
    return "it fell off the bus";
}

TEST(loss, the_device_is_asked_only_about_a_loss)
{
    struct kern_backend b = {.size = sizeof(b), .fault = fault};
    struct kern_dev dev = {.backend = &b};
    struct lease l = ended(OUTCOME_FAILED, SL_ELOST);

    T_STR(lost_of(&dev, &l), "it fell off the bus");
    l = ended(OUTCOME_FAILED, SL_ENOMEM);
    T_STR(lost_of(&dev, &l), "");
    l = ended(OUTCOME_HAND_BACK, SL_ELOST);
    T_STR(lost_of(&dev, &l), "");
}

TEST(loss, a_module_without_faults_is_not_asked)
{
    struct kern_backend b = {.size = sizeof(b)};
    struct kern_dev dev = {.backend = &b};
    struct lease l = ended(OUTCOME_FAILED, SL_ELOST);

    T_STR(lost_of(&dev, &l), "");
    b.fault = fault;
    b.size = offsetof(struct kern_backend, fault); // an older module
    T_STR(lost_of(&dev, &l), "");
}

TEST(loss, nobody_is_blamed_for_a_lost_device)
{
    struct lease l = ended(OUTCOME_FAILED, SL_ELOST);

    lost_excuse(&l, "it fell off the bus");
    T_EQ(l.outcome.kind, OUTCOME_HAND_BACK);
    T_FALSE(l.outcome.job_error);
    T_HAS(l.outcome.err.text, "its device is lost: it fell off the bus");
    T_HAS(l.outcome.err.text, "matmul of layer 3");
}

TEST(loss, who_has_no_memory_is_told_what_to_do)
{
    struct lease l = ended(OUTCOME_FAILED, SL_ENOMEM);

    T_TRUE(lost_out_of_memory(&l));
    lost_advise(&l);
    T_STR(l.outcome.err.text,
          "matmul of layer 3 failed; use a smaller batch or "
          "another device");
    T_TRUE(lost_out_of_memory(&l));
    sl_fail(&l.outcome.err, SL_ENOMEM,
            "no memory for 7 bytes; use a smaller batch");
    lost_advise(&l);
    T_STR(l.outcome.err.text, "no memory for 7 bytes; use a smaller batch or "
                              "another device");
    sl_fail(&l.outcome.err, SL_ENOMEM,
            "full; use a smaller batch, or free memory of the GPU");
    lost_advise(&l);
    T_STR(l.outcome.err.text,
          "full; use a smaller batch, or free memory of the GPU");
    l = ended(OUTCOME_FAILED, SL_EINTERNAL);
    T_FALSE(lost_out_of_memory(&l));
    l = ended(OUTCOME_COMPLETE, SL_ENOMEM);
    T_FALSE(lost_out_of_memory(&l));
}
