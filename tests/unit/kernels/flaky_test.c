// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/flaky_test.c -- the backend that fails when told to.
#include "kernels/flaky.h"

#include <math.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "kernels/desc.h"
#include "tests/harness/t.h"

static struct sl_error err; // of calls whose text is looked at

static struct kern_dev *open_with(const char *words)
{
    struct kern_dev *dev = NULL;

    T_OK(kern_open(&dev, "flaky:ref", words, t_err()));
    return dev;
}

static enum sl_err plan(struct kern_plan **out, struct kern_dev *dev)
{
    struct kern_desc d;
    size_t bytes = 0;

    kern_desc_reduce(&d, 2, (int64_t[]){4, 3}, 0);
    return kern_plan_new(out, &bytes, dev, &d, 1 << 16, &err);
}

static const float twelve[12] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3};

static enum sl_err run(struct kern_plan *p, float sum[3])
{
    static _Alignas(64) char workspace[1 << 16];
    void *io[] = {(void *)twelve, sum};

    return kern_run(p, NULL, io, workspace);
}

TEST(flaky, without_words_it_is_the_other_backend)
{
    struct kern_dev *dev = NULL, *ref = NULL;
    struct kern_plan *p = NULL;
    struct kern_info info;
    struct kern_desc d;
    float sum[3] = {0};

    T_OK(kern_open(&dev, "flaky:cpu", "cpu.threads=1", t_err()));
    T_OK(kern_open(&ref, "cpu", NULL, t_err()));
    dev->backend->info(&info, dev);
    T_HAS(info.name, "flaky: cpu");
    T_TRUE(info.dtypes & 1u << KERN_F32);
    T_TRUE(dev->backend->host);
    kern_desc_reduce(&d, 2, (int64_t[]){4, 3}, 0);
    T_EQ(kern_score(dev, &d), kern_score(ref, &d));
    T_OK(plan(&p, dev));
    T_OK(run(p, sum));
    T_EQ(sum[0], 4);
    T_EQ(sum[2], 12);
    T_STR(dev->backend->fault(dev), "");
    kern_plan_free(p);
    kern_close(ref);
    kern_close(dev);
}

TEST(flaky, wrong_words_and_devices_are_refused)
{
    struct kern_dev *dev = NULL;
    static const char *const wrong[] = {
        "flaky.lose=3",  "flaky.lost", "flaky.lost=",   "flaky.lost=x",
        "flaky.lost=3x", "flaky.=1",   "flaky.op=sqrt", "flaky.op="};

    for (unsigned i = 0; i < SL_COUNT(wrong); i++) {
        T_FAILS(SL_EINVAL, kern_open(&dev, "flaky:ref", wrong[i], &err));
        T_HAS(err.text, "no word");
    }
    setenv("SLUICE_FLAKY", "lose=3", 1);
    T_FAILS(SL_EINVAL, kern_open(&dev, "flaky:ref", NULL, &err));
    unsetenv("SLUICE_FLAKY");
    T_FAILS(SL_ENOENT, kern_open(&dev, "flaky:gpu", NULL, &err));
    T_FAILS(SL_ENOENT, kern_open(&dev, "flaky", NULL, &err));
    T_PTR(dev, NULL);
}

TEST(flaky, words_come_from_the_environment_too)
{
    struct kern_dev *dev;
    struct kern_mem mem;

    setenv("SLUICE_FLAKY", "alloc=1,lost=7", 1);
    dev = open_with(NULL);
    unsetenv("SLUICE_FLAKY");
    T_EQ(dev->backend->alloc(&mem, dev, 8, KERN_DEVICE), SL_ENOMEM);
    kern_close(dev);
}

TEST(flaky, one_allocation_finds_no_memory)
{
    struct kern_dev *dev = open_with("flaky.alloc=2");
    struct kern_mem mem[2];

    T_OK(dev->backend->alloc(&mem[0], dev, 8, KERN_DEVICE));
    T_EQ(dev->backend->alloc(&mem[1], dev, 8, KERN_DEVICE), SL_ENOMEM);
    T_OK(dev->backend->alloc(&mem[1], dev, 8, KERN_HOST));
    dev->backend->release(dev, &mem[0]);
    dev->backend->release(dev, &mem[1]);
    kern_close(dev);
}

TEST(flaky, memory_ends_and_is_there_again_when_it_was_released)
{
    struct kern_dev *dev = open_with("flaky.bytes=100");
    struct kern_mem a, b;

    T_OK(dev->backend->alloc(&a, dev, 60, KERN_DEVICE));
    T_EQ(dev->backend->alloc(&b, dev, 60, KERN_DEVICE), SL_ENOMEM);
    T_OK(dev->backend->alloc(&b, dev, 40, KERN_DEVICE));
    dev->backend->release(dev, &a);
    T_OK(dev->backend->alloc(&a, dev, 60, KERN_DEVICE));
    dev->backend->release(dev, &a);
    dev->backend->release(dev, &b);
    kern_close(dev);
}

TEST(flaky, plans_fail_once_or_from_then_on)
{
    struct kern_dev *dev = open_with("flaky.plan=1,flaky.refuse=3");
    struct kern_plan *p = NULL, *never = NULL;

    T_FAILS(SL_ENOMEM, plan(&never, dev));
    T_HAS(err.text, "no memory for plan 1");
    T_OK(plan(&p, dev));
    T_FAILS(SL_EINTERNAL, plan(&never, dev));
    T_FAILS(SL_EINTERNAL, plan(&never, dev));
    T_PTR(never, NULL);
    kern_plan_free(p);
    kern_close(dev);
}

TEST(flaky, a_lost_device_stays_lost)
{
    struct kern_dev *dev = open_with("flaky.lost=3");
    const struct kern_backend *b = dev->backend;
    struct kern_stream *s = NULL, *more = NULL;
    struct kern_plan *p = NULL, *never = NULL;
    struct kern_mem mem, another;
    float sum[3] = {0};

    T_OK(plan(&p, dev));
    T_OK(b->stream_new(&s, dev, 0));
    T_OK(b->alloc(&mem, dev, 12, KERN_DEVICE));
    T_OK(run(p, sum));
    T_OK(b->fill(s, mem.at, 0, 12));
    T_OK(b->copy(s, mem.at, sum, 12, KERN_TO_DEVICE));
    T_OK(run(p, sum));
    T_OK(b->stream_sync(s));
    T_STR(b->fault(dev), "");
    sum[0] = 77;
    for (unsigned i = 0; i < 2; i++)
        T_FAILS(SL_ELOST, run(p, sum));
    T_EQ(sum[0], 77);
    T_HAS(b->fault(dev), "lost at run 3");
    T_FAILS(SL_ELOST, plan(&never, dev));
    T_HAS(err.text, "lost at run 3");
    T_EQ(b->alloc(&another, dev, 8, KERN_DEVICE), SL_ELOST);
    T_EQ(b->stream_new(&more, dev, 0), SL_ELOST);
    T_EQ(b->stream_sync(s), SL_ELOST);
    T_EQ(b->fill(s, mem.at, 0, 12), SL_ELOST);
    T_EQ(b->copy(s, mem.at, sum, 12, KERN_TO_DEVICE), SL_ELOST);
    b->release(dev, &mem);
    b->stream_free(s);
    kern_plan_free(p);
    kern_close(dev);
}

TEST(flaky, one_result_is_spoiled)
{
    struct kern_dev *dev = open_with("flaky.nan=2");
    struct kern_plan *p = NULL;
    float sum[3] = {0};

    T_OK(plan(&p, dev));
    T_OK(run(p, sum));
    T_EQ(sum[0], 4);
    T_OK(run(p, sum));
    T_TRUE(isnan(sum[0]));
    T_EQ(sum[1], 8);
    T_OK(run(p, sum));
    T_EQ(sum[0], 4);
    kern_plan_free(p);
    kern_close(dev);
}

TEST(flaky, one_run_is_slow_and_right)
{
    struct kern_dev *dev = open_with("flaky.slow=1,flaky.ms=1");
    struct kern_plan *p = NULL;
    float sum[3] = {0};

    T_OK(plan(&p, dev));
    T_OK(run(p, sum));
    T_EQ(sum[1], 8);
    kern_plan_free(p);
    kern_close(dev);
}

TEST(flaky, only_runs_of_one_op_count)
{
    struct kern_dev *dev = open_with("flaky.op=xent,flaky.lost=1");
    struct kern_plan *p = NULL;
    float sum[3] = {0};

    T_OK(plan(&p, dev));
    T_OK(run(p, sum));
    kern_plan_free(p);
    kern_close(dev);
    dev = open_with("flaky.lost=2,flaky.op=reduce");
    p = NULL;
    T_OK(plan(&p, dev));
    T_OK(run(p, sum));
    T_FAILS(SL_ELOST, run(p, sum));
    kern_plan_free(p);
    kern_close(dev);
}

// The first device of a process that counts is opened here, by a child.
static int openings(void)
{
    struct kern_dev *dev = NULL;
    struct kern_mem mem;
    const char *words = "flaky.opens=1,flaky.shut=2,flaky.alloc=1";
    int bad = 0;

    if (kern_open(&dev, "flaky:ref", words, NULL) != SL_OK)
        return 1;
    bad |= dev->backend->alloc(&mem, dev, 8, KERN_DEVICE) != SL_ENOMEM;
    kern_close(dev);
    for (unsigned i = 0; i < 2; i++)
        bad |= kern_open(&dev, "flaky:ref", words, NULL) != SL_ELOST;
    bad |= kern_open(&dev, "flaky:ref", words, NULL) != SL_OK;
    if (bad)
        return 1;
    bad |= dev->backend->alloc(&mem, dev, 8, KERN_DEVICE) != SL_OK;
    dev->backend->release(dev, &mem);
    kern_close(dev);
    return bad;
}

TEST(flaky, later_openings_can_fail_and_can_be_well)
{
    const char *child = getenv("FLAKY_TEST_CHILD");
    char path[4096], command[5000];
    ssize_t n;

    if (child != NULL)
        _exit(openings());
    n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    T_TRUE(n > 0);
    path[n] = '\0';
    snprintf(command, sizeof(command), "FLAKY_TEST_CHILD=1 '%s' later_openings",
             path);
    T_EQ(system(command), 0);
}
