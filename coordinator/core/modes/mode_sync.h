// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/mode_sync.h -- what a job in mode sync has beside its
// shards: the times of its rounds.
//
// Threads  the loop.
// Memory   values, in struct job.
// Units    *_ms monotonic.
#ifndef COORDINATOR_CORE_MODES_MODE_SYNC_H
#define COORDINATOR_CORE_MODES_MODE_SYNC_H

#include <stdint.h>

// Rounds with kept times, as completions come several at a time.
#define ROUND_TIMES 8

// Times of the contributions to a round.
struct round_times {
    uint64_t first; // its first closure
    uint64_t from_ms, to_ms;
    uint32_t count; // contributions that have come
};

struct job_sync {
    struct round_times rounds[ROUND_TIMES]; // at index round % ROUND_TIMES
    // recent time from the first contribution of a round to its last
    double last_ms;
};

#endif
