// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/pace.h -- how fast a worker takes the steps of
// contributions in mode local, and how many closures its next one should have.
//
// With train.inner.pace own a worker of half the pace has half of the closures,
// so that all workers meet equally often (dynamic local updates, arXiv
// 2401.09135). Paces are what workers say: volatile, and no count depends on
// them.
//
// Threads  pure, or the caller's value.
// Memory   a value; a struct of zeroes is a worker of unknown pace. No pointer
//          is NULL.
// Units    milliseconds for one step; closures.
// Errors   none. Times that are impossible are dropped.
#ifndef COORDINATOR_RULES_PACE_H
#define COORDINATOR_RULES_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
    bool warm;      // it has told of its first contribution
    double step_ms; // recent time for a step; 0: not known
};

// Takes into *p that a contribution of `steps` steps took took_ms. The first
// one counts for nothing but p->warm: its worker compiled programs in it. The
// second one sets p->step_ms; each later one moves it half of the way, and
// counts as at most twice, or as at least half of what was known: a worker that
// was stopped for a while is not slow. Does nothing if `steps` is 0, or took_ms
// is not finite or not above 0.
void pace_take(struct pace *p, double took_ms, uint32_t steps);

// Returns how many closures a contribution should have of a worker that takes
// step_ms for a step, of `most` (1 or more) that the fastest worker takes,
// which takes fastest_ms: the share by pace, rounded, and at least 1. Rounded
// to the nearest since closures are few: two workers that differ by less than
// their pace is measured have the same number. `most` if either time is 0, not
// known, or the worker is the fastest itself.
uint32_t pace_closures(double step_ms, double fastest_ms, uint32_t most);

#endif
