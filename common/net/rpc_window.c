// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_window.c -- the rule of who goes next: the bytes under way on
// each lane, and the requests that wait.
#include "common/net/rpc_window.h"

#define EXPRESS_PART 4 // of the usual window

void rpc_window_init(struct rpc_window *w, size_t bytes)
{
    *w = (struct rpc_window){0};
    list_init(&w->waiting);
    for (int i = 0; i < RPC_LANES; i++)
        list_init(&w->lane[i].flying);
    w->lane[RPC_USUAL].most_bytes = bytes;
    w->lane[RPC_USUAL].least = 2; // one is sent, one is computed
    w->lane[RPC_EXPRESS].most_bytes = bytes / EXPRESS_PART;
    w->lane[RPC_EXPRESS].least = 1;
}

bool rpc_window_behind(const struct rpc_window *w, unsigned order)
{
    list_for(n, &w->lane[RPC_USUAL].flying)
    {
        if (list_entry(n, struct rpc_turn, node)->order > order)
            return true;
    }
    return false;
}

static bool rpc_window_has_room(const struct rpc_window *w,
                                enum rpc_lane_kind i, size_t bytes)
{
    return w->lane[i].count < w->lane[i].least ||
           (w->lane[i].bytes < w->lane[i].most_bytes &&
            bytes <= w->lane[i].most_bytes - w->lane[i].bytes);
}

// RPC_LANES: not now.
static enum rpc_lane_kind lane_for(const struct rpc_window *w,
                                   const struct rpc_turn *t, bool express)
{
    if (express && rpc_window_behind(w, t->order) &&
        rpc_window_has_room(w, RPC_EXPRESS, t->bytes))
        return RPC_EXPRESS;
    return rpc_window_has_room(w, RPC_USUAL, t->bytes) ? RPC_USUAL : RPC_LANES;
}

static void fly(struct rpc_window *w, struct rpc_turn *t,
                enum rpc_lane_kind lane)
{
    t->lane = lane;
    t->flies = true;
    w->lane[lane].count++;
    w->lane[lane].bytes += t->bytes;
    list_push_back(&w->lane[lane].flying, &t->node);
}

// Inserts `t` behind the waiting turns of the same or a lower order.
static void rpc_window_queue_turn(struct rpc_window *w, struct rpc_turn *t)
{
    struct list_node *at = w->waiting.head.prev;

    while (at != &w->waiting.head &&
           list_entry(at, struct rpc_turn, node)->order > t->order)
        at = at->prev;
    list_insert_after(at, &t->node);
    t->waits = true;
}

bool rpc_window_enter(struct rpc_window *w, struct rpc_turn *t, bool express)
{
    const struct rpc_turn *first = rpc_window_first(w);
    enum rpc_lane_kind lane = RPC_LANES;

    if (first == NULL || first->order > t->order)
        lane = lane_for(w, t, express);
    if (lane == RPC_LANES)
        rpc_window_queue_turn(w, t);
    else
        fly(w, t, lane);
    return t->flies;
}

void rpc_window_leave(struct rpc_window *w, struct rpc_turn *t)
{
    if (t->waits || t->flies)
        list_remove(&t->node);
    if (t->flies) {
        w->lane[t->lane].count--;
        w->lane[t->lane].bytes -= t->bytes;
    }
    t->waits = t->flies = false;
}

struct rpc_turn *rpc_window_first(const struct rpc_window *w)
{
    struct list_node *n = list_first((struct list *)&w->waiting);

    return n == NULL ? NULL : list_entry(n, struct rpc_turn, node);
}

struct rpc_turn *rpc_window_next(struct rpc_window *w, bool express)
{
    struct rpc_turn *t = rpc_window_first(w);
    enum rpc_lane_kind lane;

    if (t == NULL)
        return NULL;
    lane = lane_for(w, t, express);
    if (lane == RPC_LANES)
        return NULL;
    rpc_window_leave(w, t);
    fly(w, t, lane);
    return t;
}
