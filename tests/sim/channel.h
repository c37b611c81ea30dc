// SPDX-License-Identifier: Apache-2.0
// tests/sim/channel.h -- common/net/rpc.h's unary calls, for workers in the
// simulation.
//
// The linker takes rpc_channel_* and rpc_call_start from channel.c, which makes
// the calls with net.h; trainer/push/peer.c and peers.c above it are the real
// ones. An answer comes in slices that are cut anywhere. A payload that was
// lent is given back before the answer, with it or some time after it, and must
// not have been written to meanwhile. Now and then a psserver reads nothing:
// then a cancelled call ends only when its connection is broken.
//
// No memory is shared (trainer/push/peer_shm.h): it is not there.
#ifndef TESTS_SIM_CHANNEL_H
#define TESTS_SIM_CHANNEL_H

#include "common/net/rpc.h"
#include "tests/sim/net.h"

// The I/O threads of a worker: what it calls.
struct rpc_io {
    struct sim *sim;
    struct proc *proc;
    struct list calls; // struct channel_call
};

// Returns the threads that a channel was made with.
struct rpc_io *channel_io(const struct rpc_channel *channel);

// Sets *io up for a worker, without calls; channel_end_all empties it.
void channel_io_init(struct rpc_io *io, struct sim *s, struct proc *p);

// Ends a call with its answer, which is borrowed; one that has ended is passed
// over.
void channel_reply(struct rpc_io *io, const struct sim_reply *r);

// Ends call `id`, if it has not ended, with SL_ETIMEDOUT.
void channel_deadline(struct rpc_io *io, uint64_t id);

// Ends all calls and gives back all payloads: its process has died.
void channel_end_all(struct rpc_io *io);

#endif
