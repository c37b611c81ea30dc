// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/not_a_number_test.c -- what is no number in a convolution
// by our own loops: it comes out wherever ref says so, ReLU or not, so that a
// step that went wrong is seen. (It may come out elsewhere, too: Winograd's
// tiles share sums, and padding is multiplied.)
#include "kernels/kern.h"

#include <math.h>

#include "tests/harness/t.h"

#define FLOATS (1 << 15) // of each tensor, at most

static const struct kern_window same3 = {.size = {3, 3},
                                         .stride = {1, 1},
                                         .dilation = {1, 1},
                                         .pad_before = {1, 1},
                                         .pad_after = {1, 1}};

struct op {
    struct kern_desc d;
    float io[4][FLOATS]; // inputs, then outputs
};

static void run(struct op *op, struct kern_dev *dev, char impl[48])
{
    struct kern_plan *plan = NULL;
    void *io[KERN_IO] = {NULL}, *workspace;
    size_t bytes;

    for (unsigned i = 0; i < op->d.inputs + op->d.outputs; i++)
        io[i] = op->io[i];
    T_OK(kern_plan_new(&plan, &bytes, dev, &op->d, 0, t_err()));
    workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    T_OK(kern_run(plan, NULL, io, workspace));
    snprintf(impl, 48, "%s", plan->impl);
    free(workspace);
    kern_plan_free(plan);
}

// Runs it on both with `what` among an input's numbers.
static void compare(struct kern_dev *dev, struct kern_dev *ref,
                    const struct kern_desc *d, unsigned input, int64_t at,
                    float what)
{
    static struct op ours, theirs;
    unsigned spoiled = 0;
    char impl[48];

    ours.d = *d;
    for (unsigned i = 0; i < d->inputs; i++)
        for (int64_t k = 0; k < FLOATS; k++)
            ours.io[i][k] = (float)(k * 37 % 101 - 50) * 0.02f;
    ours.io[input][at] = what;
    theirs = ours;
    run(&theirs, ref, impl);
    run(&ours, dev, impl);
    T_TRUE(strchr(impl, ':') == NULL); // not oneDNN's
    for (unsigned i = d->inputs; i < d->inputs + d->outputs; i++) {
        for (int64_t k = 0; k < kern_shape_count(&d->io[i]); k++) {
            if (isnan(theirs.io[i][k]))
                T_TRUE(isnan(ours.io[i][k]));
            spoiled += isnan(theirs.io[i][k]);
        }
    }
    T_TRUE(spoiled > 0);
}

static void all_ways(const char *options)
{
    // Few channels: the direct loops. Many, and enough tiles: Winograd's.
    static const struct {
        int64_t x[4], co;
    } nets[] = {{{2, 9, 9, 3}, 3}, {{1, 32, 33, 1}, 20}, {{1, 32, 32, 16}, 16}};
    struct kern_dev *dev = NULL, *ref = NULL;
    struct kern_desc d;

    if (kern_open(&dev, "cpu", options, NULL) != SL_OK)
        return; // not on this host
    T_OK(kern_open(&ref, "ref", NULL, t_err()));
    for (size_t i = 0; i < SL_COUNT(nets); i++) {
        kern_desc_conv(&d, KERN_CONV_FWD, nets[i].x, nets[i].co, &same3, 1,
                       KERN_BIAS | KERN_RELU);
        compare(dev, ref, &d, 0, 17, NAN);
        compare(dev, ref, &d, 0, 17, -NAN);
        compare(dev, ref, &d, 1, 4, NAN);
        compare(dev, ref, &d, 2, 1, NAN);
        kern_desc_conv(&d, KERN_CONV_WGRAD, nets[i].x, nets[i].co, &same3, 1,
                       KERN_BGRAD);
        compare(dev, ref, &d, 0, 17, NAN);
        compare(dev, ref, &d, 1, 40, NAN);
    }
    kern_close(ref);
    kern_close(dev);
}

TEST(not_a_number, comes_out_of_our_convolutions)
{
    all_ways("isa=base,direct=2");
    all_ways("isa=avx2,direct=2");
    all_ways("isa=avx512,direct=2");
}
