// SPDX-License-Identifier: Apache-2.0
// worker/device/loss_scale.c -- the rule by which the loss scale falls and
// grows.
#include "worker/device/loss_scale.h"

#include <float.h>

void loss_scale_init(struct loss_scale *l, double fixed, double known)
{
    bool sane = known >= 1 && known <= (double)FLT_MAX;

    *l = (struct loss_scale){
        .s = fixed, .dynamic = fixed <= 0, .growth = LOSS_SCALE_GROWTH};
    if (l->dynamic)
        l->s = sane ? known : LOSS_SCALE_START;
}

bool loss_scale_step(struct loss_scale *l, bool finite)
{
    bool smaller = !finite && l->dynamic && l->s > 1;

    if (!finite)
        l->good = 0;
    else if (l->dynamic)
        l->good++;
    if (smaller)
        l->s = l->s / 2 > 1 ? l->s / 2 : 1;
    if (l->good < l->growth)
        return smaller;
    l->good = 0;
    if (l->s * 2 <= (double)FLT_MAX)
        l->s *= 2;
    return false;
}
