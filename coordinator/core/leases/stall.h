// SPDX-License-Identifier: Apache-2.0
// coordinator/core/leases/stall.h -- workers that are seen but get nowhere.
//
// A worker computes the oldest of its leases; the others wait behind it, or all
// behind one that it has from before its stream, as long as that moves. Its
// heartbeats say whether it gets on (LeaseProgress). If it stands still for
// train.stall_seconds, while all shards are served, or if it says for sixteen
// times as long that it gets on and the shards have counted nothing of its
// closure then, the lease goes to another worker:
//   - the worker computes: it is blamed, as if it had been lost (poison), and
//     gets nothing of any job before it has let go of the closure;
//   - it waits for shards, and others get on meanwhile: it cannot reach them.
//     It is not blamed, but excluded from this job.
// Its later pushes are refused once the newer attempt is seen (I4).
//
// Threads  the loop.
// Memory   debts of processes that have gone, COORD_REMEMBERED_MAX at most.
//          Messages are borrowed for the call.
// Units    *_ms monotonic.
// Errors   without memory a process that owes is tried again too early.
#ifndef COORDINATOR_CORE_LEASES_STALL_H
#define COORDINATOR_CORE_LEASES_STALL_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Takes from workers the leases in which they stand still. Called once per
// tick.
void stall_check(struct coord *c);

// Takes a report of progress of the holder of w, before its metrics are taken:
// they are compared with those that w has seen.
void stall_seen(struct coord *c, struct work *w,
                const Sluice__V1__LeaseProgress *message);

// Takes such a report of an attempt that is none of its leases: one from before
// its stream. Its leases count as waiting behind it.
void stall_seen_before(struct coord *c, struct member *m,
                       const Sluice__V1__LeaseProgress *message);

// Notes that a worker has let go of an attempt, however that ended.
void stall_answered(struct member *m, uint64_t job,
                    const Sluice__V1__Attempt *attempt);

// Remembers the debt of a process that leaves.
void stall_left(struct coord *c, const struct member *m);

// Gives m the debt that its process left with, if any: on a new stream the
// process is as stuck as it was.
void stall_back(struct coord *c, struct member *m);

// Discounts the time in which the coordinator slept and heard no member.
void stall_forgive(struct member *m, uint64_t slept_ms, uint64_t now_ms);

#endif
