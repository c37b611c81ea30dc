// SPDX-License-Identifier: Apache-2.0
// coordinator/core/rings.h -- the ring of a job in allreduce mode: its leases,
// its generations, what it has counted.
//
//   ring lease -> RingJoin -> rings_check: journal, RingOpen -> RingAnswer of
//   all -> base, RingBegin -> RingReady of all -> RingGo -> RingStep ...
//
// rules/ring.h decides; here it is journalled, sent and counted. The parts of
// the state take the place of shards: each is as if admitted when a generation
// goes, and no longer served when it ends, so that cuts and evaluations do not
// know the difference.
//
// Threads  the loop.
// Memory   a ring lease's work lies in job.active, by the number of its place.
// Units    rounds; *_ms monotonic.
// Errors   what a rank says that cannot be takes its lease from it; two ranks
//          that disagree about the state end the job.
#ifndef COORDINATOR_CORE_RINGS_H
#define COORDINATOR_CORE_RINGS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// What is due: somebody is put out, a generation opens, or begins.
void rings_check(struct coord *c, struct job *job);

// Takes what a rank says. The job that moves on by it, or NULL.
struct job *rings_receive(struct coord *c, struct member *m,
                          const Sluice__V1__AttendUp *message);

// True if a rank reports a part of a state that no rank can have: its lease
// goes, and nothing of the report is taken.
bool rings_refuse(struct coord *c, struct member *m,
                  const Sluice__V1__SnapshotReport *report);

// The job whose ring lease the worker holds, or NULL.
struct job *rings_held(const struct member *m);

// It is a member of the present generation: while that runs, it has the state.
bool rings_in(const struct job *job, const struct member *m);

// Another rank would be taken.
bool rings_want(const struct job *job);

// A place in the ring that may be leased, or NULL.
struct work *rings_offer(struct job *job);

// ---- of any ring of a job: that of allreduce, or a group's

// Takes a rank, which takes part from the next generation on. SL_ESTATE: ranks
// of other hosts could not dial it, and it has been put out.
enum sl_err rings_join(struct coord *c, const struct member *m, struct job *job,
                       struct ring *ring, const Sluice__V1__RingJoin *message);

// Takes the word of a rank that it cannot sum with another one, or at all, and
// warns of it until a round is counted.
void rings_accuse(struct coord *c, const struct member *m, struct job *job,
                  struct ring *ring, const Sluice__V1__RingBroken *message);

// It says what cannot be: its lease goes.
void rings_distrust(struct coord *c, struct member *m, struct job *job,
                    const char *why);

#endif
