// SPDX-License-Identifier: Apache-2.0
// psserver/service/acks.h -- answers that wait until a replica has what they
// say (P1).
//
// Threads  any; acks_stop and acks_release: the loop.
// Memory   a wait lies in the scratch of its call, with its answer, and refers
//          to its shard; the call's request is dropped.
// Units    none: waits are looked at when the replica acknowledges, and now and
//          then.
// Errors   an answer that cannot wait, or has waited until the deadline of its
//          call, is an error of the call.
#ifndef PSSERVER_SERVICE_ACKS_H
#define PSSERVER_SERVICE_ACKS_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/list.h"
#include "common/net/rpc.h"
#include "common/run/loop.h"
#include "state/shard/replica.h"

#define ACKS_LOOK_MS 250

struct acks {
    struct loop_timer *timer;
    struct {
        pthread_mutex_t lock;
        struct list waits;
        bool stopped;
    } _shared;
};

// Makes an empty list. *a must not move; the loop lives until acks_release.
// Returns SL_OK; SL_ENOMEM: nothing is left, and no other function may be
// called.
enum sl_err acks_init(struct acks *a, struct loop *loop);
// Answers all calls that wait with SL_EUNAVAIL, and those that come later and
// would have to wait.
void acks_stop(struct acks *a);
// Frees the timer, after acks_stop, once no thread can call any more.
void acks_release(struct acks *a);

// Keeps the answer of a call that says what `shard` has counted, if a replica
// has to acknowledge that first, and returns true: *msg is taken, and the call
// is answered later. Returns false, and the caller answers with *msg, if
// nothing has to be waited for. It is answered by *msg once that is
// acknowledged or the replica is out, and SL_EUNAVAIL once the shard is closed
// or the call's deadline is over. To be called behind the last look at the
// shard and at the call's request, which may be gone in either case. Without
// memory the call is answered SL_EUNAVAIL, and true is returned: it asks again.
bool acks_wait(struct acks *a, struct rpc_call *call, struct shard *shard,
               struct rpc_msg *msg);

// Answers the calls of `shard` that need not wait any more. To be called when
// its replica has acknowledged, or has left the set.
void acks_look(struct acks *a, const struct shard *shard);

#endif
