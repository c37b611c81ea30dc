// SPDX-License-Identifier: Apache-2.0
// tests/sim/ranker.h -- what computes the contributions of a rank: the
// trainer's ring lease runs on it (trainer/lease/contributor.h).
//
// A gradient is rings_step's, and takes knobs.compute_us. Ranks are reached at
// their process' address (calls.h); each is on a host of its own, as far as
// sums know, so that no memory is shared.
#ifndef TESTS_SIM_RANKER_H
#define TESTS_SIM_RANKER_H

#include "tests/sim/hand.h"
#include "trainer/lease/lease.h"

// Makes what a worker of a job in allreduce, or in hybrid, computes with (there
// only its environment is of use), and serves its Ranks service.
struct ranker *ranker_new(struct hand *h);

// Frees r, whose threads have ended. NULL is allowed.
void ranker_free(struct ranker *r);

// Returns the environment for worker_member_setup, valid as long as `r`; NULL
// for NULL.
const struct ring_env *ranker_env(const struct ranker *r);

// Runs a ring lease to its outcome, on the compute thread.
void ranker_run(struct ranker *r, struct lease *l);

// Evaluates a range of a cut, which it reads from its files and compares with
// what was counted. The lease fails if r has no state of as many parts
// (SL_ESTATE), or with the error of a file that cannot be read.
void ranker_evaluate(struct ranker *r, struct lease *l);

// Checks the state that a process has now (rings_look_at), in allreduce; does
// nothing for other processes. Called whenever it may have changed.
void ranker_look(struct sim *s, struct proc *p);

// Sets *out to the tag that a process answered to a generation, and returns
// true, as long as it still has that state; else false.
bool ranker_answered(struct sim *s, uint64_t process, uint64_t generation,
                     struct wire_tag *out);

// Notes that a rank has answered a generation.
void ranker_note_answer(struct proc *p, uint64_t generation);

// Notes that a rank got a piece of the state that it copies ahead of its first
// generation.
void ranker_note_copy(struct proc *p, uint64_t generation);

#endif
