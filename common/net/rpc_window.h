// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_window.h -- the large requests of a channel that are in flight
// and those that wait for their turn. Pure.
//
//   rpc_window_enter -> true: the request is sent on turn->lane
//                    -> false: it waits, until rpc_window_next returns it
//   rpc_window_leave -> answered, or given up while it waited
//
// A connection is a queue: a request cannot overtake what was written before.
// So a request that is more urgent than one before it takes the express lane, a
// second connection that shares the link, and waits for a part of the link
// instead of for the whole queue. The express window is small, because a queue
// of express requests would have the same fault.
//
// Threads  the caller's lock; none waits or allocates.
// Memory   a turn is the caller's, and stays until it has left. No argument is
//          NULL.
#ifndef COMMON_NET_RPC_WINDOW_H
#define COMMON_NET_RPC_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/list.h"

enum rpc_lane_kind { RPC_USUAL, RPC_EXPRESS, RPC_LANES };

struct rpc_turn {
    struct list_node node;   // entry in `waiting` or `flying`
    unsigned order;          // lowest first
    size_t bytes;            // size of the request
    bool waits, flies;       // in `waiting`, in `flying`; not both
    enum rpc_lane_kind lane; // its connection, while it flies
};

struct rpc_window {
    struct list waiting; // by order
    struct {
        size_t most_bytes, bytes; // limit, and bytes that fly
        unsigned least, count;    // calls; `least` fly whatever their size
        struct list flying;
    } lane[RPC_LANES];
};

// Makes an empty window: `bytes` bytes may fly on the usual lane, a quarter of
// them on the express lane; two calls may fly on the usual lane, and one on the
// express lane, whatever their size. There is nothing to release.
void rpc_window_init(struct rpc_window *w, size_t bytes);

// Returns true if a request of a higher `order`, so a less urgent one, flies on
// the usual lane: one of `order` that took that lane would come after it.
bool rpc_window_behind(const struct rpc_window *w, unsigned order);

// Enters `t` (zeroes but for `order` and `bytes`), once until it leaves, and
// returns true if it flies, on t->lane; false: it waits, for room or because
// one of the same or a lower order waits. `express`: the express lane may be
// used now.
bool rpc_window_enter(struct rpc_window *w, struct rpc_turn *t, bool express);

// Takes `t` out, whether it flies, waits or never entered; it may enter again.
// When a flying one has left, call rpc_window_next until it returns NULL.
void rpc_window_leave(struct rpc_window *w, struct rpc_turn *t);

// Returns the most urgent waiting turn, which goes on waiting; NULL: none does.
struct rpc_turn *rpc_window_first(const struct rpc_window *w);

// Returns the most urgent waiting turn, which now flies, on its `lane`; NULL:
// none waits, or it may not go yet. `express` as in rpc_window_enter.
struct rpc_turn *rpc_window_next(struct rpc_window *w, bool express);

#endif
