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

// Returns true if the job has callbacks that training waits for at each
// evaluation.
bool monitor_waits(const struct job *job);

// Adds `more` to the sums of training since the last evaluation. jobs_flush
// journals them, about once a second. Does nothing for a job without callbacks.
void monitor_trained(struct coord *c, struct job *job,
                     const struct meter_sums *more);

// Notes that this cut holds the training reported until now, and none that is
// reported from now on. Does nothing if that was noted before, the job has no
// callbacks, or all steps are counted: then the cut holds all that will be
// reported.
void monitor_cut(struct job *job, uint64_t cut);

// Returns the sums of training between the last evaluation and this cut, as far
// as workers had reported them when the cut began (monitor_cut). The sums until
// now instead, if training waits at evaluations, if the cut was begun when all
// steps were counted, or if no cut until this one was noted in this term.
struct journal_trained monitor_until(const struct job *job, uint64_t cut);

// Removes the sums of training that monitor_until returns for this cut, which
// was just evaluated, and queues the job's counters for the journal. Returns
// SL_OK, or the journal's error with its text in c->err; the sums are gone in
// any case.
enum sl_err monitor_begin_range(struct coord *c, struct job *job, uint64_t cut);

// Judges the evaluation `row` by the job's callbacks. `next` is
// evaluations_hold: where training waits for the judgement, all closures below
// it are counted, none from it on, and a reduced rate begins with it. Sets *out
// to the callbacks' state after it, and appends that state, packed for the
// journal, to `packed`. The job keeps its old state until monitor_take. Returns
// SL_OK, or SL_ENOMEM with *out undefined.
enum sl_err monitor_judge(const struct job *job,
                          const struct journal_evaluation *row, uint64_t next,
                          struct callbacks *out, struct buf *packed);

// Makes *now, which is in the journal, the state of the job's callbacks, after
// the evaluation `row`, and raises job->changes. If it reduced the learning
// rate, adds an event, and sends the rates to the psservers that serve shards;
// monitor_limit holds until all know them.
void monitor_take(struct coord *c, struct job *job, const struct callbacks *now,
                  const struct journal_evaluation *row);

// Sets the callbacks' state of a job that is loaded, after its shards (if those
// are loaded), from its journalled form `packed`; an empty one changes nothing.
// No shard counts as knowing a reduced rate. Returns SL_OK; SL_ECORRUPT or an
// error of wire_load, with the state undefined.
enum sl_err monitor_load(struct job *job, const struct buf *packed,
                         struct sl_error *err);

// Returns the closure at or above which none may be leased, as not every shard
// knows its rate; UINT64_MAX: no limit.
uint64_t monitor_limit(const struct job *job);

// Sends the reduced rates, if there are any, to psserver m, which has this
// shard of the job; called before the shard's admission. Forgets that the shard
// knew them: until m answers (monitor_known), monitor_limit holds. Sends none
// for a part that lies on workers.
void monitor_admits(struct coord *c, const struct member *m, struct job *job,
                    uint32_t shard);

// Takes the answer of a psserver that knows the rates: once all shards know the
// last one, closures that waited for that may be leased. An answer for a shard
// that m does not serve, or for another uid, is ignored.
void monitor_known(struct coord *c, const struct member *m,
                   const Sluice__V1__RatesTaken *message);

// Returns true if a rate was reduced since the ring's generation began: a new
// one has to begin, so that all ranks use the rate.
bool monitor_wants_ring(const struct job *job);

// Notes that a generation of the ring begins, with the newest rate:
// monitor_wants_ring is false until a rate is reduced again.
void monitor_ring_begins(struct job *job);

// Returns the status of the callbacks, a heap message for wire_free; NULL: no
// memory. `waits` is shown in it: training waits for an evaluation.
Sluice__V1__CallbacksStatus *monitor_status(const struct job *job, bool waits);

// Writes the reason for people why early_stopping ended the job into `out`, cut
// to `size` bytes with the 0. The job has that callback.
void monitor_why(const struct job *job, char *out, size_t size);

#endif
