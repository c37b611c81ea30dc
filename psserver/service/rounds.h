// SPDX-License-Identifier: Apache-2.0
// psserver/service/rounds.h -- pulls that wait for a round to be applied.
//
// A worker whose contribution is held has nothing to do until its round is
// whole, and wants the parameters then: its pull waits here, so that they are
// on their way before the next slot is leased to it.
//
// Threads  rounds_wait, rounds_applied: any. The rest: the loop.
// Memory   a wait lies in the scratch of its call, and refers to its shard.
// Units    none: what waits is looked at now and then, and answered with what
//          there is once the shard is gone, the server ends, or it has waited
//          for ROUNDS_LOOKS looks.
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
#define ROUNDS_MOST 4096 // that wait at a time

struct rounds_wait {
    struct list_node node;
    struct rpc_call *call;
    struct shard *shard; // a reference
    struct wire_pull pull;
    unsigned looks;
};

struct rounds {
    struct loop_timer *timer;
    // Answers a call, of a shard that is still there or not any more.
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

enum sl_err rounds_init(struct rounds *r, struct loop *loop,
                        void (*answer)(void *arg, struct rpc_call *call,
                                       struct shard *shard,
                                       const struct wire_pull *pull),
                        void *arg);
// Answers all, and whoever comes later at once.
void rounds_stop(struct rounds *r);
void rounds_release(struct rounds *r); // after rounds_stop

// True: the round that pull->after_round_of names is open, and the call will
// be answered. Else nothing has happened.
bool rounds_wait(struct rounds *r, struct rpc_call *call, struct shard *shard,
                 const struct wire_pull *pull);

// A round of the shard was applied: answers who waits for it.
void rounds_applied(struct rounds *r, struct shard *shard);

#endif
