// SPDX-License-Identifier: Apache-2.0
// plan/counted_entry.h -- within counted*.c only: one touched closure.
//
// Threads, units and errors are as in counted.h; no pointer is NULL.
#ifndef PLAN_COUNTED_ENTRY_H
#define PLAN_COUNTED_ENTRY_H

#include "plan/counted.h"

struct counted_entry {
    uint32_t nbits; // steps of the closure
    uint32_t count; // bits set
    uint8_t bits[]; // (nbits + 7) / 8; those beyond nbits are 0
};

// Returns the entry of a closure; NULL if it has none, because no step of it
// was counted or reserved, or because it lies below the watermark or beyond the
// schedule. The entry is the set's, and is freed when the watermark passes its
// closure (counted_advance) or the set is released.
struct counted_entry *counted_entry_get(const struct counted *c,
                                        uint64_t closure);

// Sets *out to the entry of a closure, and makes it, without a bit set, if it
// is missing. The closure must be one of the schedule, not below the watermark
// (not checked). The entry is the set's, as that of counted_entry_get.
// SL_ENOMEM: *out is untouched.
enum sl_err counted_entry_make(struct counted *c, uint64_t closure,
                               struct counted_entry **out);

// Returns true if `step`, below e->nbits, is counted.
bool counted_entry_bit(const struct counted_entry *e, uint32_t step);

// Folds full closures at the watermark into it, and frees their entries: so the
// closure at the watermark is not full. Call it once that closure's last bit
// was set.
void counted_advance(struct counted *c);

// Returns the number of steps of the closures with ids below `low`, which is at
// most the number of all closures.
uint64_t counted_steps_below(const struct schedule *s, uint64_t low);

#endif
