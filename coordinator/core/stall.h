// SPDX-License-Identifier: Apache-2.0
// coordinator/core/stall.h -- workers that are seen but get nowhere.
//
// A worker computes the oldest of its leases; the others wait behind it, or all
// behind one that it has from before its stream, as long as that moves. Its
// heartbeats say whether it gets on (LeaseProgress). If it stands still for
// train.stall_seconds, while all shards are served, or if it says for sixteen
// times as long that it gets on and the shards have counted nothing of its
// closure then, the lease goes to somebody else:
//   - the worker computes: it is blamed, as if it had been lost (poison), and
//     gets nothing of any job before it has let go of the closure;
//   - it waits for shards, and others get on meanwhile: it cannot reach them.
//     Nobody is blamed; it is excluded from this job.
// What it still pushes is refused once the newer attempt is seen (I4).
//
// Threads  the loop.
// Memory   what processes owe that have gone, COORD_REMEMBERED_MAX at most.
// Units    *_ms monotonic.
// Errors   without memory a process that owes is tried again too early.
#ifndef COORDINATOR_CORE_STALL_H
#define COORDINATOR_CORE_STALL_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Takes from workers what they stand still in.
void stall_check(struct coord *c);

// Takes what a worker says of its progress, before its metrics are taken.
void stall_seen(struct coord *c, struct work *w,
                const Sluice__V1__LeaseProgress *message);

// The same of an attempt that is none of its leases.
void stall_seen_before(struct coord *c, struct member *m,
                       const Sluice__V1__LeaseProgress *message);

// Takes that a worker has let go of an attempt, however that ended.
void stall_answered(struct member *m, uint64_t job,
                    const Sluice__V1__Attempt *attempt);

// Remembers what a process owes that leaves, and finds it when the process is
// back: on a new stream it is as stuck as it was.
void stall_left(struct coord *c, const struct member *m);
void stall_back(struct coord *c, struct member *m);

// Takes the time off in which the coordinator slept and could see nobody.
void stall_forgive(struct member *m, uint64_t slept_ms, uint64_t now_ms);

#endif
