// SPDX-License-Identifier: Apache-2.0
// client/cli/command.h -- runs another program and collects what it says.
//
// Threads  any; it waits. Never through a shell.
// Memory   output is appended to the caller's buffer, as far as memory lasts.
// Errors   SL_ENOENT: there is no such program, or what else the system says of
//          it; SL_EIO: it did not end with 0, with its last line, or there is
//          no pipe; SL_ETIMEDOUT: it was killed. `err` may be NULL.
#ifndef CLIENT_CLI_COMMAND_H
#define CLIENT_CLI_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/buf.h"
#include "common/base/status.h"

#define COMMAND_OUTPUT_MAX ((size_t)1 << 20)

// Runs args, which ends with NULL, and waits for its end; a name without '/' is
// looked for in PATH. Its standard input is empty. Appends stdout and stderr
// together to `out` (NULL is allowed), about COMMAND_OUTPUT_MAX bytes at most;
// also after a failure. `timeout_ms` (0 or more) is the limit until the program
// has ended and its output is closed, by its children too; after that it is
// killed (its children are not), and SL_ETIMEDOUT.
enum sl_err command_run(const char *const *args, int timeout_ms,
                        struct buf *out, struct sl_error *err);

// Waits until process `pid`, which need not be a child, has ended, for wait_ms
// at most. Returns true if it has ended or does not exist; false if it still
// runs, cannot be watched, or a signal ended the wait.
bool command_await_end(pid_t pid, int wait_ms);

#endif
