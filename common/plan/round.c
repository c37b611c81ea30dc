// SPDX-License-Identifier: Apache-2.0
// common/plan/round.c -- a walk over the holes of a counted set.
#include "common/plan/round.h"

uint32_t round_next(const struct counted *c, uint32_t most,
                    struct round_key *keys)
{
    uint64_t closure = counted_next_open(c, 0);
    uint64_t epoch =
        closure < c->closures ? schedule_epoch(&c->schedule, closure) : 0;
    uint32_t count = 0;

    while (count < most && closure < c->closures &&
           schedule_epoch(&c->schedule, closure) == epoch) {
        uint32_t steps = schedule_closure_steps(&c->schedule, closure);

        for (uint32_t i = 0; i < steps && count < most; i++) {
            if (!counted_has(c, closure, i))
                keys[count++] = (struct round_key){closure, i};
        }
        closure = counted_next_open(c, closure + 1);
    }
    return count;
}

void round_slots(uint32_t slots, uint32_t ranks, uint32_t self, uint32_t *first,
                 uint32_t *count)
{
    uint64_t from = (uint64_t)slots * self / ranks;
    uint64_t to = (uint64_t)slots * (self + 1) / ranks;

    *first = (uint32_t)from;
    *count = (uint32_t)(to - from);
}
