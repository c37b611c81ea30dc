// SPDX-License-Identifier: Apache-2.0
// common/daemon/discover.h -- settings of a daemon that its launcher knows.
//
// `worker --discover slurm` takes the coordinator's address and its own name
// and port from where Slurm says them, unless a flag, a variable or the file
// says others. The role is the program's; `sluice run` chooses the program,
// too.
//
// Threads  main, before there are others. With dns it may wait for a name
//          server.
// Errors   as in common/launch/launch.h; SL_ENOTSUP for a program that has no
//          role.
#ifndef COMMON_DAEMON_DISCOVER_H
#define COMMON_DAEMON_DISCOVER_H

#include "common/base/buf.h"
#include "common/launch/launch.h"
#include "common/run/conf.h"

#define DISCOVER_HOST 256 // bytes of a host's name, with the 0

extern const struct conf_key discover_keys[];

// What the settings discover, base-port and service ask of launch_find, in the
// environment and on the host of this process. `host` is filled, and must
// outlive *out.
void discover_asked(struct launch_asked *out, const struct conf *c,
                    enum launch_role role, char host[DISCOVER_HOST]);

// Sets what is found; `said` tells it in one line, "" for static.
enum sl_err discover(struct conf *c, const char *program, struct buf *said,
                     struct sl_error *err);

#endif
