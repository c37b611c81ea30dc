// SPDX-License-Identifier: Apache-2.0
// common/daemon/joining.h -- a daemon joins the cluster that welcomes it, and
// its loop does not wait for the store.
//
// Joining marks the store (common/base/membership.h), which may be in S3 and
// not answer: that is done on a pool thread, with a copy of the membership.
// Until it is done the daemon belongs to nobody, as before its first welcome.
//
// Threads  the loop's.
// Memory   the membership is borrowed until joining_release; what is under way
//          then ends by itself, before the loop is freed.
// Errors   of joining_open: those of store_place and membership_open. What
//          comes later is logged: it is learned again at the next welcome.
#ifndef COMMON_DAEMON_JOINING_H
#define COMMON_DAEMON_JOINING_H

#include <stdint.h>

#include "common/base/membership.h"
#include "common/run/conf.h"
#include "common/run/loop.h"

// At the start, before the loop runs: the store that *store names (store_place)
// and what is known of it (membership_open). It may go away between the two:
// then it is waited for again. `state` may be NULL: there is no state folder.
enum sl_err joining_open(struct membership *m, struct fs **store_fs,
                         char **store, const char *state,
                         const struct conf *conf, struct sl_error *err);

struct joining_work;

struct joining {
    struct loop *loop;
    struct membership *membership;
    struct joining_work *work; // under way; NULL: nothing is
};

// A coordinator of this cluster has welcomed us (0: it does not say which).
// Does nothing while an earlier one is still being joined.
void joining_welcome(struct joining *j, uint64_t cluster);

void joining_release(struct joining *j); // all zeroes is allowed

#endif
