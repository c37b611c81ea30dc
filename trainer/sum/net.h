// SPDX-License-Identifier: Apache-2.0
// trainer/sum/net.h -- the sum over ranks that share no memory, over rpc.
//
// Small vectors are exchanged directly: each rank sends all of its own to all
// others and adds what it has in the order of ranks. Larger ones go round a
// ring: they are cut into as many segments as there are ranks; in hops 0 to n -
// 2 each rank adds its own part of a segment to what comes from its predecessor
// and passes it on (reduce-scatter), in hops n - 1 to 2n - 3 the sums go round
// (all-gather). So each rank sends 2 (n - 1) / n of the vector. Segments travel
// in pieces, each of which goes on as soon as it is added. The order of
// additions is that of the ring, from the segment's own rank. Each vector that
// is summed has a number, that of its bucket.
//
// A piece is sent again, with the same key, if its call failed; a rank that has
// it ignores it. A rank is given up when calls to it fail for `timeout_ms`; a
// rank that is behind, whose calls end with SL_EBUSY or SL_ETIMEDOUT, is waited
// for, until net_stop.
//
// Threads  net_sum: one at a time. net_stop: any.
// Memory   the data is read by the transport until net_sum returns.
// Units    elements; ms.
// Errors   SL_EUNAVAIL: a rank was given up, and is named; SL_ESTALE: stopped,
//          or a rank has left the generation; SL_ECORRUPT: a rank sends pieces
//          that do not fit; SL_ENOMEM. After an error the data is undefined,
//          and no other sum may be made. `err` may be NULL.
#ifndef TRAINER_SUM_NET_H
#define TRAINER_SUM_NET_H

#include "common/net/rpc.h"
#include "trainer/sum/ranks.h"

struct net_options {
    struct rpc_io *io;
    const struct rpc_tls *tls;
    struct inbox *inbox;
    struct ranks_of of;
    uint32_t lane; // the generation's lane that the inbox belongs to
    const char *const *address; // address of each node's Ranks service
    const uint32_t *rank;       // each node's rank, for messages and errors
    uint32_t count, self;       // nodes; at least 2
    enum wire_type wire; // type that elements travel as; they are added in f32
    uint32_t timeout_ms; // a node that fails so long is given up
};

struct net_stats {
    uint64_t sent_bytes, received_bytes;
    double wait_ms; // time spent waiting for pieces
};

struct net;

// Makes the channels to the other nodes; nothing is sent before net_sum.
// Addresses and ranks are copied; io, tls and inbox are borrowed until
// net_free. The errors of rpc_channel_new; SL_ENOMEM. *out is untouched then.
enum sl_err net_new(struct net **out, const struct net_options *o,
                    struct sl_error *err);
// Cancels the channels' calls, waits until their callbacks have returned, and
// frees; so not from an rpc callback. No sum is under way. NULL is allowed.
void net_free(struct net *n);

// Makes `data` the sum over all nodes, each one's part rounded to the wire; the
// same bits on each. Waits for them. Bucket numbers rise by one; count, which
// may be 0, and order are the same on all. Afterwards pieces of this bucket
// that come again are acknowledged (inbox_done), also after a failure.
enum sl_err net_sum(struct net *n, uint64_t bucket, float *data, size_t count,
                    struct sl_error *err);

// Fails the sum under way, and all later ones, with SL_ESTALE and text `why`,
// which is copied. The first failure counts. Does not wait.
void net_stop(struct net *n, const char *why);
// Copies the figures since net_new. Takes the inbox's lock; any thread.
void net_stats(struct net *n, struct net_stats *out);
// Returns the rank that was given up, that has left the generation, or that
// sent what does not fit; UINT32_MAX: none, or net_stop or a lack of memory
// came first. Takes the inbox's lock; any thread.
uint32_t net_suspect(struct net *n);

#endif
