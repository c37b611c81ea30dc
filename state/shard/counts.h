// SPDX-License-Identifier: Apache-2.0
// state/shard/counts.h -- a shard's counts as messages, and back.
//
// Threads  pure.
// Memory   A message points into its struct, which must stay while it is used;
//          of the brief or the once that it was made of it keeps nothing.
// Errors   SL_ENOMEM; `err` may be NULL. counts_read: SL_ECORRUPT if they do
//          not fit, and *out is untouched after any error; counts_fit:
//          SL_ERANGE.
#ifndef STATE_SHARD_COUNTS_H
#define STATE_SHARD_COUNTS_H

#include "common/base/status.h"
#include "proto/wire.h"
#include "state/shard/once.h"
#include "state/shard/shard.h"

struct counts_msg {
    Sluice__V1__ShardCounts msg;
    uint64_t staleness[WIRE_STALENESS_BUCKETS];
    Sluice__V1__EpochCount *items; // owned
    Sluice__V1__EpochCount **list; // owned
};

// Makes a message for a heartbeat from a shard's brief: without epochs, and
// without allocation. *m need not be zeroed, and must not move.
void counts_of_brief(struct counts_msg *m, const struct shard_brief *b);

// Makes a message for a hello, report or snapshot, with epochs; *m must not
// move. Returns SL_OK; SL_ENOMEM: there is nothing to release.
enum sl_err counts_of_once(struct counts_msg *m, const struct once *o);
// Frees the epochs of either, which the message has no more then; may be called
// again. Zeroes are allowed.
void counts_release(struct counts_msg *m);

// Checks that the counted set and the epochs fit into a message and a snapshot.
// Returns SL_OK, SL_ERANGE if not, or SL_ENOMEM.
enum sl_err counts_fit(const struct once *o, struct sl_error *err);

// Makes *out, for once_release, of a snapshot's set and numbers, and checks
// that they fit each other and the schedule, which must hold (schedule_check).
// *out need not be zeroed before, and keeps neither schedule nor messages. It
// has no attempts (they are not in snapshots) and no `passed`: the caller adds
// that (once_reserve_passed), and checks again (once_check). Returns SL_OK,
// SL_ECORRUPT or SL_ENOMEM.
enum sl_err counts_read(struct once *out, const struct schedule *schedule,
                        const Sluice__V1__CountedSet *set,
                        const Sluice__V1__ShardCounts *counts,
                        struct sl_error *err);

#endif
