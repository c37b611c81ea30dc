// SPDX-License-Identifier: Apache-2.0
// psserver/service/rounds.h -- pulls that wait for a round to be applied.
//
// A worker with a contribution that is held has no work until its round is
// whole, and wants the parameters then: its pull waits here, so that they are
// on their way before the next slot is leased to it.
//
// Threads  rounds_wait, rounds_applied: any. The rest: the loop.
// Memory   a wait lies in the scratch of its call, and refers to its shard.
// Units    none: a wait is looked at now and then, and answered with the
//          parameters as they are once the shard is gone, the server ends, or
//          it has waited for ROUNDS_LOOKS looks.
// Errors   a pull that cannot wait is answered at once.
#ifndef PSSERVER_SERVICE_ROUNDS_H
#define PSSERVER_SERVICE_ROUNDS_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/list.h"
#include "common/net/rpc.h"
#include "common/run/loop.h"
#include "state/shard/shard.h"

#define ROUNDS_LOOK_MS 250
#define ROUNDS_LOOKS 4
#define ROUNDS_MOST 4096 // most waits at a time

struct rounds_wait {
    struct list_node node;
    struct rpc_call *call;
    struct shard *shard; // a reference
    struct wire_pull pull;
    unsigned looks; // how often the timer has looked at this call
};

struct rounds {
    struct loop_timer *timer;
    // Answers a call to `shard`, which may have left the store.
    void (*answer)(void *arg, struct rpc_call *call, struct shard *shard,
                   const struct wire_pull *pull);
    void *arg;
    struct {
        pthread_mutex_t lock;
        struct list waits;
        unsigned count;
        bool stopped;
    } _shared;
};

// Makes an empty list that answers its calls by `answer`, which runs on the
// thread that found the call ready, outside the lock; it answers the call, and
// `shard` and `pull` are lent to it until it returns. *r must not move; loop,
// answer and arg live until rounds_release. Returns SL_OK; SL_ENOMEM: nothing
// is left, and neither rounds_stop nor rounds_release may be called.
enum sl_err rounds_init(struct rounds *r, struct loop *loop,
                        void (*answer)(void *arg, struct rpc_call *call,
                                       struct shard *shard,
                                       const struct wire_pull *pull),
                        void *arg);
// Answers all calls that wait; from then on rounds_wait returns false. A second
// call does nothing.
void rounds_stop(struct rounds *r);
// Frees the timer, after rounds_stop, once no thread can call any more.
void rounds_release(struct rounds *r);

// Keeps a call, and returns true, if the round that pull->after_round_of (a
// closure of it, plus 1; not 0) names is open: until it was applied or the
// shard is closed, but for a second at most (ROUNDS_LOOKS); then r->answer
// answers it. Returns false, and the caller answers, if it is not open, if
// ROUNDS_MOST calls wait, without memory, or after rounds_stop. *pull is
// copied; holds a reference of `shard` meanwhile.
bool rounds_wait(struct rounds *r, struct rpc_call *call, struct shard *shard,
                 const struct wire_pull *pull);

// Answers the calls that wait for a round of `shard` which is not open any
// more. To be called when a round was applied.
void rounds_applied(struct rounds *r, struct shard *shard);

#endif
