// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_member.h -- a ring lease of a hybrid job: a member of a
// group, from its joining to the end of its lease.
//
// The leader's training leases and evaluations run within the ring lease (the
// contributor's `between`). While the leader has no training lease it says so
// every now and then, so that followers look at what else they have to do. A
// follower computes its share of each step that the leader announces (the
// contributor's `share`).
//
// Threads  the compute thread.
// Memory   all is the caller's.
// Errors   all end as the lease's outcome.
#ifndef TRAINER_LEASE_HYBRID_MEMBER_H
#define TRAINER_LEASE_HYBRID_MEMBER_H

#include "trainer/lease/hybrid_step.h"

// Takes part in the group until the ring lease `l` ends, and sets its outcome:
// handed back, dropped or failed, never complete. Adds the steps that it
// followed to its progress, and calls the contributor's `leave` at the end.
// `sync` lends its ranges and vectors; a closure of it is open only within
// `between`. `l` has a seat (lease_sit), and `h` no ring lease before and
// afterwards. Waits for other members and for messages.
void hybrid_member_run(struct contributor *by, struct hybrid *h,
                       struct sync *sync, struct lease *l);

#endif
