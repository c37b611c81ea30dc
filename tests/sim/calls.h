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

// Frees the scratch of a call that is answered; the call is its owner's.
void calls_release(struct rpc_call *call);

// Has process `p` answer the calls of `table`, at its address, until it dies.
// The table is copied, what it points at is borrowed.
void calls_serve(struct sim *s, struct proc *p, const struct rpc_table *table);

// Ends the calls of a process that has died, at once, with SL_ECANCELED; its
// threads make no other one, and those that it was to answer are reset.
// `quietly`: its host has gone, and callers find out by keepalive.
void calls_gone(struct sim *s, struct proc *p, bool quietly);

// Makes s->calls, which rpc.h's functions here use: of one world at a time.
void calls_new(struct sim *s);

// Frees s->calls; no caller is told of an end.
void calls_free(struct sim *s);

// ---- for channel.c

// Returns true for a method of the Ranks service, which is called here.
bool calls_are_for(const char *method);

// Starts a call, as rpc_call_start does, of a channel of `p`. Takes over *msg.
// If p is dead, `done` runs before it returns, with SL_ECANCELED.
void calls_start(struct proc *p, struct rpc_channel *channel,
                 const char *method, struct rpc_msg *msg,
                 const struct rpc_call_options *options, rpc_done_fn done,
                 void *arg);
// Ends all calls of a channel with SL_ECANCELED, at once: rpc_channel_free.
void calls_leave(struct rpc_channel *channel);

#endif
