// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/rings.h -- the ring of a job in allreduce mode: its
// leases, its generations, what it has counted.
//
//   ring lease -> RingJoin -> rings_check: journal, RingOpen -> RingAnswer of
//   all -> base, RingBegin -> RingReady of all -> RingGo -> RingStep ...
//
// rules/ring.h decides; this part journals, sends and counts. The parts of the
// state take the place of shards: each is as if admitted when a generation
// goes, and no longer served when it ends, so that cuts and evaluations need
// not tell the difference. A generation that is opened, begins or goes, and
// rounds that are counted, raise job->changes.
//
// Threads  the loop.
// Memory   a ring lease's work lies in job.leases.active, by the number of its
//          place. Messages are borrowed for the call. No pointer is NULL. A job
//          is one in allreduce mode, but where it is said.
// Units    rounds; *_ms monotonic.
// Errors   a rank that reports what cannot be loses its lease, and is excluded
//          for a while; counts that disagree with the counted rounds end the
//          job. A journal that cannot be written is fatal: callers look at
//          c->dead, and whether the job has ended.
#ifndef COORDINATOR_CORE_MODES_RINGS_H
#define COORDINATOR_CORE_MODES_RINGS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/ring.h"

struct work;

// What the ring of a job has counted (rules/ring.h has its generations).
struct job_rounds {
    // contributions of a round, in this generation; 0: not settled
    uint32_t contributions;
    bool skipped;     // the last round that a rank reported was
    bool based;       // the evidence begins with this generation's base,
    uint64_t counted; // and holds this many rounds in all
    uint64_t redone;  // steps that ranks had applied and lost
    double each_ms;   // recent time of a round; 0: not known
    uint64_t at_ms;   // when progress was last seen,
    uint64_t at;      // and `counted` then
};

// Does what is due now in the ring: counts rounds, which forgives its ranks'
// blame, removes JOB_WARN_REACH, tells shards beside it (ring_rows_decide) and
// compares results of audits (ring_audit_vote); puts a rank out (excluded, it
// loses its leases of the job), opens a generation, which gives up a cut that
// is not being written, or begins one, not while a cut is being written. May
// end the job. Does nothing for a job that is not placed, has ended, or is
// paused by I7.
void rings_check(struct coord *c, struct job *job);

// Takes a message about the ring (join, copied, answer, ready, step, broken)
// from worker m, or ignores one of an older generation; a join must name m's
// ring lease. Sends what follows: RingCopy to a newcomer of a running ring, or,
// once all are ready, Keep and RingGo, with an event. A step counts rounds as
// rings_check does. By what it says m may be excluded (rings_distrust), and the
// job may be paused by I7, or end. Returns true if the caller has to call
// advance_job; false, with nothing done, if it is no such message, or the job
// is not placed or paused by I7 already. The job has not ended before the call.
bool rings_receive(struct coord *c, struct member *m, struct job *job,
                   const Sluice__V1__AttendUp *message);

// Returns true if rank m reports a snapshot of a state that no rank can have:
// then it was excluded from the job (rings_distrust), and the caller drops the
// report.
bool rings_refuse(struct coord *c, struct member *m, struct job *job,
                  const Sluice__V1__SnapshotReport *report);

// Returns true if m is a member of the ring's present generation.
bool rings_in(const struct job *job, const struct member *m);

// Returns true if the ring would take another rank: the job is placed, has not
// ended, does not rest, a place is free, and not all is counted, or the ring
// does not run.
bool rings_want(const struct job *job);

// Returns a free place in the ring that may be leased, made if it is new
// (leases_work); NULL: none is wanted (rings_want), or no memory.
struct work *rings_offer(struct job *job);

// ---- functions for any ring of a job: that of allreduce, or a group's

// Adds worker m as a rank of `ring`, which takes part from the next generation
// on; one that is in the ring begins anew. Ranks with an address that those of
// other hosts cannot dial (loopback) are put out: they are excluded from the
// job, lose their leases of it, and JOB_WARN_REACH is set. Returns SL_OK;
// SL_ESTATE if m itself was put out; SL_ENOMEM, with m not added.
enum sl_err rings_join(struct coord *c, const struct member *m, struct job *job,
                       struct ring *ring, const Sluice__V1__RingJoin *message);

// Notes m's report that it cannot sum with another rank, or at all, and adds an
// event. If the report is of the present generation, sets the job's warning
// JOB_WARN_REACH as well, which in allreduce stays until a round is counted;
// the next rings_check or groups_check puts out the rank that is to blame. Does
// nothing if m is not in `ring`.
void rings_accuse(struct coord *c, const struct member *m, struct job *job,
                  struct ring *ring, const Sluice__V1__RingBroken *message);

// Sets what the ranks' sums take in the status m: the longest wait (ms) and the
// most bytes of any rank, each for one sum, as its lease last reported.
void rings_fill_sums(Sluice__V1__JobStatus *m, const struct job *job);

// Excludes a rank that reports what cannot be from the job for a while, and so
// takes all its leases of the job (excluded_put); logs `why`.
void rings_distrust(struct coord *c, struct member *m, struct job *job,
                    const char *why);

#endif
