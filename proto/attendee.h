// SPDX-License-Identifier: Apache-2.0
// proto/attendee.h -- this end of Attend: the stream that a worker or a
// psserver keeps to the coordinator.
//
//   DOWN --dial--> DIALING --Welcome--> ATTACHED
//    ^               |                     |
//    +---- the stream ended, or was silent +    (DIALING: for 10 s)
//
// It dials for ever, with a backoff of 100 ms to 2 s and some randomness, so
// that a restarted coordinator is not met by all members at once. On every
// stream it says Hello first, and heartbeats once it is welcome. It keeps the
// one number that leases need: when the last renewal that was acknowledged had
// been sent (a Hello that was welcomed is one). Changes of state are logged
// once each.
//
// Here, and not in a daemon, because it is the wire's own manners: the same for
// every role, and one place to keep them (as introspect.h).
//
// Threads  the loop. Messages arrive on an I/O thread and cross over one at a
//          time: the next one is not read before the last one was handled.
// Memory   strings of the setup are copied.
// Units    milliseconds of the monotonic clock.
#ifndef PROTO_ATTENDEE_H
#define PROTO_ATTENDEE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "proto/wire.h"

struct attendee;

struct attendee_setup {
    struct loop *loop;
    const struct sl_clock *clock;
    struct rpc_channel *channel; // to the coordinator; freed before us
    Sluice__V1__Role role;
    const char *name;
    const char *address; // where workers dial us; NULL: nowhere
    const char *device;  // what we compute on; NULL: nothing
    bool external;       // a worker of external models, and only those
    bool ranks;          // may be a rank of an external job
    bool groups;         // may be a member of a group
    bool no_store;       // a worker that writes no parts of checkpoints
    uint64_t only_job;   // the only job to work for; 0: any
    uint64_t cluster;    // our cluster; 0: the first that welcomes us
    unsigned welcome_ms; // a stream without a Welcome is given up; 0: 10000
    // All run on the loop. welcome: may we attach? false refuses a coordinator
    // of an older term; one of another cluster is refused before. attached: now
    // we are (may be NULL). unattached: a stream came to nothing or ended, and
    // why (may be NULL). lost: we were attached, and are no longer. down: any
    // other message. beat: it is time for a heartbeat. renewed: leases count
    // from attendee_renewed_ms anew (may be NULL).
    bool (*welcome)(void *arg, const Sluice__V1__Welcome *m);
    void (*attached)(void *arg);
    void (*unattached)(void *arg, const char *why);
    void (*lost)(void *arg);
    void (*down)(void *arg, const Sluice__V1__AttendDown *m);
    void (*beat)(void *arg);
    void (*renewed)(void *arg);
    // Hello.away, borrowed until it is sent; may be NULL: never.
    const char *(*away)(void *arg);
    void *arg;
};

// Makes an attendee from a copy of `setup`. It dials from attendee_start on.
enum sl_err attendee_new(struct attendee **out,
                         const struct attendee_setup *setup,
                         struct sl_error *err);

// Dials for the first time; from here on callbacks run.
void attendee_start(struct attendee *a);

// Sends `up`. Returns false if it is not attached or the stream takes no more:
// send it again on the next stream. Into the first heartbeat of a number it
// writes what the clock says.
bool attendee_send(struct attendee *a, const Sluice__V1__AttendUp *up);

// Sends heartbeat `m` and sets its number.
void attendee_heartbeat(struct attendee *a, Sluice__V1__Heartbeat *m);

// Returns whether a stream is welcomed.
bool attendee_attached(const struct attendee *a);
// Returns when the last acknowledged renewal was sent; 0: none yet. Leases
// count from here.
uint64_t attendee_renewed_ms(const struct attendee *a);

// Returns the number of the last heartbeat that was sent.
uint64_t attendee_beats(const struct attendee *a);
// Returns the number of the newest heartbeat that the coordinator has
// acknowledged: all that it said before it heard that one is here.
uint64_t attendee_heard(const struct attendee *a);

// Has a heartbeat sent at once instead of at the next time.
void attendee_beat_now(struct attendee *a);

// Dials no more, and ends the stream in order: what is queued goes out, then
// `lost` is called. Returns false if there is no stream: `lost` is not called.
bool attendee_close(struct attendee *a);

// Ends the stream at once and dials no more; no callback runs after this.
void attendee_stop(struct attendee *a);

// Frees the attendee, after its channel was freed; runs its remaining tasks on
// the loop. NULL is allowed.
void attendee_free(struct attendee *a);

#endif
