// SPDX-License-Identifier: Apache-2.0
// psserver/service/attend.h -- a psserver's messages to and from the
// coordinator.
//
// The stream itself, with its dialing and its silence, is stream/attendee.h;
// here is only the psserver's side: messages that come are handed to the
// roster, the roster's messages are sent. Losing the stream changes nothing for
// the shards: they serve on and are announced again when it is back.
//
// Threads  the loop; nothing waits.
// Memory   strings of the setup are copied; what else it points at is borrowed
//          until attendance_free, as the roster is.
// Errors   attendance_new leaves *out as it was.
#ifndef PSSERVER_SERVICE_ATTEND_H
#define PSSERVER_SERVICE_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "common/base/status.h"
#include "psserver/roster/roster.h"
#include "psserver/service/tokens.h"

struct attendance;

struct attendance_setup {
    struct loop *loop;
    struct rpc_channel
        *channel;        // to the coordinator; freed before attendance_free
    const char *name;    // the same over restarts
    const char *address; // address that workers dial
    struct membership *membership; // joined at the welcome; may be NULL
    struct tokens *tokens;         // gets the welcomes; may be NULL
    // Tells when the stream is attached, and when it no longer is. May be NULL.
    void (*changed)(void *arg, bool attached);
    void *arg;
};

// Makes the psserver's end of the stream; nothing is dialled before
// attendance_start. Returns SL_OK; SL_ENOMEM, also without a text; or an error
// of attendee_new.
enum sl_err attendance_new(struct attendance **out,
                           const struct attendance_setup *setup,
                           struct sl_error *err);

// Dials the coordinator, and again whenever the stream is lost. `roster`,
// borrowed until attendance_free, gets its messages, and a roster_tick for each
// heartbeat. Once.
void attendance_start(struct attendance *a, struct roster *roster);

// Sends a message; drops it while not attached. One that cannot be sent, as for
// want of memory, ends the stream (attendee_send). For roster_setup.send; `arg`
// is the struct attendance.
void attendance_send(void *arg, const Sluice__V1__AttendUp *up);

// Makes heartbeats say that we are leaving, and whether we stay until
// our shards have moved away (`empties`, roster_empties); one goes out at once
// if there is a stream. After attendance_start.
void attendance_drain(struct attendance *a, bool empties);

// Makes heartbeats say that we stay after all; one goes out at once if there is
// a stream. After attendance_start; not once shards were saved for the end.
void attendance_stay(struct attendance *a);

// Ends the stream and dials no more; the roster gets no message after this,
// `changed` is not called, not even if it was attached, and attendance_send
// drops all. May be called again, and before attendance_start, which must not
// follow then.
void attendance_stop(struct attendance *a);

// Runs what is left on the loop and frees; call after the channel was freed.
// NULL is allowed.
void attendance_free(struct attendance *a);

#endif
