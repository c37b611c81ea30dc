// SPDX-License-Identifier: Apache-2.0
// client/up/run.h -- a coordinator beside the worker that this process becomes.
//
//     this process (the worker) -- a watcher -- the coordinator
//
// A launcher may signal one process of a task or all of them, and a daemon
// that is told to end twice ends at once. So no process passes a signal on: the
// watcher tells the coordinator to end when this process has, and this process
// when the coordinator has.
//
// Threads  main; the process has no other while it forks.
// Memory   arguments are borrowed.
// Errors   SL_EIO, with the system's reason: nothing was started. `err` may be
//          NULL.
#ifndef CLIENT_UP_RUN_H
#define CLIENT_UP_RUN_H

#include "common/base/status.h"

// Forks the watcher, which starts the coordinator: args[0] is its path, which
// must be executable (else SL_EIO), NULL ends the list. Returns SL_OK once the
// watcher runs; a coordinator that does not start is reported by the watcher,
// on stderr. This process may then become another program (exec).
enum sl_err run_beside(char *const *args, struct sl_error *err);

#endif
