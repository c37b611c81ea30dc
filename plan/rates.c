// SPDX-License-Identifier: Apache-2.0
// plan/rates.c -- the rate of a closure.
#include "plan/rates.h"

#include <math.h>
#include <string.h>

double rates_at(const struct rates *r, uint64_t closure, double base)
{
    double rate = base;

    for (uint32_t i = 0; i < r->count && r->step[i].closure <= closure; i++)
        rate = r->step[i].rate;
    return rate;
}

void rates_add(struct rates *r, uint64_t closure, double rate)
{
    if (r->count == RATES_MAX) {
        r->count--;
        memmove(r->step, r->step + 1, r->count * sizeof(r->step[0]));
    }
    r->step[r->count++] = (struct rates_step){closure, rate};
}

bool rates_valid(const struct rates *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (!isfinite(r->step[i].rate) || r->step[i].rate < 0 ||
            (i > 0 && r->step[i].closure <= r->step[i - 1].closure))
            return false;
    }
    return true;
}
