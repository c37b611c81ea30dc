// SPDX-License-Identifier: Apache-2.0
// common/plan/rates.h -- learning rates that callbacks have reduced.
//
// Which rate a step is applied at is a function of its closure and of this
// list, as all else of a step is one of its closure (D1). So it does not matter
// when somebody heard of a rate, how often, or what was loaded since: a closure
// that is computed again is applied at the rate that it had.
//
// Threads  pure.
// Memory   values.
// Units    closures; a rate as in OptimizerSpec.learning_rate.
#ifndef COMMON_PLAN_RATES_H
#define COMMON_PLAN_RATES_H

#include <stdbool.h>
#include <stdint.h>

// With one more the oldest goes: its closures lie before the last checkpoint
// long since, and nobody computes them again.
#define RATES_MAX 64

struct rates {
    uint32_t count;
    struct rates_step {
        uint64_t closure; // from this one on
        double rate;
    } step[RATES_MAX]; // rising
};

// The rate of a closure; `base` before the first.
double rates_at(const struct rates *r, uint64_t closure, double base);

// From this closure on, which lies above that of the last one.
void rates_add(struct rates *r, uint64_t closure, double rate);

// Closures rise, and rates are finite and not negative.
bool rates_valid(const struct rates *r);

#endif
