// SPDX-License-Identifier: Apache-2.0
// host/daemon/discover.h -- settings of a daemon that its launcher knows.
//
// `worker --discover slurm` takes the coordinator's address and its own name
// and port from Slurm's variables, unless a flag, a variable of ours or the
// file sets others. The role is the program's; `sluice run` also chooses the
// program.
//
// Threads  main, before there are others. With dns it may wait for a name
//          server.
// Errors   as in host/launch/launch.h; SL_ENOTSUP for a program that has no
//          role; SL_EINVAL if this process would have to start a coordinator
//          beside itself, or for a value that a setting does not take. `err`
//          may be NULL. After a failure some settings may be set.
#ifndef HOST_DAEMON_DISCOVER_H
#define HOST_DAEMON_DISCOVER_H

#include "common/base/buf.h"
#include "host/launch/launch.h"
#include "common/run/conf.h"

#define DISCOVER_HOST 256 // bytes of a host's name, with the 0

extern const struct conf_key discover_keys[];

// Fills *out for launch_find from the settings discover, base-port and service
// (discover_keys, which `c` has), this process's environment and its host.
// Fills `host`, which must outlive *out, and so must `c`. out->coordinator is
// NULL and out->psservers 0: the caller sets them if it has others.
void discover_asked(struct launch_asked *out, const struct conf *c,
                    enum launch_role role, char host[DISCOVER_HOST]);

// Finds what the launcher (setting discover) says for `program` and sets those
// settings in `c` that are at their defaults, as if from the environment;
// appends what it found in one line to `said`, nothing for static. `c` has
// discover_keys and was loaded.
enum sl_err discover(struct conf *c, const char *program, struct buf *said,
                     struct sl_error *err);

#endif
