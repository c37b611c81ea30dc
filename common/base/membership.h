// SPDX-License-Identifier: Apache-2.0
// common/base/membership.h -- the cluster that a daemon belongs to, and the
// store that it has marked for it.
//
//   <state>/cluster    the id, as 16 hex digits; the path of the store
//
// Learned from the first coordinator that welcomes it, and kept. A daemon
// without a state folder forgets it at its end, but for what its store says.
//
// Threads  membership_check: any. The rest: one; a daemon's loop joins with a
//          copy (common/daemon/joining.h). membership_open, membership_check
//          and membership_join wait for the store.
// Memory   membership_release frees; both struct fs are borrowed.
// Errors   SL_ESTATE: the store is not the one that it was.
#ifndef COMMON_BASE_MEMBERSHIP_H
#define COMMON_BASE_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

struct membership {
    struct fs *fs;       // of the state folder
    struct fs *store_fs; // of the store, which may lie elsewhere
    char *file;          // owned; NULL: there is no state folder
    char *store;         // owned; NULL: there is no store
    char *was;           // the store that was marked; owned, NULL: none was
    _Atomic uint64_t cluster; // 0: none is known yet
};

// Reads what is kept in the folders; NULL: there is none of them. The store is
// looked at: after its first use it must bear the mark.
enum sl_err membership_open(struct membership *m, struct fs *fs,
                            const char *state, struct fs *store_fs,
                            const char *store, struct sl_error *err);
void membership_release(struct membership *m); // all zeroes is allowed

// Belongs to the cluster from now on, durably; nothing to do if it does
// (membership_joined). The caller has compared a cluster that is known.
enum sl_err membership_join(struct membership *m, uint64_t cluster,
                            struct sl_error *err);
bool membership_joined(const struct membership *m, uint64_t cluster);

// One to join with, and what that learned taken over; the copy stays its
// owner's.
enum sl_err membership_copy(struct membership *out,
                            const struct membership *of);
void membership_take(struct membership *m, struct membership *copy);

// The store is still there; before anything is written to it, or missed in it.
enum sl_err membership_check(const struct membership *m, struct sl_error *err);

#endif
