// SPDX-License-Identifier: Apache-2.0
// common/daemon/sdnotify.h -- tells the service manager where we stand.
//
// One datagram to $NOTIFY_SOCKET; without the variable, nothing. Our own forty
// lines instead of libsystemd: the protocol is the interface, and a library
// less is one less to trust.
//
// Threads  any.
// Errors   SL_ENOENT: nobody asked for it. SL_EIO: it could not be sent; no
//          reason to stop.
#ifndef COMMON_DAEMON_SDNOTIFY_H
#define COMMON_DAEMON_SDNOTIFY_H

#include <stdint.h>

#include "common/base/status.h"

// "READY=1", "STOPPING=1", "STATUS=...", several joined by '\n'.
enum sl_err sdnotify(const char *state);

// How often WATCHDOG=1 is due: half of $WATCHDOG_USEC, if that is meant for
// this process; else 0.
uint64_t sdnotify_watchdog_ms(void);

#endif
