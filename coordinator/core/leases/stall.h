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
//     gets nothing of any job before it has let go of the closure, which is
//     its debt (member.owes), or MEMBER_DEBT_MS have passed;
//   - it waits for shards, and others get on meanwhile: it cannot reach them.
//     It is not blamed, but excluded from this job.
// Its later pushes are refused once the newer attempt is seen (I4).
//
// Threads  the loop.
// Memory   debts of processes that have gone, COORD_REMEMBERED_MAX at most.
//          Messages are borrowed for the call. No pointer is NULL.
// Units    *_ms monotonic.
// Errors   without memory a process that owes is tried again too early. A
//          journal that cannot be written is fatal in stall_check, which may
//          also end jobs (blame_work).
#ifndef COORDINATOR_CORE_LEASES_STALL_H
#define COORDINATOR_CORE_LEASES_STALL_H

#include "coordinator/core/job.h"
#include "coordinator/core/coord_inner.h"

// Takes leases away from workers that make no progress with them, those that
// wait behind the stalled one too, with an event: after train.stall_seconds
// (never, if that is 0; at least 4 heartbeats), and after 5 s from one that
// cannot reach a psserver while another job could be served. A place in a group
// goes without blame. May ask shards for their counted sets (recount_ask). To
// be called once per tick.
void stall_check(struct coord *c);

// Takes a progress report of the holder of w, and notes whether w got on; sets
// or removes the warning that no worker reaches a psserver (JOB_WARN_REACH). A
// place in a ring or group removes it only with a counted step: a rank computes
// also while it cannot sum. To be called before its metrics are taken, as they
// are compared with w->seen.
void stall_seen(struct coord *c, struct work *w,
                const Sluice__V1__LeaseProgress *message);

// Takes a progress report of m about an attempt that is none of its leases: one
// from before its stream. While that gets on, m's leases count as waiting
// behind it. Ignores the report if m reported of an older such attempt within
// its last 4 heartbeats: m computes that one.
void stall_seen_before(struct coord *c, struct member *m,
                       const Sluice__V1__LeaseProgress *message);

// Notes that worker m has let go of this attempt, however that ended: if m owes
// it (member_debt), m may be given leases again.
void stall_answered(struct member *m, uint64_t job,
                    const Sluice__V1__Attempt *attempt);

// Remembers the debt of m's process, which leaves, for stall_back; does nothing
// if it owes nothing. Where COORD_REMEMBERED_MAX are remembered, forgets all of
// them first.
void stall_left(struct coord *c, const struct member *m);

// Gives m the debt with which its process left earlier, if it did, and forgets
// it: on a new stream the process is as stuck as it was.
void stall_back(struct coord *c, struct member *m);

// Moves the times of m's last progress forward by slept_ms, up to now_ms, since
// the coordinator slept for so long and heard no member.
void stall_forgive(struct member *m, uint64_t slept_ms, uint64_t now_ms);

#endif
