// SPDX-License-Identifier: Apache-2.0
// common/base/histogram.c -- see histogram.h.
#include "common/base/histogram.h"

const uint64_t histogram_durations[HISTOGRAM_BOUNDS] = {
    500,    1000,   2500,    5000,    10000,   25000,    50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000,
};

const uint64_t histogram_updates[HISTOGRAM_BOUNDS] = {
    0,   1,   2,          4,          8,          16,         32,         64,
    128, 256, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
};

void histogram_add(struct histogram *h, uint64_t value)
{
    unsigned i = 0;

    while (i < HISTOGRAM_BOUNDS && value > h->bounds[i])
        i++;
    atomic_fetch_add_explicit(&h->count[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t all = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        all += atomic_load_explicit(&h->count[i], memory_order_relaxed);
    return all;
}
