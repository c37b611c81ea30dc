// SPDX-License-Identifier: Apache-2.0
// host/daemon/sdnotify.h -- tells the service manager where we stand.
//
// One datagram to $NOTIFY_SOCKET; without the variable, nothing. Our own forty
// lines instead of libsystemd: the protocol is the interface, and a library
// less is one less to trust.
//
// Threads  any; it may wait while the service manager's socket is full.
// Errors   SL_ENOENT: the variable is not set, or names no socket. SL_EIO: the
//          datagram could not be sent; no reason to stop.
#ifndef HOST_DAEMON_SDNOTIFY_H
#define HOST_DAEMON_SDNOTIFY_H

#include <stdint.h>

#include "common/base/status.h"

// Sends `state` (not NULL) to the service manager: "READY=1", "STOPPING=1",
// "STATUS=...", or several joined by '\n'. SL_ENOENT: there is none
// ($NOTIFY_SOCKET), or that is no name of a socket; SL_EIO: the datagram could
// not be sent. Neither is a reason to stop.
enum sl_err sdnotify(const char *state);

// Returns the interval at which WATCHDOG=1 is due, in ms: half of
// $WATCHDOG_USEC if that is meant for this process; else 0.
uint64_t sdnotify_watchdog_ms(void);

#endif
