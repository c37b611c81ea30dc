// SPDX-License-Identifier: Apache-2.0
// client/up/updir.h -- the folder of a local cluster.
//
//     DIR/lock             held while `sluice up` runs there
//     DIR/up.pid           its pid, for `sluice down`
//     DIR/address          where the coordinator listens, once all is ready
//     DIR/<name>.pid       a child's pid
//     DIR/<name>.sock      psservers and workers listen here, unless the path
//                          is too long for a socket
//     DIR/notify.sock      children report here that they are ready; likewise
//     DIR/log/<name>.log   what they say, and before it <name>.log.1; up.log:
//                          what `sluice up --detach` says itself
//     DIR/<name>/          a child's state
//     DIR/checkpoints/     the cuts' files, shared by all
//
// After an orderly end only log/, the state and checkpoints/ are left.
//
// Threads  main.
// Memory   updir_release frees, and drops the lock.
// Errors   SL_EBUSY: another `sluice up` runs there. `err` may be NULL.
#ifndef CLIENT_UP_UPDIR_H
#define CLIENT_UP_UPDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/daemon/statelock.h"
#include "common/base/status.h"

#define UPDIR_VARIABLE "SLUICE_UP_DIR" // in a child's environment: its DIR

struct updir {
    char *path; // absolute; owned
    struct statelock lock;
    bool others; // the folder existed: other users may read it
};

// Makes the folder `path`, takes its lock, writes up.pid. *d need not be
// zeroed. SL_EBUSY: locked; errors of the file system. After a failure nothing
// is held, and *d may be released.
enum sl_err updir_open(struct updir *d, const char *path, struct sl_error *err);

// Removes up.pid, address and lock, drops the lock and frees d->path, which is
// NULL then. All zeroes is allowed.
void updir_release(struct updir *d);

// Returns the path DIR/name, with the name made as printf makes it; the caller
// frees it (sl_free). NULL: no memory.
char *updir_path(const struct updir *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Writes `text` to the file DIR/name, for this user alone, in place of what it
// holds; not durable. After a failure the file may hold a part.
enum sl_err updir_write(const struct updir *d, const char *name,
                        const char *text, struct sl_error *err);

// Ends daemons that are left of a `sluice up` which was killed, one after the
// other: by SIGTERM, after grace_ms by SIGKILL. It finds them by their pid
// files and their environment, says so for each on stderr, and removes all pid
// files of the folder but up.pid, and all sockets in it. The folder must be
// locked (updir_open). Waits for their end, after SIGKILL for 10 s at most.
// SL_ENOMEM, and errors of listing the folder.
enum sl_err updir_end_strays(const struct updir *d, int grace_ms,
                             struct sl_error *err);

// Returns the pid that the file `path` holds; 0: it holds none from 2 on, or
// cannot be read.
pid_t updir_read_pid(const char *path);

// Returns true if process `pid` has `variable` with `value` in its environment.
// False also if that cannot be read.
bool updir_process_has(pid_t pid, const char *variable, const char *value);

#endif
