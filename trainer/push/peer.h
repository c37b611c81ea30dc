// SPDX-License-Identifier: Apache-2.0
// trainer/push/peer.h -- one psserver, as one shard's calls see it: the one way
// for a message.
//
//   peer_connect(address)
//     peer_ask | peer_pull | peer_push -> done, once, on an I/O thread
//       peer_fits, then peer_copy or peer_keep: the parameters of the answer
//     peer_ended
//   peer_release
//
// A payload goes through memory that a psserver of this host shares with us
// (peer_shm.h), else as bytes of its message; the call itself over a socket of
// this host where it is small and there is one, else over gRPC
// (common/net/rpc.h). peer.c alone chooses among these.
//
// Threads  the compute thread; from a call's `done`: peer_fits, peer_copy and
//          peer_keep. One call at a time.
// Memory   A gradient that was lent (peer_call.lent) is read until `released`.
//          Where nothing is lent, it is the caller's again at once. peer_copy,
//          peer_keep: of an answer that peer_fits has found good.
// Units    elements of `type` in what is sent, f32 in what is given and taken.
// Errors   SL_ENOMEM from ask, pull and push: the call could not be started,
//          and `done` does not run. They, cancel and break need a connection
//          (peer_connect returned SL_OK). `err` may be NULL.
#ifndef TRAINER_PUSH_PEER_H
#define TRAINER_PUSH_PEER_H

#include "proto/wire.h"
#include "trainer/push/peers.h"

struct peer {
    struct peers *peers;
    enum wire_type type; // type of payloads
    size_t count;        // elements of a payload
    void *narrow;        // space for a gradient rounded to 16 bits; NULL: f32

    struct rpc_channel *channel; // NULL: not connected
    struct rpc_ticket ticket;
    struct peer_shm *shm; // the channel's; NULL: no memory is shared
    bool worth;           // a payload is worth shared memory
    // Payloads are coded, and go as bytes alone; set behind peer_init.
    bool coded;
    struct shm_buffer *buffer; // shared with the psserver; NULL: none yet
    bool named;                // the call under way refers to `buffer`
    bool by_bytes;             // the next payload is sent as bytes
    bool narrowed;             // `narrow` holds the gradient under way

    // Parameters that came while the old ones were still read.
    void *spare; // their memory; owned; NULL: not needed so far
    bool kept, kept_in_shm;
    enum wire_type kept_type;
};

struct peer_call {
    // Runs once, on an I/O thread, when the call has ended.
    rpc_done_fn done;
    void (*released)(void *arg); // runs when a lent gradient is read no more
    void *arg;
    unsigned turn; // order of pushes: lowest first
    bool bare;     // a push whose answer has no parameters
    // A push: blocks of rows (proto/table_rows.h) behind the gradient, which
    // are lent; 0 bytes: none.
    const uint8_t *rows;
    size_t rows_bytes;
    // A push of a contribution that is coded, instead of a gradient; lent.
    const uint8_t *coded;
    size_t coded_bytes;
    enum wire_type coded_as;
    bool lent; // set by peer_push: the transport reads the gradient or the rows
};

// Ids of rows to be pulled.
struct peer_ids {
    const uint8_t *blocks; // without elements (proto/table_rows.h)
    size_t bytes;
    size_t reply_bytes; // bytes of the answer at most
};

// The parameters of an answer: in shared memory, or in the message.
struct peer_values {
    bool in_shm;
    enum wire_type type;
    const struct sl_slices *payload;
};

// Makes `p` unconnected. `peers` is borrowed until peer_release, and so is
// `narrow`: `count` elements of `type`; NULL for f32.
void peer_init(struct peer *p, struct peers *peers, enum wire_type type,
               size_t count, void *narrow);
// Gives the connection and the memory back; no call may be under way. Waits as
// peer_connect does.
void peer_release(struct peer *p);

// Connects to the psserver at `address` (copied), where the shard is now; does
// nothing if it is connected there already. Does not wait for the psserver. On
// failure the old connection stays. No call is under way. Waits until the calls
// of the old channel have ended, if no other shard holds it. The errors of
// rpc_channel_new; SL_ENOMEM.
enum sl_err peer_connect(struct peer *p, const char *address);
// Returns true if the peer is connected to `address`; false if it is not
// connected.
bool peer_is_at(const struct peer *p, const char *address);

// Starts an Ask. *m and *call are read during the call, here and below.
enum sl_err peer_ask(struct peer *p, const struct wire_ask *m,
                     const struct peer_call *call);
// Starts a Pull; sets type and shared memory of *m, but leaves a type that is a
// code. A pull by tag (m->has_tag) is answered with f32, as bytes; one of
// moments (m->moments) as bytes.
enum sl_err peer_pull(struct peer *p, struct wire_pull *m,
                      const struct peer_call *call);
// Starts a Pull of rows, of which *m says the rest. The blocks are lent on
// SL_OK, until call->released has run.
enum sl_err peer_pull_rows(struct peer *p, struct wire_pull *m,
                           const struct peer_ids *ids,
                           const struct peer_call *call);
// Starts a Push or PushPull; sets type and shared memory of *m. `gradient`:
// `count` elements; NULL: none (m->skip, or all are absent). The gradient of a
// step that is pushed again is the same, until peer_next_gradient. On SL_OK it
// has set call->lent: the gradient is the caller's again when call->released
// has run, else at once.
enum sl_err peer_push(struct peer *p, struct wire_push *m,
                      const float *gradient, struct peer_call *call);
// Notes that the next peer_push has another gradient than the last one.
void peer_next_gradient(struct peer *p);
// Cancels the call under way; `done` still runs. Does nothing if none is.
void peer_cancel(struct peer *p);
// Breaks the connection, since the psserver reads nothing: a call was cancelled
// RPC_BREAK_MS ago and has not ended, or its gradient is still lent. All calls
// of this process to that address end, those of other shards and jobs too, and
// it is dialled again. Does nothing to an address with a host name.
void peer_break(struct peer *p);

// Ends a call, before its result is looked at; once per call that has ended, on
// the compute thread, and before the next call is started. `answered`: a
// psserver that knows the shared memory answered it. If false, the psserver may
// still read and write that memory, which is never used again. Also looks for
// shared memory for the next call (peer_shm_look).
void peer_ended(struct peer *p, bool answered);
// Makes payloads go as bytes until peer_rest, as the psserver did not know the
// shared memory. Returns false if they went as bytes already.
bool peer_send_bytes(struct peer *p);
// Allows payloads to go through shared memory again, after peer_send_bytes.
void peer_rest(struct peer *p);
// Returns true if the next payload is likely to go through shared memory: there
// is a buffer already.
bool peer_shares(const struct peer *p);

// Checks the parameters of an answer. Returns SL_OK; SL_ECORRUPT if size or
// type is not what was asked for; f32 in a message always is. `by_tag`: it
// answers a pull by tag.
enum sl_err peer_fits(const struct peer *p, const struct peer_values *v,
                      bool by_tag, struct sl_error *err);
// Copies parameters to `to`, p->count elements, as f32.
void peer_copy(struct peer *p, const struct peer_values *v, float *to);
// Keeps parameters for peer_copy_kept, since a message is gone when `done`
// returns. Those kept before are replaced. SL_ENOMEM: nothing new is kept. They
// may lie in shared memory: copy them before peer_ended.
enum sl_err peer_keep(struct peer *p, const struct peer_values *v);
// Copies the kept parameters to `to`, p->count elements, as f32, once: they are
// not kept any more. Does nothing if none are kept.
void peer_copy_kept(struct peer *p, float *to);

#endif
