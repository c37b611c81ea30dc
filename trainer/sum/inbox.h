// SPDX-License-Identifier: Apache-2.0
// trainer/sum/inbox.h -- pieces that came from other ranks and wait to be
// taken into a sum.
//
// A piece stays in the transport's memory, and its call unanswered, until it is
// taken: so a rank that is behind holds the others back, and nothing is copied.
// A bucket is one vector that the ranks sum, by its number.
//
// Threads  inbox_offer: I/O threads. The rest: any. All but inbox_take_locked
//          are called without `lock`, which they take where they need it;
//          `lock` and `changed` also serve threads that wait for more than
//          pieces (net.c). None waits.
// Memory   a piece is its call's; inbox_answer ends both.
// Units    pieces.
// Errors   what inbox_offer returns is the answer of the call.
#ifndef TRAINER_SUM_INBOX_H
#define TRAINER_SUM_INBOX_H

#include <pthread.h>

#include "common/base/list.h"
#include "common/net/rpc.h"
#include "proto/wire.h"

// Most pieces that wait at once: ranks of one generation do not send more.
#define INBOX_MOST 4096

struct inbox_piece {
    struct list_node node;
    struct rpc_call *call;
    struct wire_piece m;
};

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list pieces; // struct inbox_piece, in order of arrival
    unsigned count;
    uint64_t bucket; // buckets with lower numbers are done
    bool closed;
};

// Makes an empty inbox.
void inbox_init(struct inbox *b);
// Frees what inbox_init made. The inbox is closed, all pieces that were taken
// are answered, and it was removed from where it is offered to (ranks_remove).
void inbox_release(struct inbox *b);

// Keeps a piece until it is taken, and wakes those that wait for `changed`;
// owns the call on SL_OK, and else the caller answers it. A piece of a bucket
// that is done is acknowledged at once. *m is copied; its payload is the
// call's. SL_ESTALE: closed; SL_EBUSY: INBOX_MOST wait; SL_ENOMEM.
enum sl_err inbox_offer(struct inbox *b, struct rpc_call *call,
                        const struct wire_piece *m);

// Takes out and returns the first piece of `bucket` that waits, for
// inbox_answer; NULL if none does. With b->lock held.
struct inbox_piece *inbox_take_locked(struct inbox *b, uint64_t bucket);

// Marks buckets below `below` as done: pieces of them are acknowledged, those
// that wait and those that come later. `below` never falls.
void inbox_done(struct inbox *b, uint64_t below);

// Acknowledges the call of a piece that inbox_take_locked has returned, and
// frees the piece. NULL is allowed.
void inbox_answer(struct inbox_piece *p);

// Answers all pieces, those that wait and those that come later, with
// SL_ESTALE, but for those that were taken out already; wakes those that wait
// for `changed`. May be called again.
void inbox_close(struct inbox *b);

#endif
