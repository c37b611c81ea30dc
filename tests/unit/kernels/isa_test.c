// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/isa_test.c -- a cap on instructions, and what is chosen
// for a convolution. A program of its own: oneDNN takes the cap once.
#include "kernels/kern.h"

#include "tests/harness/t.h"

static const struct kern_window three = {
    .size = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}};
static const struct kern_window apart = {
    .size = {3, 3}, .stride = {2, 2}, .dilation = {1, 1}};

static struct kern_dev *capped(const char *options)
{
    struct kern_dev *dev = NULL;
    struct kern_info info;

    if (kern_open(&dev, "cpu", options, NULL) != SL_OK)
        T_SKIP("this host has no AVX2");
    dev->backend->info(&info, dev);
    T_HAS(info.name, "avx2 loops");
    if (strstr(info.name, "without oneDNN"))
        T_SKIP("a build without oneDNN");
    return dev;
}

// What computes it, in `name`.
static void chosen(char name[48], struct kern_dev *dev, enum kern_op op,
                   const int64_t x[4], int64_t co, const struct kern_window *w)
{
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes;

    kern_desc_conv(&d, op, x, co, w, 1, 0);
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    snprintf(name, 48, "%s", plan->impl);
    kern_plan_free(plan);
}

TEST(isa, a_cap_holds_for_our_loops_and_for_onednn)
{
    struct kern_dev *dev = capped("isa=avx2");
    char name[48];

    chosen(name, dev, KERN_CONV_FWD, (int64_t[]){64, 13, 13, 32}, 64, &apart);
    T_TRUE(strstr(name, "avx512") == NULL);
    T_HAS(name, "avx2");
    kern_close(dev);
}

TEST(isa, three_by_three_convolutions_are_winograds_where_it_pays)
{
    struct kern_dev *dev = capped("isa=avx2"), *plain;
    const int64_t fashion[4] = {64, 13, 13, 32}, few[4] = {1, 5, 5, 32};
    const int64_t hang[4] = {64, 6, 6, 64};
    char name[48];

    plain = capped("isa=avx2,winograd=0");
    for (int op = KERN_CONV_FWD; op <= KERN_CONV_WGRAD; op++) {
        chosen(name, dev, op, fashion, 64, &three);
        T_HAS(name, "avx2");
        chosen(name, plain, op, fashion, 64, &three);
        T_HAS(name, ":");
        chosen(name, dev, op, few, 64, &three);
        T_HAS(name, ":");
    }
    // Of 4x4 outputs' gradient, 6x6 pixels: more tiles than multiplications.
    chosen(name, dev, KERN_CONV_DGRAD, hang, 64, &three);
    T_HAS(name, ":");
    kern_close(plain);
    kern_close(dev);
}

TEST(isa, first_convolutions_are_direct_ones_where_it_pays)
{
    struct kern_dev *dev = capped("isa=avx2"), *off, *all;
    const int64_t grey[4] = {64, 28, 28, 1}, colour[4] = {64, 32, 32, 3};
    const int64_t many[4] = {64, 32, 32, 6};
    char name[48];

    off = capped("isa=avx2,direct=0");
    all = capped("isa=avx2,direct=2");
    for (int op = KERN_CONV_FWD; op <= KERN_CONV_WGRAD; op++) {
        bool ours = op != KERN_CONV_DGRAD; // nobody asks for it

        chosen(name, dev, op, grey, 32, &three);
        T_HAS(name, ours ? "avx2" : ":");
        T_EQ(strchr(name, ':') == NULL, ours);
        chosen(name, off, op, grey, 32, &three);
        T_HAS(name, ":");
        chosen(name, dev, op, many, 32, &three);
        T_HAS(name, ":");
        chosen(name, all, op, many, 32, &three);
        T_EQ(strchr(name, ':') == NULL, ours);
    }
    // Whole blocks of oneDNN's, many taps: forward by it, back by us.
    chosen(name, dev, KERN_CONV_FWD, colour, 32, &three);
    T_HAS(name, ":");
    chosen(name, dev, KERN_CONV_WGRAD, colour, 32, &three);
    T_HAS(name, "avx2");
    chosen(name, dev, KERN_CONV_WGRAD, colour, 9, &three);
    T_HAS(name, ":");
    kern_close(all);
    kern_close(off);
    kern_close(dev);
}
