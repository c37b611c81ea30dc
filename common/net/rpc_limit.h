// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_limit.h -- what one peer may cost a server: its calls and
// streams that are open, its requests that are read, its answers that it has
// not read. Pure.
//
//   rpc_limit_enter  -> SL_EBUSY: one too many, nothing was counted
//   rpc_limit_start  -> true: go on
//                    -> false: it waits, until rpc_limit_next gives it out
//   rpc_limit_has    its request of `bytes` bytes has been read
//   rpc_limit_answer its answer of `bytes` bytes is on its way out
//   rpc_limit_leave  at the end of the call, in any state except waiting
//
// A large request is counted before the first byte of it is read: a request
// that waits, waits in its sender. Half of the budget is given out so, an
// eighth of that half to one peer; a request larger than it said meets the
// transport's own limit at the whole budget (rpc_args.c). Waiting calls take
// turns by their peers, and by their order within one. A request larger than
// that eighth goes when its peer has no other and it fits the half, or all have
// none. After a peer has read its answers, its calls go on one at a time: the
// size of the next answer is not known before.
//
// Threads  the caller's lock.
// Memory   a peer's record is freed a minute after its last call or refusal, so
//          a peer that calls again and again costs no allocation. Beyond
//          RPC_LIMIT_IDLE records it is freed with the peer's last call, unless
//          a refusal of it was logged. A call is the caller's and stays until
//          it has left; `who` is copied, cut to RPC_LIMIT_WHO. No pointer is
//          NULL but where it is said.
// Errors   SL_EBUSY names the limit, and the peer if that alone is over it;
//          SL_ENOMEM. `err` may be NULL.
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
    char who[RPC_LIMIT_WHO]; // name of the peer
    uint64_t key;            // key of this record in `peers`
    bool trusted;            // counted, but without limits of one peer
    unsigned calls;          // open calls and streams
    size_t inbound_bytes, unread_bytes; // sums of its calls' bytes
    unsigned resumed;        // calls being served after waiting for its reads
    struct list waiting;     // calls, first come first
    struct list_node node;   // entry in `turns`, while one of its calls waits
    struct log_share denied; // log lines about calls it may not make
    unsigned refused;        // calls since the last log line about refusals
    uint64_t said_ms;        // time of that line; 0: none yet
    bool used;               // had calls since rpc_limit_forget last ran
    uint64_t idle_ms;        // time of its last use, as rpc_limit_forget saw it
};

struct rpc_limit_call {
    struct rpc_limit_peer *peer;        // NULL: it has not entered
    struct list_node node;              // entry in peer->waiting
    size_t inbound_bytes, unread_bytes; // request, and answer on its way
    bool large;                         // waits for room of inbound_bytes
    bool resumed;                       // counted in peer->resumed
};

struct rpc_limit {
    struct rpc_limits most; // none of them 0
    struct map peers;       // key -> struct rpc_limit_peer, owned
    struct list turns;      // peers with calls that wait
    unsigned calls;         // open calls of all peers
    size_t inbound_bytes;   // bytes of requests, of all peers
};

// Sets the limits to `most`, which is copied; a field that is 0 (all, if `most`
// is NULL) gets its default, and inbound_bytes is raised to 64 MiB. What *l
// held before is not freed.
void rpc_limit_init(struct rpc_limit *l, const struct rpc_limits *most);
// Frees the records of all peers, after all calls have left.
void rpc_limit_release(struct rpc_limit *l);

// Counts `call` (all zeroes) as an open call of the named peer. `trusted`: it
// runs as this host's own user, has no limit of its own, and is not refused for
// the limit of all; what the peer's record was made with holds. SL_EBUSY: a
// limit is reached, and nothing was counted; the caller then calls
// rpc_limit_refused for the log. SL_ENOMEM. `call` is untouched after both.
enum sl_err rpc_limit_enter(struct rpc_limit *l, struct rpc_limit_call *call,
                            const char *who, bool trusted,
                            struct sl_error *err);

// Returns true if the call may go on: there is room for a request of `bytes`
// bytes (0: it has been read, or is small). False: the call waits. Once for
// each call that has entered.
bool rpc_limit_start(struct rpc_limit *l, struct rpc_limit_call *call,
                     size_t bytes);

// Takes the next waiting call that may go on out of the queue and counts it, as
// rpc_limit_start does when it returns true; NULL: none may now. Call it until
// it gives none after each rpc_limit_has, rpc_limit_answer and rpc_limit_leave.
struct rpc_limit_call *rpc_limit_next(struct rpc_limit *l);

// Takes any waiting call out of the queue, whether or not it may go on, as
// rpc_limit_drop does; NULL: none waits.
struct rpc_limit_call *rpc_limit_give_up(struct rpc_limit *l);

// Takes `call` out of the queue, so that rpc_limit_leave may follow; it has
// still entered, and its request counts no bytes. Returns false if it did not
// wait, and changes nothing.
bool rpc_limit_drop(struct rpc_limit *l, struct rpc_limit_call *call);

// Notes that the call's request has been read and had `bytes` bytes, instead of
// those counted before; not while the call waits. Does nothing if the call has
// not entered.
void rpc_limit_has(struct rpc_limit *l, struct rpc_limit_call *call,
                   size_t bytes);

// Notes that the call's answer of `bytes` bytes is on its way: its request
// counts no longer, and the answer counts as unread until rpc_limit_leave. At
// most once for each call, and not while the call waits. Does nothing if the
// call has not entered.
void rpc_limit_answer(struct rpc_limit *l, struct rpc_limit_call *call,
                      size_t bytes);

// Ends the call, in any state except waiting (rpc_limit_drop first), and makes
// `call` all zeroes. Does nothing if the call has not entered.
void rpc_limit_leave(struct rpc_limit *l, struct rpc_limit_call *call);

// Counts a refused call of this peer, for which its record, which is made as
// rpc_limit_enter makes it, stays a minute. Returns the number of its refusals
// since the last log line about it, with this one, if a new line is due
// (RPC_LIMIT_SAY_MS), and counts that as written; else, or when out of memory,
// 0. `now_ms` is monotonic.
unsigned rpc_limit_refused(struct rpc_limit *l, const char *who, bool trusted,
                           uint64_t now_ms);

// Counts a call that this peer may not make, for which its record, which is
// made as rpc_limit_enter makes it, stays a minute. Returns true if it may be
// logged now (LOG_SHARE a minute); *left_out is then the number of such calls
// since the last line that were not logged. False also when out of memory.
// `now_ms` is monotonic.
bool rpc_limit_denied(struct rpc_limit *l, const char *who, bool trusted,
                      uint64_t now_ms, unsigned *left_out);

// Frees the records of peers that for RPC_LIMIT_SAY_MS, as it saw them, had no
// call, denied ones included, and no log line about refusals. Called from time
// to time; `now_ms` is monotonic.
void rpc_limit_forget(struct rpc_limit *l, uint64_t now_ms);

#endif
