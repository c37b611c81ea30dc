// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/reports.h -- workers' reports of their leases.
//
// A completion is taken from the holder of the lease alone, and believed by the
// incarnations that its evidence is from (C1, W2). So a lease may end although
// not all of its steps are counted: evidence says what is, the lease only which
// worker is at it. A failure, a hand-back, and a completion that does not count
// everywhere each add an event.
//
// Threads  the loop.
// Memory   messages are borrowed for the call. No pointer is NULL. m is an
//          attached worker.
// Errors   A journal that cannot be written is fatal: callers look at c->dead.
//          A report of a job that has ended, or of a lease that m does not
//          hold, is no error and changes nothing, but where it is said. Metrics
//          that cannot be are dropped, with a warning (JOB_WARN_METRICS);
//          others may set JOB_WARN_SAMPLE or JOB_WARN_BAD.
#ifndef COORDINATOR_CORE_LEASES_REPORTS_H
#define COORDINATOR_CORE_LEASES_REPORTS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/journal/journal.h"
#include "coordinator/rules/meter.h"

// What workers have reported of a job.
struct job_reports {
    bool has_facts;
    struct journal_facts facts;
    uint64_t moved_ms;   // when any holder last made progress
    uint64_t good_steps; // steps that were applied
    double loss_scale;   // the last one reported; 0: none
    struct meter meter;
};

// Takes worker m's report that an attempt is complete: its evidence, metrics
// and results of audits. Its lease ends, and that of a copy of a slot that is
// contributed (copies_first); without memory for the evidence the report is
// dropped and m keeps the lease. A probe's facts are journalled; impossible
// ones are a failure of m, as is a range's result that does not fit
// (evaluation_take), and facts without samples are a report against the job
// (doubts_heard). Returns the job if the caller has to call advance_job for it,
// else NULL. The job may have ended by it, and m may be excluded or suspect.
struct job *reports_complete(struct coord *c, struct member *m,
                             const Sluice__V1__Complete *message);

// Takes worker m's report that an attempt failed. One against the job
// (job_error) may end the job (doubts_heard), else it excludes m from the job
// (doubts_put_aside), unless numbers that are not finite are m's own fault
// (excluded_excuses). m is blamed for its lease and pauses for MEMBER_PAUSE_MS,
// but neither for a report against the job by its data (doubts_data); and it
// pauses without blame if the place of a placed job's data does not answer
// (SL_EUNAVAIL and data without job_error), as if it had handed the lease back.
// Failures may be poison, or exclude m.
void reports_failed(struct coord *c, struct member *m,
                    const Sluice__V1__AttemptFailed *message);

// Takes a lease that worker m returns undone: without blame, but a closure that
// is handed back again and again, by workers that do not leave, is held back
// for a while (closure_dropped), and one for its norm goes to another worker
// (guard_handed_back). m gets no lease for MEMBER_PAUSE_MS, and is suspect if
// its results of audits differ.
void reports_hand_back(struct coord *c, struct member *m,
                       const Sluice__V1__HandBack *message);

// Takes the metrics that a rank reports with its rounds, if the message has
// some and the rank has a place of that job; its doubt of the job is over by
// that (doubts_over). The first one beyond the round of the cut under way notes
// that the cut holds the training until then (monitor_cut). To be called before
// the mode takes the message, which may begin an evaluation of the training
// until then.
void reports_ring_step(struct coord *c, struct member *m,
                       const Sluice__V1__RingStep *message);

// Takes a worker's report of an attempt's progress, with its metrics; an
// attempt that is none of m's leases is one from before its stream
// (stall_seen_before). Steps that it reports clear the blame of a training
// closure, also in the journal. May exclude the worker, or end the job.
void reports_progress(struct coord *c, struct member *m,
                      const Sluice__V1__LeaseProgress *message);

#endif
