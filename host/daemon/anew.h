// SPDX-License-Identifier: Apache-2.0
// host/daemon/anew.h -- a process that starts itself anew.
//
// The process runs the same program again, with the same arguments and
// environment. The pid stays, so a service manager notices nothing; all else is
// as after a start. It cures states that only the end of a process clears.
//
// Threads  anew_exec: the main thread, when the other threads, which vanish,
//          have finished their work. anew_note: any.
// Memory   the note lives as long as the process.
// Errors   anew_exec returns only if it fails; what may have changed is that
//          descriptors above stderr are closed on exec, and that the calling
//          thread blocks no signal. `err` may be NULL.
#ifndef HOST_DAEMON_ANEW_H
#define HOST_DAEMON_ANEW_H

#include "common/base/status.h"

// Starts the program anew with `argv`; argv[0] need not name it. The new life
// reads `note` with anew_note; it is cut at 243 bytes.
enum sl_err anew_exec(char **argv, const char *note, struct sl_error *err);

// Returns the note of the previous life; "" after a first start. Never NULL.
const char *anew_note(void);

#endif
