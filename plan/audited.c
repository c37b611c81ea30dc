// SPDX-License-Identifier: Apache-2.0
// plan/audited.c -- see audited.h.
#include "plan/audited.h"

#include "common/base/rng.h"

bool audited_round(uint64_t job, uint64_t first, double share)
{
    uint64_t drawn = sl_mix64(sl_mix64(job) ^ first);

    return (double)(drawn >> 11) * 0x1p-53 < share;
}

uint32_t audited_slots(uint64_t first, uint32_t count, uint64_t own,
                       uint64_t slots[AUDITED_WORKERS])
{
    uint32_t n = 0;

    while (n < AUDITED_WORKERS && n < count) {
        slots[n] = first + (own - first + n) % count;
        n++;
    }
    return n;
}
