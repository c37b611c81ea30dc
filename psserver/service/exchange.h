// SPDX-License-Identifier: Apache-2.0
// psserver/service/exchange.h -- how the numbers of one call come and go.
//
// Numbers lie in the message itself, or in memory that the caller shares
// (local_shared.h). A gradient in shared memory may change while we read it, so
// it is copied into our own memory, checked as it is copied, and applied from
// the copy. Fresh parameters are written to shared memory by the apply itself,
// which does not read them back. An answer may always come as bytes instead.
//
//   exchange_push -> shard_push / shard_push_finite -> exchange_reply
//   exchange_pull -> exchange_reply
//
// Threads  any; an exchange belongs to one call.
// Memory   holds buffers of the shard's pool and references to regions until
//          exchange_end. A buffer that exchange_reply has put into a message
//          goes back when that was sent.
// Units    elements, as the call's wire_type; bytes.
// Errors   SL_ENOENT: the gradient's region is not known; the push was not
//          applied. SL_ERANGE, SL_EINVAL: its range does not fit. SL_EINVAL:
//          parameters are wanted of a push in a code. SL_EBUSY: POOL_MAX
//          answers of the shard are on their way. SL_ENOMEM.
#ifndef PSSERVER_SERVICE_EXCHANGE_H
#define PSSERVER_SERVICE_EXCHANGE_H

#include "common/net/rpc.h"
#include "psserver/local/local_shared.h"
#include "state/shard/shard.h"

struct exchange {
    struct pool_buf *copy;   // copy of a gradient
    struct sl_slice copied;  // its bytes
    bool finite;             // it fits the shard, and its numbers are finite
    struct pool_buf *reply;  // parameters that go as bytes
    struct local_use answer; // or the caller's memory for them
    void *values; // space for parameters, in either; NULL: not wanted
    size_t bytes; // of the parameters of a pull, as reply->wire
};

// Prepares a push of `m`: a gradient in shared memory is copied and checked,
// and the copy, which lives until exchange_end, becomes the payload of `m`.
// With `fresh`, makes space for the answer's parameters, so that no step is
// counted and then left without one. *x is all zeroes before, and must not move
// (the payload points into it); call exchange_end in every case. `local` may be
// NULL: no memory is shared. Returns SL_OK or the errors above.
enum sl_err exchange_push(struct exchange *x, struct local *local,
                          struct shard *shard, struct wire_push *m, bool fresh,
                          struct sl_error *err);

// Sets *reply and takes the parameters of a pull: into the shared memory that
// `m` names, if that is possible; else as bytes, in a copy, which may be one
// that an earlier answer shows (buffer_pool.h). What changed goes as bytes
// where it is asked for and known (shard_pull_change); where it is not known,
// all parameters go, as f32 (reply->wire). *x and `local` as for exchange_push.
// Returns SL_OK; the errors above; SL_EUNAVAIL: the shard is not admitted;
// SL_ESTALE: the pull names another incarnation of the shard, or an earlier one
// of the job. After a failure *reply means nothing. Call exchange_end in every
// case.
enum sl_err exchange_pull(struct exchange *x, struct local *local,
                          struct shard *shard, const struct wire_pull *m,
                          struct wire_pull_reply *reply, struct sl_error *err);

// Returns true if the parameters lie in the caller's shared memory.
static inline bool exchange_in_shm(const struct exchange *x)
{
    return x->answer.region != NULL;
}

// Adds `bytes` bytes of parameters behind the head of `msg`, and gives the
// buffer over to that, also if `bytes` is 0; does nothing if the parameters do
// not go as bytes.
void exchange_reply(struct exchange *x, struct rpc_msg *msg, size_t bytes);
// Gives back the buffers and the region that the exchange still holds; once,
// as *x keeps what it was.
void exchange_end(struct exchange *x);

#endif
