// SPDX-License-Identifier: Apache-2.0
// state/shard/counts.h -- what a shard counted, as messages and back.
//
// Threads  pure.
// Memory   A message borrows from its struct and from the once it was made
//          of; both must stay while it is used.
// Errors   SL_ENOMEM; counts_read: SL_ECORRUPT; counts_fit: SL_ERANGE.
#ifndef STATE_SHARD_COUNTS_H
#define STATE_SHARD_COUNTS_H

#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/once.h"
#include "state/shard/shard.h"

struct counts_msg {
    Sluice__V1__ShardCounts msg;
    uint64_t staleness[WIRE_STALENESS_BUCKETS];
    Sluice__V1__EpochCount *items; // ours
    Sluice__V1__EpochCount **list; // ours
};

// Of a heartbeat: no epochs, nothing allocated. `m` must not move.
void counts_of_brief(struct counts_msg *m, const struct shard_brief *b);

// Of a hello, report or snapshot: with epochs. `m` must not move.
enum sl_err counts_of_once(struct counts_msg *m, const struct once *o);
void counts_release(struct counts_msg *m); // after either

// Checks that both can be told, in a message or a snapshot: SL_ERANGE.
enum sl_err counts_fit(const struct once *o, struct sl_error *err);

// Makes *out of a snapshot's set and numbers, and checks that they fit each
// other and the schedule. No attempts (they are not in snapshots).
enum sl_err counts_read(struct once *out, const struct schedule *schedule,
                        const Sluice__V1__CountedSet *set,
                        const Sluice__V1__ShardCounts *counts,
                        struct sl_error *err);

#endif
