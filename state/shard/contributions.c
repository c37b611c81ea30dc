// SPDX-License-Identifier: Apache-2.0
// state/shard/contributions.c -- the slots of the open round, and their mean.
#include "state/shard/contributions.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/slices.h"
#include "state/base/element.h"
#include "state/base/finite.h"

enum sl_err contributions_init(struct contributions *c, uint32_t most,
                               size_t elements, struct row_account *account)
{
    *c = (struct contributions){
        .most = most, .elements = elements, .account = account};
    if (most == 0)
        return SL_OK;
    c->slots = sl_calloc(most, sizeof(*c->slots));
    c->steps = sl_calloc(most, sizeof(*c->steps));
    return c->slots != NULL && c->steps != NULL ? SL_OK : SL_ENOMEM;
}

static void contributions_let_go(struct contributions *c,
                                 struct contributions_slot *slot)
{
    row_account_give(c->account, slot->rows_bytes, false);
    sl_free(slot->rows);
    slot->rows = NULL;
    slot->rows_bytes = 0;
    slot->held = false;
}

void contributions_release(struct contributions *c)
{
    for (uint32_t i = 0; c->slots != NULL && i < c->most; i++) {
        contributions_let_go(c, &c->slots[i]);
        sl_free(c->slots[i].gradient);
    }
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
        contributions_let_go(c, &c->slots[i]);
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

static enum sl_err contributions_hold_rows(struct contributions *c,
                                           struct contributions_slot *slot,
                                           const struct tables_push *rows)
{
    enum sl_err rc = row_account_take(c->account, rows->n, false);

    if (rc != SL_OK || rows->n == 0)
        return rc;
    slot->rows = sl_malloc(rows->n);
    if (slot->rows == NULL) {
        row_account_give(c->account, rows->n, false);
        return SL_ENOMEM;
    }
    memcpy(slot->rows, rows->bytes, rows->n);
    slot->rows_bytes = rows->n;
    return SL_OK;
}

static void contributions_read(const struct contributions *c,
                               enum wire_type type,
                               const struct sl_slices *payload, float *to)
{
    struct slices_runs it;
    const void *run;
    size_t n;

    if (type >= WIRE_TYPES) {
        coded_read(c->coded, type, payload, to);
        return;
    }
    (void)slices_runs_init(&it, payload, wire_type_bytes(type));
    for (; (run = slices_runs_next(&it, SIZE_MAX, &n)) != NULL; to += n)
        element_read(type, n, to, run);
}

enum sl_err contributions_hold(struct contributions *c,
                               const struct once_step *step,
                               enum wire_type type,
                               const struct sl_slices *payload,
                               const struct tables_push *rows)
{
    struct contributions_slot *slot = &c->slots[step->closure - c->first];
    enum sl_err rc = SL_OK;

    assert(!slot->held);
    if (slot->gradient == NULL)
        slot->gradient = sl_aligned(64, c->elements * sizeof(float));
    if (slot->gradient == NULL)
        return SL_ENOMEM;
    if (!step->skip)
        rc = contributions_hold_rows(c, slot, rows);
    if (rc != SL_OK)
        return rc;
    if (!step->skip)
        contributions_read(c, type, payload, slot->gradient);
    slot->step = *step;
    slot->held = true;
    c->held++;
    return SL_OK;
}

void contributions_drop(struct contributions *c, uint64_t closure)
{
    contributions_let_go(c, &c->slots[closure - c->first]);
    c->held--;
}

bool contributions_skip(const struct contributions *c)
{
    bool skip = false;

    for (uint32_t i = 0; i < c->most; i++)
        skip = skip || (c->slots[i].held && c->slots[i].step.skip);
    return skip;
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
                           uint64_t *largest)
{
    uint32_t count = 0;

    *samples = *largest = 0;
    for (uint32_t i = 0; i < c->most; i++) {
        const struct once_step *step = &c->slots[i].step;

        if (!c->slots[i].held)
            continue;
        c->steps[count++] = *step;
        *samples += step->samples;
        if (step->samples > *largest)
            *largest = step->samples;
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

const float *contributions_mean(struct contributions *c, bool skip,
                                uint32_t *count, uint64_t *largest)
{
    const float *mean = NULL;
    float *sum;
    uint64_t samples;

    *count = take_steps(c, &samples, largest);
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
