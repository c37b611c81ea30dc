// SPDX-License-Identifier: Apache-2.0
// tests/sim/rings.h -- what must hold of a job in allreduce.
//
// Each state that a rank ever had is known by its mark: which steps it holds,
// and of which generation each of its rounds is. Of one tag there is one mark
// (a state is one of a line); what was published in a cut is in every state
// that is trained on after it.
//
// The files of ranks are kept here: in a folder that all ranks share and that
// loses nothing (K2). Keep takes them away.
#ifndef TESTS_SIM_RINGS_H
#define TESTS_SIM_RINGS_H

#include "tests/sim/truth.h"

struct job;

struct rank_state {
    struct wire_tag tag;
    struct counted counted; // all zeroes: it has none
    struct ledger ledger;
    uint32_t by[SIM_STEPS]; // generation of each round
};

// ---- rank.c

void rank_clear(struct rank_state *s);
void rank_copy(struct rank_state *to, const struct rank_state *from);
// The process of a rank, if it lives.
struct proc *rank_proc(struct sim *s, uint64_t process);
// What a rank has answered to a generation, as long as it still has it; or
// NULL.
const struct rank_state *rank_answered(struct sim *s, uint64_t process,
                                       uint64_t generation);

// ---- rings.c

void rings_new(struct sim *s);
void rings_free(struct sim *s);

// ---- ranks

uint64_t rings_mark(const struct rank_state *state);
// How many steps the state of that tag holds; 0: nobody had it.
uint64_t rings_steps(struct sim *s, struct wire_tag tag);
// A step becomes part of a state (R4: once).
void rings_count(struct sim *s, struct rank_state *state, uint64_t closure,
                 uint32_t step);
void rings_placed(struct sim *s, struct proc *p,
                  const struct rank_state *state);
void rings_applied(struct sim *s, struct proc *p,
                   const struct rank_state *state);
void rings_add_file(struct sim *s, uint32_t part,
                    const struct rank_state *state);
const struct rank_state *rings_file(struct sim *s, uint32_t part,
                                    struct wire_tag tag); // or NULL
void rings_keep(struct sim *s, const Sluice__V1__Keep *keep);

// ---- the coordinator

// It is about to be called: what was begun by now.
void rings_called(struct sim *s);
// It opens a generation for one of its members (R1); it begins it (R3).
void rings_opened(struct sim *s, const Sluice__V1__RingOpen *m);
void rings_begun(struct sim *s, const Sluice__V1__RingBegin *m);
// R5: what it takes for progress.
void rings_look(struct sim *s, const struct job *job);

// ---- cuts

// R6, K4: a cut that appears. And files of a cut that is kept.
void rings_cut(struct sim *s, const Sluice__V1__Checkpoint *c);
void rings_verify(struct sim *s, const Sluice__V1__Checkpoint *c);

#endif
