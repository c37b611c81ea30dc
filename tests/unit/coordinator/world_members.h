// SPDX-License-Identifier: Apache-2.0
// tests/unit/coordinator/world_members.h -- what fake members do.
#ifndef TESTS_UNIT_COORDINATOR_WORLD_MEMBERS_H
#define TESTS_UNIT_COORDINATOR_WORLD_MEMBERS_H

#include "plan/sketch.h"
#include "tests/unit/coordinator/world.h"

void fake_disconnected(struct fake_member *m); // drops both boxes
void fake_forget_memory(struct fake_member *m);
void fake_free(struct fake_member *m);
void fake_send(struct fake_member *m, const Sluice__V1__AttendUp *message);
void fake_hello_live(struct world *w, struct fake_member *m);
void fake_beat(struct world *w, struct fake_member *m);
void fake_deliver_up(struct world *w, struct fake_member *m); // one message
void fake_read(struct world *w, struct fake_member *m);       // one message
void fake_work(struct world *w, struct fake_member *m); // one piece of work

// All that is there for it; all that it has said.
void fake_read_all(struct world *w, struct fake_member *m);
void fake_deliver_all(struct world *w, struct fake_member *m);

// All that is said is heard, and everybody who is there works once.
void fake_turn(struct world *w);

// world_worker.c and world_psserver.c
void fake_worker_read(struct world *w, struct fake_member *m,
                      Sluice__V1__AttendDown *message);
void fake_worker_work(struct world *w, struct fake_member *m);
void fake_worker_drop(struct fake_member *m);
void fake_psserver_read(struct world *w, struct fake_member *m,
                        Sluice__V1__AttendDown *message);
void fake_psserver_work(struct world *w, struct fake_member *m);
void fake_psserver_drop(struct fake_member *m);
// Has the shard's replica acknowledge all that it has counted. False: it does
// not, so nothing may be said of that (P1).
bool fake_replica_take(struct world *w, struct fake_shard *f, uint32_t shard);
// Tells the coordinator whether the shard's replica acknowledges.
void fake_replica_report(struct world *w, struct fake_member *m,
                         uint32_t shard);

// Makes a right result of an audit that of m: of its kind of host, if it has
// one, with a sketch that is kept in `sketch`; and wrong now and then.
void fake_result_of(struct world *w, const struct fake_member *m,
                    Sluice__V1__Repeat *result, struct sketch *sketch);

// world_rank.c: a worker that holds a ring lease.
void fake_rank_read(struct world *w, struct fake_member *m,
                    Sluice__V1__AttendDown *message);
void fake_rank_work(struct world *w, struct fake_member *m,
                    const Sluice__V1__Lease *lease);
void fake_rank_leave(struct fake_member *m); // keeps its state
void fake_rank_drop(struct fake_member *m);

// What a worker may ask of a shard that its map says is at `incarnation`.
// False: not reachable, not admitted, or refused.
struct fake_shard *fake_shard_at(struct world *w, uint32_t shard,
                                 uint64_t incarnation);

#endif
