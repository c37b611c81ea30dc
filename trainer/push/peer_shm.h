// SPDX-License-Identifier: Apache-2.0
// trainer/push/peer_shm.h -- a psserver on this host, and memory shared with
// it.
//
// Asks a psserver where it takes memory (Shards/Local). If it runs under the
// same boot of the same host and its socket can be reached, memory is handed to
// it in *buffers*: one for each shard, with space for a gradient and for the
// parameters that come back. Where any of that fails, bytes are sent instead.
//
//   IDLE ----- look ---> ASKED --same host--> FOUND --connected--> LINKED
//    ^  ^                  | another host, or none wanted   |        |
//    |  |                  v                                |        |
//    |  +---(pause)---- ELSEWHERE <----- not to be had -----+--------+
//    +------------------------- gone: soon again -----------+--------+
//
// A buffer is one caller's from peer_shm_take to peer_shm_give. If a call that
// named it ended without an answer, the psserver may still read and write
// there: such a buffer is given back as not clean, and its memory is never used
// again. The psserver is told, and unmaps it when no call uses it any more.
//
// The same connection brings the channel a socket of its own for small calls.
//
// Threads  any for new, look, take, give and free, none of which waits; not
//          from an rpc callback. The socket is the loop's.
// Memory   peer_shm_free before its channel is freed; buffers are given back
//          before. What is under way holds on to what it needs, so the loop
//          must not be freed before the channel; it runs what was posted
//          before it ends.
// Units    bytes, ms.
// Errors   none: there is a buffer, or there is not.
#ifndef TRAINER_PUSH_PEER_SHM_H
#define TRAINER_PUSH_PEER_SHM_H

#include <stdbool.h>

#include "common/base/clock.h"
#include "common/run/loop.h"
#include "common/net/rpc.h"
#include "common/net/local/shm.h"

struct peer_shm;

// A gradient at 0, parameters at `half`; each has `bytes` bytes.
struct shm_buffer {
    struct shm memory;
    size_t bytes, half;
    uint64_t region; // the psserver's number for it
};

// Makes the sharing of memory with the psserver at the channel's other end;
// nothing is asked before peer_shm_look. `loop` and `clock` are borrowed, also
// by what is under way when it is freed. Returns SL_OK; SL_ENOMEM leaves *out
// as it was.
enum sl_err peer_shm_new(struct peer_shm **out, struct loop *loop,
                         const struct sl_clock *clock,
                         struct rpc_channel *channel);
// Frees it and hangs up; does not wait. NULL is allowed.
void peer_shm_free(struct peer_shm *n);

// Does what is due now, without waiting: asks the psserver where it takes
// memory or, once there is a connection, has the channel adopt a socket for
// small calls (rpc_channel_adopt). To be called when a connection is made and
// after each call.
void peer_shm_look(struct peer_shm *n);

// Returns a buffer for `bytes` bytes each way, to be given back once by
// peer_shm_give; NULL: there is none now. Only a buffer of just that size will
// do. If memory is shared with the psserver, a missing one is then asked for
// (but not for 30 s after the psserver refused one), and a later call will find
// it. The caller writes the gradient and reads the parameters, and no other
// field.
struct shm_buffer *peer_shm_take(struct peer_shm *n, size_t bytes);

// Gives a buffer back. `clean`: every call that named it was answered. The
// pointer is not used afterwards.
void peer_shm_give(struct peer_shm *n, struct shm_buffer *buffer, bool clean);

#endif
