// SPDX-License-Identifier: Apache-2.0
// worker/peers.h -- one connection per psserver, shared by all jobs.
//
// Threads  any, but not from an rpc callback: the last unref of a channel
//          waits for its calls to end.
// Memory   peers_free after every channel was given back. A channel lives
//          from get to put.
// Errors   those of rpc_channel_new.
#ifndef WORKER_PEERS_H
#define WORKER_PEERS_H

#include "common/rpc.h"

struct peers;

// io and tls (NULL: plain) outlive the peers.
enum sl_err peers_new(struct peers **out, struct rpc_io *io,
                      const struct rpc_tls *tls, struct sl_error *err);
void peers_free(struct peers *p); // NULL is allowed

// The channel to an address, new or shared.
enum sl_err peers_get(struct peers *p, const char *address,
                      struct rpc_channel **out, struct sl_error *err);
void peers_put(struct peers *p, struct rpc_channel *channel); // NULL: nothing

#endif
