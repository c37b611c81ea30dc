// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/monitor.h -- a job's callbacks: their judgement of an
// evaluation, and the learning rates on their way to the shards.
//
// Training waits at each evaluation until the callbacks have judged it, where
// they may change how it goes on (D2). A rate that they reduce is the rate of
// all closures behind that evaluation (D1), and none of those is leased before
// every shard knows it. In a ring every rank waits there by itself, and a rate
// begins with a generation.
//
// Threads  the loop.
// Memory   job->monitor.callbacks; the buffer of packed callbacks is the
//          caller's. Rows and messages are borrowed for the call. No pointer is
//          NULL but `err`, which may be.
// Errors   without memory an evaluation is judged later. A job has job->spec;
//          where shards are named it is placed.
#ifndef COORDINATOR_CORE_CUTS_MONITOR_H
#define COORDINATOR_CORE_CUTS_MONITOR_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/callbacks.h"
#include "proto/spec.h"

// A part of the training since the last evaluation, as workers reported it.
struct job_told {
    uint64_t cut; // the first cut that holds it
    struct journal_trained trained;
};

#define JOB_TOLD 8 // most parts of a job

// A job's callbacks, and what they judge by.
struct job_monitor {
    struct spec_callbacks watched;
    struct callbacks callbacks; // as of the last evaluation
    uint32_t rates_unknown;     // shards that do not know the rates yet
    // ring: the last rate that its generation began with (its closure, or 0)
    uint64_t ring_rates;
    uint64_t trained_ms; // when the sums of training were journalled last
    // The parts of `counters.trained`, by cut, and the part that no cut holds
    // yet.
    struct job_told told[JOB_TOLD];
    size_t told_count;
    struct journal_trained fresh;
};

// Says whether the job has callbacks that training waits for.
bool monitor_waits(const struct job *job);

// Adds `more` to the sums of training since the last evaluation, which are
// journalled about once a second, by jobs_flush. Does nothing for a job without
// callbacks.
void monitor_trained(struct coord *c, struct job *job,
                     const struct meter_sums *more);

// Notes that this cut holds the training reported until now, and none that is
// reported from now on. Does nothing if that was noted before, or all steps are
// counted: then the cut holds all that will be reported.
void monitor_cut(struct job *job, uint64_t cut);

// Returns the sums of training between the last evaluation and this cut, as far
// as workers had reported them when the cut began; where no step can be behind
// the cut, until now.
struct journal_trained monitor_until(const struct job *job, uint64_t cut);

// Takes those sums away once this cut is evaluated; journalled with the next
// write. After an error of the journal, with its text in c->err, they are gone
// as well.
enum sl_err monitor_begin_range(struct coord *c, struct job *job, uint64_t cut);

// Judges the evaluation `row`; no step of a closure at or above `next` is
// counted. The results are in *out and, packed for the journal, appended to
// `packed`; the job has them only after monitor_take. SL_ENOMEM leaves *out
// undefined.
enum sl_err monitor_judge(const struct job *job,
                          const struct journal_evaluation *row, uint64_t next,
                          struct callbacks *out, struct buf *packed);

// Makes `now` the job's callbacks, after the journal has them, and sends
// reduced rates.
void monitor_take(struct coord *c, struct job *job, const struct callbacks *now,
                  const struct journal_evaluation *row);

// Loads the callbacks' state of a placed job from its journalled form; empty:
// none was kept, and nothing changes.
// SL_ECORRUPT and what wire_load returns; the state is then undefined.
enum sl_err monitor_load(struct job *job, const struct buf *packed,
                         struct sl_error *err);

// Returns the closure at or above which none may be leased, as not every shard
// knows its rate; UINT64_MAX: no limit.
uint64_t monitor_limit(const struct job *job);

// Sends the rates to the psserver of a shard, before its admission and when
// they change, if any was reduced; until it answers, monitor_limit holds.
void monitor_admits(struct coord *c, const struct member *m, struct job *job,
                    uint32_t shard);

// Takes the answer of a psserver that knows the rates. An answer for a shard
// that m does not serve, or for another uid, is ignored.
void monitor_known(struct coord *c, const struct member *m,
                   const Sluice__V1__RatesTaken *message);

// Says whether a reduced rate needs a new generation, so that all ranks begin
// with it.
bool monitor_wants_ring(const struct job *job);

// Notes that a generation begins with the last rate.
void monitor_ring_begins(struct job *job);

// Makes the status of the callbacks, a heap message for wire_free; NULL: no
// memory. `waits`: training waits for an evaluation.
Sluice__V1__CallbacksStatus *monitor_status(const struct job *job, bool waits);

// Writes why early_stopping ended the job, which has it, cut to `size`.
void monitor_why(const struct job *job, char *out, size_t size);

#endif
