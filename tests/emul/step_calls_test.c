// SPDX-License-Identifier: Apache-2.0
// tests/emul/step_calls_test.c -- what a step asks of the emulated device, and
// what remains when a call fails.
#include "common/base/mem.h"
#include "tests/emul/cudart.h"
#include "tests/emul/rig.h"

static const char *const calls[] = {
    "malloc",      "host_alloc", "free",   "free_host", "sync",
    "unpinned",    "busy_free",  "launch", "graph",     "event_sync",
    "event_query", "copy",       "event",  "stream",    "capture"};
#define CALLS SL_COUNT(calls)
enum {
    COUNT_LAUNCH = 7,
    COUNT_GRAPH,
    COUNT_EVENT_SYNC,
    COUNT_QUERY,
    COUNT_COPY
};

static void count(unsigned n[CALLS])
{
    for (unsigned i = 0; i < CALLS; i++)
        n[i] = emul_calls(calls[i]) - n[i];
}

// What the tenth step asks of the device.
static void count_step(uint32_t ranges, unsigned n[CALLS])
{
    uint64_t mem;
    struct rig r;

    emul_lazy(1); // the laziest: what must be waited for is waited for
    T_OK(rig_open(&r, "cuda", ranges));
    for (uint32_t i = 0; i < 9; i++)
        T_OK(rig_train(&r, i, 4, 4));
    mem = sl_mem_calls();
    memset(n, 0, CALLS * sizeof(*n));
    count(n);
    T_OK(rig_train(&r, 9, 4, 4));
    count(n);
    T_EQ(sl_mem_calls(), mem);
    rig_close(&r);
    emul_lazy(0);
}

TEST(step, asks_little_of_the_device)
{
    unsigned n[CALLS];

    count_step(1, n);
    T_EQ(n[COUNT_GRAPH], 1); // the whole step
    // keys, parameters; loss and what was counted, gradient; next batch
    T_EQ(n[COUNT_COPY], 6);
    T_EQ(n[COUNT_EVENT_SYNC], 2);
    for (unsigned i = 0; i <= COUNT_LAUNCH; i++)
        T_EQ(n[i], 0);
    T_EQ(n[CALLS - 1] + n[CALLS - 2] + n[CALLS - 3], 0);

    count_step(RANGES, n);
    T_GT(n[COUNT_GRAPH], 1);
    // What was counted in a range is copied once for all that leave together:
    // the loss with the first, and two of them do.
    T_EQ(n[COUNT_COPY], 2 + 3 * RANGES - 2 + 2);
    T_LE(n[COUNT_EVENT_SYNC], 1 + RANGES);
    for (unsigned i = 0; i < COUNT_LAUNCH; i++)
        T_EQ(n[i], 0);
    T_EQ(n[CALLS - 1] + n[CALLS - 2] + n[CALLS - 3], 0);
}

// The net that bench/gpu measures, fed with bytes: what its worker asks,
// however large its images are. The host waits for the loss and for each range,
// and for nothing else; nothing is allocated.
TEST(step, imagenette_asks_little_of_the_device)
{
    static const struct {
        uint32_t ranges, graphs, copies;
    } of[] = {
        // Parameters; loss and what was counted, gradient; the next batch.
        {1, 1, 1 + 2 + 2},
        // The loss goes with the first, and two of them leave together.
        {RANGES, RANGES, 3 * RANGES - 1 + 2},
    };
    unsigned n[CALLS];

    rig_net = rig_imagenette;
    rig_bytes = true;
    for (unsigned i = 0; i < SL_COUNT(of); i++) {
        count_step(of[i].ranges, n);
        T_EQ(n[COUNT_EVENT_SYNC], 1 + of[i].ranges);
        T_EQ(n[COUNT_GRAPH], of[i].graphs);
        T_EQ(n[COUNT_LAUNCH], 1); // bytes to numbers, before parameters come
        T_EQ(n[COUNT_COPY], of[i].copies);
        for (unsigned k = 0; k < COUNT_LAUNCH; k++)
            T_EQ(n[k], 0);
        T_EQ(n[CALLS - 1] + n[CALLS - 2] + n[CALLS - 3], 0);
    }
    rig_net = NULL;
    rig_bytes = false;
}

// ---- failures --------------------------------------------------------------

static enum sl_err some_steps(struct rig *r)
{
    enum sl_err rc = rig_open(r, "cuda", RANGES);

    for (uint32_t i = 0; i < 4 && rc == SL_OK; i++)
        rc = rig_train(r, i, i == 2 ? 6 : 4, i == 1 ? 6 : i == 2 ? 4 : 0);
    return rc == SL_OK ? rig_evaluate(r, r->step.params, 1) : rc;
}

// The nth call of each kind breaks the device, for all n until none is left.
// What is on a broken device cannot be given back; what is not, is.
TEST(step, a_device_that_breaks_is_lost_and_leaves_nothing)
{
    static const char *const all[] = {
        "malloc", "host_alloc", "stream",       "event",      "copy",
        "fill",   "launch",     "event_record", "event_wait", "event_query",
        "graph",  "capture",    "end_capture",  "instantiate"};

    for (unsigned k = 0; k < SL_COUNT(all); k++) {
        for (unsigned nth = 1;; nth += nth < 8 ? 1 : 7) {
            struct rig r;
            uint64_t before = sl_mem_live();
            enum sl_err rc;

            emul_lazy(nth % 3);
            emul_fail(all[k], nth, cudaErrorIllegalAddress, true);
            rc = some_steps(&r);
            emul_heal(); // so that memory can be freed
            if (rc != SL_OK) {
                T_EQ(rc, SL_ELOST);
                T_HAS(r.err.text, "GPU 0 (emulated)");
            }
            rig_close(&r);
            T_EQ(sl_mem_live(), before);
            if (rc == SL_OK)
                break;
            T_LT(nth, 4000);
        }
    }
    emul_lazy(0);
}

TEST(step, too_little_memory_is_said_and_leaves_nothing)
{
    unsigned before = emul_alive();
    static const char *const all[] = {"malloc", "host_alloc"};

    for (unsigned k = 0; k < SL_COUNT(all); k++) {
        enum sl_err rc = SL_ENOMEM;

        for (unsigned nth = 1; rc != SL_OK; nth++) {
            struct rig r;

            emul_fail(all[k], nth, cudaErrorMemoryAllocation, false);
            rc = some_steps(&r);
            emul_heal();
            if (rc != SL_OK) {
                T_EQ(rc, SL_ENOMEM);
                T_TRUE(strstr(r.err.text, "smaller batch") != NULL);
            }
            rig_close(&r);
            T_EQ(emul_alive(), before);
        }
    }
}

TEST(step, every_allocation_of_the_host_may_fail)
{
    unsigned before = emul_alive();
    enum sl_err rc = SL_ENOMEM;

    for (uint64_t n = 1; rc != SL_OK; n += 1 + n / 16) {
        struct rig r;

        T_OK(rig_open(&r, "cuda", RANGES));
        sl_mem_fail_at(n);
        rc = rig_train(&r, 0, 4, 0);
        if (rc == SL_OK)
            rc = rig_train(&r, 1, 4, 0);
        if (!sl_mem_failed())
            T_OK(rc);
        else if (rc != SL_OK)
            T_EQ(rc, SL_ENOMEM);
        else
            rc = SL_ENOMEM; // it went on without what it could not have
        rig_close(&r);
        T_EQ(emul_alive(), before);
    }
}
