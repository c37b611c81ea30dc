// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/kern_test.c -- opening devices, planning, memory.
#include "kernels/kern.h"

#include "common/run/log.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

static struct sl_error err; // of calls whose text is looked at

TEST(kern, auto_opens_the_best_there_is)
{
    struct kern_dev *dev = NULL;
    struct kern_info info;
    char why[300];
    unsigned i = 0;

    while (kern_backend_at(i)->probe(why, sizeof(why)) == 0)
        i++;
    T_OK(kern_open(&dev, "auto", NULL, t_err()));
    T_STR(dev->backend->name, kern_backend_at(i)->name);
    dev->backend->info(&info, dev);
    T_HAS(info.name, dev->backend->name);
    T_TRUE(info.dtypes & 1u << KERN_F32);
    kern_close(dev);
}

static unsigned told;

static void count_told(void *arg, enum log_level level, const char *line,
                       size_t len)
{
    told += memmem(line, len, "no usable device", 16) != NULL &&
            memmem(line, len, "cuda", 4) != NULL;
}

// Without a GPU the CPU computes, and one line says why.
TEST(kern, auto_falls_back_to_cpu_with_one_line)
{
    struct kern_dev *dev = NULL;
    char why[300] = "";

    if (kern_backend_at(0)->probe(why, sizeof(why)) > 0)
        T_SKIP("there is a GPU here");
    T_TRUE(why[0] != '\0');
    told = 0;
    log_set_sink(count_told, NULL);
    T_OK(kern_open(&dev, "auto", "cpu.threads=1,cuda.tf32=0", t_err()));
    log_set_sink(NULL, NULL);
    T_EQ(told, 1);
    T_STR(dev->backend->name, "cpu");
    kern_close(dev);
    dev = NULL;
    T_FAILS(SL_ENOTSUP, kern_open(&dev, "cuda", NULL, &err));
    T_HAS(err.text, why);
    T_FAILS(SL_ENOTSUP, kern_open(&dev, "cuda:3", NULL, &err));
    T_PTR(dev, NULL);
}

TEST(kern, device_numbers_are_read_strictly)
{
    struct kern_dev *dev = NULL;
    static const char *const wrong[] = {"cuda:",   "cuda:x",  "cuda:-1",
                                        "cuda:1x", "cuda:+1", "cuda:99999",
                                        "cpu:0",   "auto:0",  ""};

    for (unsigned i = 0; i < SL_COUNT(wrong); i++)
        T_FAILS(SL_ENOENT, kern_open(&dev, wrong[i], NULL, &err));
    T_PTR(dev, NULL);
}

TEST(kern, options_of_another_backend_are_passed_over)
{
    struct kern_dev *dev = NULL;

    T_OK(kern_open(&dev, "ref", "cpu.threads=2,cuda.plans=/a.b/c", t_err()));
    kern_close(dev);
    dev = NULL;
    T_OK(kern_open(&dev, "cpu", "cpu.winograd=0,threads=1", t_err()));
    kern_close(dev);
    dev = NULL;
    T_FAILS(SL_EINVAL, kern_open(&dev, "cpu", "cpu.fast=1", &err));
    T_HAS(err.text, "\"fast=1\"");
    T_FAILS(SL_EINVAL, kern_open(&dev, "auto", "cpu.fast=1", &err));
    T_HAS(err.text, "\"fast=1\"");
    T_PTR(dev, NULL);
}

TEST(kern, unknown_backends_and_options_are_named)
{
    struct kern_dev *dev = NULL;

    T_FAILS(SL_ENOENT, kern_open(&dev, "gpu", NULL, &err));
    T_HAS(err.text, "\"gpu\"");
    T_FAILS(SL_EINVAL, kern_open(&dev, "cpu", "threads=2,fast=1", &err));
    T_HAS(err.text, "\"fast=1\"");
    T_FAILS(SL_EINVAL, kern_open(&dev, "cpu", "threads=-1", &err));
    T_FAILS(SL_EINVAL, kern_open(&dev, "ref", "threads=2", &err));
    T_PTR(dev, NULL);
}

TEST(kern, close_and_free_take_null)
{
    kern_close(NULL);
    kern_plan_free(NULL);
}

TEST(kern, a_bad_descriptor_leaves_outputs_alone)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes = 77;

    T_OK(kern_open(&dev, "auto", NULL, t_err()));
    kern_desc_reduce(&d, 2, (int64_t[]){2, 3}, KERN_RELU);
    T_FAILS(SL_EINVAL, kern_plan_new(&plan, &bytes, dev, &d, 0, &err));
    T_PTR(plan, NULL);
    T_EQ(bytes, 77);
    kern_close(dev);
}

TEST(kern, the_workspace_cap_holds)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    size_t bytes = 0;

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    kern_desc_reduce(&d, 2, (int64_t[]){1000, 300}, 0);
    T_FAILS(SL_ENOMEM, kern_plan_new(&plan, &bytes, dev, &d, 64, &err));
    T_PTR(plan, NULL);
    kern_close(dev);
}

// ---- Fallback -------------------------------------------------------------

static unsigned lines;

static void count_lines(void *arg, enum log_level level, const char *line,
                        size_t len)
{
    lines += memmem(line, len, "reference code", 14) != NULL;
}

// A row sum that no gradient needs: ref does it, and says so once per op.
TEST(kern, what_cpu_cannot_ref_does_and_one_line_says_so)
{
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1}, c[4], sum[2];
    size_t bytes = 0;

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    lines = 0;
    log_set_sink(count_lines, NULL);
    kern_desc_matmul(&d, 2, 2, 2, false, false, KERN_BGRAD);
    for (int i = 0; i < 3; i++) {
        T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
        T_STR(plan->impl, "ref");
        T_OK(kern_run(plan, NULL, (void *[]){a, b, c, sum}, NULL));
        kern_plan_free(plan);
    }
    log_set_sink(NULL, NULL);
    T_EQ(lines, 1);
    T_MEM(c, a, sizeof(a));
    T_EQ(sum[0], 3);
    T_EQ(sum[1], 7);
    T_TRUE(kern_score(dev, &d) > 0);
    kern_close(dev);
}

// oneDNN divides by what there is nothing of.
TEST(kern, nothing_can_be_scored)
{
    static const int64_t x[] = {0, 8, 8, 4};
    struct kern_window w = kern_window(3, 3, 1, 1);
    struct kern_dev *dev = NULL;
    struct kern_desc d;

    T_OK(kern_open(&dev, "cpu", NULL, t_err()));
    kern_desc_matmul(&d, 0, 2, 2, false, false, 0);
    T_TRUE(kern_score(dev, &d) > 0);
    kern_desc_matmul(&d, 2, 2, 0, false, false, 0);
    T_TRUE(kern_score(dev, &d) > 0);
    kern_desc_conv(&d, KERN_CONV_FWD, x, 8, &w, 1, 0);
    T_TRUE(kern_score(dev, &d) > 0);
    kern_desc_dtype(&d, KERN_BF16);
    T_TRUE(kern_score(dev, &d) > 0);
    kern_close(dev);
}

// ---- Parts ----------------------------------------------------------------

#define WHOLE 5003 // elements, more than a chunk

// Of WHOLE ones, from `first` on, on a host backend.
static void drop_some(const char *device, uint64_t first, float *out)
{
    int64_t n = WHOLE - (int64_t)first;
    struct kern_dev *dev = NULL;
    struct kern_plan *plan = NULL;
    int64_t key[2] = {3, 14};
    static float x[WHOLE];
    struct kern_desc d;
    size_t bytes;

    for (unsigned i = 0; i < WHOLE; i++)
        x[i] = 1;
    T_OK(kern_open(&dev, device, NULL, t_err()));
    kern_desc_dropout(&d, 0.4f, 2, 1, &n);
    d.u.dropout.first = first;
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
    T_OK(kern_run(plan, NULL, (void *[]){x, key, out}, NULL));
    kern_plan_free(plan);
    kern_close(dev);
}

TEST(kern, a_part_is_dropped_as_it_is_in_the_whole)
{
    static const char *const hosts[] = {"ref", "cpu"};
    static const uint64_t firsts[] = {1, 2, 3, 4, 1026, 4099};
    static float whole[WHOLE], part[WHOLE];

    for (unsigned i = 0; i < SL_COUNT(hosts); i++) {
        drop_some(hosts[i], 0, whole);
        for (unsigned k = 0; k < SL_COUNT(firsts); k++) {
            drop_some(hosts[i], firsts[k], part);
            T_MEM(part, whole + firsts[k], (WHOLE - firsts[k]) * sizeof(*part));
        }
    }
}

// ---- Memory ---------------------------------------------------------------

TEST(kern, device_memory_and_streams)
{
    for (unsigned i = 0; kern_backend_at(i); i++) {
        const struct kern_backend *b = kern_backend_at(i);
        struct kern_dev *dev = NULL;
        struct kern_stream *s = NULL;
        struct kern_mem mem;
        char text[8] = "", why[300];

        if (b->probe(why, sizeof(why)) == 0)
            continue;
        T_OK(kern_open(&dev, b->name, NULL, t_err()));
        b = dev->backend;
        T_OK(b->alloc(&mem, dev, 100, KERN_DEVICE));
        T_EQ((uintptr_t)mem.at % 64, 0);
        T_OK(b->stream_new(&s, dev, 0));
        T_OK(b->fill(s, mem.at, 'x', 100));
        T_OK(b->copy(s, mem.at, "hello", 5, KERN_TO_DEVICE));
        T_OK(b->copy(s, text, mem.at, 7, KERN_TO_HOST));
        T_OK(b->stream_sync(s));
        T_STR(text, "helloxx");
        b->stream_free(s);
        b->release(dev, &mem);
        T_PTR(mem.at, NULL);
        kern_close(dev);
    }
}

// Every allocation of opening and planning fails in turn; nothing leaks and
// nothing is half made.
TEST(kern, out_of_memory_is_an_answer)
{
    struct kern_window w = kern_window(3, 3, 1, 1);
    struct kern_desc d[3];

    kern_desc_conv(&d[0], KERN_CONV_WGRAD, (int64_t[]){2, 9, 9, 4}, 8, &w, 1,
                   KERN_BGRAD | KERN_ACCUM);
    kern_desc_matmul(&d[1], 4, 5, 6, false, true, KERN_BIAS | KERN_RELU);
    kern_desc_softmax(&d[2], KERN_SOFTMAX_FWD, 2, (int64_t[]){3, 4});
    for (unsigned k = 0; k < SL_COUNT(d); k++) {
        for (uint64_t n = 1;; n++) {
            uint64_t live = sl_mem_live();
            struct kern_dev *dev = NULL;
            struct kern_plan *plan = NULL;
            size_t bytes;
            enum sl_err rc;

            sl_mem_fail_at(n);
            rc = kern_open(&dev, "cpu", "threads=1", NULL);
            if (rc == SL_OK)
                rc = kern_plan_new(&plan, &bytes, dev, &d[k], 0, NULL);
            kern_plan_free(plan);
            kern_close(dev);
            T_EQ(sl_mem_live(), live);
            if (!sl_mem_failed())
                break;
            T_EQ(rc, SL_ENOMEM);
        }
    }
}
