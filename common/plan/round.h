// SPDX-License-Identifier: Apache-2.0
// common/plan/round.h -- which steps are averaged into one update.
//
// A round is the next steps, in order, that a state has not counted: at most so
// many, and all of one epoch, so that an epoch ends with a round. What the
// state says decides, and nothing else (R4): ranks and the coordinator compute
// the same round from the same set.
//
// Threads  pure.
// Units    closures and steps as in schedule.h.
#ifndef COMMON_PLAN_ROUND_H
#define COMMON_PLAN_ROUND_H

#include <stdint.h>

#include "common/plan/counted.h"

struct round_key {
    uint64_t closure;
    uint32_t step;
};

// The keys of the next round, at most `most`, into keys[most]; how many. 0:
// all is counted.
uint32_t round_next(const struct counted *c, uint32_t most,
                    struct round_key *keys);

// The rounds of at most `most` keys until all is counted. Takes time in the
// closures that are counted above the watermark, and none in what is left.
// SL_ENOMEM.
enum sl_err round_left(const struct counted *c, uint32_t most, uint64_t *left);

// The slots [*first, *first + *count) of a round of `slots` that rank `self` of
// `ranks` computes: runs that differ by one at most.
void round_slots(uint32_t slots, uint32_t ranks, uint32_t self, uint32_t *first,
                 uint32_t *count);

#endif
