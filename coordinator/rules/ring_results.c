// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/ring_results.c -- see ring_results.h.
#include "coordinator/rules/ring_results.h"

#include <string.h>

#include "common/base/mem.h"
#include "plan/audited.h"
#include "plan/sketch.h"

static uint32_t ring_results_count(const struct ring_results *r,
                                   uint64_t member)
{
    uint32_t n = 0;

    for (const struct ring_result *one = r->held; one != NULL; one = one->next)
        n += one->member == member;
    return n;
}

// Copies a result, with `sketch` as the place of its sketch.
static void ring_results_copy(const Sluice__V1__Repeat *from,
                              Sluice__V1__Repeat *to, struct sketch *sketch)
{
    sluice__v1__repeat__init(to);
    to->closure = from->closure;
    to->step = from->step;
    to->kind = from->kind;
    to->inputs = from->inputs;
    to->output = from->output;
    if (from->n_sketch != SKETCH_NUMBERS)
        return;
    memcpy(sketch->of, from->sketch, sizeof(sketch->of));
    to->sketch = sketch->of;
    to->n_sketch = SKETCH_NUMBERS;
}

void ring_results_hold(struct ring_results *r, const struct ring *ring,
                       uint64_t member, const Sluice__V1__RingStep *message)
{
    uint32_t self = ring_index(ring, member);
    struct ring_result *one;
    struct sketch *sketches;

    if (self == UINT32_MAX ||
        ring_results_count(r, member) >= RING_RESULTS_MOST)
        return;
    one = sl_malloc(sizeof(*one) + message->n_repeats * (sizeof(one->list[0]) +
                                                         sizeof(*sketches)));
    if (one == NULL)
        return;
    sketches = (struct sketch *)(void *)(one->list + message->n_repeats);
    *one = (struct ring_result){.next = r->held,
                                .member = member,
                                .round = message->sequence - 1,
                                .self = self,
                                .ranks = ring->members,
                                .count = message->n_repeats};
    for (size_t i = 0; i < one->count; i++)
        ring_results_copy(message->repeats[i], &one->list[i], &sketches[i]);
    r->held = one;
}

// Returns the index of a result's key; `count`: it is none of these.
static uint32_t key_index(const struct round_key *keys, uint32_t count,
                          const Sluice__V1__Repeat *result)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t at = low + (high - low) / 2;
        const struct round_key *k = &keys[at];

        if (k->closure == result->closure && k->step == result->step)
            return at;
        if (k->closure < result->closure ||
            (k->closure == result->closure && k->step < result->step))
            low = at + 1;
        else
            high = at;
    }
    return count;
}

// Returns true if the rank was to compute slot `at` of `count`.
static bool ring_result_may(const struct ring_result *one, uint32_t at,
                            uint32_t count)
{
    uint64_t ranks[AUDITED_WORKERS];
    uint32_t n = audited_slots(0, one->ranks, one->self, ranks);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t first, slots;

        round_slots(count, one->ranks, (uint32_t)ranks[i], &first, &slots);
        if (at >= first && at < first + slots)
            return true;
    }
    return false;
}

void ring_results_open(struct ring_results *r, uint64_t round,
                       const struct round_key *keys, uint32_t count)
{
    for (struct ring_result *one = r->held; one != NULL; one = one->next) {
        size_t kept = 0;

        if (one->round != round || one->open)
            continue;
        for (size_t i = 0; i < one->count; i++) {
            uint32_t at = key_index(keys, count, &one->list[i]);

            if (at < count && ring_result_may(one, at, count))
                one->list[kept++] = one->list[i];
        }
        one->count = kept;
        one->open = true;
    }
}

struct ring_result *ring_results_due(struct ring_results *r)
{
    struct ring_result **at = &r->held, *one;

    while (*at != NULL && !(*at)->open)
        at = &(*at)->next;
    one = *at;
    if (one != NULL)
        *at = one->next;
    return one;
}

void ring_results_forget(struct ring_results *r)
{
    while (r->held != NULL) {
        struct ring_result *one = r->held;

        r->held = one->next;
        sl_free(one);
    }
}
