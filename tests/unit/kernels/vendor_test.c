// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/vendor_test.c -- what of products can be judged without a
// device: options, scores, kept plans.
#include "kernels/cuda/vendor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"

static struct sl_error err;

// ---- Options --------------------------------------------------------------

TEST(vendor, options_have_defaults)
{
    struct vendor_options o;

    T_OK(vendor_options_read(&o, NULL, t_err()));
    T_TRUE(o.tf32);
    T_TRUE(o.deterministic);
    T_TRUE(o.prove);
    T_FALSE(o.autotune);
    T_EQ(o.workspace_bytes, VENDOR_WORKSPACE_AUTO);
    T_PTR(o.plans, NULL);
}

TEST(vendor, options_are_read)
{
    struct vendor_options o;

    T_OK(vendor_options_read(&o,
                             "tf32=0,autotune=1,deterministic=0,prove=0,"
                             "workspace=64,plans=/var/lib/p",
                             t_err()));
    T_FALSE(o.tf32);
    T_FALSE(o.deterministic);
    T_FALSE(o.prove);
    T_TRUE(o.autotune);
    T_EQ(o.workspace_bytes, (size_t)64 << 20);
    T_STR(o.plans, "/var/lib/p");
    sl_free(o.plans);
}

TEST(vendor, a_path_ends_at_a_comma_and_the_last_word_counts)
{
    uint64_t live = sl_mem_live();
    struct vendor_options o;

    T_OK(vendor_options_read(&o, "plans=/a,prove=1,prove=0", t_err()));
    T_STR(o.plans, "/a");
    T_FALSE(o.prove);
    sl_free(o.plans);
    T_OK(vendor_options_read(&o, "plans=/a,prove=0,plans=/b", t_err()));
    T_STR(o.plans, "/b");
    T_FALSE(o.prove);
    sl_free(o.plans);
    T_FAILS(SL_EINVAL, vendor_options_read(&o, "plans=/a,b", &err));
    T_HAS(err.text, "\"b\"");
    T_EQ(sl_mem_live(), live);
}

TEST(vendor, wrong_options_are_named)
{
    static const char *const wrong[] = {"tf32=2",       "tf32=",  "autotune",
                                        "workspace=-1", "fast=1", "plan=x"};
    uint64_t live = sl_mem_live();
    struct vendor_options o = {.plans = NULL};

    for (unsigned i = 0; i < SL_COUNT(wrong); i++) {
        T_FAILS(SL_EINVAL, vendor_options_read(&o, wrong[i], &err));
        T_HAS(err.text, wrong[i]);
    }
    T_EQ(sl_mem_live(), live);
}

// ---- Which products -------------------------------------------------------

#define CAP ((size_t)1 << 30)

static struct vendor some;
static struct cuda_dev dev = {
    .vendor = &some, .sm = 90, .name = "some", .bytes = 8 * CAP};

TEST(vendor, products_of_every_dtype_are_taken)
{
    static const enum kern_dtype types[] = {KERN_F32, KERN_F16, KERN_BF16};
    struct kern_desc d;

    for (unsigned i = 0; i < SL_COUNT(types); i++) {
        kern_desc_matmul(&d, 5, 7, 3, false, true, KERN_BIAS | KERN_RELU);
        kern_desc_dtype(&d, types[i]);
        T_GT(gemm_score(&dev, &d), 0);
        kern_desc_matmul(&d, 5, 7, 3, true, false, KERN_BGRAD | KERN_ACCUM);
        kern_desc_dtype(&d, types[i]);
        T_GT(gemm_score(&dev, &d), 0);
        kern_desc_matmul_batch(&d, 2, 5, 7, 3, false, false, 0);
        kern_desc_dtype(&d, types[i]);
        T_GT(gemm_score(&dev, &d), 0);
    }
}

TEST(vendor, products_that_nobody_asks_for_are_not)
{
    struct kern_desc d;

    kern_desc_matmul(&d, 5, 7, 3, false, false, KERN_BGRAD);
    T_EQ(gemm_score(&dev, &d), 0);
    kern_desc_matmul(&d, 5, 7, 3, false, false, 0);
    kern_desc_f64(&d);
    T_EQ(gemm_score(&dev, &d), 0);
    kern_desc_matmul(&d, 5, 7, 3, false, true, KERN_BIAS);
    kern_desc_dtype(&d, KERN_F16);
    d.io[3].dtype = KERN_F32;
    T_EQ(gemm_score(&dev, &d), 0);
    kern_desc_matmul(&d, 5, 7, 0, false, true, KERN_BIAS);
    T_EQ(gemm_score(&dev, &d), 0);
}

// ---- Precision ------------------------------------------------------------

TEST(vendor, an_op_may_overrule_the_device)
{
    struct kern_desc d;

    kern_desc_matmul(&d, 5, 7, 3, false, true, 0);
    some.options.tf32 = true;
    T_TRUE(vendor_tf32(&some, &d));
    d.math = KERN_MATH_F32;
    T_OK(kern_desc_check(&d, t_err()));
    T_FALSE(vendor_tf32(&some, &d));
    some.options.tf32 = false;
    d.math = KERN_MATH_TF32;
    T_TRUE(vendor_tf32(&some, &d));
    d.math = KERN_MATH_DEVICE;
    T_FALSE(vendor_tf32(&some, &d));
    d.math = 9;
    T_FAILS(SL_EINVAL, kern_desc_check(&d, &err));
}

TEST(vendor, plans_are_kept_apart_by_what_they_depend_on)
{
    struct kern_desc d, same;
    uint64_t key;

    kern_desc_matmul(&d, 5, 7, 3, false, true, 0);
    some.options = (struct vendor_options){.tf32 = true, .deterministic = true};
    key = vendor_key(&dev, &d, CAP);
    same = d;
    same.math = KERN_MATH_TF32; // what the device does anyway
    T_EQ(vendor_key(&dev, &same, CAP), key);
    same.math = KERN_MATH_F32;
    T_NE(vendor_key(&dev, &same, CAP), key);
    some.options.deterministic = false;
    T_NE(vendor_key(&dev, &d, CAP), key);
    some.options.deterministic = true;
    dev.name[0] = 'S';
    T_NE(vendor_key(&dev, &d, CAP), key);
    dev.name[0] = 's';
    T_NE(vendor_key(&dev, &d, CAP / 2), key);
    some.options.autotune = true;
    T_NE(vendor_key(&dev, &d, CAP), key);
    some.options.autotune = false;
    dev.bytes++; // the same name with more memory
    T_NE(vendor_key(&dev, &d, CAP), key);
    dev.bytes--;
    T_EQ(vendor_key(&dev, &d, CAP), key);
}

TEST(vendor, any_minor_version_of_cudnn_is_taken)
{
    T_TRUE(vendor_dnn_fits(90000));
    T_TRUE(vendor_dnn_fits(90800)); // older than the one this is built with
    T_TRUE(vendor_dnn_fits(99900));
    T_FALSE(vendor_dnn_fits(8907));
    T_FALSE(vendor_dnn_fits(100000));
}

TEST(vendor, alignment_is_judged)
{
    T_TRUE(vendor_aligned(2, (void *[]){(void *)64, (void *)48}));
    T_FALSE(vendor_aligned(2, (void *[]){(void *)64, (void *)52}));
}

// ---- Kept plans -----------------------------------------------------------

static char *temp_path(void)
{
    static char path[64];
    int fd;

    strcpy(path, "/tmp/sluice-plans-XXXXXX");
    fd = mkstemp(path);
    T_TRUE(fd >= 0);
    close(fd);
    return path;
}

static void add(struct plans *p, const char *kind, uint64_t key,
                const char *text)
{
    struct buf b = BUF_INIT;

    T_OK(buf_append_str(&b, text));
    plans_add(p, kind, 7, key, &b);
    buf_release(&b);
}

static const char *find(const struct plans *p, const char *kind,
                        uint64_t version, uint64_t key)
{
    static char text[100];
    struct buf b = BUF_INIT;
    bool found = plans_find(&b, p, kind, version, key);

    strncpy(text, buf_text(&b), sizeof(text) - 1);
    buf_release(&b);
    return found ? text : "(none)";
}

TEST(plans, are_found_again_by_another_process)
{
    char *path = temp_path();
    struct plans p;

    plans_open(&p, path);
    T_STR(find(&p, "conv", 7, 1), "(none)");
    add(&p, "conv", 1, "{\"a\":\n1}");
    add(&p, "gemm", 1, "1 2");
    T_STR(find(&p, "conv", 7, 1), "{\"a\": 1}");
    plans_close(&p);
    plans_open(&p, path);
    T_STR(find(&p, "conv", 7, 1), "{\"a\": 1}");
    T_STR(find(&p, "gemm", 7, 1), "1 2");
    T_STR(find(&p, "gemm", 8, 1), "(none)");
    T_STR(find(&p, "gemm", 7, 2), "(none)");
    add(&p, "gemm", 1, "3");
    T_STR(find(&p, "gemm", 7, 1), "3");
    plans_close(&p);
    unlink(path);
}

// A worker may be killed while it writes.
TEST(plans, a_cut_line_is_passed_over)
{
    char *path = temp_path();
    struct plans p;

    plans_open(&p, path);
    add(&p, "gemm", 1, "1 2");
    add(&p, "gemm", 2, "3 4");
    plans_close(&p);
    T_EQ(truncate(path, 40), 0);
    plans_open(&p, path);
    T_STR(find(&p, "gemm", 7, 1), "1 2");
    T_STR(find(&p, "gemm", 7, 2), "(none)");
    plans_close(&p);
    unlink(path);
}

// A line behind it is whole, and does not make the cut one so.
TEST(plans, a_cut_line_takes_no_other_with_it)
{
    char *path = temp_path();
    struct plans p;

    plans_open(&p, path);
    add(&p, "gemm", 1, "1 2");
    add(&p, "gemm", 2, "3 4");
    plans_close(&p);
    T_EQ(truncate(path, 53), 0); // behind the 3
    for (int start = 0; start < 2; start++) {
        plans_open(&p, path);
        T_STR(find(&p, "gemm", 7, 1), "1 2");
        T_STR(find(&p, "gemm", 7, 2), "(none)");
        if (start == 0)
            add(&p, "gemm", 3, "5 6");
        T_STR(find(&p, "gemm", 7, 3), "5 6");
        plans_close(&p);
    }
    unlink(path);
}

TEST(plans, without_a_file_nothing_is_kept)
{
    struct plans p;

    plans_open(&p, NULL);
    add(&p, "gemm", 1, "1");
    T_STR(find(&p, "gemm", 7, 1), "(none)");
    plans_close(&p);
}
