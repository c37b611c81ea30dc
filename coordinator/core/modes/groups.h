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
// member that is lost is blamed for those alone.
//
// Threads  the loop.
// Memory   a ring lease's work lies in job.leases.active, by WORK_PLACES + its
//          place. Messages are borrowed for the call. No pointer is NULL; a job
//          is one in hybrid mode.
// Units    *_ms monotonic.
// Errors   a member that reports what cannot be loses its lease.
#ifndef COORDINATOR_CORE_MODES_GROUPS_H
#define COORDINATOR_CORE_MODES_GROUPS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// Does what is due in the groups of a job: puts a member out, opens a
// generation, or begins one. Does nothing unless groups_want.
void groups_check(struct coord *c, struct job *job);

// Handles a ring message (join, answer, ready, step, broken) of a member; it is
// only read. Returns true if the member has a group and the job may move on by
// it.
bool groups_receive(struct coord *c, struct member *m, struct job *job,
                    const Sluice__V1__AttendUp *message);

// Says whether workers without a place may get one: the job is placed, goes on
// and does not rest.
bool groups_want(const struct job *job);

// Returns a place that this worker may be leased, made if need be (leases_work)
// and not taken before it sits there; NULL: no memory. While groups_want.
struct work *groups_offer(struct job *job, const struct member *m);

// Says whether the worker leads a group of the job, and so may be given
// closures.
bool groups_leads(const struct job *job, const struct member *m);

#endif
