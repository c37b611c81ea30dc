// SPDX-License-Identifier: Apache-2.0
// proto/spec_schedule.c -- learning-rate schedules, those of Keras 3 and by
// points: names, arguments and defaults.
#include "proto/spec_check.h"

#include <math.h>
#include <string.h>

#include "common/base/num.h"

#define PATH "optimizer.schedule"

static const struct shape {
    const char *name;
    enum rate_kind kind;
    const char *fields; // each with a blank on both sides
} shapes[] = {
    {"exponential_decay", RATE_EXPONENTIAL,
     " type decay_steps decay_rate staircase "},
    {"piecewise_constant_decay", RATE_PIECEWISE, " type boundaries values "},
    {"polynomial_decay", RATE_POLYNOMIAL,
     " type decay_steps end_learning_rate power cycle "},
    {"inverse_time_decay", RATE_INVERSE_TIME,
     " type decay_steps decay_rate staircase "},
    {"cosine_decay", RATE_COSINE,
     " type decay_steps alpha warmup_target warmup_steps "},
    {"cosine_decay_restarts", RATE_COSINE_RESTARTS,
     " type decay_steps t_mul m_mul alpha "},
    {"piecewise_linear", RATE_LINEAR, " type boundaries values "},
};

static const struct shape *spec_schedule_find(const char *name,
                                              struct sl_error *err)
{
    const char *words[SL_COUNT(shapes)];
    unsigned index;

    for (unsigned i = 0; i < SL_COUNT(shapes); i++)
        words[i] = shapes[i].name;
    if (spec_word(PATH ".type", name, words, SL_COUNT(words), &index, err) !=
        SL_OK)
        return NULL;
    return &shapes[index];
}

static enum sl_err check_piecewise(const Sluice__V1__ScheduleSpec *s,
                                   enum rate_kind kind, struct sl_error *err)
{
    bool linear = kind == RATE_LINEAR;
    unsigned most = linear ? RATE_POINTS_MAX : RATE_PIECES_MAX;

    if (s->n_boundaries == 0 || s->n_boundaries > most)
        return sl_fail(err, SL_EINVAL,
                       PATH ".boundaries: wants 1 to %u values, got %zu", most,
                       s->n_boundaries);
    if (linear && s->n_values != s->n_boundaries)
        return sl_fail(err, SL_EINVAL,
                       PATH ".values: wants as many values as boundaries "
                            "(%zu), got %zu",
                       s->n_boundaries, s->n_values);
    if (!linear && s->n_values != s->n_boundaries + 1)
        return sl_fail(err, SL_EINVAL,
                       PATH ".values: wants one value more than boundaries "
                            "(%zu), got %zu",
                       s->n_boundaries + 1, s->n_values);
    for (size_t i = 1; i < s->n_boundaries; i++)
        if (s->boundaries[i] <= s->boundaries[i - 1])
            return sl_fail(err, SL_EINVAL, PATH ".boundaries: must rise");
    for (size_t i = 0; i < s->n_values; i++) {
        enum sl_err rc = spec_real(PATH ".values", s->values[i], 0, INFINITY,
                                   SPEC_CLOSED, err);

        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

static void spec_schedule_fill_defaults(Sluice__V1__ScheduleSpec *s,
                                        enum rate_kind kind)
{
    switch (kind) {
    case RATE_EXPONENTIAL:
    case RATE_INVERSE_TIME:
        SPEC_DEFAULT(s, staircase, false);
        break;
    case RATE_POLYNOMIAL:
        SPEC_DEFAULT(s, end_learning_rate, 1e-4);
        SPEC_DEFAULT(s, power, 1);
        SPEC_DEFAULT(s, cycle, false);
        break;
    case RATE_COSINE_RESTARTS:
        SPEC_DEFAULT(s, t_mul, 2);
        SPEC_DEFAULT(s, m_mul, 1);
        SPEC_DEFAULT(s, alpha, 0);
        break;
    case RATE_COSINE:
        SPEC_DEFAULT(s, alpha, 0);
        SPEC_DEFAULT(s, warmup_steps, 0);
        break;
    default:
        break;
    }
}

static enum sl_err spec_schedule_check_values(const Sluice__V1__ScheduleSpec *s,
                                              struct sl_error *err)
{
#define BOUND(field, min, max, ends)                                           \
    {                                                                          \
        PATH "." #field, s->has_##field, s->field, min, max, ends              \
    }
    const struct {
        const char *path;
        protobuf_c_boolean given;
        double value, min, max;
        enum spec_ends ends;
    } bounds[] = {
        BOUND(decay_rate, 0, INFINITY, SPEC_CLOSED),
        BOUND(end_learning_rate, 0, INFINITY, SPEC_CLOSED),
        BOUND(power, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(alpha, 0, 1, SPEC_CLOSED),
        BOUND(warmup_target, 0, INFINITY, SPEC_OPEN_LOW),
        BOUND(t_mul, 1, INFINITY, SPEC_CLOSED),
        BOUND(m_mul, 0, INFINITY, SPEC_OPEN_LOW),
    };
#undef BOUND

    for (unsigned i = 0; i < SL_COUNT(bounds); i++) {
        enum sl_err rc = SL_OK;

        if (bounds[i].given)
            rc = spec_real(bounds[i].path, bounds[i].value, bounds[i].min,
                           bounds[i].max, bounds[i].ends, err);
        if (rc != SL_OK)
            return rc;
    }
    return SL_OK;
}

enum sl_err spec_check_schedule(Sluice__V1__ScheduleSpec *s,
                                struct sl_error *err)
{
    const struct shape *shape = spec_schedule_find(s->type, err);
    enum sl_err rc;

    if (shape == NULL)
        return SL_EINVAL;
    rc = spec_only(PATH, &s->base, shape->fields, shape->name, err);
    if (rc != SL_OK)
        return rc;
    if (shape->kind == RATE_PIECEWISE || shape->kind == RATE_LINEAR)
        return check_piecewise(s, shape->kind, err);
    rc = spec_range(PATH ".decay_steps", s->decay_steps, 1, UINT64_C(1) << 53,
                    err);
    if (rc == SL_OK && strstr(shape->fields, " decay_rate ") != NULL &&
        !s->has_decay_rate)
        return sl_fail(err, SL_EINVAL, PATH ".decay_rate is missing");
    if (rc == SL_OK && s->warmup_steps > 0 && !s->has_warmup_target)
        return sl_fail(err, SL_EINVAL,
                       PATH ".warmup_steps: needs a warmup_target");
    spec_schedule_fill_defaults(s, shape->kind);
    return rc == SL_OK ? spec_schedule_check_values(s, err) : rc;
}

void spec_schedule(struct rate *out, const Sluice__V1__OptimizerSpec *o)
{
    const Sluice__V1__ScheduleSpec *s = o->schedule;
    const struct shape *shape =
        s != NULL ? spec_schedule_find(s->type, NULL) : NULL;

    *out = (struct rate){.kind = RATE_CONSTANT, .rate = o->learning_rate};
    if (shape == NULL)
        return;
    out->kind = shape->kind;
    out->decay_steps = (double)s->decay_steps;
    out->decay_rate = s->decay_rate;
    out->staircase = s->staircase;
    out->end_rate = s->end_learning_rate;
    out->power = s->power;
    out->cycle = s->cycle;
    out->alpha = s->alpha;
    out->has_warmup = s->has_warmup_target;
    out->warmup_target = s->warmup_target;
    out->warmup_steps = (double)s->warmup_steps;
    out->t_mul = s->t_mul;
    out->m_mul = s->m_mul;
    if (shape->kind == RATE_LINEAR) {
        out->points = sl_min(s->n_boundaries, s->n_values);
        out->point = s->boundaries;
        out->factor = s->values;
        return;
    }
    for (size_t i = 0; i < s->n_boundaries && i < RATE_PIECES_MAX; i++)
        out->boundary[out->boundaries++] = (double)s->boundaries[i];
    for (size_t i = 0; i < s->n_values && i < RATE_PIECES_MAX + 1; i++)
        out->value[i] = s->values[i];
}
