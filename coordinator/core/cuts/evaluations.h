// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/evaluations.h -- evaluations of a job: begun when a cut
// holds the epoch, journalled when every range is in.
//
// A job is evaluated by epochs, or by marks: a mark is the end of the closure,
// or of the round, with which another evaluate.every_steps steps are done.
//
// Threads  the loop.
// Memory   job->evaluations.running, while one runs. Texts are copied. No
//          pointer is NULL.
// Errors   without memory one is begun later. A journal that cannot be written
//          is fatal in evaluations_check and evaluations_fail, which wait for
//          its disk: callers look at c->dead.
#ifndef COORDINATOR_CORE_CUTS_EVALUATIONS_H
#define COORDINATOR_CORE_CUTS_EVALUATIONS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/evaluation.h"

// A job's evaluations.
struct job_evaluations {
    struct evaluation *running;      // or NULL
    struct journal_evaluation *list; // those that have ended; owned
    size_t count;
};

// Takes the result of the running evaluation, once it is complete, journals it
// with what callbacks make of it, sends psservers the rates that they reduce
// and ranks how far they may train, and begins the next one if it is due; each
// end and each beginning is an event. Without memory a later call does it. Does
// nothing for a job that is not placed or has no evaluations.
void evaluations_check(struct coord *c, struct job *job);

// Ends the running evaluation, which must be there, without a result, since one
// of its ranges cannot be evaluated; `why` is for people (a warning and an
// event). Journals a row without samples, which callbacks judge, and sends what
// follows, as evaluations_check does; takes back its leases and frees its
// works. The job goes on, and begins no other evaluation of that epoch or mark.
// Without memory the evaluation goes on as well.
void evaluations_fail(struct coord *c, struct job *job, const char *why);

// Returns true if an evaluation runs, or one is due, as a published cut holds
// what it is of; false as well without memory to look.
bool evaluations_pending(const struct job *job);

// Sets needed[i] for each of the job->cuts.count cuts: true if an evaluation
// of a job that has not ended will still read it, or a callback keeps it as its
// best. Without memory all are true.
void evaluations_need(const struct job *job, bool *needed);

// Returns how many marks of evaluate.every_steps are reached with `steps`
// steps; 0 if the job is evaluated by epochs, or not at all. The spec has
// `evaluate`, as spec_check leaves it; the job is placed.
uint32_t evaluations_marks(const struct job *job, uint64_t steps);

// Returns the closure at or above which none may be issued before the next
// evaluation is judged, since callbacks may then change how training goes on
// (D2); the number of closures if training waits for no evaluation.
uint64_t evaluations_hold(const struct job *job);

// Returns the closure at or above which none may be issued: the lower one of
// evaluations_hold and monitor_limit (D1).
uint64_t evaluations_limit(const struct job *job);

// Returns true if training waits for an evaluation now: all closures below
// evaluations_hold are counted, and there are others. The job is placed.
bool evaluations_hold_it(const struct job *job);

// Sends `member`, a rank, the reduced rates and the closure up to which it may
// train: as its generation begins, before it copies a state, and after each
// evaluation. Does nothing if the job's training waits for no evaluation.
void evaluations_tell_rank(struct coord *c, const struct job *job,
                           uint64_t member);

#endif
