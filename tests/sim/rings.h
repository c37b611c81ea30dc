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

// Makes s->rings, which knows of the state of the seed alone.
void rings_new(struct sim *s);

// Frees s->rings with all states.
void rings_free(struct sim *s);

// ---- ranks

// Writes the gradient of one contribution.
void rings_step(double out[SIM_FIELDS], uint64_t closure, uint32_t step,
                uint64_t generation);

// Notes and checks the state that a rank has now, if it has one and its tag is
// not *last, the tag that was seen of this process before, which is set to it;
// `answered` is the generation that it has answered last. A round that is new
// is that of a member to which all have given, and which has answered no later
// generation (R2). To be called whenever the tag may have changed.
void rings_look_at(struct sim *s, struct proc *p, const struct rank *r,
                   uint64_t answered, struct wire_tag *last);
// Returns what a state of that tag holds, until rings_free; NULL: no rank ever
// had it.
const struct ledger *rings_ledger(struct sim *s, struct wire_tag tag);

// Notes an answer to a generation that a rank sends to the coordinator, and
// checks a file that it reports (K2, S1); other messages are passed over.
void rings_said(struct sim *s, struct proc *p, const Sluice__V1__AttendUp *up);

// ---- the coordinator

// Notes which generation was begun last, before the coordinator is called.
void rings_called(struct sim *s);

// Keeps a copy of the first JobOpen that has pieces, by which files are read.
void rings_job_open(struct sim *s, const Sluice__V1__JobOpen *m);

// Checks that a generation that a member is asked to join is in the journal,
// and that numbers rise, each in one term (R1).
void rings_opened(struct sim *s, const Sluice__V1__RingOpen *m);

// Checks the base that a generation begins with (R3, K3), and notes its
// members.
void rings_begun(struct sim *s, const Sluice__V1__RingBegin *m);

// Checks what the coordinator takes for progress (R5), and a cut that it begins
// to write (R6).
void rings_look(struct sim *s, const struct job *job);

// ---- cuts

// Checks a cut that appears, with its files (R6, K5, E3, C4).
void rings_cut(struct sim *s, const Sluice__V1__Checkpoint *c);

// Checks that the files of a cut that is kept are one state's.
void rings_verify(struct sim *s, const Sluice__V1__Checkpoint *c);

#endif
