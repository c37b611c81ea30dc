// SPDX-License-Identifier: Apache-2.0
// What is said when a device refuses something; the device is a fake that keeps
// nothing and computes nothing.
#include "worker/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/t.h"

static bool no_plans, no_memory; // the device refuses these
static struct sl_error err;      // of calls whose text is looked at

static enum sl_err fake_alloc(struct kern_mem *out, struct kern_dev *dev,
                              size_t bytes, enum kern_place place)
{
    if (no_memory)
        return SL_ENOMEM;
    *out = (struct kern_mem){malloc(bytes + 1), bytes};
    T_TRUE(out->at != NULL);
    return SL_OK;
}

static void fake_release(struct kern_dev *dev, struct kern_mem *mem)
{
    free(mem->at);
    *mem = (struct kern_mem){NULL, 0};
}

static enum sl_err fake_stream_new(struct kern_stream **out,
                                   struct kern_dev *dev, int priority)
{
    static struct kern_stream stream;

    *out = &stream;
    return SL_OK;
}

static void fake_stream_free(struct kern_stream *s)
{
}

static enum sl_err fake_stream_sync(struct kern_stream *s)
{
    return SL_OK;
}

static enum sl_err fake_copy(struct kern_stream *s, void *to, const void *from,
                             size_t bytes, enum kern_dir dir)
{
    return SL_OK;
}

static enum sl_err fake_fill(struct kern_stream *s, void *to, int byte,
                             size_t bytes)
{
    return SL_OK;
}

static int fake_score(struct kern_dev *dev, const struct kern_desc *desc)
{
    return 1;
}

static void fake_plan_free(struct kern_plan *plan)
{
    free(plan);
}

static enum sl_err fake_plan(struct kern_plan **out, size_t *workspace_bytes,
                             struct kern_dev *dev, const struct kern_desc *desc,
                             size_t cap, struct sl_error *why)
{
    struct kern_plan *plan;

    if (no_plans)
        return sl_fail(why, SL_EINTERNAL, "its library has no kernel for it");
    plan = calloc(1, sizeof(*plan));
    T_TRUE(plan != NULL);
    plan->backend = dev->backend;
    plan->impl = "fake";
    *out = plan;
    *workspace_bytes = 64;
    return SL_OK;
}

static enum sl_err fake_event_new(struct kern_event **out, struct kern_dev *dev)
{
    static struct kern_event event;

    *out = &event;
    return SL_OK;
}

static void fake_event_free(struct kern_event *e)
{
}

static enum sl_err fake_event_record(struct kern_event *e,
                                     struct kern_stream *s)
{
    return SL_OK;
}

static enum sl_err fake_record_begin(struct kern_stream *s)
{
    return SL_ENOTSUP;
}

static const char *fake_fault(struct kern_dev *dev)
{
    return "";
}

static const struct kern_backend fake = {
    .abi = KERN_ABI,
    .size = sizeof(fake),
    .name = "fake",
    .alloc = fake_alloc,
    .release = fake_release,
    .stream_new = fake_stream_new,
    .stream_free = fake_stream_free,
    .stream_sync = fake_stream_sync,
    .copy = fake_copy,
    .fill = fake_fill,
    .score = fake_score,
    .plan = fake_plan,
    .plan_free = fake_plan_free,
    .event_new = fake_event_new,
    .event_free = fake_event_free,
    .event_record = fake_event_record,
    .record_begin = fake_record_begin,
    .fault = fake_fault,
};

#define ELEMENTS 64

static const struct elements range = {0, ELEMENTS};

static struct device *device_of(struct kern_dev *dev)
{
    struct device *d = NULL;

    no_plans = no_memory = false;
    T_OK(device_new(&d, dev, ELEMENTS, t_err()));
    return d;
}

// The words of a plan that is refused are those of the device.
TEST(device, a_program_says_which_plan_is_refused)
{
    struct kern_dev dev = {.backend = &fake};
    struct program_memory memory = {.dev = &dev};
    struct program_op op = {.op = KERN_BINARY};
    struct program p = {.dev = &dev,
                        .memory = &memory,
                        .ops = &op,
                        .count = 1,
                        .real = sizeof(float)};
    uint32_t zero = 0, one = 1;
    struct overlap o = {.shards = 1,
                        .wait_before = &zero,
                        .send_after = &zero,
                        .read_until = &one,
                        .by_wait = &zero,
                        .by_send = &zero};
    struct device_program *placed = NULL;
    struct device *d = device_of(&dev);

    no_plans = true;
    T_FAILS(SL_EINTERNAL, device_place(&placed, d, &p, &o, &range, NULL, &err));
    T_STR(err.text, "its library has no kernel for it");
    no_plans = false;
    no_memory = true;
    T_FAILS(SL_ENOMEM, device_place(&placed, d, &p, &o, &range, NULL, &err));
    T_HAS(err.text, "a program's memory on the device: ");
    T_TRUE(placed == NULL);
    no_memory = false;
    T_OK(device_place(&placed, d, &p, &o, &range, NULL, t_err()));
    device_program_free(placed);
    device_free(d);
}

TEST(device, a_sum_says_which_plan_is_refused)
{
    struct kern_dev dev = {.backend = &fake};
    struct device *d = device_of(&dev);
    struct device *all[] = {d, d};

    no_plans = true;
    T_FAILS(SL_EINTERNAL, device_meet(d, all, 2, 0, &range, 1, &err));
    T_STR(err.text, "its library has no kernel for it");
    no_plans = false;
    no_memory = true;
    T_FAILS(SL_ENOMEM, device_meet(d, all, 2, 0, &range, 1, &err));
    T_HAS(err.text, "memory for the sums of several devices: ");
    no_memory = false;
    T_OK(device_meet(d, all, 2, 0, &range, 1, t_err()));
    device_part(d);
    device_free(d);
}
