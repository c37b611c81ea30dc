// SPDX-License-Identifier: Apache-2.0
// trainer/sum/sum_group.h -- the ranks of one generation of a ring, as one of
// them sees it: sums over all of them.
//
//   group_new
//     group_start(0), group_start(1), ... -> group_wait(0), ...
//   group_free
//
// Ranks of one host (equal `host`) add through shared memory (sum_host.h), the
// first rank of each host over the network with those of other hosts (net.h);
// the other ranks of a host copy its result. The bits of a sum depend on the
// vectors, their length and the layout of ranks on hosts, and are the same on
// every rank.
//
// A bucket is a vector that is summed or spread, by its number. A large one is
// added in the background as soon as those before it are done; a small one by
// the thread that waits for it.
//
// A generation may have a second group, its lane 1, with numbers, inbox, host
// memory and connections of its own: its buckets do not wait for those queued
// in lane 0, but overtake them. All buckets of lane 1 are added in the
// background, small ones as well, so that they make progress whatever else the
// ranks wait for.
//
// Threads  group_start, group_spread, group_wait: one. group_abort,
//          group_stats, group_suspect: any, until group_free. Two lanes know
//          nothing of each other; all ranks have the same.
// Memory   options are copied, but for io, tls and ranks, which outlive the
//          group. Data is the group's from group_start until group_wait.
// Units    elements; ms.
// Errors   group_wait: SL_ESTALE (aborted, or a rank has left), SL_EUNAVAIL (a
//          rank could not be reached for timeout_ms), SL_ECORRUPT (what a rank
//          sends does not fit), SL_ENOMEM; where the memory of this host's
//          first rank cannot be joined, also SL_EDENIED, SL_ENOENT or what the
//          call to it says. *err names the rank, if it is about one. From then
//          on every wait fails, also for earlier buckets, and data that was not
//          waited for is undefined. A rank that can be reached is waited for,
//          until group_abort. `err` may be NULL.
#ifndef TRAINER_SUM_SUM_GROUP_H
#define TRAINER_SUM_SUM_GROUP_H

#include "common/net/rpc.h"
#include "trainer/sum/ranks.h"

struct group_rank {
    const char *address; // the rank's Ranks service
    const char *host;    // text of ranks_host
};

struct group_options {
    struct rpc_io *io;
    const struct rpc_tls *tls;
    struct ranks *ranks;
    struct ranks_of of;
    uint32_t lane;                 // below WIRE_LANES
    const struct group_rank *rank; // `count` ranks
    uint32_t count, self;
    enum wire_type wire; // type sent between hosts; sums are f32
    uint32_t timeout_ms; // a rank that fails so long is given up
};

struct group_stats {
    uint64_t sent_bytes, received_bytes; // bytes between hosts
    double wait_ms;                      // time spent waiting for other ranks
};

struct rank_group;

// Joins the group as rank `self` and returns at once; the other ranks may come
// later. In a group of several it starts a thread, for what is added in the
// background. SL_ERANGE: more than HOST_RANKS_MOST on one host; SL_EEXIST: the
// lane of the generation is here already; the errors of net_new and host_new;
// so SL_ENOMEM, also without a thread. *out is untouched on failure.
enum sl_err group_new(struct rank_group **out, const struct group_options *o,
                      struct sl_error *err);
// Aborts the group (group_abort), waits until no thread and no call uses its
// data, and frees; not from an rpc callback. NULL is allowed.
void group_free(struct rank_group *g);

// Begins bucket number `bucket`: `data` becomes the sum over all ranks. Numbers
// rise by one from 0; order and counts are the same on all ranks. A wait for a
// later bucket is one for this, too. SL_OK; SL_ENOMEM: the bucket was not begun
// and has taken no number. In a group that has failed it returns SL_OK as well:
// the wait tells.
enum sl_err group_start(struct rank_group *g, uint64_t bucket, float *data,
                        size_t count, struct sl_error *err);
// Begins a bucket that copies `data` of rank 0 to all ranks, rounded to the
// wire on its way between hosts, rank 0's too. Numbers, waits and errors are
// those of sums.
enum sl_err group_spread(struct rank_group *g, uint64_t bucket, float *data,
                         size_t count, struct sl_error *err);
// Waits until bucket number `bucket` holds its result. Buckets are done in
// order, and the calling thread adds those that no other thread does. The
// bucket was begun. Whatever it returns, no thread uses its data any more.
enum sl_err group_wait(struct rank_group *g, uint64_t bucket,
                       struct sl_error *err);

// Fails the group with SL_ESTALE and text `why` (copied); ends all waits. The
// first failure counts. Does not wait.
void group_abort(struct rank_group *g, const char *why);
// Fills in the group's figures since it began. Bytes are counted by the first
// rank of each host alone.
void group_stats(struct rank_group *g, struct group_stats *out);
// Returns the rank that the group's failure is about: it could not be reached,
// has left, sent what does not fit, or made memory that cannot be joined.
// UINT32_MAX: no failure yet, or one of no rank, as group_abort's.
uint32_t group_suspect(struct rank_group *g);

#endif
