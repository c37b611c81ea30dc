// SPDX-License-Identifier: Apache-2.0
// tests/sim/rings.h -- what must hold of a job in allreduce.
//
// Each state that a rank ever had is known here, by the rounds that it is made
// of: which steps each of them counted, and in which generation. Of one tag
// there is one state, at every rank that has it (R3), and what was published in
// a cut is in every state that is trained on after it.
//
// A rank's parameters tell which state they are: a contribution's gradient
// depends on its step and on the generation that it is summed in (rings_step),
// in integers, so that the values are exactly minus the sum over the state's
// rounds.
//
// Ranks have one folder, on a disk that they share and that keeps what it has
// promised (K2).
#ifndef TESTS_SIM_RINGS_H
#define TESTS_SIM_RINGS_H

#include "tests/sim/truth.h"

struct job;
struct rank;

void rings_new(struct sim *s);
void rings_free(struct sim *s);

// ---- ranks

// The gradient of one contribution.
void rings_step(double out[SIM_FIELDS], uint64_t closure, uint32_t step,
                uint64_t generation);

// The state that a rank has now, whenever its tag may have changed; *last is
// the tag that was seen of this process before, `answered` the generation that
// it has answered last. A round that is new is that of a member to which all
// have given, and which has answered no later generation (R2).
void rings_look_at(struct sim *s, struct proc *p, const struct rank *r,
                   uint64_t answered, struct wire_tag *last);
// What a state of that tag holds; NULL: nobody ever had it.
const struct ledger *rings_ledger(struct sim *s, struct wire_tag tag);

// A rank says so to the coordinator.
void rings_said(struct sim *s, struct proc *p, const Sluice__V1__AttendUp *up);

// ---- the coordinator

// It is about to be called: what was begun by now.
void rings_called(struct sim *s);
// It opens the job for a worker; a generation for one of its members (R1); it
// begins that (R3).
void rings_job_open(struct sim *s, const Sluice__V1__JobOpen *m);
void rings_opened(struct sim *s, const Sluice__V1__RingOpen *m);
void rings_begun(struct sim *s, const Sluice__V1__RingBegin *m);
// R5: what it takes for progress.
void rings_look(struct sim *s, const struct job *job);

// ---- cuts

// R6, K4: a cut that appears. And files of a cut that is kept.
void rings_cut(struct sim *s, const Sluice__V1__Checkpoint *c);
void rings_verify(struct sim *s, const Sluice__V1__Checkpoint *c);

#endif
