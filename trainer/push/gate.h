// SPDX-License-Identifier: Apache-2.0
// trainer/push/gate.h -- whether an attempt may still push, and whether it
// makes progress.
//
// The loop thread closes a lease's gate (revoked, draining, gone) and moves
// the lease's end; the compute thread looks before every push and while it
// waits. The end is counted from the moment the last acknowledged heartbeat
// was *sent*, so a worker stops before the coordinator can have given up on
// it.
//
// Threads  any; none waits, but for the short lock of `trouble`.
// Memory   a part of its lease, which makes the lock. Pointers are not NULL,
//          but for `where`.
// Units    milliseconds of the monotonic clock.
// Errors   none.
#ifndef TRAINER_PUSH_GATE_H
#define TRAINER_PUSH_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "trainer/base/pulse.h"

enum gate_reason {
    GATE_OPEN,
    GATE_REVOKED, // the coordinator wants it back: hand back
    GATE_ENDED,   // the job or the stream has ended: send no report
    GATE_DRAIN,   // the worker is leaving: hand back
    GATE_LEASE,   // the lease ran out: hand back
};

// Why a shard that is waited for does not answer, for status reports.
#define GATE_TROUBLE 200
struct gate_trouble {
    _Atomic bool any;
    pthread_mutex_t lock;
    char text[GATE_TROUBLE];
};

struct gate {
    _Atomic int closed;    // enum gate_reason; the first one counts
    _Atomic bool draining; // finish the step under way, then hand back
    _Atomic bool left;     // the stream that the lease came by has ended
    _Atomic uint64_t lease_ends_ms;
    struct pulse pulse;
    struct gate_trouble trouble;
};

// Sets the trouble's text: "10.0.0.2:7070: connection refused", or `why` alone
// if that begins with `where`; both are copied, and cut. NULL for `where`
// clears it, and `why` is not read then.
static inline void gate_trouble(struct gate *g, const char *where,
                                const char *why)
{
    struct gate_trouble *t = &g->trouble;

    if (where == NULL && !atomic_load(&t->any))
        return;
    pthread_mutex_lock(&t->lock);
    if (where == NULL)
        t->text[0] = '\0';
    else if (strncmp(why, where, strlen(where)) == 0)
        snprintf(t->text, sizeof(t->text), "%.199s", why);
    else
        snprintf(t->text, sizeof(t->text), "%.80s: %.110s", where, why);
    atomic_store(&t->any, where != NULL);
    pthread_mutex_unlock(&t->lock);
}

// Copies the text of the trouble to `out`; empty if there is none. It stays
// until gate_trouble clears it.
static inline void gate_trouble_read(struct gate *g, char out[GATE_TROUBLE])
{
    struct gate_trouble *t = &g->trouble;

    out[0] = '\0';
    if (!atomic_load(&t->any))
        return;
    pthread_mutex_lock(&t->lock);
    memcpy(out, t->text, GATE_TROUBLE);
    pthread_mutex_unlock(&t->lock);
}

// Closes the gate; a gate that is closed keeps its first reason. Wakes no
// thread that waits: the caller does (record_wake, seat_wake).
static inline void gate_close(struct gate *g, enum gate_reason why)
{
    int open = GATE_OPEN;

    atomic_compare_exchange_strong(&g->closed, &open, (int)why);
}

// Returns why the gate is closed, or GATE_OPEN. Closes it (GATE_LEASE) if the
// lease has run out, but not for a drain, which is looked at apart
// (`draining`). A lease_ends_ms of 0 has run out: the end is set before the
// first look.
static inline enum gate_reason gate_look(struct gate *g,
                                         const struct sl_clock *clock)
{
    if (sl_now_ms(clock) >= atomic_load(&g->lease_ends_ms))
        gate_close(g, GATE_LEASE);
    return (enum gate_reason)atomic_load(&g->closed);
}

#endif
