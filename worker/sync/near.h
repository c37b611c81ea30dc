// SPDX-License-Identifier: Apache-2.0
// worker/sync/near.h -- a psserver on this host, and memory shared with it.
//
// Asks a psserver where it takes memory (Shards/Local). If it runs under the
// same boot of the same host and its socket can be reached, memory is handed to
// it in *rooms*: one for each shard, with space for a gradient and for the
// parameters that come back. Everything that does not work out only means that
// bytes are sent.
//
//   IDLE --near_take--> ASKED --same host--> FOUND --connected--> LINKED
//    ^  ^                 | another host, or none wanted    |        |
//    |  |                 v                                 |        |
//    |  +--(pause)--+-- FAR                                 |        |
//    +--------------+--------- not reached, hung up --------+--------+
//
// A room is one caller's from near_take to near_give. If a call that named it
// ended without an answer, the psserver may still read and write there: such a
// room is given back as not clean, and its memory is never used again. The
// psserver is told, and unmaps it when no call uses it any more.
//
// The same connection brings the channel a socket of its own for small calls.
//
// Threads  any for near_new, near_look, near_take, near_give and near_free,
//          none of which waits; not from an rpc callback. The socket is the
//          loop's.
// Memory   near_free before its channel is freed; rooms are given back before.
//          What is under way holds on to what it needs, so the loop must not be
//          freed before the channel; it runs what was posted before it ends.
// Units    bytes, ms.
// Errors   none: there is a room, or there is not.
#ifndef WORKER_SYNC_NEAR_H
#define WORKER_SYNC_NEAR_H

#include <stdbool.h>

#include "common/base/clock.h"
#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "common/net/local/shm.h"

struct near;

// A gradient at 0, parameters at `half`; each has `bytes`.
struct near_room {
    struct shm memory;
    size_t bytes, half;
    uint64_t region; // as the psserver knows it
};

enum sl_err near_new(struct near **out, struct loop *loop,
                     const struct sl_clock *clock, struct rpc_channel *channel);
void near_free(struct near *n); // NULL is allowed

// Before a call, whatever its size: has the psserver asked, and its channel
// adopt a socket for small calls once there is one (rpc_channel_adopt).
void near_look(struct near *n);

// A room for `bytes` each way; NULL: not now. One that is missing is asked for,
// and there soon.
struct near_room *near_take(struct near *n, size_t bytes);

// `clean`: every call that named it was answered.
void near_give(struct near *n, struct near_room *room, bool clean);

#endif
