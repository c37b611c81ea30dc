// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/cpu_half_test.c -- the faster of two ways to compute a
// product in 16 bits is taken, and kept; a stand-in tells the time.
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/prove/prove.h"
#include "tests/harness/t.h"

static bool half_is_faster; // by the stand-in
static unsigned timed;      // runs
static char library[64];    // name of oneDNN's implementation that was timed

static enum sl_err tell_time(double *us, struct cpu_plan *plan, void *const *io,
                             void *workspace)
{
    bool own = strcmp(plan->base.impl, plan->dev->wino_name) == 0;

    if (!own)
        snprintf(library, sizeof(library), "%s", plan->base.impl);
    timed++;
    *us = own == half_is_faster ? 2 : 1;
    return plan->run(plan, io, workspace);
}

// A convolution that our Winograd computes by the rule.
static void describe(struct kern_desc *d)
{
    const struct kern_window three = {.size = {3, 3},
                                      .stride = {1, 1},
                                      .dilation = {1, 1},
                                      .pad_before = {1, 1},
                                      .pad_after = {1, 1}};

    kern_desc_conv(d, KERN_CONV_FWD, (int64_t[]){32, 14, 14, 32}, 32, &three, 1,
                   0);
    kern_desc_dtype(d, KERN_BF16);
}

// Plans the op at a start of its own; writes the name of what computes it.
// Returns its score.
static int started(char name[64], const char *options)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes = 0;
    int score;

    describe(&d);
    timed = 0;
    T_OK(kern_open(&dev, "cpu", options, t_err()));
    ((struct cpu_dev *)dev)->time_half = tell_time;
    score = kern_score(dev, &d);
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    snprintf(name, 64, "%s", plan->impl);
    kern_plan_free(plan);
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    T_STR(plan->impl, name);
    kern_plan_free(plan);
    kern_close(dev);
    return score;
}

static bool host_has_both(void)
{
    struct kern_dev *dev = NULL;
    struct kern_desc d;
    bool both;

    describe(&d);
    T_OK(kern_open(&dev, "cpu", "winograd=0,direct=0,prove=0", t_err()));
    both = cpu_product_score((struct cpu_dev *)dev, &d) > 0;
    kern_close(dev);
    return both;
}

TEST(cpu_half, the_faster_way_is_taken_and_kept)
{
    char options[600], more[640], name[64], again[64], own[64];

    if (!host_has_both())
        T_SKIP("this host has no products in 16 bits");
    T_EQ(started(own, NULL), CPU_MIXED_SCORE);
    T_HAS(own, "winograd");
    T_EQ(timed, 0u); // the rule
    for (int faster = 0; faster < 2; faster++) {
        half_is_faster = faster;
        snprintf(options, sizeof(options),
                 "threads=1,autotune=1,proofs=%s/plans%d", t_tmpdir(), faster);
        T_EQ(started(name, options), faster ? 100 : CPU_MIXED_SCORE);
        T_GT(timed, 0u);
        T_STR(name, faster ? library : own);
        half_is_faster = !faster; // what was kept decides
        T_EQ(started(again, options), faster ? 100 : CPU_MIXED_SCORE);
        T_EQ(timed, 0u);
        T_STR(again, name);
        // Of another host, or with other options, nothing is known.
        snprintf(more, sizeof(more), "threads=2,%s", options);
        T_EQ(started(again, more), faster ? CPU_MIXED_SCORE : 100);
        T_GT(timed, 0u);
    }
}

// What was faster may be wrong: it is not used all the same.
TEST(cpu_half, what_is_faster_and_wrong_is_not_used)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes = 0;

    if (!host_has_both())
        T_SKIP("this host has no products in 16 bits");
    describe(&d);
    half_is_faster = true;
    T_OK(kern_open(&dev, "cpu", "autotune=1", t_err()));
    ((struct cpu_dev *)dev)->time_half = tell_time;
    T_EQ(kern_score(dev, &d), 100);
    T_OK(prover_learn(dev->prover, &d, library, PROOF_WRONG, 0));
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    T_TRUE(strcmp(plan->impl, library) != 0);
    kern_plan_free(plan);
    kern_close(dev);
}
