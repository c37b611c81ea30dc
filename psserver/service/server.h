// SPDX-License-Identifier: Apache-2.0
// psserver/service/server.h -- wires the parts of this daemon.
//
// Threads  the loop, but for what api.h runs on I/O threads.
// Memory   the hook `stop` frees everything that `start` made; a `start` that
//          fails has freed it.
#ifndef PSSERVER_SERVICE_SERVER_H
#define PSSERVER_SERVICE_SERVER_H

#include "host/daemon/daemon.h"

struct psserver; // the whole daemon; filled by start

// For daemon_main; `arg` is a struct psserver from psserver_new.
extern const struct daemon_hooks server_hooks;
extern const struct conf_key server_keys[];  // its flags and settings
extern const struct conf_about server_about; // its name and text for --help

// Returns an empty daemon for daemon_main; NULL: out of memory.
struct psserver *psserver_new(void);
// Frees the struct alone: the daemon must be stopped, or was never started.
// NULL is allowed.
void psserver_free(struct psserver *s);

#endif
