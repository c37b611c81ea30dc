// SPDX-License-Identifier: Apache-2.0
// worker/attend.h -- the stream that this worker keeps to the coordinator.
//
//   DOWN --dial--> DIALING --Welcome--> ATTACHED
//    ^               |                     |
//    +---- the stream ended, or was silent +
//
// It dials for ever, with a backoff of 100 ms to 2 s and some randomness. On
// every stream it says Hello first, and heartbeats once it is welcome. It
// keeps the one number that leases need: when the last renewal that was
// acknowledged had been sent (a Hello that was welcomed is one).
//
// Threads  the loop. Messages arrive on an I/O thread and cross over one at a
//          time: the next one is not read before the last one was handled.
// Memory   strings of the setup are copied.
// Units    milliseconds of the monotonic clock.
#ifndef WORKER_ATTEND_H
#define WORKER_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/loop.h"
#include "common/rpc.h"
#include "proto/wire.h"

struct attend;

struct attend_setup {
    struct loop *loop;
    const struct sl_clock *clock;
    struct rpc_channel *channel; // to the coordinator; freed before us
    const char *name, *device;
    // All run on the loop. welcome: attached; false refuses a coordinator of
    // an older term. lost: no longer attached. down: any other message. beat:
    // fill in what the heartbeat says, but for its number. renewed: leases
    // count from attend_renewed_ms anew.
    bool (*welcome)(void *arg, const Sluice__V1__Welcome *m);
    void (*lost)(void *arg);
    void (*down)(void *arg, const Sluice__V1__AttendDown *m);
    void (*beat)(void *arg);
    void (*renewed)(void *arg);
    void *arg;
};

enum sl_err attend_new(struct attend **out, const struct attend_setup *setup,
                       struct sl_error *err);
void attend_start(struct attend *a); // dials

// False if it is not attached or the stream takes no more: say it again on the
// next one.
bool attend_send(struct attend *a, const Sluice__V1__AttendUp *up);

// Sends a heartbeat: sets its number.
void attend_heartbeat(struct attend *a, Sluice__V1__Heartbeat *m);

bool attend_attached(const struct attend *a);
uint64_t attend_renewed_ms(const struct attend *a);

// Heartbeats at once instead of at the next time.
void attend_beat_now(struct attend *a);

// Dials no more, and ends the stream in order: what is queued goes out, then
// `lost` is told. False if there is none: nothing will be told.
bool attend_close(struct attend *a);

// Ends the stream at once and dials no more; no callback runs after this.
void attend_stop(struct attend *a);

// After the channel was freed. Runs what is left on the loop. NULL is allowed.
void attend_free(struct attend *a);

#endif
