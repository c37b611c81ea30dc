// SPDX-License-Identifier: Apache-2.0
#include "state/shard/once.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

static const struct schedule small = {
    .samples = 40, .batch = 1, .epochs = 3, .steps_per_closure = 4};

static void add(struct once *o, uint64_t closure, uint32_t step, bool skip)
{
    struct once_step s = {.closure = closure,
                          .step = step,
                          .skip = skip,
                          .samples = 1,
                          .digest = 100 * closure + step,
                          .staleness = closure};

    T_OK(once_reserve(o, closure));
    once_add(o, &s);
}

TEST(once, buckets_have_the_bounds_of_the_protocol)
{
    uint64_t upper[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256};

    for (unsigned i = 0; i < SL_COUNT(upper); i++) {
        T_EQ(once_bucket(upper[i]), i);
        T_EQ(once_bucket(upper[i] + 1), i + 1);
    }
    T_EQ(once_bucket(UINT64_MAX), WIRE_STALENESS_BUCKETS - 1);
}

TEST(once, keys_outside_the_job_are_refused)
{
    struct once o;

    T_OK(once_init(&o, &small));
    T_OK(once_key(&o, 29, 3, t_err()));
    T_FAILS(SL_ERANGE, once_key(&o, 30, 0, t_err()));
    T_FAILS(SL_ERANGE, once_key(&o, 0, 4, t_err()));
    once_release(&o);
}

TEST(once, epochs_are_told_apart_and_stay_in_order)
{
    struct once o;

    T_OK(once_init(&o, &small));
    add(&o, 25, 0, false); // epoch 2
    add(&o, 0, 1, true);   // epoch 0
    add(&o, 12, 2, false); // epoch 1
    add(&o, 0, 2, false);
    T_EQ(o.epoch_count, 3);
    T_EQ(o.epochs[0].epoch, 0);
    T_EQ(o.epochs[0].steps, 2);
    T_EQ(o.epochs[0].digest, 3);
    T_EQ(o.epochs[1].epoch, 1);
    T_EQ(o.epochs[2].epoch, 2);
    T_EQ(o.epochs[2].samples, 1);
    T_EQ(o.counts.applied, 3);
    T_EQ(o.counts.skipped, 1);
    T_OK(once_check(&o, t_err()));
    once_release(&o);
}

TEST(once, attempts_die_with_their_closures)
{
    struct once o;

    T_OK(once_init(&o, &small));
    T_OK(once_see(&o, 0, (struct wire_attempt){1, 5}));
    T_OK(once_see(&o, 1, (struct wire_attempt){2, 1}));
    T_OK(once_see(&o, 0, (struct wire_attempt){1, 3})); // older: nothing
    T_EQ(once_newest(&o, 0).n, 5);
    T_OK(once_see(&o, 0, (struct wire_attempt){2, 0})); // term before n
    T_EQ(once_newest(&o, 0).term, 2);
    T_EQ(once_newest(&o, 3).term, 0);
    for (uint32_t step = 0; step < 4; step++)
        add(&o, 0, step, false);
    T_EQ(o.attempts.len, 1);
    T_EQ(once_newest(&o, 0).term, 0);
    T_OK(once_see(&o, 0, (struct wire_attempt){9, 9})); // nothing to fence
    T_EQ(o.attempts.len, 1);
    once_release(&o);
}

TEST(once, attempts_are_bounded)
{
    struct schedule huge = {
        .samples = 1u << 20, .batch = 1, .epochs = 1, .steps_per_closure = 4};
    struct once o;

    T_OK(once_init(&o, &huge));
    for (uint64_t c = 0; c < ONCE_ATTEMPTS_MAX; c++)
        T_OK(once_see(&o, c, (struct wire_attempt){1, 1}));
    T_FAILS(SL_EBUSY,
            once_see(&o, ONCE_ATTEMPTS_MAX, (struct wire_attempt){1, 1}));
    T_OK(once_see(&o, 17, (struct wire_attempt){1, 2}));
    once_release(&o);
}

TEST(once, a_copy_has_the_set_and_the_numbers_but_no_attempts)
{
    struct once o, copy;

    T_OK(once_init(&o, &small));
    T_OK(once_see(&o, 4, (struct wire_attempt){1, 1}));
    add(&o, 4, 1, false);
    T_OK(once_copy(&copy, &o));
    add(&o, 4, 2, false);
    T_TRUE(counted_has(&copy.counted, 4, 1));
    T_FALSE(counted_has(&copy.counted, 4, 2));
    T_EQ(once_version(&copy), 1);
    T_EQ(copy.epochs[0].steps, 1);
    T_EQ(copy.attempts.len, 0);
    T_OK(once_check(&copy, t_err()));
    once_release(&copy);
    once_release(&o);
}

TEST(once, numbers_that_do_not_fit_the_set_are_corrupt)
{
    struct once o;

    T_OK(once_init(&o, &small));
    add(&o, 4, 1, false);
    o.counts.applied++;
    T_FAILS(SL_ECORRUPT, once_check(&o, t_err()));
    o.counts.applied--;
    o.epochs[0].steps = 0;
    T_FAILS(SL_ECORRUPT, once_check(&o, t_err()));
    once_release(&o);
}

// Every allocation fails once: what failed has changed nothing.
TEST(once, out_of_memory_changes_nothing)
{
    struct once o, copy;

    T_OK(once_init(&o, &small));
    for (uint64_t n = 1;; n++) {
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = once_see(&o, 5, (struct wire_attempt){1, 1});
        if (rc == SL_OK)
            rc = once_reserve(&o, 5);
        if (rc == SL_OK)
            rc = once_copy(&copy, &o);
        if (!sl_mem_failed()) {
            T_OK(rc);
            break;
        }
        T_EQ(rc, SL_ENOMEM);
        T_EQ(counted_steps(&o.counted), 0);
    }
    once_release(&copy);
    once_release(&o);
}
