// SPDX-License-Identifier: Apache-2.0
// tests/sim/place.h -- a worker's place in a group of a hybrid job.
//
// A script of trainer/lease/hybrid.h: a group is a ring whose ranks have no
// state. The leader's closure is task.c's; a step of it gets to its end only
// while every member of its generation is there and can be reached.
#ifndef TESTS_SIM_PLACE_H
#define TESTS_SIM_PLACE_H

#include "tests/sim/crew.h"

struct place {
    Sluice__V1__Lease *lease; // owned; NULL: none
    bool joined;
    uint64_t newest, placed, going; // generations: answered, begun, gone
    uint32_t members, self;
    uint64_t process[SIM_HOSTS];
    uint64_t alone_us; // since when somebody is missing; 0: nobody is
    uint64_t progress;
};

void place_start(struct crew *c);
void place_stop(struct crew *c);
void place_take(struct crew *c, const Sluice__V1__Lease *lease);
void place_revoke(struct crew *c, const Sluice__V1__Revoke *m);
void place_leave(struct crew *c); // without a word
void place_hand_back(struct crew *c);
void place_down(struct crew *c, const Sluice__V1__AttendDown *down);
void place_drive(struct crew *c);

// ---- the leader's closure

void place_open_task(struct crew *c);
// The place in which it was begun is over, or no leader's: it goes back.
bool place_parted(const struct crew *c);
// The group goes, so that a step may begin.
bool place_meets(struct crew *c);
// The step that was computed is the group's: all were there until its end.
bool place_sums(struct crew *c);

#endif
