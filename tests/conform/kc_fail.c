// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_fail.c -- mode fail: what cannot be had is refused, and the
// device is as good as before.
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/conform/kc.h"

#define ALLOCATIONS_MOST 400 // of one plan; more is a loop without end

static int wrong(const char *what, enum sl_err rc)
{
    printf("FAILED %s: %s\n", what, sl_err_name(rc));
    return 1;
}

// One op, compared with ref: that a device still computes.
static int still_computes(struct kern_dev *dev, const char *after)
{
    const int64_t x[] = {3, 70};
    struct sl_error err = SL_ERROR_INIT;
    struct kern_plan *plan = NULL;
    struct kern_desc d;
    struct trial b, ref;
    struct rng rng;
    size_t bytes = 0;
    int failed = 0;

    rng_init(&rng, 3, 3);
    kern_desc_binary(&d, KERN_ADD, 2, 2, x);
    trial_new(&b, &d, 0);
    trial_new(&ref, &d, 0);
    trial_fill(&b, &rng);
    trial_copy(&ref, &b);
    trial_run_ref(&d, ref.io);
    if (kern_plan_new(&plan, &bytes, dev, &d, 0, &err) != SL_OK ||
        (dev->backend->host ? kern_run(plan, NULL, b.io, NULL)
                            : kc_device_run(dev, plan, &b, bytes)) != SL_OK ||
        memcmp(b.io[2], ref.io[2], b.bytes[2]) != 0) {
        printf("FAILED after %s the device does not compute: %s\n", after,
               err.text);
        failed = 1;
    }
    kern_plan_free(plan);
    trial_free(&b);
    trial_free(&ref);
    return failed;
}

static int too_much_memory(struct kern_dev *dev)
{
    struct kern_mem mem = {.at = NULL, .bytes = 17};
    enum sl_err rc =
        dev->backend->alloc(&mem, dev, (size_t)1 << 50, KERN_DEVICE);

    if (rc != SL_ENOMEM || mem.at != NULL || mem.bytes != 17)
        return wrong("2^50 bytes of memory", rc);
    return still_computes(dev, "out of memory");
}

// The n-th allocation of a plan fails, for every n: no plan, nothing lost.
static int no_memory_at_each_step(struct kern_dev *dev,
                                  const struct kern_desc *d)
{
    struct sl_error err = SL_ERROR_INIT;
    int failed = 0;

    for (uint64_t n = 1; n <= ALLOCATIONS_MOST; n++) {
        struct kern_plan *plan = NULL;
        size_t bytes = 7;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = kern_plan_new(&plan, &bytes, dev, d, 0, &err);
        kern_plan_free(plan);
        if (rc != SL_OK && (plan != NULL || bytes != 7))
            failed += wrong("a failed plan left something", rc);
        if (!sl_mem_failed())
            return failed + (rc == SL_OK ? 0 : wrong(kern_op_name(d->op), rc));
        if (rc != SL_OK && rc != SL_ENOMEM)
            failed += wrong("out of host memory", rc);
    }
    printf("FAILED %s: makes no plan\n", kern_op_name(d->op));
    return failed + 1;
}

// One case of each op: the first that is small enough.
static int no_host_memory(struct kern_dev *dev, int64_t most)
{
    static struct kern_desc d[KC_CASES];
    int failed = 0;

    for (unsigned op = 1; op < KERN_OP_COUNT; op++) {
        unsigned n = kc_cases((enum kern_op)op, d), i = 0;

        while (i < n && !kc_within(&d[i], most))
            i++;
        if (i < n && kc_knows(dev, &d[i]))
            failed += no_memory_at_each_step(dev, &d[i]);
    }
    return failed + still_computes(dev, "allocations that failed");
}

// A plan keeps to the cap or is refused.
static int little_workspace(struct kern_dev *dev, int64_t most)
{
    static struct kern_desc d[KC_CASES];
    int failed = 0;

    for (unsigned op = 1; op < KERN_OP_COUNT; op++) {
        unsigned n = kc_cases((enum kern_op)op, d);

        for (unsigned i = 0; i < n; i++) {
            struct kern_plan *plan = NULL;
            size_t bytes = 0;

            if (!kc_within(&d[i], most) || !kc_knows(dev, &d[i]))
                continue;
            if (kern_plan_new(&plan, &bytes, dev, &d[i], 64, NULL) == SL_OK &&
                bytes > 64) {
                printf("FAILED %s: wants %zu bytes of 64\n", kc_text(&d[i]),
                       bytes);
                failed++;
            }
            kern_plan_free(plan);
        }
    }
    return failed;
}

static int nonsense(struct kern_dev *dev)
{
    struct sl_error err = SL_ERROR_INIT;
    struct kern_plan *plan = NULL;
    struct kern_dev *other = NULL;
    struct kern_desc d;
    size_t bytes = 0;
    int failed = 0;
    enum sl_err rc;

    kern_desc_matmul(&d, 3, 4, 5, false, false, 0);
    d.io[2].dim[0] = 7; // C has rows that A has not
    rc = kern_plan_new(&plan, &bytes, dev, &d, 0, &err);
    if (rc != SL_EINVAL || err.text[0] == '\0')
        failed += wrong("a descriptor of no op", rc);
    rc = dev->backend->open(&other, 0, "colour=blue", &err);
    if (rc != SL_EINVAL || other != NULL)
        failed += wrong("an option that there is not", rc);
    if (!dev->backend->host) {
        rc = dev->backend->open(&other, 99, NULL, &err);
        if (rc == SL_OK || other != NULL || err.text[0] == '\0')
            failed += wrong("device 99", rc);
    }
    return failed + still_computes(dev, "nonsense");
}

int kc_fail(struct kern_dev *dev, int64_t most)
{
    return too_much_memory(dev) + no_host_memory(dev, most) +
           little_workspace(dev, most) + nonsense(dev);
}
