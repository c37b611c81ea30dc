// SPDX-License-Identifier: Apache-2.0
// worker/service/server.h -- wires the parts of this daemon.
//
// Threads  the loop.
// Memory   stop frees everything that start made.
#ifndef WORKER_SERVICE_SERVER_H
#define WORKER_SERVICE_SERVER_H

#include "host/daemon/daemon.h"

struct worker; // the whole daemon; filled by start

// For daemon_main; `arg` is a struct worker from worker_new.
extern const struct daemon_hooks server_hooks;
extern const struct conf_key server_keys[];
extern const struct conf_about server_about;

// Returns an empty daemon for daemon_main; NULL: out of memory.
struct worker *worker_new(void);
// Frees the struct alone, after the hooks' stop. NULL is allowed.
void worker_free(struct worker *w);

#endif
