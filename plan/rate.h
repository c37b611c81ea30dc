// SPDX-License-Identifier: Apache-2.0
// plan/rate.h -- Keras' learning-rate schedules, and any by points.
//
// A shard asks for the rate of an update, and displays of a job for its current
// rate.
//
// Threads  any.
// Memory   values, except the points, which are borrowed: rate_copy owns them.
// Units    steps are counted from 0: a shard passes t - 1.
// Errors   rate_check fails with SL_EINVAL and what is wrong, rate_copy with
//          SL_ENOMEM. `err` may be NULL.
#ifndef PLAN_RATE_H
#define PLAN_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define RATE_PIECES_MAX 32   // boundaries of a piecewise constant schedule
#define RATE_POINTS_MAX 1024 // points of a piecewise linear one

enum rate_kind {
    RATE_CONSTANT = 1,
    RATE_EXPONENTIAL, // rate r^(s/D)
    RATE_PIECEWISE,   // values[i] up to and including boundaries[i]
    RATE_POLYNOMIAL,
    RATE_INVERSE_TIME,
    RATE_COSINE,
    RATE_COSINE_RESTARTS,
    RATE_LINEAR, // rate times the line through the points
};

struct rate {
    enum rate_kind kind;
    double rate;        // initial learning rate; all but PIECEWISE
    double decay_steps; // D; first_decay_steps of COSINE_RESTARTS
    double decay_rate;  // EXPONENTIAL, INVERSE_TIME
    bool staircase;     // EXPONENTIAL, INVERSE_TIME
    double end_rate;    // POLYNOMIAL
    double power;       // POLYNOMIAL
    bool cycle;         // POLYNOMIAL
    double alpha;       // COSINE, COSINE_RESTARTS
    bool has_warmup;    // COSINE: there is a warmup_target
    double warmup_target;
    double warmup_steps;
    double t_mul, m_mul; // COSINE_RESTARTS
    unsigned boundaries; // PIECEWISE: their number; values has one more
    // PIECEWISE: steps, rising; and the rate up to each, and beyond the last.
    double boundary[RATE_PIECES_MAX], value[RATE_PIECES_MAX + 1];
    size_t points;         // LINEAR: at least 1
    const uint64_t *point; // LINEAR: steps, rising
    const double *factor;  // LINEAR: at each point; constant beyond the ends
};

// Checks the fields that the schedule's kind uses. In all kinds but PIECEWISE,
// decay_rate, end_rate, power, alpha, warmup_target, t_mul and m_mul must be
// finite even if the kind does not use them. SL_EINVAL says what is wrong; no
// other error.
enum sl_err rate_check(const struct rate *r, struct sl_error *err);

// Copies a schedule that rate_check accepts, with its points, to *out, in
// memory not in use; rate_release frees it. After SL_ENOMEM *out has all but
// the points, and may be released.
enum sl_err rate_copy(struct rate *out, const struct rate *from);

// Frees the points of a copy and makes it all zeroes; not for a schedule with
// borrowed points. All zeroes is allowed.
void rate_release(struct rate *r);

// Returns the learning rate of step `step`, from 0, by a schedule that
// rate_check accepts.
double rate_at(const struct rate *r, uint64_t step);

#endif
