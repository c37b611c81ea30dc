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

// Returns true if a round of job `job` is audited, a share of `share` of all.
// `first` is the closure that it begins with or, in allreduce, the number of
// the rounds before it.
bool audited_round(uint64_t job, uint64_t first, double share);

// Writes the slots that the worker of slot `own` computes in an audited round
// of `count` closures from `first` on: `own`, then the others. Returns their
// number, which is below AUDITED_WORKERS for a shorter round. `own` is one of
// the round. In allreduce: the ranks whose slots rank `own` computes; `first`
// is 0.
uint32_t audited_slots(uint64_t first, uint32_t count, uint64_t own,
                       uint64_t slots[AUDITED_WORKERS]);

#endif
