// SPDX-License-Identifier: Apache-2.0
// psserver/service/exchange.h -- how the numbers of one call come and go.
//
// In the message itself, or through memory that the caller shares (local.h).
// A gradient that lies there may change while we look at it, so it is copied
// into memory of ours, looked at as it is copied, and applied from the copy.
// Fresh parameters are written there by the apply itself: nobody reads them
// back. An answer may always come as bytes instead.
//
//   exchange_push -> shard_push / shard_push_finite -> exchange_reply
//   exchange_pull -> exchange_reply
//
// Threads  any; an exchange belongs to one call.
// Memory   holds buffers of the shard's pool and references to regions until
//          exchange_end. What exchange_reply has put into a message goes back
//          when that was sent.
// Units    elements, as the call's wire_type; bytes.
// Errors   SL_ENOENT: the gradient's region is not known, nothing happened.
#ifndef PSSERVER_SERVICE_EXCHANGE_H
#define PSSERVER_SERVICE_EXCHANGE_H

#include "common/net/rpc.h"
#include "psserver/local/local.h"
#include "state/shard/shard.h"

struct exchange {
    struct pool_buf *copy;   // of a gradient
    struct sl_slice copied;  // its bytes
    bool finite;             // they fit the shard, and were found to be numbers
    struct pool_buf *reply;  // parameters that go as bytes
    struct local_use answer; // or where the caller wants them
    void *values;            // space for them, either way; NULL: not asked for
};

// Before a push of `m` is applied: its payload may be replaced by a copy. With
// `fresh` there is space for the answer from here on, so that no step is
// counted and then left without one. All zeroes before; call exchange_end in
// every case.
enum sl_err exchange_push(struct exchange *x, struct local *local,
                          struct shard *shard, struct wire_push *m, bool fresh,
                          struct sl_error *err);

// The parameters, where `m` wants them if that can be, or as bytes: a copy, or
// the one that is on its way to somebody else.
enum sl_err exchange_pull(struct exchange *x, struct local *local,
                          struct shard *shard, const struct wire_pull *m,
                          struct wire_pull_reply *reply, struct sl_error *err);

// The parameters are in x->values: they lie where the caller wanted them.
static inline bool exchange_in_shm(const struct exchange *x)
{
    return x->answer.region != NULL;
}

// Puts those that go as bytes behind the head of a message.
void exchange_reply(struct exchange *x, struct rpc_msg *msg, size_t bytes);
void exchange_end(struct exchange *x);

#endif
