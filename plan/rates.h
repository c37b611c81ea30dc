// SPDX-License-Identifier: Apache-2.0
// plan/rates.h -- learning rates that callbacks have reduced.
//
// The rate at which a step is applied is a function of its closure and of this
// list, as all else of a step is a function of its closure (D1). So it does not
// matter when a shard heard of a rate, how often, or what was loaded since: a
// closure that is computed again is applied at the same rate.
//
// Threads  pure.
// Memory   values.
// Units    closures; a rate as in OptimizerSpec.learning_rate.
#ifndef PLAN_RATES_H
#define PLAN_RATES_H

#include <stdbool.h>
#include <stdint.h>

// Beyond this number the oldest rate is dropped: its closures lie long before
// the last checkpoint and are not computed again.
#define RATES_MAX 64

struct rates {
    uint32_t count;
    struct rates_step {
        uint64_t closure; // first closure at this rate
        double rate;
    } step[RATES_MAX]; // rising by closure
};

// Returns the rate at which the steps of `closure` are applied: that of the
// last entry at or before it, or `base` before the first.
double rates_at(const struct rates *r, uint64_t closure, double base);

// Adds a rate that holds from `closure` on, which must lie above the last
// entry's (not checked; rates_valid tells); drops the oldest entry if there are
// RATES_MAX.
void rates_add(struct rates *r, uint64_t closure, double rate);

// Returns true if the closures of the list rise and its rates are finite and
// not negative. The count is not checked.
bool rates_valid(const struct rates *r);

#endif
