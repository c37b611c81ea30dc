// SPDX-License-Identifier: Apache-2.0
// state/shard/contributions.c -- the slots of the open round, and their mean.
#include "state/shard/contributions.h"

#include <assert.h>

#include "common/base/mem.h"
#include "common/base/slices.h"
#include "state/base/element.h"
#include "state/base/finite.h"

enum sl_err contributions_init(struct contributions *c, uint32_t most,
                               size_t elements)
{
    *c = (struct contributions){.most = most, .elements = elements};
    if (most == 0)
        return SL_OK;
    c->slots = sl_calloc(most, sizeof(*c->slots));
    c->steps = sl_calloc(most, sizeof(*c->steps));
    return c->slots != NULL && c->steps != NULL ? SL_OK : SL_ENOMEM;
}

void contributions_release(struct contributions *c)
{
    for (uint32_t i = 0; c->slots != NULL && i < c->most; i++)
        sl_free(c->slots[i].gradient);
    sl_free(c->slots);
    sl_free(c->steps);
    *c = (struct contributions){0};
}

uint64_t contributions_round(const struct schedule *s, uint32_t most,
                             uint64_t closure, uint32_t *count)
{
    uint64_t epoch_closures = schedule_closures_per_epoch(s);
    uint64_t epoch = closure / epoch_closures * epoch_closures;
    uint64_t first = epoch + (closure - epoch) / most * most;
    uint64_t left = epoch + epoch_closures - first;

    *count = left < most ? (uint32_t)left : most;
    return first;
}

static void contributions_clear(struct contributions *c)
{
    for (uint32_t i = 0; i < c->most; i++)
        c->slots[i].held = false;
    c->held = 0;
}

void contributions_open(struct contributions *c, uint64_t first)
{
    if (c->first != first)
        contributions_clear(c);
    c->first = first;
}

bool contributions_has(const struct contributions *c, uint64_t closure)
{
    return closure >= c->first && closure - c->first < c->most &&
           c->slots[closure - c->first].held;
}

enum sl_err contributions_hold(struct contributions *c,
                               const struct once_step *step,
                               enum wire_type type,
                               const struct sl_slices *payload)
{
    struct contributions_slot *slot = &c->slots[step->closure - c->first];
    struct slices_runs it;
    const void *run;
    float *to;
    size_t n;

    assert(!slot->held);
    if (slot->gradient == NULL)
        slot->gradient = sl_aligned(64, c->elements * sizeof(float));
    if (slot->gradient == NULL)
        return SL_ENOMEM;
    to = slot->gradient;
    (void)slices_runs_init(&it, payload, wire_type_bytes(type));
    for (; !step->skip && (run = slices_runs_next(&it, SIZE_MAX, &n)) != NULL;
         to += n)
        element_read(type, n, to, run);
    slot->step = *step;
    slot->held = true;
    c->held++;
    return SL_OK;
}

static void contributions_add_weighted(float *sum, const float *g, float weight,
                                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += weight * g[i];
}

static void scale(float *sum, float by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] *= by;
}

// Copies the steps of held slots to c->steps, in the order of slots, and
// returns their number. *samples is their sum, *largest their maximum.
static uint32_t take_steps(struct contributions *c, uint64_t *samples,
                           uint64_t *largest, bool *skip)
{
    uint32_t count = 0;

    *samples = *largest = 0;
    *skip = false;
    for (uint32_t i = 0; i < c->most; i++) {
        const struct once_step *step = &c->slots[i].step;

        if (!c->slots[i].held)
            continue;
        c->steps[count++] = *step;
        *samples += step->samples;
        if (step->samples > *largest)
            *largest = step->samples;
        *skip = *skip || step->skip;
    }
    return count;
}

// Returns the weighted sum, in the memory of the first held slot. It adds in
// the order of slots, not of arrival, so that any number of workers makes the
// same bits.
static float *sum_all(struct contributions *c)
{
    float *sum = NULL;

    for (uint32_t i = 0; i < c->most; i++) {
        const struct contributions_slot *slot = &c->slots[i];

        if (!slot->held)
            continue;
        if (sum != NULL) {
            contributions_add_weighted(sum, slot->gradient,
                                       (float)slot->step.samples, c->elements);
            continue;
        }
        sum = slot->gradient;
        scale(sum, (float)slot->step.samples, c->elements);
    }
    return sum;
}

const float *contributions_mean(struct contributions *c, uint32_t *count,
                                uint64_t *largest)
{
    const float *mean = NULL;
    float *sum;
    uint64_t samples;
    bool skip;

    *count = take_steps(c, &samples, largest, &skip);
    if (!skip) {
        sum = sum_all(c);
        scale(sum, 1.0f / (float)samples, c->elements);
        if (finite_all(WIRE_F32, (const uint8_t *)sum, c->elements))
            mean = sum;
    }
    for (uint32_t i = 0; i < *count; i++)
        c->steps[i].skip = mean == NULL; // or too large together
    contributions_clear(c);
    return mean;
}
