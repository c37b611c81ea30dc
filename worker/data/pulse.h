// SPDX-License-Identifier: Apache-2.0
// worker/data/pulse.h -- does an attempt get on?
//
// The compute thread beats after every operation, batch and answer, so even a
// slow step of a large model is seen to move. The loop reports the number with
// its heartbeats, and whether the thread waits for shards, which is nobody's
// fault: an attempt that stands still for train.stall_seconds is taken away.
//
// Threads  beat: whoever computes or reads for the attempt; reading: any.
// Units    beats mean nothing but "something happened".
#ifndef WORKER_DATA_PULSE_H
#define WORKER_DATA_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pulse {
    _Atomic uint64_t beats;
    _Atomic bool waits;    // for shards
    _Atomic uint32_t step; // under way
    // Of the attempt that this one runs within: it gets on with it. Or NULL.
    struct pulse *outer;
};

// NULL: nobody looks.
static inline void pulse_beat(struct pulse *p)
{
    for (; p != NULL; p = p->outer)
        atomic_fetch_add_explicit(&p->beats, 1, memory_order_relaxed);
}

static inline void pulse_wait(struct pulse *p, bool waits)
{
    for (; p != NULL; p = p->outer)
        atomic_store(&p->waits, waits);
}

#endif
