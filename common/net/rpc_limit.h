// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_limit.h -- what one peer may cost a server: its calls and
// streams that are open, its requests that are read, its answers that it has
// not read. Pure.
//
//   rpc_limit_enter  -> SL_EBUSY: one too many, nothing was counted
//   rpc_limit_start  -> true: go on
//                    -> false: it waits, until rpc_limit_next gives it out
//   rpc_limit_has    its request is here, and so large
//   rpc_limit_answer its answer is on its way out, and so large
//   rpc_limit_leave  at the end, whatever it did before
//
// A large request is counted before the first byte of it is read: what waits,
// waits in its sender. Half of the budget is given out so, an eighth to one
// peer; what reads more than it said finds the transport's own limit at the
// whole (rpc_args.c). Those that wait take turns by their peers, and by their
// order within one. One that is larger than an eighth goes when its peer has no
// other. Of a peer that has read again, one call goes on at a time: nobody
// knows how large its answer will be.
//
// Threads  the caller's lock.
// Memory   a peer's record goes a minute after its last call or refusal: who
//          calls again and again costs no allocation. Beyond RPC_LIMIT_IDLE of
//          them it goes with the last call.
// Errors   SL_EBUSY names the limit and the peer; SL_ENOMEM.
#ifndef COMMON_NET_RPC_LIMIT_H
#define COMMON_NET_RPC_LIMIT_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/net/rpc.h"
#include "common/run/log.h"

#define RPC_LIMIT_WHO (RPC_PEER_ID + 64)
#define RPC_LIMIT_SAY_MS 60000 // between two lines of the log about one peer
#define RPC_LIMIT_IDLE 1024

struct rpc_limit_peer {
    char who[RPC_LIMIT_WHO];
    uint64_t key;
    bool trusted; // counted, but not limited for itself
    unsigned calls;
    size_t inbound_bytes, unread_bytes;
    unsigned resumed;        // calls that waited for it to read, and are served
    struct list waiting;     // calls, first come first
    struct list_node node;   // in turns, while one of its calls waits
    struct log_share denied; // calls that it may not make
    unsigned refused;        // since it was last said
    uint64_t said_ms;
    bool used;        // since rpc_limit_forget has looked,
    uint64_t idle_ms; // which was then
};

struct rpc_limit_call {
    struct rpc_limit_peer *peer; // NULL: it has not entered
    struct list_node node;       // in waiting
    size_t inbound_bytes, unread_bytes;
    bool large;   // inbound_bytes wait for their turn
    bool resumed; // one of its peer's
};

struct rpc_limit {
    struct rpc_limits most; // none of them 0
    struct map peers;
    struct list turns;
    unsigned calls;
    size_t inbound_bytes;
};

// What is 0 in `most` (or NULL) becomes the default.
void rpc_limit_init(struct rpc_limit *l, const struct rpc_limits *most);
void rpc_limit_release(struct rpc_limit *l); // when all have left

// `call` is all zeroes. `trusted`: its peer is of this host's own user.
enum sl_err rpc_limit_enter(struct rpc_limit *l, struct rpc_limit_call *call,
                            const char *who, bool trusted,
                            struct sl_error *err);

// The request will have so many bytes; 0: it is here already, or small.
bool rpc_limit_start(struct rpc_limit *l, struct rpc_limit_call *call,
                     size_t bytes);

// The next that may go on; NULL: none, for now.
struct rpc_limit_call *rpc_limit_next(struct rpc_limit *l);

// One that waits, whether or not it may go; it does not wait any more. And
// whether this one did, which does not either.
struct rpc_limit_call *rpc_limit_give_up(struct rpc_limit *l);
bool rpc_limit_drop(struct rpc_limit *l, struct rpc_limit_call *call);

void rpc_limit_has(struct rpc_limit *l, struct rpc_limit_call *call,
                   size_t bytes);
void rpc_limit_answer(struct rpc_limit *l, struct rpc_limit_call *call,
                      size_t bytes);
void rpc_limit_leave(struct rpc_limit *l, struct rpc_limit_call *call);

// A call of this peer was refused. How many were since the last line about it,
// if now is the time for one; else 0.
unsigned rpc_limit_refused(struct rpc_limit *l, const char *who,
                           uint64_t now_ms);

// This peer may not make a call: whether that has a line of the log, and how
// many had none before.
bool rpc_limit_denied(struct rpc_limit *l, const char *who, uint64_t now_ms,
                      unsigned *left_out);

// From time to time: forgets peers that have nothing open and of whom nothing
// is to be said.
void rpc_limit_forget(struct rpc_limit *l, uint64_t now_ms);

#endif
