// SPDX-License-Identifier: Apache-2.0
// plan/round.c -- a walk over the holes of a counted set.
#include "plan/round.h"

#include "common/base/num.h"

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

static uint64_t rounds_for_steps(uint64_t steps, uint32_t most)
{
    return steps / most + (steps % most != 0);
}

static uint64_t ones(const struct counted_closure *of)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < of->nbits; i++)
        n += of->bits[i / 8] >> (i % 8) & 1;
    return n;
}

// Returns the number of steps of the first `closures` closures of an epoch.
static uint64_t steps_below(const struct schedule *s, uint64_t closures)
{
    return sl_min(closures * s->steps_per_closure, schedule_steps_per_epoch(s));
}

// Returns how many rounds of `steps` steps fewer there are where `had` of them
// are counted.
static uint64_t rounds_saved(uint64_t steps, uint64_t had, uint32_t most)
{
    return rounds_for_steps(steps, most) - rounds_for_steps(steps - had, most);
}

// Begins with the rounds of epochs of which nothing is counted, and corrects
// the number for each that has counted steps.
enum sl_err round_left(const struct counted *c, uint32_t most, uint64_t end,
                       uint64_t *left)
{
    uint64_t closures = schedule_closures_per_epoch(&c->schedule);
    uint64_t steps = schedule_steps_per_epoch(&c->schedule);
    uint64_t part = steps_below(&c->schedule, end % closures);
    uint64_t had = steps_below(&c->schedule, c->low % closures);
    uint64_t epoch = c->low / closures, last = end / closures;
    struct counted_plain p = {.count = 0};
    enum sl_err rc = c->low < end ? counted_encode(c, &p) : SL_OK;

    if (rc != SL_OK)
        return rc;
    *left = c->low < end ? (last - epoch) * rounds_for_steps(steps, most) +
                               rounds_for_steps(part, most)
                         : 0;
    for (size_t i = 0; i < p.count && p.sparse[i].closure < end; i++) {
        uint64_t at = p.sparse[i].closure / closures;

        if (at > epoch) {
            *left -= rounds_saved(steps, had, most);
            had = 0;
        }
        had += ones(&p.sparse[i]);
        epoch = at;
    }
    if (c->low < end)
        *left -= rounds_saved(epoch == last ? part : steps, had, most);
    counted_plain_release(&p);
    return SL_OK;
}

void round_slots(uint32_t slots, uint32_t ranks, uint32_t self, uint32_t *first,
                 uint32_t *count)
{
    uint64_t from = (uint64_t)slots * self / ranks;
    uint64_t to = (uint64_t)slots * (self + 1) / ranks;

    *first = (uint32_t)from;
    *count = (uint32_t)(to - from);
}
