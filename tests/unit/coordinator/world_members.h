// SPDX-License-Identifier: Apache-2.0
// tests/unit/coordinator/world_members.h -- what fake members do.
//
// Threads, Memory, Errors  those of world.h.
#ifndef TESTS_UNIT_COORDINATOR_WORLD_MEMBERS_H
#define TESTS_UNIT_COORDINATOR_WORLD_MEMBERS_H

#include "plan/sketch.h"
#include "tests/unit/coordinator/world.h"

// Notes that m's stream is gone: empties both boxes. Tells nobody.
void fake_disconnected(struct fake_member *m);

// Drops what m has in memory: leases, its state as a rank, shards; snapshots
// stay.
void fake_forget_memory(struct fake_member *m);

// Frees all that m has, snapshots too; its place is not made free.
void fake_free(struct fake_member *m);

// Puts a copy of the message into m's outbox, which has room for WORLD_INBOX.
void fake_send(struct fake_member *m, const Sluice__V1__AttendUp *message);

// Says (fake_send) hello for each shard of m that has an incarnation.
void fake_hello_live(struct world *w, struct fake_member *m);

// Says a heartbeat, with m's leases and its admitted shards, and delivers some
// of what m has said, as it is drawn.
void fake_beat(struct world *w, struct fake_member *m);

// Has the coordinator hear m's oldest message, of which there is one; every
// second time all completions that follow each other, as one message. Without a
// coordinator or a stream it is lost. What it ends m holds no more.
void fake_deliver_up(struct world *w, struct fake_member *m);

// Has m read the oldest message in its inbox, of which there is one.
void fake_read(struct world *w, struct fake_member *m);

// Has m do one piece of work, if it has any.
void fake_work(struct world *w, struct fake_member *m);

// Has m read all that is in its inbox.
void fake_read_all(struct world *w, struct fake_member *m);

// Has the coordinator hear all that m has said.
void fake_deliver_all(struct world *w, struct fake_member *m);

// Has each attached member, in its order, read all, do one piece of work, and
// be heard.
void fake_turn(struct world *w);

// ---- world_worker.c and world_psserver.c: the same by role; messages stay the
// caller's

void fake_worker_read(struct world *w, struct fake_member *m,
                      Sluice__V1__AttendDown *message);
void fake_worker_work(struct world *w, struct fake_member *m);
// Drops all leases of a worker, and says nothing of it.
void fake_worker_drop(struct fake_member *m);
void fake_psserver_read(struct world *w, struct fake_member *m,
                        Sluice__V1__AttendDown *message);
// Reports on a replica, or sends a feed, or writes a snapshot that was asked
// for; one of these.
void fake_psserver_work(struct world *w, struct fake_member *m);
// Drops all shards of a psserver, but not their snapshots.
void fake_psserver_drop(struct fake_member *m);

// Has the shard's replica acknowledge all that it has counted, and returns
// true; true, too, if it has no replica. False: the replica does not, so
// nothing may be said of that (P1).
bool fake_replica_take(struct world *w, struct fake_shard *f, uint32_t shard);

// Returns true if a worker may be told what the shard has counted: its replica
// follows behind the answers (P6), or has taken that.
bool fake_may_say(struct world *w, struct fake_shard *f, uint32_t shard);

// Tells the coordinator whether the shard's replica acknowledges; one that does
// not never does again, until the shard is told of another.
void fake_replica_report(struct world *w, struct fake_member *m,
                         uint32_t shard);

// Makes a right result of an audit that of m: of its kind of host, with a
// sketch that is kept in `sketch`, which outlives the result, if it has a kind;
// and wrong one time in m->flips.
void fake_result_of(struct world *w, const struct fake_member *m,
                    Sluice__V1__Repeat *result, struct sketch *sketch);

// ---- world_rank.c: a worker that holds a ring lease

// Takes what the coordinator says to a rank, of the generation that it has
// answered last; other messages are passed over.
void fake_rank_read(struct world *w, struct fake_member *m,
                    Sluice__V1__AttendDown *message);

// Does one thing for the lease: joins, brings the base into place, copies a
// state, writes a part, applies a round that all have given to, or reports one.
void fake_rank_work(struct world *w, struct fake_member *m,
                    const Sluice__V1__Lease *lease);

// Ends m's place in a ring; its state stays.
void fake_rank_leave(struct fake_member *m);

// Ends m's place in a ring and drops its state.
void fake_rank_drop(struct fake_member *m);

// Returns the shard at `incarnation`, for a worker whose map says so; NULL: it
// is not reachable, not admitted, or was handed over.
struct fake_shard *fake_shard_at(struct world *w, uint32_t shard,
                                 uint64_t incarnation);

#endif
