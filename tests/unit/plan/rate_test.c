// SPDX-License-Identifier: Apache-2.0
// tests/unit/plan/rate_test.c -- schedules against Keras' values.
#include <math.h>

#include "plan/rate.h"
#include "tests/harness/t.h"

static struct sl_error err; // of calls whose text is looked at

static const uint64_t steps[] = {0, 1, 5, 6, 10, 15, 23};

static void check(const struct rate *sch, const double want[7])
{
    T_OK(rate_check(sch, t_err()));
    for (unsigned i = 0; i < SL_COUNT(steps); i++)
        T_NEAR(rate_at(sch, steps[i]), want[i], 1e-11);
}

// With Keras' defaults.
static struct rate make(enum rate_kind kind, double rate, double decay_steps)
{
    return (struct rate){
        .kind = kind,
        .rate = rate,
        .decay_steps = decay_steps,
        .end_rate = 1e-4,
        .power = 1,
        .t_mul = 2,
        .m_mul = 1,
    };
}

TEST(rate, constant)
{
    struct rate sch = make(RATE_CONSTANT, 0.25, 0);

    check(&sch, (double[]){0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25});
}

TEST(rate, exponential)
{
    struct rate sch = make(RATE_EXPONENTIAL, 0.1, 10);

    sch.decay_rate = 0.5;
    check(&sch, (double[]){0.1, 0.09330329915, 0.07071067812, 0.06597539554,
                           0.05, 0.03535533906, 0.02030630991});
    sch.staircase = true;
    check(&sch, (double[]){0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.025});
}

TEST(rate, piecewise_boundaries_are_inclusive)
{
    struct rate sch = make(RATE_PIECEWISE, 0, 0);

    sch.boundaries = 2;
    sch.boundary[0] = 5;
    sch.boundary[1] = 10;
    sch.value[0] = 1;
    sch.value[1] = 0.5;
    sch.value[2] = 0.1;
    check(&sch, (double[]){1, 1, 1, 0.5, 0.5, 0.1, 0.1});
}

TEST(rate, polynomial)
{
    struct rate sch = make(RATE_POLYNOMIAL, 0.1, 10);

    check(&sch,
          (double[]){0.1, 0.09001, 0.05005, 0.04006, 0.0001, 0.0001, 0.0001});
    sch.end_rate = 0.01;
    sch.power = 2;
    sch.cycle = true;
    check(&sch,
          (double[]){0.1, 0.0829, 0.0325, 0.0244, 0.01, 0.015625, 0.0149});
}

TEST(rate, inverse_time)
{
    struct rate sch = make(RATE_INVERSE_TIME, 0.1, 10);

    sch.decay_rate = 0.5;
    check(&sch, (double[]){0.1, 0.09523809524, 0.08, 0.07692307692,
                           0.06666666667, 0.05714285714, 0.04651162791});
}

TEST(rate, cosine)
{
    struct rate sch = make(RATE_COSINE, 0.1, 10);

    check(&sch, (double[]){0.1, 0.09755282581, 0.05, 0.03454915028, 0, 0, 0});
}

TEST(rate, cosine_with_warmup)
{
    struct rate sch = make(RATE_COSINE, 0, 10);

    sch.alpha = 0.1;
    sch.has_warmup = true;
    sch.warmup_target = 0.1;
    sch.warmup_steps = 5;
    check(&sch, (double[]){0, 0.02, 0.1, 0.09779754323, 0.055, 0.01, 0.01});
}

TEST(rate, cosine_restarts)
{
    struct rate sch = make(RATE_COSINE_RESTARTS, 0.1, 4);

    sch.m_mul = 0.5;
    check(&sch, (double[]){0.1, 0.08535533906, 0.04809698831, 0.04267766953,
                           0.00732233047, 0.02289337015, 0.005555372087});
}

// At a restart itself the rate is at its new top, neither one restart early
// nor late: this is where a logarithm would go wrong.
TEST(rate, restarts_are_where_they_should_be)
{
    struct rate sch = make(RATE_COSINE_RESTARTS, 1, 3);
    uint64_t at = 0, length = 3;

    sch.m_mul = 0.5;
    for (int i = 0; i < 12; i++, length *= 2) {
        T_NEAR(rate_at(&sch, at), pow(0.5, i), 1e-12);
        at += length;
    }
    sch.t_mul = 1;
    T_NEAR(rate_at(&sch, 9), 0.125, 1e-12);
}

// A shard asks for the rate under its lock: a schedule may not keep it there.
// Lengths that hardly grow have a restart in nearly every step.
TEST(rate, restarts_without_end_take_no_time)
{
    struct rate sch = make(RATE_COSINE_RESTARTS, 1, 1);
    double length = 10, at = 0;
    unsigned n = 0;

    sch.t_mul = 1 + 1e-12;
    T_TRUE(isfinite(rate_at(&sch, UINT64_MAX)));
    // Behind those that are compared, the place in a period is the same.
    sch.t_mul = 1.0001;
    sch.decay_steps = 10;
    sch.m_mul = 0.9999;
    for (; n < 5000; n++, length *= sch.t_mul)
        at += length;
    for (double part = 0.1; part < 1; part += 0.2) {
        uint64_t step = (uint64_t)(at + part * length);
        double place = ((double)step - at) / length;

        T_NEAR(rate_at(&sch, step),
               pow(sch.m_mul, n) * 0.5 * (1 + cos(M_PI * place)), 1e-6);
    }
}

// Steps that follow each other are apart however large they are.
TEST(rate, linear)
{
    const uint64_t point[] = {1, 5, 6, 15};
    const double factor[] = {0, 1, 0.5, 2};
    const uint64_t far[] = {UINT64_MAX - 1, UINT64_MAX};
    struct rate sch = make(RATE_LINEAR, 0.1, 0);

    sch.points = 4;
    sch.point = point;
    sch.factor = factor;
    check(&sch,
          (double[]){0, 0, 0.1, 0.05, 0.1 * (0.5 + 1.5 * 4 / 9), 0.2, 0.2});
    sch.points = 1;
    check(&sch, (double[7]){0});
    sch.points = 2;
    sch.point = far;
    T_NEAR(rate_at(&sch, UINT64_MAX - 1), 0, 0);
    T_NEAR(rate_at(&sch, UINT64_MAX), 0.1, 0);
}

TEST(rate, check_refuses_what_cannot_be)
{
    struct rate sch = make(RATE_COSINE, 0.1, 0);

    T_FAILS(SL_EINVAL, rate_check(&sch, &err));
    T_HAS(err.text, "decay_steps");
    sch = make(RATE_PIECEWISE, 0, 0);
    sch.boundaries = 2;
    sch.boundary[0] = 5;
    sch.boundary[1] = 5;
    T_FAILS(SL_EINVAL, rate_check(&sch, &err));
    T_HAS(err.text, "rise");
    sch.boundaries = RATE_PIECES_MAX + 1;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch = make(RATE_LINEAR, 0.1, 0);
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL)); // no points
    sch.points = 2;
    sch.point = (const uint64_t[]){5, 5};
    sch.factor = (const double[]){1, 1};
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch.point = (const uint64_t[]){5, 6};
    T_OK(rate_check(&sch, t_err()));
    sch.factor = (const double[]){1, NAN};
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch.points = RATE_POINTS_MAX + 1;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch = make(RATE_COSINE_RESTARTS, 0.1, 10);
    sch.t_mul = 0.5;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
}

// A rate that is not a number would make the parameters so.
TEST(rate, check_refuses_what_gives_no_number)
{
    struct rate sch = make(RATE_INVERSE_TIME, 0.1, 1);

    sch.decay_rate = 0.5;
    T_OK(rate_check(&sch, t_err()));
    sch.decay_rate = -1; // 1 / 0 at step 1
    T_FAILS(SL_EINVAL, rate_check(&sch, &err));
    T_HAS(err.text, "decay_rate");
    sch.decay_rate = NAN;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch = make(RATE_EXPONENTIAL, 0.1, 1);
    sch.decay_rate = INFINITY;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch = make(RATE_POLYNOMIAL, 0.1, 1);
    sch.end_rate = NAN;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
    sch = make(RATE_COSINE, 0.1, 1);
    sch.alpha = INFINITY;
    T_FAILS(SL_EINVAL, rate_check(&sch, NULL));
}
