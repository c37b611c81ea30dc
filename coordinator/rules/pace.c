// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/pace.c -- see pace.h.
#include "coordinator/rules/pace.h"

#include <math.h>

void pace_take(struct pace *p, double took_ms, uint32_t steps)
{
    double each = steps > 0 ? took_ms / steps : 0;

    if (!isfinite(each) || each <= 0)
        return;
    if (p->step_ms > 0)
        each = fmin(fmax(each, p->step_ms / 2), p->step_ms * 2);
    if (p->warm)
        p->step_ms =
            p->step_ms > 0 ? p->step_ms + (each - p->step_ms) / 2 : each;
    p->warm = true;
}

uint32_t pace_closures(double step_ms, double fastest_ms, uint32_t most)
{
    double share;

    if (step_ms <= 0 || fastest_ms <= 0 || fastest_ms >= step_ms)
        return most;
    share = most * (fastest_ms / step_ms) + 0.5;
    return share < 1 ? 1 : (uint32_t)share;
}
