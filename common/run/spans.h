// SPDX-License-Identifier: Apache-2.0
// common/run/spans.h -- what this process was doing, and when: the newest of so
// many spans, kept only while somebody asks for them.
//
//     uint64_t began = span_begin();
//     ... work ...
//     span_end(began, "apply", SPANS_IO, span_of_shard(job, closure, ...));
//
// While it is off, and mostly it is, a span costs a read of a flag. While it is
// on it costs two looks at the clock, a lock and 64 bytes of a ring, whose
// memory is there only then: what is older than the last SPANS_MOST spans is
// lost, and counted.
//
// Spans are of one thing at a time (`of`, not 0; a job): those of others are
// not kept.
//
// Threads  span_*: any. The rest: one at a time.
// Memory   names are literals.
// Units    microseconds of the monotonic clock.
#ifndef COMMON_RUN_SPANS_H
#define COMMON_RUN_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define SPANS_MOST 65536

// Where a span is drawn. Those of one lane lie beside or within each other.
enum spans_lane {
    SPANS_LOOP = 1,
    SPANS_COMPUTE = 2,
    SPANS_INPUT = 3, // to SPANS_IO - 1: one for each thread that reads
    SPANS_IO = 10,   // of the thread that says it: that, or one above
    SPANS_CALL = 100 // begins on one thread, ends on another: any free lane
};

struct span_of {
    uint64_t of;
    // What a reader tells them apart by; each is one more than it is, 0: none.
    uint64_t closure;
    uint32_t step, shard;
};

static inline struct span_of span_of_closure(uint64_t of, uint64_t closure)
{
    return (struct span_of){of, closure + 1, 0, 0};
}

static inline struct span_of span_of_step(uint64_t of, uint64_t closure,
                                          uint32_t step)
{
    return (struct span_of){of, closure + 1, step + 1, 0};
}

static inline struct span_of span_of_shard(uint64_t of, uint64_t closure,
                                           uint32_t step, uint32_t shard)
{
    return (struct span_of){of, closure + 1, step + 1, shard + 1};
}

struct span {
    const char *name;
    uint32_t lane;
    uint64_t start_us, end_us;
    struct span_of of;
};

extern _Atomic bool spans_on;

uint64_t spans_now_us(void);
void spans_add(uint64_t start_us, const char *name, unsigned lane,
               struct span_of of);

// 0: nobody asks.
static inline uint64_t span_begin(void)
{
    return atomic_load_explicit(&spans_on, memory_order_relaxed)
               ? spans_now_us()
               : 0;
}

static inline void span_end(uint64_t began, const char *name, unsigned lane,
                            struct span_of of)
{
    if (began != 0)
        spans_add(began, name, lane, of);
}

// Keeps spans of this from now on, and forgets those of before. SL_ENOMEM.
enum sl_err spans_start(uint64_t of);

// Keeps no more; those that are there stay.
void spans_stop(void);

// Moves up to `most` of the oldest to `out`: how many.
size_t spans_take(struct span *out, size_t most);

// How many were overwritten since the start.
uint64_t spans_lost(void);

// Frees the memory; also stops.
void spans_release(void);

#endif
