// SPDX-License-Identifier: Apache-2.0
// tests/sim/groups.h -- what must hold of the groups of a hybrid job, by what
// one coordinator sends.
//
// A generation's number is of one group, of one coordinator, and rises. Its
// members are told of the same ones, each of itself, before it goes. A closure
// is leased to who leads a group that goes. What a member had when it stopped
// leading it hands back by itself, at its next step (hybrid_lead.h).
#ifndef TESTS_SIM_GROUPS_H
#define TESTS_SIM_GROUPS_H

#include "tests/sim/sim.h"

// Of one coordinator; all zeroes at its start.
struct groups_sent {
    struct group_member *member; // by session; owned, SIM_SESSIONS of them
    uint64_t end; // one more than the last of which there is anything
};

// Makes room for all members of *g, which is all zeroes; for groups_free.
void groups_new(struct groups_sent *g);

// Frees the members; *g may be all zeroes.
void groups_free(struct groups_sent *g);

// Checks what a coordinator says to the member of session `member`, or leases
// to it, and notes it in *g; messages that are of no group are passed over.
void groups_down(struct sim *s, struct groups_sent *g, uint64_t member,
                 const Sluice__V1__AttendDown *m);

#endif
