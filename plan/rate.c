// SPDX-License-Identifier: Apache-2.0
// plan/rate.c -- learning-rate schedules, in double.
#include "plan/rate.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"

static enum sl_err rate_malformed(const char *what, struct sl_error *err)
{
    return sl_fail(err, SL_EINVAL, "learning-rate schedule: %s", what);
}

static enum sl_err check_pieces(const struct rate *sch, struct sl_error *err)
{
    if (sch->boundaries > RATE_PIECES_MAX)
        return sl_fail(err, SL_EINVAL,
                       "learning-rate schedule: %u boundaries, at most %u",
                       sch->boundaries, RATE_PIECES_MAX);
    for (unsigned i = 1; i < sch->boundaries; i++)
        if (!(sch->boundary[i] > sch->boundary[i - 1]))
            return rate_malformed("boundaries must rise", err);
    for (unsigned i = 0; i <= sch->boundaries; i++)
        if (!isfinite(sch->value[i]))
            return rate_malformed("values must be finite", err);
    return SL_OK;
}

static enum sl_err check_points(const struct rate *sch, struct sl_error *err)
{
    if (sch->points < 1 || sch->points > RATE_POINTS_MAX)
        return sl_fail(err, SL_EINVAL,
                       "learning-rate schedule: %zu points, 1 to %u are "
                       "possible",
                       sch->points, RATE_POINTS_MAX);
    for (size_t i = 0; i < sch->points; i++) {
        if (i > 0 && sch->point[i] <= sch->point[i - 1])
            return rate_malformed("points must rise", err);
        if (!isfinite(sch->factor[i]))
            return rate_malformed("values must be finite", err);
    }
    return SL_OK;
}

enum sl_err rate_check(const struct rate *sch, struct sl_error *err)
{
    const double other[] = {sch->decay_rate, sch->end_rate,      sch->power,
                            sch->alpha,      sch->warmup_target, sch->t_mul,
                            sch->m_mul};

    if (sch->kind < RATE_CONSTANT || sch->kind > RATE_LINEAR)
        return rate_malformed("unknown kind", err);
    if (sch->kind == RATE_PIECEWISE)
        return check_pieces(sch, err);
    if (!isfinite(sch->rate))
        return rate_malformed("the initial rate must be finite", err);
    for (size_t i = 0; i < SL_COUNT(other); i++)
        if (!isfinite(other[i]))
            return rate_malformed("numbers must be finite", err);
    if (sch->kind == RATE_CONSTANT)
        return SL_OK;
    if (sch->kind == RATE_LINEAR)
        return check_points(sch, err);
    if (!(sch->decay_steps > 0 && isfinite(sch->decay_steps)))
        return rate_malformed("decay_steps must be above 0", err);
    if (sch->kind == RATE_EXPONENTIAL && !(sch->decay_rate > 0))
        return rate_malformed("decay_rate must be above 0", err);
    if (sch->kind == RATE_INVERSE_TIME && !(sch->decay_rate >= 0))
        return rate_malformed("decay_rate must be 0 or more", err);
    if (sch->kind == RATE_COSINE_RESTARTS && !(sch->t_mul >= 1))
        return rate_malformed("t_mul must be 1 or more", err);
    if (sch->has_warmup && !(sch->warmup_steps >= 0))
        return rate_malformed("warmup_steps must be 0 or more", err);
    return SL_OK;
}

static double piecewise(const struct rate *sch, double s)
{
    unsigned i = 0;

    while (i < sch->boundaries && s > sch->boundary[i])
        i++;
    return sch->value[i];
}

static double polynomial(const struct rate *sch, double s)
{
    double d = sch->decay_steps;

    if (sch->cycle)
        d *= s == 0 ? 1 : ceil(s / d);
    else if (s > d)
        s = d;
    return (sch->rate - sch->end_rate) * pow(1 - s / d, sch->power) +
           sch->end_rate;
}

// From `top` down to alpha top over decay_steps.
static double cosine_from(const struct rate *sch, double top, double s)
{
    double part = s < sch->decay_steps ? s / sch->decay_steps : 1;

    return top * ((1 - sch->alpha) * 0.5 * (1 + cos(M_PI * part)) + sch->alpha);
}

static double cosine(const struct rate *sch, double s)
{
    if (!sch->has_warmup)
        return cosine_from(sch, sch->rate, s);
    if (s < sch->warmup_steps)
        return sch->rate +
               (sch->warmup_target - sch->rate) * s / sch->warmup_steps;
    return cosine_from(sch, sch->warmup_target, s - sch->warmup_steps);
}

#define RESTARTS_COMPARED 1024

// Passes over all restarts up to step `s` of a period of *length, and leaves
// the steps since the last one. With t_mul near 1 there may be as many as
// steps.
static double pass_restarts(const struct rate *sch, double s, double *length,
                            double *height)
{
    double grows = sch->t_mul - 1;
    double n = floor(log1p(s / *length * grows) / log1p(grows));

    s -= *length * expm1(n * log1p(grows)) / grows;
    *length *= pow(sch->t_mul, n);
    *height *= pow(sch->m_mul, n);
    return fmin(fmax(s, 0), *length);
}

// The restart is found by comparison: Keras' logarithm may land one restart
// low or high exactly at one.
static double restarts(const struct rate *sch, double s)
{
    double length = sch->decay_steps, height = 1, part;

    if (sch->t_mul == 1) {
        part = floor(s / length);
        height = pow(sch->m_mul, part);
        part = s / length - part;
    } else {
        for (unsigned i = 0; i < RESTARTS_COMPARED && s >= length; i++) {
            s -= length;
            length *= sch->t_mul;
            height *= sch->m_mul;
        }
        if (s >= length)
            s = pass_restarts(sch, s, &length, &height);
        part = s / length;
    }
    return sch->rate *
           ((1 - sch->alpha) * 0.5 * height * (1 + cos(M_PI * part)) +
            sch->alpha);
}

// Steps and points are subtracted as they are: in double two that follow each
// other could be the same.
static double rate_linear(const struct rate *sch, uint64_t step)
{
    size_t low = 0, high = sch->points - 1;

    if (sch->points == 0) // rate_check refuses that
        return 1;
    if (step <= sch->point[low])
        return sch->factor[low];
    if (step >= sch->point[high])
        return sch->factor[high];
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (sch->point[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    return sch->factor[low] + (sch->factor[high] - sch->factor[low]) *
                                  (double)(step - sch->point[low]) /
                                  (double)(sch->point[high] - sch->point[low]);
}

double rate_at(const struct rate *sch, uint64_t step)
{
    double s = (double)step, parts = s / sch->decay_steps;

    if (sch->staircase)
        parts = floor(parts);
    switch (sch->kind) {
    case RATE_EXPONENTIAL:
        return sch->rate * pow(sch->decay_rate, parts);
    case RATE_PIECEWISE:
        return piecewise(sch, s);
    case RATE_POLYNOMIAL:
        return polynomial(sch, s);
    case RATE_INVERSE_TIME:
        return sch->rate / (1 + sch->decay_rate * parts);
    case RATE_COSINE:
        return cosine(sch, s);
    case RATE_COSINE_RESTARTS:
        return restarts(sch, s);
    case RATE_LINEAR:
        return sch->rate * rate_linear(sch, step);
    default:
        return sch->rate;
    }
}

enum sl_err rate_copy(struct rate *out, const struct rate *from)
{
    size_t n = from->points;
    uint64_t *point;
    double *factor;

    *out = *from;
    if (n == 0)
        return SL_OK;
    point = sl_malloc_array(n, sizeof(*point) + sizeof(*factor));
    if (point == NULL) {
        out->points = 0;
        out->point = NULL;
        return SL_ENOMEM;
    }
    factor = (double *)(point + n);
    memcpy(point, from->point, n * sizeof(*point));
    memcpy(factor, from->factor, n * sizeof(*factor));
    out->point = point;
    out->factor = factor;
    return SL_OK;
}

void rate_release(struct rate *r)
{
    sl_free((void *)r->point);
    *r = (struct rate){0};
}
