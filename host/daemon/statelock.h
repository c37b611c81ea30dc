// SPDX-License-Identifier: Apache-2.0
// host/daemon/statelock.h -- one process per state folder.
//
// An fcntl lock on <folder>/lock, which the kernel drops when the process
// dies, however it dies. The file also holds pid and boot id, so that the
// second process can name the first.
//
// Threads  one. An fcntl lock belongs to the process: closing *any* other
//          descriptor of the file drops it, so no other code opens that file.
// Errors   SL_EBUSY names the process that holds it. Does not wait for it.
//          SL_EINVAL: the path is too long; else the system's, but a full disk
//          is none: the file then stays empty, and is locked. A failure leaves
//          *l as it was; `err` may be NULL.
#ifndef HOST_DAEMON_STATELOCK_H
#define HOST_DAEMON_STATELOCK_H

#include "common/base/status.h"

struct statelock {
    int fd; // -1: not held
};
#define STATELOCK_INIT                                                         \
    {                                                                          \
        -1                                                                     \
    }

// Locks `folder`/lock and writes pid and boot id to it; makes the file, but not
// the folder. *l holds no lock before, and this process none of that file.
// SL_EBUSY: held by another process.
enum sl_err statelock_take(struct statelock *l, const char *folder,
                           struct sl_error *err);
// Drops the lock and leaves the file. A lock not held is allowed.
void statelock_release(struct statelock *l);

#endif
