// SPDX-License-Identifier: Apache-2.0
// common/daemon/anew.h -- a process that starts itself anew.
//
// The same program, with the same arguments and environment, in the place of
// this one: the pid stays, so whoever watches over the process notices nothing;
// all else is as after a start. For what only the end of a process is rid of.
//
// Threads  anew_exec: the main thread, when the others have nothing to lose:
//          they vanish. anew_note: any.
// Memory   the note lives as long as the process.
// Errors   anew_exec returns only if it fails; then nothing has changed but
//          that descriptors above stderr are closed on exec.
#ifndef COMMON_DAEMON_ANEW_H
#define COMMON_DAEMON_ANEW_H

#include "common/base/status.h"

// argv[0] need not name the program. `note` is what the next life shall know.
enum sl_err anew_exec(char **argv, const char *note, struct sl_error *err);

// What the life before this one said; "": there was none.
const char *anew_note(void);

#endif
