// SPDX-License-Identifier: Apache-2.0
// psserver/service/attend.h -- what this server says to the coordinator, and
// hears.
//
// The stream itself, with its dialing and its silence, is proto/attendee.h;
// here is only what is a psserver's: what comes down is handed to the roster,
// what the roster says goes up. Losing the stream changes nothing for the
// shards: they serve on and are announced again when it is back.
//
// Threads  the loop.
// Memory   strings of the setup are copied.
#ifndef PSSERVER_SERVICE_ATTEND_H
#define PSSERVER_SERVICE_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "common/base/status.h"
#include "psserver/roster/roster.h"
#include "psserver/service/tokens.h"

struct attend;

struct attend_setup {
    struct loop *loop;
    struct rpc_channel *channel;   // to the coordinator; freed before us
    const char *name;              // stable over restarts
    const char *address;           // where workers dial us
    struct membership *membership; // joined when we are welcome; may be NULL
    struct tokens *tokens;         // told of welcomes; may be NULL
    // Told when it is attached, and when it no longer is. May be NULL.
    void (*changed)(void *arg, bool attached);
    void *arg;
};

enum sl_err attend_new(struct attend **out, const struct attend_setup *setup,
                       struct sl_error *err);

// Dials. `roster` gets what comes down.
void attend_start(struct attend *a, struct roster *roster);

// For roster_setup.send; `arg` is the attend. Drops it while not attached.
void attend_send(void *arg, const Sluice__V1__AttendUp *up);

// From now on heartbeats say that we are leaving; one goes out at once.
void attend_drain(struct attend *a);

// Ends the stream and dials no more; the roster hears nothing after this.
void attend_stop(struct attend *a);

// After the channel was freed. Runs what is left on the loop. NULL is allowed.
void attend_free(struct attend *a);

#endif
