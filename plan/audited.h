// SPDX-License-Identifier: Apache-2.0
// plan/audited.h -- the rounds of a job that are audited, and the workers that
// compute each of their contributions.
//
// In an audited round of sync the worker that has a slot also computes the next
// slots of the round, the first behind the last, so that AUDITED_WORKERS
// workers compute each. In allreduce a rank also computes the slots of the next
// ranks, the first behind the last. Which rounds these are depends on the job
// and the round alone: workers and the coordinator need not tell each other,
// and a slot that is leased again is audited again (A1).
//
// In mode async a closure is a round of its own: the worker that has it
// computes each of its steps twice (A5).
//
// Threads  pure.
// Units    closures; a share from 0 to 1.
#ifndef PLAN_AUDITED_H
#define PLAN_AUDITED_H

#include <stdbool.h>
#include <stdint.h>

#define AUDITED_WORKERS 3 // two that agree outvote one

// Returns true if a round of job `job` is audited: decided by `job` and `first`
// alone, and true for a share of `share` of all rounds. `first` is the number
// of the closure that the round begins with or, in allreduce, the number of the
// rounds before it.
bool audited_round(uint64_t job, uint64_t first, double share);

// Writes the slots that the worker of slot `own` computes in an audited round
// to slots[]: `own` first, then those behind it, the round's first behind its
// last. The round has the `count` closures from `first` on, `own` among them.
// Returns how many were written: AUDITED_WORKERS, or `count` if that is less.
// In allreduce `own` is a rank of `count`, `first` is 0, and slots[] are the
// ranks whose slots it computes.
uint32_t audited_slots(uint64_t first, uint32_t count, uint64_t own,
                       uint64_t slots[AUDITED_WORKERS]);

#endif
