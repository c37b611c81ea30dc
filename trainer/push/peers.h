// SPDX-License-Identifier: Apache-2.0
// trainer/push/peers.h -- one connection per psserver, shared by all jobs; and
// what memory is shared with it, where it is on this host.
//
// Threads  any, but not from an rpc callback: the last unref of a channel
//          waits for its calls to end.
// Memory   peers_free after every channel was given back. A channel lives
//          from get to put.
// Errors   those of rpc_channel_new; outputs are untouched then. `err` may be
//          NULL. A psserver that is away is no error: channels dial by
//          themselves.
#ifndef TRAINER_PUSH_PEERS_H
#define TRAINER_PUSH_PEERS_H

#include "trainer/push/peer_shm.h"

struct peers;

// Makes an empty set. `io` and `tls` (NULL: plain) outlive the peers. SL_ENOMEM
// alone; *out is untouched then.
enum sl_err peers_new(struct peers **out, struct rpc_io *io,
                      const struct rpc_tls *tls, struct sl_error *err);
// Frees the set; does not wait. NULL is allowed.
void peers_free(struct peers *p);

// Makes later channels offer to psservers of this host shared memory for
// payloads of `at_least` bytes and more, and a socket for small calls. Called
// at most once, before the first peers_get. `loop` and `clock` must outlive the
// peers.
void peers_share(struct peers *p, struct loop *loop,
                 const struct sl_clock *clock, size_t at_least);

// Sets *out to the channel to `address` (copied), new or shared with other
// callers, and *shm to the memory that is shared with that psserver (NULL:
// none), valid as long as the channel is held. Give it back by peers_put. Does
// not wait for the psserver.
enum sl_err peers_get(struct peers *p, const char *address,
                      struct rpc_channel **out, struct peer_shm **shm,
                      struct sl_error *err);
// Returns true if payloads of `bytes` bytes are large enough for shared memory,
// as peers_share says (before that, all are); whether there is any, peers_get
// says.
bool peers_worth(const struct peers *p, size_t bytes);
// Gives a channel back, once per peers_get; the last one frees it, with its
// shared memory, and waits until its calls have ended. NULL is allowed.
void peers_put(struct peers *p, struct rpc_channel *channel);

#endif
