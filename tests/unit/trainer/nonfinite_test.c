// SPDX-License-Identifier: Apache-2.0
// The rule for steps that are not finite: which fail the job, with which
// advice, and how they are counted.
#include "trainer/base/nonfinite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "tests/harness/t.h"
#include "trainer/base/figures.h"

static const char sample[] = "sample 7 of data.train";

static struct nonfinite rule(const char *what, uint32_t most)
{
    Sluice__V1__TrainSpec train = SLUICE__V1__TRAIN_SPEC__INIT;

    train.nonfinite = (char *)what;
    train.max_nonfinite = most;
    return nonfinite_rule(&train);
}

static enum sl_err judge(struct nonfinite *n, bool round, const char *strange,
                         struct sl_error *err)
{
    const struct nonfinite_step s = {
        .closure = 5, .step = 2, .round = round, .strange = strange};

    *err = (struct sl_error)SL_ERROR_INIT;
    return nonfinite_judge(n, &s, err);
}

TEST(nonfinite, fail_ends_the_job_and_names_the_way_out)
{
    struct nonfinite n = rule("fail", 100);
    struct sl_error err;

    T_EQ(judge(&n, false, "", &err), SL_ENUMERIC);
    T_HAS(err.text, "not finite in step 2 of closure 5");
    T_HAS(err.text, "lower the learning rate, or set train.nonfinite: skip");
    T_EQ(judge(&n, true, "", &err), SL_ENUMERIC);
    T_HAS(err.text, "in the round of step 2 of closure 5");
    T_EQ(judge(&n, false, sample, &err), SL_ENUMERIC);
    T_HAS(err.text, "the data is not finite: sample 7 of data.train; mend it");
}

// The job skips already: the advice is no other than to mend what is wrong.
TEST(nonfinite, too_many_in_a_row_do_not_advise_to_skip)
{
    static const struct {
        bool round;
        const char *strange, *words, *advice;
    } cases[] = {
        {false, "", "3 steps in a row", "lower the learning rate"},
        {false, sample, "3 steps in a row", "mend the data: sample 7"},
        {true, "", "3 rounds in a row", "lower the learning rate"},
    };
    struct sl_error err;

    for (size_t i = 0; i < SL_COUNT(cases); i++) {
        struct nonfinite n = rule("skip", 2);

        T_OK(judge(&n, cases[i].round, cases[i].strange, &err));
        T_OK(judge(&n, cases[i].round, cases[i].strange, &err));
        T_EQ(judge(&n, cases[i].round, cases[i].strange, &err), SL_ENUMERIC);
        T_HAS(err.text, cases[i].words);
        T_HAS(err.text, "train.max_nonfinite is 2");
        T_HAS(err.text, cases[i].advice);
        T_TRUE(strstr(err.text, "train.nonfinite") == NULL);
    }
}

TEST(nonfinite, a_finite_step_ends_the_row_and_0_is_no_limit)
{
    struct nonfinite n = rule("skip", 1), none = rule("skip", 0);
    struct sl_error err;

    for (int i = 0; i < 3; i++) {
        T_OK(judge(&n, false, "", &err));
        nonfinite_end_row(&n);
    }
    for (int i = 0; i < 1000; i++)
        T_OK(judge(&none, false, "", &err));
}

// Returns what /metrics says of an action.
static unsigned long counted(const char *action)
{
    struct buf text = BUF_INIT;
    char series[80];
    const char *at;
    unsigned long n;
    struct expo e;

    snprintf(series, sizeof(series),
             "sluice_nonfinite_gradients_total{action=\"%s\"} ", action);
    expo_begin(&e, &text, false);
    figures_write(&e);
    T_OK(expo_end(&e));
    at = strstr(buf_text(&text), series);
    T_ASSERT(at != NULL);
    n = strtoul(at + strlen(series), NULL, 10);
    buf_release(&text);
    return n;
}

// One figure for a worker, a rank and a program.
TEST(nonfinite, each_judgement_is_counted_by_what_is_done)
{
    struct nonfinite skip = rule("skip", 0), fail = rule("fail", 0);
    unsigned long skips = counted("skip"), fails = counted("fail"),
                  scales = counted("scale");
    struct sl_error err;

    T_OK(judge(&skip, false, "", &err));
    T_OK(judge(&skip, true, "", &err));
    T_EQ(judge(&fail, false, "", &err), SL_ENUMERIC);
    for (int i = 0; i < 3; i++)
        nonfinite_scaled();
    T_EQ(counted("skip"), skips + 2);
    T_EQ(counted("fail"), fails + 1);
    T_EQ(counted("scale"), scales + 3);
}
