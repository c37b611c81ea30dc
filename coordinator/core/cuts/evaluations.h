// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/evaluations.h -- evaluations of a job: begun when a cut
// holds the epoch, journalled when every range is in.
//
// Threads  the loop.
// Memory   job->evaluations.running, while one runs.
// Errors   without memory one is begun later.
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

// Ends the evaluation that is complete, and begins the next one that is due.
// Does nothing for a job that is not placed or has no evaluations.
void evaluations_check(struct coord *c, struct job *job);

// Ends the running evaluation, which is there, without a result, as a range of
// it cannot be evaluated; takes back its leases and frees its works. The job
// goes on. Without memory the evaluation goes on as well.
void evaluations_fail(struct coord *c, struct job *job, const char *why);

// Says whether an evaluation runs or is due.
bool evaluations_pending(const struct job *job);

// Sets needed[i], for each of the job->cuts.count cuts: whether it is yet to be
// evaluated, or is the best of a callback. Without memory all are needed.
void evaluations_need(const struct job *job, bool *needed);

// Returns the marks of evaluate.every_steps that `steps` reach; 0 if
// evaluations are by epochs.
uint32_t evaluations_marks(const struct job *job, uint64_t steps);

// Returns the closure at or above which none may be issued, since the next
// evaluation comes before it, and callbacks may change how training goes on
// (D2); the number of closures if training waits for no evaluation.
uint64_t evaluations_hold(const struct job *job);

// Returns the lower one of evaluations_hold and monitor_limit: closures from
// there on wait for an evaluation, or not every shard knows their rate (D1).
uint64_t evaluations_limit(const struct job *job);

// Says whether all closures below the hold are counted, so that training waits.
bool evaluations_hold_it(const struct job *job);

// Sends a rank the rates, and how far it may go, before its generation begins.
// Does nothing for a job whose training waits for no evaluation.
void evaluations_tell_rank(struct coord *c, const struct job *job,
                           uint64_t member);

#endif
