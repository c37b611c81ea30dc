// SPDX-License-Identifier: Apache-2.0
// coordinator/core/monitor.h -- a job's callbacks: what they make of an
// evaluation, and the learning rates on their way to the shards.
//
// Training waits at each evaluation until they have judged it, where they may
// change how it goes on (D2). A rate that they reduce is of all closures behind
// that evaluation (D1), and none of those is leased before every shard knows
// it. In a ring every rank waits there by itself, and a rate begins with a
// generation.
//
// Threads  the loop.
// Memory   job->callbacks; monitor_pack's buffer is the caller's.
// Errors   without memory an evaluation is judged later.
#ifndef COORDINATOR_CORE_MONITOR_H
#define COORDINATOR_CORE_MONITOR_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// There are callbacks that training waits for.
bool monitor_waits(const struct job *job);

// Adds `more` to what was trained since the last evaluation; it is journalled
// now and then.
void monitor_trained(struct coord *c, struct job *job,
                     const struct meter_sums *more);

// Notes that this cut holds what was told until now, and nothing that is told
// from now on. Does nothing if that was noted of it before, or all steps are
// counted: then it holds all that will be told.
void monitor_cut(struct job *job, uint64_t cut);

// Returns what was trained between the last evaluation and this cut, as far as
// it was told when the cut began; where no step can be behind it, until now.
struct journal_trained monitor_until(const struct job *job, uint64_t cut);

// Takes that away, once this cut is evaluated: with the next write.
enum sl_err monitor_begin_range(struct coord *c, struct job *job, uint64_t cut);

// What callbacks make of the job's evaluation whose row this is; of no closure
// at or above `next` any step is counted. *out and the packed row of the
// journal are not the job's before monitor_take.
enum sl_err monitor_judge(const struct job *job,
                          const struct journal_evaluation *row, uint64_t next,
                          struct callbacks *out, struct buf *packed);
void monitor_take(struct coord *c, struct job *job, const struct callbacks *now,
                  const struct journal_evaluation *row);

// As it is journalled; SL_ECORRUPT.
enum sl_err monitor_load(struct job *job, const struct buf *packed,
                         struct sl_error *err);

// Nothing of a rate may be leased at or above this closure: not every shard
// knows it; no limit: UINT64_MAX.
uint64_t monitor_limit(const struct job *job);

// To the psserver of a shard: before its admission, and when rates change.
void monitor_admits(struct coord *c, const struct member *m, struct job *job,
                    uint32_t shard);
void monitor_known(struct coord *c, const struct member *m,
                   const Sluice__V1__RatesTaken *message);

// A reduced rate wants a new generation, whose ranks all begin with it.
bool monitor_wants_ring(const struct job *job);
void monitor_ring_begins(struct job *job);

// Of the status; NULL: no memory. `waits`: training does, for an evaluation.
Sluice__V1__CallbacksStatus *monitor_status(const struct job *job, bool waits);

// Why early_stopping ended it.
void monitor_why(const struct job *job, char *out, size_t size);

#endif
