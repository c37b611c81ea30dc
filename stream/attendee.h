// SPDX-License-Identifier: Apache-2.0
// stream/attendee.h -- this end of Attend: the stream that a worker or a
// psserver keeps to the coordinator.
//
//   DOWN --dial--> DIALING --Welcome--> ATTACHED
//    ^               |                     |
//    +---- the stream ended, or was silent +    (DIALING: for 10 s)
//
// It dials for ever, with a backoff of 100 ms to 2 s and some randomness, so
// that a restarted coordinator is not met by all members at once; an address of
// the channel's list that was not tried yet, within 50 ms. On every stream it
// says Hello first, and heartbeats once it is welcome. It keeps the one number
// that leases need: when the last renewal that was acknowledged had been sent
// (a Hello that was welcomed is one). Changes of state are logged once each.
//
// In a room below the trainer, since a psserver keeps such a stream, too, and
// needs nothing of training.
//
// Threads  the loop. Messages arrive on an I/O thread and cross over one at a
//          time: the next one is not read before the last one was handled.
// Memory   name, address and device of the setup are copied, its other pointers
//          borrowed until attendee_free. Messages are borrowed, both ways,
//          until the call or the callback returns. No pointer is NULL but where
//          it is said.
// Units    milliseconds of the monotonic clock.
// Errors   SL_ENOMEM, SL_EIO, of attendee_new; after that a stream that fails
//          is dialed again. `err` may be NULL.
#ifndef STREAM_ATTENDEE_H
#define STREAM_ATTENDEE_H

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
    bool own_steps;      // its program takes steps by itself (mode local)
    bool no_store;       // a worker that writes no parts of checkpoints
    uint64_t only_job;   // the only job to work for; 0: any
    uint64_t cluster;    // our cluster; 0: the first that welcomes us
    // What a worker computed of the test vector, and of what kind it is (A7);
    // 0: it computed none.
    uint64_t test_kind, test_vector;
    unsigned welcome_ms; // a stream without a Welcome is given up; 0: 10000
    // Callbacks; all run on the loop. Messages are borrowed for the call.
    // Returns true if the member may attach; false refuses a coordinator of an
    // older term. (One of another cluster is refused before.)
    bool (*welcome)(void *arg, const Sluice__V1__Welcome *m);
    void (*attached)(void *arg); // the stream is attached; may be NULL
    // A stream ended, or could not be had, for the reason `why`; may be NULL.
    void (*unattached)(void *arg, const char *why);
    void (*lost)(void *arg); // the stream that ended was attached
    // Handles a message of a welcomed stream that is none of the attendee's
    // own: these are acknowledgements, traces, log lines and a goodbye.
    void (*down)(void *arg, const Sluice__V1__AttendDown *m);
    void (*beat)(void *arg);    // a heartbeat is due: attendee_heartbeat
    void (*renewed)(void *arg); // attendee_renewed_ms has grown; may be NULL
    // Hello.away, borrowed until it is sent; may be NULL: never.
    const char *(*away)(void *arg);
    void *arg;
};

// Makes an attendee from a copy of `setup`, for attendee_free. It dials from
// attendee_start on; no callback runs before. SL_ENOMEM (*err may then lack a
// text); SL_EIO: there is no randomness, or the loop refuses a timer. *out is
// untouched by a failure.
enum sl_err attendee_new(struct attendee **out,
                         const struct attendee_setup *setup,
                         struct sl_error *err);

// Dials for the first time, in the loop's next turn; from then on callbacks
// run. Called once, and not after attendee_close or attendee_stop.
void attendee_start(struct attendee *a);

// Queues a copy of `up` to be sent and returns true. Returns false if no stream
// is attached or attendee_close was called; or if the stream takes no more or
// memory is short, which ends the stream. Send it again on the next stream
// then. A heartbeat whose number is above attendee_beats becomes the last one,
// and the clock's times are written to it. Does not wait. Callbacks may call
// it; within `welcome` it returns false.
bool attendee_send(struct attendee *a, const Sluice__V1__AttendUp *up);

// Sets the number of heartbeat *m to the next one, writes the clock's times to
// it and sends it, as attendee_send does; sends nothing if no stream is
// attached. A failure shows by the stream's end alone.
void attendee_heartbeat(struct attendee *a, Sluice__V1__Heartbeat *m);

// Returns true if there is a stream that the coordinator has welcomed.
bool attendee_attached(const struct attendee *a);
// Returns when the last renewal was sent that the coordinator has acknowledged
// (a heartbeat, or the Hello of a stream that was welcomed), in ms of the
// setup's clock; 0: none yet. Leases count from here.
uint64_t attendee_renewed_ms(const struct attendee *a);

// Returns the number of the last heartbeat that was sent, or was to be when its
// stream broke; 0: none yet.
uint64_t attendee_beats(const struct attendee *a);
// Returns the number of the newest heartbeat that the coordinator has
// acknowledged; 0: none yet. All that the coordinator sent before it had that
// heartbeat has been received.
uint64_t attendee_heard(const struct attendee *a);

// Calls the setup's `beat` before it returns, beside its regular times; does
// nothing if no stream is attached. If the coordinator has been silent for too
// long it ends the stream instead.
void attendee_beat_now(struct attendee *a);

// Dials no more and ends a welcomed stream in order; does not wait. What is
// queued goes out, then `unattached` and `lost` are called, later; until then
// the other callbacks go on, but nothing more can be sent. Returns true then.
// Returns false if no stream is attached: one that was not welcomed yet is
// cancelled, and `unattached` is called for it, but neither `welcome` nor
// `lost`. May be called again, and by callbacks except `welcome` and
// `unattached`. attendee_stop and attendee_free may follow.
bool attendee_close(struct attendee *a);

// Cancels the stream, if there is one, and dials no more; no callback runs
// after this. May be called again, before attendee_start, and by callbacks
// except `welcome`, `unattached` and `renewed`, behind which another one would
// still be called.
void attendee_stop(struct attendee *a);

// Frees the attendee, after its channel was freed and the loop has stopped
// running, or on the loop's thread: turns the loop until the attendee's
// remaining tasks have run, and so waits for them. They call callbacks unless
// attendee_stop came before. NULL is allowed.
void attendee_free(struct attendee *a);

#endif
