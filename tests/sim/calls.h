// SPDX-License-Identifier: Apache-2.0
// tests/sim/calls.h -- the calls of ranks to each other, over the links of
// net.h.
//
// channel.c hands them over: the Ranks service is the trainer's own, and so is
// who calls it. A call travels as on a connection: what is sent over a link
// that is cut, or to a process that is stopped, is held back; a process that
// died resets its calls, unless its host has gone quietly, and then keepalive
// finds out. A connection breaks by itself at the rate `lose`, before the
// request was heard or after it was handled. Calls of one channel may overtake
// each other, as they do among I/O threads.
//
// A server's handler is an event of its process, and so is the end of a call.
//
// Memory   a call's request lives until its answer, as in rpc.h.
#ifndef TESTS_SIM_CALLS_H
#define TESTS_SIM_CALLS_H

#include "common/net/rpc.h"
#include "tests/sim/sim.h"

// A call that a server has to answer: the first member of what it is.
struct rpc_call {
    struct call_space *space; // rpc_call_scratch's
};
void calls_release(struct rpc_call *call); // it is answered

// Has process `p` answer the calls of `table`, at its address, until it dies.
void calls_serve(struct sim *s, struct proc *p, const struct rpc_table *table);

// The process has died: its own calls end at once, its threads make no other
// one, and those that it was to answer are reset. `quietly`: its host has gone.
void calls_gone(struct sim *s, struct proc *p, bool quietly);

void calls_new(struct sim *s);
void calls_free(struct sim *s);

// ---- for channel.c

// True for a method that is called here.
bool calls_are_for(const char *method);
// rpc_call_start, of a channel of `p` to `address`.
void calls_start(struct proc *p, struct rpc_channel *channel,
                 const char *method, struct rpc_msg *msg,
                 const struct rpc_call_options *options, rpc_done_fn done,
                 void *arg);
// rpc_channel_free: its calls end.
void calls_leave(struct rpc_channel *channel);

#endif
