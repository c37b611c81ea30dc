// SPDX-License-Identifier: Apache-2.0
// plan/round.h -- the steps that are averaged into one update.
//
// A round is the next steps, in order, that a state has not counted: at most
// `most`, and all of one epoch, so that an epoch ends with a round. It depends
// on the state alone (R4): ranks and the coordinator compute the same round
// from the same set.
//
// Threads  pure; round_left allocates for a moment.
// Units    closures and steps as in schedule.h.
#ifndef PLAN_ROUND_H
#define PLAN_ROUND_H

#include <stdint.h>

#include "plan/counted.h"

struct round_key {
    uint64_t closure;
    uint32_t step;
};

// Writes the keys of the next round, at most `most`, to keys[most], in order,
// and returns their number; 0: all steps are counted (or `most` is 0). Counts
// nothing.
uint32_t round_next(const struct counted *c, uint32_t most,
                    struct round_key *keys);

// Sets *left to the number of rounds of at most `most` (not 0) keys until all
// steps of the closures below `end` are counted, 0 if they are. `end` is at
// most the number of closures; a round ends with it, as with an epoch. Takes
// time in proportion to the closures counted from the watermark on, not to
// those left. SL_ENOMEM: *left is untouched.
enum sl_err round_left(const struct counted *c, uint32_t most, uint64_t end,
                       uint64_t *left);

// Sets [*first, *first + *count) to the slots of a round of `slots` slots that
// rank `self`, below `ranks`, computes: the ranks share them in order, and
// their counts differ by one at most (0, if there are more ranks than slots).
void round_slots(uint32_t slots, uint32_t ranks, uint32_t self, uint32_t *first,
                 uint32_t *count);

#endif
