// SPDX-License-Identifier: Apache-2.0
// common/run/spans.h -- timed pieces of this process's work: the newest
// SPANS_MOST spans, kept only during a trace.
//
//     uint64_t began = span_begin();
//     ... work ...
//     span_end(began, "apply", SPANS_IO, span_of_shard(job, closure, ...));
//
// While tracing is off, as it mostly is, a span costs a read of a flag. While
// tracing is on a span costs two reads of the clock, a lock and 56 bytes of a
// ring, which is allocated only then. Older spans than the last SPANS_MOST are
// lost, and counted.
//
// A trace keeps the spans of one job at a time (`of`, not 0).
//
// Threads  span_* and spans_add: any. The rest: one at a time.
// Memory   names are literals, and not NULL. spans_start allocates the ring,
//          some 4 MiB; spans_release frees it.
// Units    microseconds of the monotonic clock.
#ifndef COMMON_RUN_SPANS_H
#define COMMON_RUN_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/status.h"

#define SPANS_MOST 65536

// Lane in which a span is drawn. Spans of one lane lie beside or within each
// other.
enum spans_lane {
    SPANS_LOOP = 1,
    SPANS_COMPUTE = 2,
    SPANS_INPUT = 3, // to SPANS_IO - 1: one for each thread that reads
    SPANS_IO = 10,   // first lane of I/O threads: one for each calling thread
    SPANS_CALL = 100 // begins on one thread, ends on another: any free lane
};

// What a span belongs to.
struct span_of {
    uint64_t of; // id of the job
    // Numbers that tell spans apart, each plus 1; 0: not given.
    uint64_t closure;
    uint32_t step, shard;
};

// Returns what a span of a closure of job `of` belongs to.
static inline struct span_of span_of_closure(uint64_t of, uint64_t closure)
{
    return (struct span_of){of, closure + 1, 0, 0};
}

// Returns what a span of a step of a closure belongs to.
static inline struct span_of span_of_step(uint64_t of, uint64_t closure,
                                          uint32_t step)
{
    return (struct span_of){of, closure + 1, step + 1, 0};
}

// Returns what a span of a step's work on one shard belongs to.
static inline struct span_of span_of_shard(uint64_t of, uint64_t closure,
                                           uint32_t step, uint32_t shard)
{
    return (struct span_of){of, closure + 1, step + 1, shard + 1};
}

struct span {
    const char *name; // a literal
    uint32_t lane;    // enum spans_lane, or a number between two
    uint64_t start_us, end_us;
    struct span_of of;
};

extern _Atomic bool spans_on; // true while tracing; only spans.c sets it

// Keeps a span from `start_us` to now, if a trace of job of.of is on; else
// drops it. `lane` is an enum spans_lane. Call span_end instead.
void spans_add(uint64_t start_us, const char *name, unsigned lane,
               struct span_of of);

// Returns the time of now for span_end; 0 if tracing is off.
static inline uint64_t span_begin(void)
{
    return atomic_load_explicit(&spans_on, memory_order_relaxed) ? sl_real_us()
                                                                 : 0;
}

// Ends the span that span_begin began at `began`; `name` is a literal. Does
// nothing if tracing was off then.
static inline void span_end(uint64_t began, const char *name, unsigned lane,
                            struct span_of of)
{
    if (began != 0)
        spans_add(began, name, lane, of);
}

// Keeps the spans of job `of` from now on, and drops earlier ones and their
// count, also of a trace that is on. SL_ENOMEM: tracing is off.
enum sl_err spans_start(uint64_t of);

// Stops keeping spans; the ring's spans stay for spans_take. Does nothing if
// tracing is off.
void spans_stop(void);

// Moves up to `most` of the oldest spans to `out` and returns their number; 0:
// none is left. While tracing is on or after spans_stop.
size_t spans_take(struct span *out, size_t most);

// Returns the number of spans overwritten since spans_start, before they were
// taken.
uint64_t spans_lost(void);

// Frees the memory; also stops. spans_start may follow.
void spans_release(void);

#endif
