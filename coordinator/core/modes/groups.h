// SPDX-License-Identifier: Apache-2.0
// coordinator/core/modes/groups.h -- the groups of a job in hybrid mode: their
// ring leases and generations.
//
//   ring lease -> RingJoin -> groups_check: RingOpen -> RingAnswer of all ->
//   RingBegin -> RingReady of all -> RingGo
//
// rules/group.h and rules/ring.h decide; this part sends. A group has no state,
// so it is not journalled, and its members report nothing but what audits want:
// the leader's training leases tell what is counted, as in asynchronous mode. A
// member that is lost is blamed for those alone. A generation that is opened or
// goes raises job->changes.
//
// Threads  the loop.
// Memory   a ring lease's work lies in job.leases.active, by WORK_PLACES + its
//          place. Messages are borrowed for the call. No pointer is NULL; a job
//          is one in hybrid mode.
// Units    *_ms monotonic.
// Errors   a member that reports what cannot be loses its lease, and is
//          excluded for a while. A journal that cannot be written is fatal:
//          callers look at c->dead.
#ifndef COORDINATOR_CORE_MODES_GROUPS_H
#define COORDINATOR_CORE_MODES_GROUPS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Does what is due now in each group of the job: puts a member out, which is
// excluded from the job, opens a generation, or begins one; dissolves a small
// group that another has room for, by taking its members' places back
// (leases_revoke). Does nothing unless groups_want.
void groups_check(struct coord *c, struct job *job);

// Takes a message about the ring (join, answer, ready, step, broken) from
// worker m; the message is only read, and a join must name m's place. Once all
// are ready they are sent RingGo, and that is an event. By what it says m may
// be excluded or suspect. Returns true if it was for m's group, and the caller
// has to call advance_job; false if m is in no group, the job wants none
// (groups_want), the message is another one, or the journal failed as a step
// was taken.
bool groups_receive(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__AttendUp *message);

// Returns true if workers without a place may get one: the job is placed, has
// not ended and does not rest (job_rests).
bool groups_want(const struct job *job);

// Returns a place that worker m may be leased, made if it is new (leases_work);
// it is taken only when m sits there (groups_take). To be called while
// groups_want. NULL: no memory.
struct work *groups_offer(struct job *job, const struct member *m);

// Returns true if worker m leads a running group of the job, and so may be
// given closures.
bool groups_leads(const struct job *job, const struct member *m);

#endif
