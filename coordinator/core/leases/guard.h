// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/guard.h -- keeps contributions that are too large out
// of a job in mode local, and tells people what contributions changed.
//
// A lease names the largest norm that its worker may push (Lease.norm_most). A
// worker with a larger one, or one that is not finite, hands the closure back
// with that norm. The closure is then leased without a bound, to another worker
// if the job has one: so a step of training that is large for every worker
// passes, and a worker that is alone is not stopped. If the other worker's
// contribution is at most half of the bound, that of the first one was wrong; a
// worker with CHANGES_WRONG of those is suspect (A4).
//
// Where the job makes long contributions as long as the median (train.norm),
// the bound is the median, and only one that is not finite is handed back.
//
// A contribution that is set aside was pushed to no shard, so it is counted
// nowhere, and C3 issues its closure again. What is known of norms is volatile:
// a coordinator that has just started sets nothing aside. A worker that lies
// about its norm is not found out.
//
// Threads  the loop.
// Memory   job->guard is the job's. Messages are borrowed for the call. No
//          pointer is NULL.
// Units    norms of the parameters' change.
// Errors   without memory nothing is known, and nothing is set aside.
#ifndef COORDINATOR_CORE_LEASES_GUARD_H
#define COORDINATOR_CORE_LEASES_GUARD_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/rules/changes.h"
#include "coordinator/rules/work.h"

#define GUARD_AVOIDS_MS 30000

// Returns true if m is not to be given the closure, since it handed its
// contribution back and another worker can compute it. False after
// GUARD_AVOIDS_MS: then no other one has come to it.
bool guard_avoids(const struct coord *c, const struct member *m,
                  const struct job *job, uint64_t closure);

// Returns the bound for a lease of w; 0: none, as for other kinds than
// WORK_TRAIN, where the spec wants none, for a closure that was handed back for
// its norm, and while too few norms are known for a median.
double guard_bound(const struct work *w);

// Takes the contribution of a completion of m, of a placed job, into the norms
// that the bound is made of, raises job->changes, and decides whether one of
// this closure that was set aside before was wrong. May make the worker suspect
// that handed it back (suspects_make): the caller looks at c->dead. A message
// without `change` adds to the figures of the status alone. Does nothing in
// modes without contributions (mode.changes).
void guard_take(struct coord *c, struct member *m, struct job *job,
                const Sluice__V1__Complete *message);

// Notes that m set its contribution to training closure w aside, which it
// handed back: w is leased without a bound next (guard_bound), and not to m for
// a while (guard_avoids). To be called before leases_settle, with w->norm_most
// as m's lease had it. Does nothing if message->change is NULL (it was handed
// back for another reason), or in modes without contributions.
void guard_handed_back(struct coord *c, const struct member *m,
                       const struct work *w,
                       const Sluice__V1__HandBack *message);

// Sets m->local to what is known of the job's contributions; leaves it NULL if
// nothing is. Returns true; or false without memory, with a part of it there,
// which wire_free frees.
bool guard_fill(Sluice__V1__JobStatus *m, const struct job *job);

#endif
