// SPDX-License-Identifier: Apache-2.0
#include "plan/counted.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

#define CLOSURES 60
#define STEPS 20

// The naive model: a table of booleans.
struct model {
    struct schedule schedule;
    bool has[CLOSURES][STEPS];
};

static struct schedule random_schedule(void)
{
    struct schedule s = {1 + t_below(60), 1 + t_below(4), 1 + t_below(3),
                         1 + t_below(STEPS)};

    while (schedule_closures(&s) > CLOSURES)
        s.samples /= 2;
    return s;
}

static uint32_t steps_of(const struct model *m, uint64_t closure)
{
    return schedule_closure_steps(&m->schedule, closure);
}

static uint32_t model_next(const struct model *m, uint64_t closure)
{
    uint32_t step = 0;

    while (step < steps_of(m, closure) && m->has[closure][step])
        step++;
    return step;
}

static void check(const struct counted *c, const struct model *m)
{
    uint64_t closures = schedule_closures(&m->schedule), low = 0, steps = 0;
    uint64_t open = closures;
    size_t sparse = 0;

    while (low < closures && model_next(m, low) == steps_of(m, low))
        low++;
    T_EQ(counted_low(c), low);
    for (uint64_t i = closures; i-- > 0;) {
        bool any = false;

        for (uint32_t s = 0; s < steps_of(m, i); s++) {
            T_EQ(counted_has(c, i, s), m->has[i][s]);
            steps += m->has[i][s];
            any |= m->has[i][s];
        }
        T_EQ(counted_closure_full(c, i), model_next(m, i) == steps_of(m, i));
        if (!counted_closure_full(c, i))
            open = i;
        T_EQ(counted_next_open(c, i), open);
        sparse += i >= low && any;
    }
    T_EQ(counted_steps(c), steps);
    T_EQ(counted_full(c), low == closures);
    T_LE(counted_sparse(c), sparse); // nothing is kept below the mark
}

static void check_round_trip(const struct counted *c, const struct model *m)
{
    struct counted_plain plain;
    struct counted back, copy;

    T_OK(counted_encode(c, &plain));
    T_OK(counted_decode(&back, &m->schedule, &plain, t_err()));
    T_OK(counted_copy(&copy, c));
    counted_plain_release(&plain);
    T_TRUE(counted_equal(c, &back) && counted_equal(&copy, c));
    T_TRUE(counted_includes(c, &back) && counted_includes(&back, c));
    check(&back, m);
    counted_release(&back);
    counted_release(&copy);
}

static enum sl_err add_random(struct counted *c, struct model *m)
{
    uint64_t closure = t_below(schedule_closures(&m->schedule));
    uint32_t step = (uint32_t)t_below(steps_of(m, closure));
    bool full = model_next(m, closure) == steps_of(m, closure);
    enum sl_err want;

    if (t_below(10) == 0) {
        want = full ? SL_EEXIST : SL_OK;
        T_EQ(counted_add_closure(c, closure), want);
        for (uint32_t i = 0; i < steps_of(m, closure); i++)
            m->has[closure][i] = true;
        return want;
    }
    want = m->has[closure][step] ? SL_EEXIST : SL_OK;
    T_EQ(counted_add(c, closure, step), want);
    m->has[closure][step] = true;
    return want;
}

// once: random adds, many of them twice, until all is counted.
TEST(counted, agrees_with_a_table)
{
    uint64_t before = sl_mem_live();

    for (int round = 0; round < 60; round++) {
        struct model m = {.schedule = random_schedule()};
        struct counted c;
        unsigned adds = 0;

        T_OK(counted_init(&c, &m.schedule));
        while (!counted_full(&c)) {
            add_random(&c, &m);
            if (adds++ % 16 == 0) {
                check(&c, &m);
                check_round_trip(&c, &m);
            }
        }
        check(&c, &m);
        check_round_trip(&c, &m);
        T_EQ(counted_sparse(&c), 0);
        T_EQ(counted_steps(&c), schedule_steps(&m.schedule));
        counted_release(&c);
    }
    T_EQ(sl_mem_live(), before);
}

// As if each closure below were added by itself; and it is no work to go far.
TEST(counted, a_raised_mark_counts_all_below_it)
{
    const struct schedule far = {UINT64_C(1) << 40, 1, 60000, 1};
    struct counted c;

    for (int round = 0; round < 200; round++) {
        struct model m = {.schedule = random_schedule()};
        uint64_t closures = schedule_closures(&m.schedule);
        uint64_t low = t_below(closures + 1);

        T_OK(counted_init(&c, &m.schedule));
        for (uint64_t i = t_below(40); i > 0; i--)
            add_random(&c, &m);
        T_OK(counted_raise(&c, low));
        for (uint64_t i = 0; i < low; i++)
            for (uint32_t step = 0; step < steps_of(&m, i); step++)
                m.has[i][step] = true;
        check(&c, &m);
        T_EQ(counted_raise(&c, closures + 1), SL_ERANGE);
        check(&c, &m);
        counted_release(&c);
    }
    T_OK(counted_init(&c, &far));
    T_OK(counted_add(&c, UINT64_C(1) << 50, 0));
    T_OK(counted_raise(&c, UINT64_C(1) << 50));
    T_EQ(counted_low(&c), (UINT64_C(1) << 50) + 1);
    T_EQ(counted_steps(&c), (UINT64_C(1) << 50) + 1);
    T_EQ(counted_sparse(&c), 0);
    counted_release(&c);
}

TEST(counted, includes_is_a_partial_order)
{
    for (int round = 0; round < 200; round++) {
        struct model m = {.schedule = random_schedule()};
        struct counted a, b;

        T_OK(counted_init(&a, &m.schedule));
        for (uint64_t i = t_below(40); i > 0; i--)
            add_random(&a, &m);
        T_OK(counted_copy(&b, &a));
        T_TRUE(counted_includes(&a, &b));
        for (uint64_t i = 1 + t_below(20); i > 0; i--) {
            bool newly = add_random(&a, &m) == SL_OK;

            T_TRUE(counted_includes(&a, &b));
            if (newly) {
                T_FALSE(counted_includes(&b, &a));
                T_FALSE(counted_equal(&a, &b));
            }
        }
        counted_release(&a);
        counted_release(&b);
    }
}

TEST(counted, sets_that_each_have_something_include_neither)
{
    const struct schedule s = {100, 1, 1, 10};
    struct counted a, b;

    T_OK(counted_init(&a, &s));
    T_OK(counted_init(&b, &s));
    T_OK(counted_add(&a, 3, 1));
    T_OK(counted_add(&b, 3, 2));
    T_FALSE(counted_includes(&a, &b) || counted_includes(&b, &a));
    T_OK(counted_add_closure(&a, 0)); // raises the mark of a
    T_FALSE(counted_includes(&a, &b) || counted_includes(&b, &a));
    counted_release(&a);
    counted_release(&b);
}

TEST(counted, strangers_are_refused)
{
    const struct schedule s = {10, 3, 2, 3};
    struct counted c;

    T_OK(counted_init(&c, &s));
    T_FAILS(SL_ERANGE, counted_add(&c, 1, 1)); // a short closure
    T_FAILS(SL_ERANGE, counted_add(&c, 4, 0));
    T_FAILS(SL_ERANGE, counted_add(&c, UINT64_MAX, 0));
    T_FAILS(SL_ERANGE, counted_add_closure(&c, 4));
    T_FAILS(SL_ERANGE, counted_reserve(&c, 4));
    T_FALSE(counted_has(&c, 4, 0));
    T_FALSE(counted_closure_full(&c, 4));
    T_EQ(counted_steps(&c), 0);
    counted_release(&c);
}

// S1: apply and count under one lock, so counting may not fail after applying.
TEST(counted, after_a_reserve_no_add_fails)
{
    const struct schedule s = {1000, 1, 1, 10};
    struct counted c;

    T_OK(counted_init(&c, &s));
    for (uint64_t closure = 0; closure < 100; closure += 7) {
        T_OK(counted_reserve(&c, closure));
        T_FALSE(counted_has(&c, closure, 0));
        sl_mem_fail_at(1);
        for (uint32_t i = 0; i < 10; i++)
            T_OK(counted_add(&c, closure, i));
        T_FALSE(sl_mem_failed());
    }
    T_EQ(counted_low(&c), 1);
    counted_release(&c);
}

TEST(counted, a_reserved_closure_counts_for_nothing)
{
    const struct schedule s = {1000, 1, 1, 10};
    struct counted_plain plain;
    struct counted a, b;

    T_OK(counted_init(&a, &s));
    T_OK(counted_init(&b, &s));
    T_OK(counted_reserve(&a, 5));
    T_TRUE(counted_equal(&a, &b) && counted_equal(&b, &a));
    T_OK(counted_encode(&a, &plain));
    T_EQ(plain.count, 0);
    counted_plain_release(&plain);
    counted_release(&a);
    counted_release(&b);
}

TEST(counted, each_allocation_may_fail)
{
    const struct schedule s = {1000, 1, 1, 10};
    uint64_t before = sl_mem_live();
    struct counted c, copy;
    bool failed = true;

    T_OK(counted_init(&c, &s));
    for (uint64_t n = 1; failed; n++) {
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = counted_add(&c, 50, 3);
        if (rc == SL_OK)
            rc = counted_copy(&copy, &c);
        failed = sl_mem_failed();
        if (failed) {
            T_EQ(rc == SL_ENOMEM || rc == SL_EEXIST, true);
        }
        if (rc == SL_OK)
            counted_release(&copy);
        counted_release(&c);
        T_EQ(sl_mem_live(), before);
        T_OK(counted_init(&c, &s));
    }
    counted_release(&c);
}

static enum sl_err decode(const struct counted_plain *plain)
{
    const struct schedule s = {100, 1, 1, 12}; // 9 closures, the last has 4
    struct counted c;
    enum sl_err rc = counted_decode(&c, &s, plain, t_err());

    if (rc == SL_OK)
        counted_release(&c);
    return rc;
}

TEST(counted, decode_checks_everything)
{
    static const uint8_t one[2] = {1, 0}, beyond[2] = {1, 0x10}, none[2];
    struct counted_closure sparse[2] = {{3, 12, one}, {5, 12, one}};
    struct counted_plain plain = {2, 2, sparse};

    T_OK(decode(&plain));
    plain.low = 10;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // beyond the last
    plain.low = 4;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // 3 lies below
    plain.low = 2;
    sparse[1].closure = 3;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // twice
    sparse[1].closure = 2;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // does not ascend
    sparse[1].closure = 9;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // no such closure
    sparse[1].closure = 8;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // has only 4 steps
    sparse[1].nbits = 4;
    T_OK(decode(&plain));
    sparse[0].bits = beyond;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // step 12 of 12
    sparse[0].bits = none;
    T_FAILS(SL_ECORRUPT, decode(&plain)); // an empty set
}

TEST(counted, decode_folds_full_closures_of_a_lazy_encoder)
{
    static const uint8_t all[2] = {0xff, 0x0f};
    const struct schedule s = {100, 1, 1, 12};
    struct counted_closure sparse[2] = {{2, 12, all}, {3, 12, all}};
    struct counted_plain plain = {2, 2, sparse};
    struct counted c;

    T_OK(counted_decode(&c, &s, &plain, t_err()));
    T_EQ(counted_low(&c), 4);
    T_EQ(counted_sparse(&c), 0);
    T_EQ(counted_steps(&c), 48);
    counted_release(&c);
}
