// SPDX-License-Identifier: Apache-2.0
// common/base/histogram.h -- counts of a number's values, by ranges.
//
// Counting takes no lock and no allocation: two relaxed additions on the thread
// that measures. A reader sees each of them once, though not all at one
// instant.
//
//     static struct histogram waits = HISTOGRAM_DURATIONS;
//     histogram_add(&waits, us);
//
// Threads  any.
// Memory   values; static or part of their owner.
// Units    integers in the unit of the measured number: microseconds, updates.
//          `unit` is one of them in the unit that is shown: 1e-6 s.
#ifndef COMMON_BASE_HISTOGRAM_H
#define COMMON_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 15

struct histogram {
    const uint64_t *bounds; // rising; a number equal to one falls below it
    double unit;            // factor from a value to the unit that is shown
    _Atomic uint64_t sum;   // sum of all values
    _Atomic uint64_t count[HISTOGRAM_BOUNDS + 1]; // the last: above all bounds
};

// Bounds of HISTOGRAM_DURATIONS, from 0.5 ms to 30 s in microseconds, and of
// HISTOGRAM_UPDATES, from 0 to 256 updates (the last five are UINT64_MAX, and
// not shown).
extern const uint64_t histogram_durations[HISTOGRAM_BOUNDS];
extern const uint64_t histogram_updates[HISTOGRAM_BOUNDS];

#define HISTOGRAM_DURATIONS                                                    \
    {                                                                          \
        .bounds = histogram_durations, .unit = 1e-6                            \
    }
#define HISTOGRAM_UPDATES                                                      \
    {                                                                          \
        .bounds = histogram_updates, .unit = 1                                 \
    }

// Counts `value` in the range that it falls in, and adds it to the sum; any
// thread, without a lock. `h` is made by one of the macros above: its bounds
// are not NULL.
void histogram_add(struct histogram *h, uint64_t value);

// Returns how many values were counted, in all ranges.
uint64_t histogram_count(const struct histogram *h);

#endif
