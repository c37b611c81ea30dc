// SPDX-License-Identifier: Apache-2.0
// worker/reduce/inbox.h -- pieces that came from other ranks and wait to be
// taken into a sum.
//
// A piece stays in the transport's memory, and its call unanswered, until it is
// taken: so a rank that is behind holds the others back, and nothing is
// copied.
//
// Threads  inbox_offer: I/O threads. The rest: any. `lock` and `changed` also
//          serve who waits for more than pieces (net.c).
// Memory   a piece is its call's; inbox_answer ends both.
// Units    pieces.
// Errors   what inbox_offer returns is the answer of the call.
#ifndef WORKER_REDUCE_INBOX_H
#define WORKER_REDUCE_INBOX_H

#include <pthread.h>

#include "common/base/list.h"
#include "common/net/rpc.h"
#include "proto/wire.h"

// More from one generation at once is no rank of ours.
#define INBOX_MOST 4096

struct inbox_piece {
    struct list_node node;
    struct rpc_call *call;
    struct wire_piece m;
};

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list pieces; // in the order of their arrival
    unsigned count;
    uint64_t bucket; // what is below it is done
    bool closed;
};

void inbox_init(struct inbox *b);
void inbox_release(struct inbox *b); // closed before

// Takes the call on SL_OK. SL_ESTALE: closed; SL_EBUSY: too many wait.
enum sl_err inbox_offer(struct inbox *b, struct rpc_call *call,
                        const struct wire_piece *m);

// The first that waits of this bucket, or NULL. With the lock.
struct inbox_piece *inbox_take_locked(struct inbox *b, uint64_t bucket);

// Pieces of buckets below are acknowledged from now on, as done.
void inbox_done(struct inbox *b, uint64_t below);

void inbox_answer(struct inbox_piece *p); // NULL is allowed

// Ends all that wait, and what comes later.
void inbox_close(struct inbox *b);

#endif
