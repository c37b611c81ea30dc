// SPDX-License-Identifier: Apache-2.0
// coordinator/core/groups.h -- the groups of a job in hybrid mode: their ring
// leases and generations.
//
//   ring lease -> RingJoin -> groups_check: RingOpen -> RingAnswer of all ->
//   RingBegin -> RingReady of all -> RingGo
//
// rules/group.h and rules/ring.h decide; here it is sent. A group has no state,
// so nothing of it is journalled, and its members have nothing to report: what
// is counted, the leader's training leases say, as in asynchronous mode. A
// member that is lost is blamed for those alone.
//
// Threads  the loop.
// Memory   a ring lease's work lies in job.active, by GROUPS_WORK + its place.
// Units    *_ms monotonic.
// Errors   what a member says that cannot be takes its lease from it.
#ifndef COORDINATOR_CORE_GROUPS_H
#define COORDINATOR_CORE_GROUPS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

// What is due: somebody is put out, a generation opens, or begins.
void groups_check(struct coord *c, struct job *job);

// Takes what a member says. The job that moves on by it, or NULL.
struct job *groups_receive(struct coord *c, struct member *m,
                           const Sluice__V1__AttendUp *message);

// Workers that have no place may get one.
bool groups_want(const struct job *job);

// A place that this worker may be leased, or NULL.
struct work *groups_offer(struct job *job, const struct member *m);

// The worker leads a group of the job: it may be given closures.
bool groups_leads(const struct job *job, const struct member *m);

#endif
