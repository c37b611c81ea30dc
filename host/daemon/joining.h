// SPDX-License-Identifier: Apache-2.0
// host/daemon/joining.h -- a daemon joins the cluster that welcomes it, and
// its loop does not wait for the store.
//
// Joining marks the store (common/base/membership.h), which may be in S3 and
// not answer: a pool thread marks it, with a copy of the membership. Until then
// the daemon belongs to no cluster, as before its first welcome.
//
// Threads  the loop's.
// Memory   the membership is borrowed until joining_release; a join in progress
//          then ends by itself, before the loop is freed.
// Errors   joining_open: those of store_place and membership_open. Later errors
//          are logged, and the next welcome tries again.
#ifndef HOST_DAEMON_JOINING_H
#define HOST_DAEMON_JOINING_H

#include <stdint.h>

#include "common/base/membership.h"
#include "common/run/conf.h"
#include "common/run/loop.h"

// Opens the store that *store names (store_place) and reads the membership in
// it (membership_open), before the loop runs. Waits again if the store goes
// away between the two. `state` is the state folder; NULL: none. *store is not
// NULL, and replaced as by store_place. A failure leaves *m as it was, and may
// have set *store_fs; *store stays the caller's in every case.
enum sl_err joining_open(struct membership *m, struct fs **store_fs,
                         char **store, const char *state,
                         const struct conf *conf, struct sl_error *err);

struct joining_work;

// The caller sets loop and membership.
struct joining {
    struct loop *loop;
    struct membership *membership; // borrowed
    struct joining_work *work;     // join in progress; NULL: none
};

// Joins `cluster`, after its coordinator has welcomed us, on a pool thread;
// *j->membership has it later. Does not wait. Does nothing while an earlier
// join is in progress, if the cluster is joined already, and for 0: the
// coordinator does not name its cluster. A coordinator of another cluster than
// that of *j->membership is refused before, and does not come here.
void joining_welcome(struct joining *j, uint64_t cluster);

// Lets go of a join in progress, which changes the membership no more, and does
// not wait for it. All zeroes is allowed.
void joining_release(struct joining *j);

#endif
