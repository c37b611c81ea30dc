// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_window.h -- which large requests of a channel are on their
// way, and which wait for their turn. Pure.
//
//   rpc_window_enter -> true: it goes, on turn->lane
//                    -> false: it waits, until rpc_window_next gives it out
//   rpc_window_leave -> answered, or given up while it waited
//
// A connection is a queue: what was written cannot be overtaken. So a request
// that is more urgent than one before it takes the express lane, a connection
// beside the usual one; both share the link, and it waits for a part of it
// instead of for all that lies there. Its window is small, for a queue of
// express requests would be the same again.
//
// Threads  the caller's lock.
#ifndef COMMON_NET_RPC_WINDOW_H
#define COMMON_NET_RPC_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/list.h"

enum rpc_lane_kind { RPC_USUAL, RPC_EXPRESS, RPC_LANES };

struct rpc_turn {
    struct list_node node; // in waiting or in flying
    unsigned order;        // lowest first
    size_t bytes;
    bool waits, flies;
    enum rpc_lane_kind lane; // that it flies on
};

struct rpc_window {
    struct list waiting; // by order
    struct {
        size_t most_bytes, bytes;
        unsigned least, count; // calls; `least` of any size
        struct list flying;
    } lane[RPC_LANES];
};

void rpc_window_init(struct rpc_window *w, size_t bytes);

// Would it be behind one that is less urgent?
bool rpc_window_behind(const struct rpc_window *w, unsigned order);

// `express`: that lane may be used now.
bool rpc_window_enter(struct rpc_window *w, struct rpc_turn *t, bool express);
void rpc_window_leave(struct rpc_window *w, struct rpc_turn *t); // or neither

// The most urgent of those that wait, NULL: none. And, if it may go now, this
// one has entered.
struct rpc_turn *rpc_window_first(const struct rpc_window *w);
struct rpc_turn *rpc_window_next(struct rpc_window *w, bool express);

#endif
