// SPDX-License-Identifier: Apache-2.0
// trainer/base/pulse.h -- the progress of an attempt.
//
// The compute thread beats after every operation, batch and answer, so even a
// slow step of a large model is seen to move. The loop reports the number with
// its heartbeats, and whether the thread waits for shards, which is not its
// fault: an attempt that stands still for train.stall_seconds is taken away.
//
// Code that reads much for the attempt beside its steps (a file that is looked
// through when it is opened, a batch) checks now and then whether the attempt
// goes on: data may be of any size, and the thread is not the attempt's alone.
//
// Threads  beat: threads that compute or read for the attempt; reading: any.
// Memory   `closed`, `draining` and `outer` are borrowed. All functions take
//          NULL for a pulse: it is never over.
// Units    beats mean nothing but "something happened".
// Errors   SL_ECANCELED: the attempt is over, or its worker leaves. `err` may
//          be NULL.
#ifndef TRAINER_BASE_PULSE_H
#define TRAINER_BASE_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/file_wait.h"
#include "common/base/status.h"

struct pulse {
    _Atomic uint64_t beats;
    _Atomic bool waits;    // the thread waits for shards
    _Atomic uint32_t step; // step under way
    // Not 0 once the attempt is over, or is to end with its step. NULL: never.
    const _Atomic int *closed;
    const _Atomic bool *draining;
    // The attempt that this one runs within: it gets the beats, too. Or NULL.
    // Set when its turn comes, while its first batch may be read already.
    struct pulse *_Atomic outer;
};

// Counts one beat, also of the attempts around.
static inline void pulse_beat(struct pulse *p)
{
    for (; p != NULL; p = p->outer)
        atomic_fetch_add_explicit(&p->beats, 1, memory_order_relaxed);
}

// Returns true if the attempt, or one around it, is over, or drains. Looks at
// flags alone: a lease that has run out shows when its gate was looked at
// (gate_look).
static inline bool pulse_over(const struct pulse *p)
{
    for (; p != NULL; p = p->outer)
        if ((p->closed != NULL && atomic_load(p->closed) != 0) ||
            (p->draining != NULL && atomic_load(p->draining)))
            return true;
    return false;
}

// Returns SL_ECANCELED if the attempt is over and reading should stop.
static inline enum sl_err pulse_reads(const struct pulse *p,
                                      struct sl_error *err)
{
    return pulse_over(p)
               ? sl_fail(err, SL_ECANCELED,
                         "reading was stopped: the attempt that it was for is "
                         "over")
               : SL_OK;
}

// Does the same after a piece was read, which counts as a beat if reading goes
// on.
static inline enum sl_err pulse_piece(struct pulse *p, struct sl_error *err)
{
    enum sl_err rc = pulse_reads(p, err);

    if (rc == SL_OK)
        pulse_beat(p);
    return rc;
}

// Does the same for file_wait, without the error: returns true, after a beat,
// if the attempt of pulse `p`, which may be NULL, goes on.
static inline bool pulse_goes_on(void *p)
{
    return pulse_piece(p, NULL) == SL_OK;
}

// Returns what a thread is to ask while it waits for a file for this attempt
// (file_wait_set); each question is a beat. `p` may be NULL, and outlives it.
static inline struct file_wait pulse_file_wait(struct pulse *p)
{
    return (struct file_wait){pulse_goes_on, p};
}

// Notes that the thread waits for shards, or does not any more, for the
// attempts around as well.
static inline void pulse_wait(struct pulse *p, bool waits)
{
    for (; p != NULL; p = p->outer)
        atomic_store(&p->waits, waits);
}

#endif
