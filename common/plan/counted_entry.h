// SPDX-License-Identifier: Apache-2.0
// common/plan/counted_entry.h -- within counted*.c only: one touched closure.
#ifndef COMMON_PLAN_COUNTED_ENTRY_H
#define COMMON_PLAN_COUNTED_ENTRY_H

#include "common/plan/counted.h"

struct counted_entry {
    uint32_t nbits; // steps of the closure
    uint32_t count; // bits set
    uint8_t bits[]; // (nbits + 7) / 8; those beyond nbits are 0
};

// Find the entry of a closure (NULL: not touched), or make it, for a closure of
// the schedule at or above low.
struct counted_entry *counted_entry_get(const struct counted *c,
                                        uint64_t closure);
enum sl_err counted_entry_make(struct counted *c, uint64_t closure,
                               struct counted_entry **out);
bool counted_entry_bit(const struct counted_entry *e, uint32_t step);

// Restores invariant 2: folds full closures into the watermark.
void counted_advance(struct counted *c);

// Returns the steps of all closures below a mark.
uint64_t counted_steps_below(const struct schedule *s, uint64_t low);

#endif
