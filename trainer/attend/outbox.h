// SPDX-License-Identifier: Apache-2.0
// trainer/attend/outbox.h -- the reports on this worker's leases.
//
// A report that cannot be sent is kept and sent on the next stream: a
// completion is believed by its evidence, whenever it comes, by any later
// coordinator (C1).
//
// A completion may be held back until others go with it in one message, which
// costs both sides fewer wake-ups; for a limited time, and no report overtakes
// it. The caller holds back only while it has enough work that the coordinator
// does not wait for the completion, which says how long it was held back.
//
// Threads  the loop.
// Memory   takes the messages that it is given. `loop`, `clock` and `arg` are
//          borrowed until outbox_free.
// Errors   none: without memory a report is lost, and its closure is issued
//          again.
#ifndef TRAINER_ATTEND_OUTBOX_H
#define TRAINER_ATTEND_OUTBOX_H

#include "common/base/clock.h"
#include "common/run/loop.h"
#include "proto/wire.h"

#define OUTBOX_KEPT 256  // most reports kept; the oldest are dropped
#define OUTBOX_HELD 8    // completions in one message
#define OUTBOX_WAIT_MS 1 // most time that one is held back
// Most time that a contribution to a round, which the shards know of already,
// is held back.
#define OUTBOX_ROUNDS_MS 50

struct outbox;

// Sends a message; returns false if there is no stream, or it takes no more.
typedef bool (*outbox_send_fn)(void *arg, const Sluice__V1__AttendUp *up);

// Makes an empty outbox that sends by `send(arg, ...)`. SL_ENOMEM leaves *out
// as it was. `send` borrows its message, and must not call the outbox.
enum sl_err outbox_new(struct outbox **out, struct loop *loop,
                       const struct sl_clock *clock, outbox_send_fn send,
                       void *arg);
// Frees the outbox and the reports in it, sent or not. NULL is allowed.
void outbox_free(struct outbox *o);

// Sends a report, after those that were held back, or keeps it for the next
// stream if it cannot be sent. Takes it over. `up` may be NULL: no memory, or
// nothing to report; those that were held back are sent all the same.
void outbox_say(struct outbox *o, Sluice__V1__AttendUp *up);

// Takes a report over; a Complete is held back for `ms` milliseconds, so that
// others go with it in one message; all go as soon as they are OUTBOX_HELD. A
// lower `ms` than that of those held begins the wait anew; a higher one counts
// for nothing. Any other report, or NULL, goes at once (outbox_say).
void outbox_hold(struct outbox *o, Sluice__V1__AttendUp *up, unsigned ms);

// Sends the completions that were held back, or keeps what cannot be sent. Does
// nothing if there are none.
void outbox_flush(struct outbox *o);

// Sends the reports that were kept, as there is a stream. Stops at the first
// that cannot be sent; that and the later ones stay.
void outbox_attached(struct outbox *o);

#endif
