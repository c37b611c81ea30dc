// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/replicas.h -- psservers that follow the psserver of a
// shard, and take over from it (P1 to P7).
//
// A replica begins as a move does (move.h): the shard's psserver, its owner,
// writes a snapshot, which another one loads and then follows by a feed: the
// owner sends what it does to the shard. Where a move would hand over, the
// owner says that the replica has all that was answered: the journal takes it
// into the set of those that may take over (P2). From then on
//
//   the owner is lost, or leaves    the replica becomes the owner (P4)
//   the owner misses it, it is      the journal takes it out of the set (P3),
//   lost, or it leaves              and another one begins
//
// Each of these, and a replica that comes into the set, is an event and raises
// job->changes.
//
// Threads  the loop.
// Memory   messages are borrowed for the call.
// Units    ms of coord_now.
// Cost     one write of the journal for up to 1000 shards of a job of which the
//          same tick or loss decides, and one event for those of a psserver.
// Errors   a journal that cannot be written is fatal. No pointer is NULL.
#ifndef COORDINATOR_CORE_SHARDS_REPLICAS_H
#define COORDINATOR_CORE_SHARDS_REPLICAS_H

#include "coordinator/core/coord_inner.h"
#include "coordinator/core/job.h"

#define REPLICAS_AGAIN_MS 2000 // before a shard that lost its replica has one

// Takes the hello of a shard from its psserver that has lost the shard's
// memory, if a replica is in the set, and returns true: no psserver serves the
// shard then, and the replica takes over with the next tick, or when it is
// attached (P5; replicas_tick gives it up after lease_ms). False: another
// hello, for the caller to judge.
bool replicas_hello(struct coord *c, const struct member *m,
                    const Sluice__V1__ShardHello *h);

// Returns true for the hello of a replica that is in the set, and goes on
// following: there is nothing to do. False: another hello.
bool replicas_follow(struct coord *c, const struct member *m,
                     const Sluice__V1__ShardHello *h);

// Takes what a psserver, which feeds a replica, says of that: the replica's
// lag; that it is ready, and so comes into the set; or that it misses it, and
// so it leaves the set with the next tick. A feed that is not known here is
// ended; a psserver that does not have the shard is refused (send_refuse).
// Ignores a report of a job that has ended or is paused by I7.
void replicas_report(struct coord *c, struct member *m,
                     const Sluice__V1__ReplicaReport *report);

// Takes a report that says of a replica in the set how far behind it is, and no
// more, and returns true: nobody waits for that. False, with nothing done:
// another report, for replicas_report.
bool replicas_lag(struct coord *c, const struct member *m,
                  const Sluice__V1__ReplicaReport *report);

// Has the replicas of shards take over that psserver m served, which is silent
// or gone, and takes m's own out of the set, where their shards are served. To
// be called after shards_down and moves_left.
void replicas_left(struct coord *c, const struct member *m);

// Has replicas take over from owners that have not come back or are to leave,
// and takes out those that their owners miss or that are to leave. To be called
// with each tick.
void replicas_tick(struct coord *c);

#endif
