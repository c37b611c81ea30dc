// SPDX-License-Identifier: Apache-2.0
// common/net/rpc_faulty.h -- unary calls that come twice, late, or not at all.
//
// In a build with SLUICE_FAULTS the environment says how often, per thousand:
//
//   SLUICE_RPC_FAULT="seed=7,double=50,replay=50,lose=10,lose_reply=10"
//
//   double      a call is sent twice; the second answer is thrown away
//   replay      before a call, some earlier one to the same peer is sent again:
//               old messages overtake new ones, and come out of order
//   lose        a call never leaves; it ends as if its deadline were over
//   lose_reply  (server) the call is served, and its answer is lost
//
// In every other build nothing of this is in the binary. Used by rpc_client.c
// and rpc_serve.c only.
//
// Threads  any.
// Memory   keeps copies of the last FAULTY_KEPT calls of the process.
// Errors   a bad SLUICE_RPC_FAULT ends the process with status 2.
#ifndef COMMON_NET_RPC_FAULTY_H
#define COMMON_NET_RPC_FAULTY_H

#include <stdbool.h>

#include "common/net/rpc.h"

#ifdef SLUICE_FAULTS

#define FAULTY_KEPT 64
#define FAULTY_BYTES ((size_t)4 << 20) // limit of a message that is kept

typedef void (*rpc_faulty_send)(struct rpc_channel *ch, const char *method,
                                struct rpc_msg *msg,
                                const struct rpc_call_options *options);

// Sends the copies that SLUICE_RPC_FAULT asks for with this call: an earlier
// call again (replay), this one once more (double); and keeps a copy of it for
// a later replay. A call with a message over FAULTY_BYTES, or a method of 64
// bytes or more, is neither kept nor doubled. Does nothing if `msg` is NULL; it
// stays the caller's. Each copy goes out by `forward`, which is called within
// this, under a lock, and takes the message it is given; the answer is to be
// thrown away.
void rpc_faulty_copies(struct rpc_channel *ch, const char *method,
                       const struct rpc_msg *msg,
                       const struct rpc_call_options *options,
                       rpc_faulty_send forward);
// Forgets `ch`, which is about to end: no copy is sent on it again.
void rpc_faulty_forget(struct rpc_channel *ch);

// Returns true if the next call is to be lost, drawn anew for each.
bool rpc_faulty_loses(void);
// Returns true if the next answer is to be lost, drawn anew for each.
bool rpc_faulty_loses_reply(void);

#endif
#endif
