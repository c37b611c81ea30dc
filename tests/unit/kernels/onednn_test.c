// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/onednn_test.c -- which of oneDNN's implementations are
// never used, and what is taken in their place.
#include "kernels/cpu/product.h"

#include "tests/harness/t.h"

static const struct kern_window dense = {
    .size = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}};
static const struct kern_window dilated = {.size = {3, 3},
                                           .stride = {1, 1},
                                           .dilation = {2, 2},
                                           .pad_before = {2, 2},
                                           .pad_after = {2, 2}};

static void describe(struct kern_desc *d, enum kern_op op,
                     const struct kern_window *w)
{
    kern_desc_conv(d, op, (int64_t[]){2, 9, 9, 33}, 17, w, 1, 0);
}

// Writes the name of what computes a weight gradient for which oneDNN has
// several implementations on each x86-64 host.
static void chosen(char name[48], const char *options)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes;

    T_OK(kern_open(&dev, "cpu", options, t_err()));
    kern_desc_conv(&d, KERN_CONV_WGRAD, (int64_t[]){2, 9, 9, 32}, 32, &dense, 1,
                   0);
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    snprintf(name, 48, "%s", plan->impl);
    kern_plan_free(plan);
    kern_close(dev);
}

TEST(onednn, amx_computes_no_dilated_weight_gradient)
{
    static const char amx[] = "jit:avx512_core_amx_bf16";
    struct kern_desc d;

    describe(&d, KERN_CONV_WGRAD, &dilated);
    T_TRUE(product_is_wrong(&d, amx));
    T_TRUE(!product_is_wrong(&d, "jit:avx512_core_bf16"));
    describe(&d, KERN_CONV_WGRAD, &dense);
    T_TRUE(!product_is_wrong(&d, amx));
    describe(&d, KERN_CONV_FWD, &dilated);
    T_TRUE(!product_is_wrong(&d, amx));
    describe(&d, KERN_CONV_DGRAD, &dilated);
    T_TRUE(!product_is_wrong(&d, amx));
}

TEST(onednn, the_next_implementation_stands_in_for_one_left_out)
{
    char first[48], next[48], options[80];

    chosen(first, "direct=0,winograd=0");
    snprintf(options, sizeof(options), "direct=0,winograd=0,without=%.31s",
             first);
    chosen(next, options);
    T_HAS(first, ":"); // names of oneDNN's have a colon, ours have none
    T_HAS(next, ":");
    T_TRUE(strstr(next, first) == NULL);
}

TEST(onednn, what_is_left_out_is_named)
{
    struct kern_dev *dev = NULL;
    struct sl_error err;

    T_FAILS(SL_EINVAL, kern_open(&dev, "cpu", "without=", &err));
    T_HAS(err.text, "without=TEXT");
    T_PTR(dev, NULL);
}
