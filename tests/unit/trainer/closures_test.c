// SPDX-License-Identifier: Apache-2.0
// The closures of one contribution, over leases that wait in a list: which are
// taken, which are pushed, and what becomes of each.
#include "trainer/lease/closures.h"

#include <string.h>

#include "common/base/mem.h"
#include "tests/harness/t.h"
#include "trainer/lease/tally.h"

#define LEASES 4
#define RANGES 2

static struct world {
    Sluice__V1__InnerSpec inner;
    Sluice__V1__TrainSpec train;
    Sluice__V1__JobSpec spec;
    Sluice__V1__JobOpen open;
    struct record record;
    struct lease lease[LEASES];
    unsigned next; // lease that waits
    uint64_t incarnation;
    uint32_t alone;
    struct closures set;
} w;

static void fake_evidence(const struct sync *s, uint64_t *incarnations)
{
    for (uint32_t i = 0; i < RANGES; i++)
        incarnations[i] = w.incarnation;
}

static uint64_t fake_named(const struct sync *s)
{
    return 7;
}

static bool fake_no(const struct sync *s, uint32_t range)
{
    return false;
}

static const struct sync_ops fake_ops = {.evidence = fake_evidence,
                                         .named = fake_named,
                                         .held = fake_no,
                                         .closed = fake_no};
static const struct sync sync_of_test = {.ops = &fake_ops,
                                         .ranges_count = RANGES};

static struct lease *take_next(void *arg)
{
    return w.next < LEASES ? &w.lease[w.next++] : NULL;
}

static void give(void *arg, struct lease *l)
{
    T_FAIL("no lease is given back before the end");
}

// Of a job whose contributions have four closures; the first lease is begun.
static void begin(void)
{
    const struct closures_env env = {
        .clock = sl_clock_real(), .next = take_next, .give = give};

    memset(&w, 0, sizeof(w));
    sluice__v1__inner_spec__init(&w.inner);
    sluice__v1__train_spec__init(&w.train);
    sluice__v1__job_spec__init(&w.spec);
    sluice__v1__job_open__init(&w.open);
    w.inner.has_steps = w.inner.has_closure = true;
    w.inner.steps = 8;
    w.inner.closure = 2;
    w.train.inner = &w.inner;
    w.spec.train = &w.train;
    w.open.spec = &w.spec;
    w.record.open = &w.open;
    w.incarnation = 3;
    for (unsigned i = 0; i < LEASES; i++) {
        struct lease *l = &w.lease[i];

        l->record = &w.record;
        l->closure = 10 + i;
        l->gate.lease_ends_ms = UINT64_MAX;
        l->gate.pulse.closed = &l->gate.closed;
        l->gate.pulse.draining = &l->gate.draining;
        pthread_mutex_init(&l->progress.lock, NULL);
    }
    w.next = 1;
    closures_init(&w.set, &env, &w.lease[0], &w.alone);
    closures_begin(&w.set);
}

static void add(unsigned i)
{
    closures_add(&w.set, &w.lease[i],
                 &(struct closures_steps){.count = 2,
                                          .samples = 20 + i,
                                          .digest = 30 + i,
                                          .loss_sum = 1,
                                          .right_sum = 0});
}

// Computes the closures before number `end`.
static void compute(unsigned end)
{
    add(0);
    for (unsigned i = 1; i < end; i++) {
        T_PTR(closures_next(&w.set, &w.lease[0]), &w.lease[i]);
        add(i);
    }
}

static void tell_to_leave(void)
{
    for (unsigned i = 0; i < w.next; i++)
        atomic_store(&w.lease[i].gate.draining, true);
}

// Ends the contribution as a push of all that was added, which was counted.
static void end_counted(void)
{
    struct sync_step step = {.step = 0};
    struct sl_error none = SL_ERROR_INIT;

    closures_fill(&w.set, &sync_of_test, &step);
    T_EQ(step.samples, 20);
    T_EQ(step.more_count, w.set.count - 1);
    tally_conclude(&w.lease[0], &sync_of_test, SYNC_OK, &none);
    closures_end(&w.set, &sync_of_test, SYNC_OK, false);
}

static void release(void)
{
    for (unsigned i = 0; i < LEASES; i++) {
        sl_free(w.lease[i].outcome.incarnations);
        sl_free(w.lease[i].outcome.held);
        sl_free(w.lease[i].outcome.closed);
    }
}

// The notice comes in the midst of closure 2: 0 and 1 are pushed and counted, 2
// goes back, and 3 is not begun.
TEST(closures, a_worker_that_leaves_pushes_what_is_whole)
{
    begin();
    compute(2);
    T_PTR(closures_next(&w.set, &w.lease[0]), &w.lease[2]);
    tell_to_leave();
    T_TRUE(closures_undo(&w.set, &w.lease[0], &w.lease[2]));
    T_PTR(closures_next(&w.set, &w.lease[0]), NULL);
    T_EQ(w.set.steps, 4);
    end_counted();
    for (unsigned i = 0; i < 2; i++)
        T_EQ(w.lease[i].outcome.kind, OUTCOME_COMPLETE);
    T_EQ(lease_progress(&w.lease[1]).samples, 21);
    T_EQ(w.lease[2].outcome.kind, OUTCOME_HAND_BACK);
    T_HAS(w.lease[2].outcome.err.text, "leaving");
    T_EQ(w.next, 3);
    release();
}

// There is nothing to push in the midst of the first one.
TEST(closures, the_first_closure_is_not_left_out)
{
    begin();
    tell_to_leave();
    T_FALSE(closures_undo(&w.set, &w.lease[0], &w.lease[0]));
    add(0);
    T_PTR(closures_next(&w.set, &w.lease[0]), NULL);
    end_counted();
    T_EQ(w.lease[0].outcome.kind, OUTCOME_COMPLETE);
    release();
}

TEST(closures, L7_closures_pushed_to_other_shards_go_back)
{
    begin();
    compute(3);
    closures_note(&w.set, &sync_of_test);
    w.incarnation++;
    end_counted();
    T_EQ(w.lease[0].outcome.kind, OUTCOME_COMPLETE);
    for (unsigned i = 1; i < 3; i++)
        T_EQ(w.lease[i].outcome.kind, OUTCOME_HAND_BACK);
    release();
}

TEST(closures, L6_the_next_ones_are_done_one_by_one)
{
    begin();
    compute(LEASES);
    T_PTR(closures_next(&w.set, &w.lease[0]), NULL);
    closures_end(&w.set, &sync_of_test, SYNC_PARTLY, false);
    T_EQ(w.alone, 4);
    w.next = 1;
    T_PTR(closures_next(&w.set, &w.lease[0]), NULL);
    T_EQ(w.alone, 3);
    for (unsigned i = 1; i < LEASES; i++)
        T_EQ(w.lease[i].outcome.kind, OUTCOME_HAND_BACK);
}
