// SPDX-License-Identifier: Apache-2.0
// tests/emul/device_test.c -- the module's device, memory and streams over the
// stand-in for libcudart: what breaks, and what is said of it.
#include <string.h>

#include "common/base/mem.h"
#include "kernels/cuda/cuda.h"
#include "tests/emul/backend.h"
#include "tests/emul/cudart.h"
#include "tests/harness/t.h"

static struct sl_error err;

static struct kern_dev *opened(void)
{
    struct kern_dev *dev = NULL;

    emul_heal();
    T_OK(cuda_emul.open(&dev, 0, NULL, t_err()));
    return dev;
}

TEST(device, a_device_that_is_not_there_is_named)
{
    struct cuda_dev *dev = NULL;
    char why[100] = "";

    emul_heal();
    T_FAILS(SL_ENOENT, cuda_dev_open(&dev, &cuda_emul, 3, &err));
    T_HAS(err.text, "no GPU 3: this host has 1");
    emul_fail("count", 1, cudaErrorInsufficientDriver, false);
    T_EQ(cuda_probe(why, sizeof(why)), 0);
    T_TRUE(why[0] != '\0');
    emul_fail("kernel", 7, cudaErrorSymbolNotFound, false);
    T_FAILS(SL_EINTERNAL, cuda_dev_open(&dev, &cuda_emul, 0, &err));
    T_TRUE(dev == NULL);
}

// Machine code is for a major version from its minor one on; what is newer than
// all goes by PTX; what is older, or fell between, is of no use and told so.
TEST(device, a_device_that_this_build_has_no_code_for_is_named)
{
    static const struct {
        int sm;
        enum cuda_code code;
    } of[] = {
        {75, CUDA_CODE_TOO_OLD},  {80, CUDA_CODE_MACHINE},
        {87, CUDA_CODE_MACHINE},  {89, CUDA_CODE_MACHINE},
        {90, CUDA_CODE_MACHINE},  {100, CUDA_CODE_MACHINE},
        {103, CUDA_CODE_MACHINE}, {110, CUDA_CODE_NONE},
        {121, CUDA_CODE_MACHINE}, {130, CUDA_CODE_PTX},
    };
    struct cuda_dev *dev = NULL;

    if (strcmp(CUDA_COMPILED, "80,90,100,120") != 0)
        T_SKIP("compiled for others");
    emul_heal();
    for (unsigned i = 0; i < SL_COUNT(of); i++) {
        bool runs =
            of[i].code == CUDA_CODE_MACHINE || of[i].code == CUDA_CODE_PTX;

        T_EQ(cuda_code_for(of[i].sm), of[i].code);
        emul_capability(of[i].sm);
        T_EQ(cuda_dev_open(&dev, &cuda_emul, 0, &err),
             runs ? SL_OK : SL_ENOTSUP);
        if (runs)
            cuda_close(&dev->base);
        else
            T_HAS(err.text, of[i].sm == 75
                                ? "has compute capability 7.5, which is too old"
                                : "has compute capability 11.0; this build");
    }
    emul_capability(90);
}

TEST(device, both_kinds_of_memory_are_given_back)
{
    struct kern_dev *dev = opened();
    struct kern_mem a, b, none;

    T_OK(cuda_alloc(&a, dev, 100, KERN_DEVICE));
    T_OK(cuda_alloc(&b, dev, 100, KERN_HOST));
    T_OK(cuda_alloc(&none, dev, 0, KERN_DEVICE));
    T_TRUE((uintptr_t)a.at % 64 == 0 && (uintptr_t)b.at % 64 == 0);
    memset(b.at, 1, 100);
    cuda_release(dev, &a);
    cuda_release(dev, &b);
    cuda_release(dev, &none);
    T_TRUE(a.at == NULL && b.at == NULL);
    cuda_close(dev);
}

TEST(device, too_little_memory_is_no_lost_device)
{
    struct kern_dev *dev = opened();
    struct kern_mem m;

    emul_fail("malloc", 1, cudaErrorMemoryAllocation, false);
    T_FAILS(SL_ENOMEM, cuda_alloc(&m, dev, 100, KERN_DEVICE));
    T_FALSE(cuda_dev(dev)->lost);
    T_HAS(cuda_dev(dev)->fault, "GPU 0 (emulated): allocating memory: out of");
    T_OK(cuda_alloc(&m, dev, 100, KERN_DEVICE));
    cuda_release(dev, &m);
    cuda_close(dev);
}

// Whatever fails first, everything after it says that the device is lost.
TEST(device, a_sticky_error_is_a_lost_device)
{
    static const char *const calls[] = {"copy", "fill", "sync", "launch"};
    struct kern_mem m;

    for (size_t i = 0; i < SL_COUNT(calls); i++) {
        struct kern_dev *dev = opened();
        struct kern_stream *s = NULL;
        struct kern_plan *plan = NULL;
        struct kern_desc d;
        size_t bytes;
        char here[64] = "";

        T_OK(cuda_stream_new(&s, dev, 0));
        T_OK(cuda_alloc(&m, dev, sizeof(here), KERN_DEVICE));
        kern_desc_fill(&d, &(struct kern_shape){KERN_F32, 1, {0}, {16}, {1}},
                       1);
        T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));
        emul_fail(calls[i], 1, cudaErrorIllegalAddress, true);
        if (i == 0)
            T_FAILS(SL_ELOST,
                    cuda_copy(s, m.at, here, sizeof(here), KERN_TO_DEVICE));
        else if (i == 1)
            T_FAILS(SL_ELOST, cuda_fill(s, m.at, 0, sizeof(here)));
        else if (i == 2)
            T_FAILS(SL_ELOST, cuda_stream_sync(s));
        T_FAILS(SL_ELOST, kern_run(plan, s, &m.at, NULL));
        T_FAILS(SL_ELOST, cuda_stream_sync(s));
        T_TRUE(cuda_dev(dev)->lost);
        T_HAS(cuda_dev(dev)->fault, "error 700");
        emul_heal(); // so that what was allocated can be freed
        cuda_release(dev, &m);
        kern_plan_free(plan);
        cuda_stream_free(s);
        cuda_close(dev);
    }
}

// Runs y = 2 x + y through a recording: nothing happens until it is run, and
// then each time.
TEST(device, a_recording_runs_when_it_is_run)
{
    struct kern_dev *dev = opened();
    struct kern_shape shape = kern_shape(KERN_F32, 1, (int64_t[]){5});
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
    struct kern_plan *plan = NULL, *step = NULL;
    struct kern_stream *s = NULL;
    struct kern_mem mx, my;
    struct kern_desc d;
    size_t bytes;

    T_OK(cuda_stream_new(&s, dev, 1));
    T_OK(cuda_alloc(&mx, dev, sizeof(x), KERN_DEVICE));
    T_OK(cuda_alloc(&my, dev, sizeof(y), KERN_DEVICE));
    T_OK(cuda_copy(s, my.at, y, sizeof(y), KERN_TO_DEVICE));
    kern_desc_axpby(&d, &shape, &shape, 2, 1);
    T_OK(kern_plan_new(&plan, &bytes, dev, &d, 0, t_err()));

    T_OK(cuda_record_begin(s));
    T_OK(cuda_copy(s, mx.at, x, sizeof(x), KERN_TO_DEVICE));
    T_OK(kern_run(plan, s, (void *[]){mx.at, my.at}, NULL));
    T_OK(cuda_copy(s, y, my.at, sizeof(y), KERN_TO_HOST));
    T_OK(cuda_record_end(&step, s));
    T_TRUE(y[4] == 0);
    T_OK(kern_run(step, s, NULL, NULL));
    T_OK(kern_run(step, s, NULL, NULL));
    T_OK(cuda_stream_sync(s));
    T_TRUE(y[0] == 4 && y[4] == 20);

    kern_plan_free(step);
    kern_plan_free(plan);
    cuda_release(dev, &mx);
    cuda_release(dev, &my);
    cuda_stream_free(s);
    cuda_close(dev);
}

// What allocates, frees or waits while a stream records is refused, and ends
// that recording, but not the device.
TEST(device, what_cannot_be_recorded_spoils_the_recording)
{
    struct kern_dev *dev = opened();
    struct kern_plan *step = NULL;
    struct kern_stream *s = NULL;
    struct kern_mem m, none;

    T_OK(cuda_stream_new(&s, dev, 0));
    T_OK(cuda_alloc(&m, dev, 64, KERN_DEVICE));
    for (int i = 0; i < 2; i++) {
        T_OK(cuda_record_begin(s));
        T_FAILS(SL_EINTERNAL, i == 0 ? cuda_alloc(&none, dev, 64, KERN_DEVICE)
                                     : cuda_stream_sync(s));
        T_FAILS(SL_EINTERNAL, cuda_fill(s, m.at, 0, 64));
        T_FAILS(SL_EINTERNAL, cuda_record_end(&step, s));
        T_PTR(step, NULL);
        T_FALSE(cuda_dev(dev)->lost);
    }
    T_OK(cuda_record_begin(s));
    T_OK(cuda_fill(s, m.at, 0, 64));
    T_OK(cuda_record_end(&step, s));
    T_OK(kern_run(step, s, NULL, NULL));
    kern_plan_free(step);
    cuda_release(dev, &m);
    cuda_stream_free(s);
    cuda_close(dev);
}

TEST(device, events_and_streams)
{
    struct kern_dev *dev = opened();
    struct kern_stream *a = NULL, *b = NULL;
    struct cuda_event *e = NULL;

    T_OK(cuda_stream_new(&a, dev, 0));
    T_OK(cuda_stream_new(&b, dev, 1));
    T_OK(cuda_event_new(&e, dev));
    T_OK(cuda_event_record(e, a));
    T_OK(cuda_event_wait(b, e));
    emul_fail("event_query", 1, cudaErrorNotReady, false);
    T_EQ(cuda_event_query(e), SL_EBUSY);
    T_OK(cuda_event_query(e));
    T_OK(cuda_event_sync(e));
    cuda_event_free(e);
    cuda_stream_free(a);
    cuda_stream_free(b);
    cuda_close(dev);
}

// The last call of a join goes back to the first device.
TEST(device, devices_that_cannot_join_count_as_not_joined)
{
    struct kern_dev *devs[2] = {opened(), NULL};
    unsigned before, calls;
    char how[64];

    emul_devices(2);
    T_OK(cuda_emul.open(&devs[1], 1, NULL, t_err()));
    before = emul_calls("set");
    T_OK(cuda_join(devs, 2, how, sizeof(how), &err));
    T_EQ(cuda_dev(devs[1])->peers.n, 2);
    calls = emul_calls("set") - before;
    emul_fail("set", calls, cudaErrorDevicesUnavailable, false);
    T_FAILS(SL_ELOST, cuda_join(devs, 2, how, sizeof(how), &err));
    T_EQ(cuda_dev(devs[0])->peers.n, 0);
    T_EQ(cuda_dev(devs[1])->peers.n, 0);
    cuda_close(devs[1]);
    cuda_close(devs[0]);
    emul_devices(1);
}

// Raises the point of failure until everything succeeds.
TEST(device, every_allocation_may_fail)
{
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct kern_dev *dev = NULL;
        struct kern_stream *s = NULL;
        struct kern_plan *plan = NULL;
        struct kern_desc d;
        size_t bytes;
        enum sl_err rc;

        emul_heal();
        sl_mem_fail_at(n);
        rc = cuda_emul.open(&dev, 0, NULL, &err);
        if (rc == SL_OK)
            rc = cuda_stream_new(&s, dev, 0);
        kern_desc_softmax(&d, KERN_SOFTMAX_FWD, 2, (int64_t[]){2, 3});
        if (rc == SL_OK)
            rc = kern_plan_new(&plan, &bytes, dev, &d, 0, &err);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        kern_plan_free(plan);
        cuda_stream_free(s);
        cuda_close(dev);
    }
}
