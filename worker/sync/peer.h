// SPDX-License-Identifier: Apache-2.0
// worker/sync/peer.h -- one psserver, as one shard's calls see it: the one way
// for a message.
//
//   peer_connect(address)
//     peer_ask | peer_pull | peer_push -> done, once, on an I/O thread
//       peer_fits, then peer_copy or peer_keep: the parameters of the answer
//     peer_ended
//   peer_release
//
// What a call carries goes through memory that a psserver of this host shares
// with us (peer_shm.h), else as bytes of its message; the call itself over a
// socket of this host where it is small and there is one, else over gRPC
// (common/net/rpc.h). Which of these it is peer.c chooses, and nobody above
// asks.
//
// Threads  the compute thread; from a call's `done`: peer_fits, peer_copy and
//          peer_keep. One call at a time.
// Memory   A gradient that was lent (peer_call.lent) is read until `released`.
//          Where nothing is lent, it is the caller's again at once.
// Units    elements of `type` in what is sent, f32 in what is given and taken.
// Errors   A call that could not be started has changed nothing, and `done`
//          does not run.
#ifndef WORKER_SYNC_PEER_H
#define WORKER_SYNC_PEER_H

#include "proto/wire.h"
#include "worker/sync/peers.h"

struct peer {
    struct peers *peers;
    enum wire_type type; // of payloads
    size_t count;        // elements of one
    void *narrow; // for a gradient of 16 bits that is sent as bytes; NULL: f32

    struct rpc_channel *channel; // NULL: not connected
    struct rpc_ticket ticket;
    struct peer_shm *shm;      // of the channel; NULL: nothing is shared
    bool worth;                // a payload is worth shared memory
    struct shm_buffer *buffer; // ours until it is given back; NULL: none yet
    bool named;                // the call under way refers to `buffer`
    bool by_bytes;             // the next payload is not to be shared
    bool narrowed;             // `narrow` has this gradient

    // Parameters that came while the old ones were read.
    void *spare; // owned; NULL: none had to wait yet
    bool kept, kept_in_shm;
    enum wire_type kept_type;
};

struct peer_call {
    rpc_done_fn done;
    void (*released)(void *arg); // a lent gradient is read no more
    void *arg;
    unsigned turn; // of a push: lowest first
    bool bare;     // of a push: its answer has no parameters
    bool lent;     // out, of a push: the transport reads the gradient itself
};

// The parameters of an answer: in shared memory, or in the message.
struct peer_values {
    bool in_shm;
    enum wire_type type;
    const struct sl_slices *payload;
};

void peer_init(struct peer *p, struct peers *peers, enum wire_type type,
               size_t count, void *narrow);
void peer_release(struct peer *p); // no call is under way

// The connection to where the shard is now; nothing if it is that already.
enum sl_err peer_connect(struct peer *p, const char *address);
bool peer_is_at(const struct peer *p, const char *address);

enum sl_err peer_ask(struct peer *p, const struct wire_ask *m,
                     const struct peer_call *call);
// A pull by tag is answered with f32, as bytes.
enum sl_err peer_pull(struct peer *p, struct wire_pull *m,
                      const struct peer_call *call);
// `gradient`: `count` elements; NULL: none (m->skip, or all are absent). Of a
// step that is pushed again it is the same, until peer_next_gradient.
enum sl_err peer_push(struct peer *p, struct wire_push *m,
                      const float *gradient, struct peer_call *call);
void peer_next_gradient(struct peer *p);
void peer_cancel(struct peer *p);
// It was cancelled RPC_BREAK_MS ago and has not ended, or lends still: the
// psserver reads nothing.
void peer_break(struct peer *p);

// Before what comes of a call is looked at: `answered` by a psserver that knows
// the memory that was named. Else that memory may still be read and written
// there, and is never used again.
void peer_ended(struct peer *p, bool answered);
// The psserver did not know the memory: the next payload goes as bytes. False
// if this one did.
bool peer_send_bytes(struct peer *p);
void peer_rest(
    struct peer *p); // whatever the next payload is, it may be shared
// The next payload goes through shared memory, as far as can be said.
bool peer_shares(const struct peer *p);

// SL_ECORRUPT: they are not what was asked for. `any_type`: of a pull by tag.
enum sl_err peer_fits(const struct peer *p, const struct peer_values *v,
                      bool by_tag, struct sl_error *err);
void peer_copy(struct peer *p, const struct peer_values *v, float *to);
// For later, since a message is gone when `done` returns; SL_ENOMEM.
enum sl_err peer_keep(struct peer *p, const struct peer_values *v);
void peer_copy_kept(struct peer *p, float *to); // nothing if none was kept

#endif
