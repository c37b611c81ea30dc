// SPDX-License-Identifier: Apache-2.0
// common/base/membership.h -- the cluster that a daemon belongs to, and the
// store that it has marked for it.
//
//   <state>/cluster    the id, as 16 hex digits; the path of the store
//
// A daemon learns its cluster from the first coordinator that welcomes it, and
// keeps it. Without a state folder it forgets at its end all but its store's
// mark.
//
// Threads  membership_check: any. The rest: one; a daemon's loop joins with a
//          copy (host/daemon/joining.h). membership_open, membership_check
//          and membership_join wait for the store.
// Memory   membership_release frees; both struct fs are borrowed until then,
//          paths are copied.
// Errors   SL_ESTATE: the store is not the one that was marked. Those of the
//          file system unchanged. A call that fails leaves the struct as it
//          was; `err` may be NULL, and SL_ENOMEM may leave it without text.
#ifndef COMMON_BASE_MEMBERSHIP_H
#define COMMON_BASE_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fs.h"
#include "common/base/status.h"

struct membership {
    struct fs *fs;            // file system of the state folder
    struct fs *store_fs;      // file system of the store
    char *file;               // path of the state's file; owned; NULL: none
    char *store;              // path of the store; owned; NULL: none
    char *was;                // store that was marked before; owned; NULL: none
    _Atomic uint64_t cluster; // 0: not known yet
};

// Reads the membership from the folders `state` and `store`; NULL: none, and
// its struct fs may be NULL too. A state without a cluster takes that of the
// store's mark. *m is the caller's to release; its old content is not freed.
// SL_ESTATE: the store bears another cluster's mark, or it was marked before
// and bears none now. SL_ECORRUPT: a file holds no id.
enum sl_err membership_open(struct membership *m, struct fs *fs,
                            const char *state, struct fs *store_fs,
                            const char *store, struct sl_error *err);
// Frees the texts and leaves *m all zeroes, which is allowed. Writes nothing.
void membership_release(struct membership *m);

// Joins `cluster` (not 0), durably, and marks the store; does nothing if it is
// joined (membership_joined). Makes the folder of the store, but not that of
// the state. If another cluster is known the caller must not call it.
// SL_ESTATE: the store bears another cluster's mark. After another failure the
// store may bear ours: call it again.
enum sl_err membership_join(struct membership *m, uint64_t cluster,
                            struct sl_error *err);

// Returns true if `cluster` (not 0) was joined, and with it the store, if there
// is one, marked under the name that it has now.
bool membership_joined(const struct membership *m, uint64_t cluster);

// Copies a membership, so that another thread can join with the copy, which the
// caller releases. SL_ENOMEM.
enum sl_err membership_copy(struct membership *out,
                            const struct membership *of);

// Takes over what `copy`, of membership_copy, has learned in membership_join,
// once; the caller still releases `copy`.
void membership_take(struct membership *m, struct membership *copy);

// Checks that the store still bears the mark, before a file is written to it or
// taken for missing. SL_ESTATE if not; SL_OK without a store or a cluster.
enum sl_err membership_check(const struct membership *m, struct sl_error *err);

#endif
