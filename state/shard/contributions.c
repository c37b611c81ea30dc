// SPDX-License-Identifier: Apache-2.0
// state/shard/contributions.c -- the slots of the open round, and their mean.
#include "state/shard/contributions.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/slices.h"

enum sl_err contributions_init(struct contributions *c, const struct plan *plan,
                               struct row_account *account)
{
    uint32_t most = plan->contributions;

    *c = (struct contributions){.most = most,
                                .elements = plan->elements,
                                .coded = &plan->coded,
                                .account = account};
    if (most == 0)
        return SL_OK;
    c->slots = sl_calloc(most, sizeof(*c->slots));
    c->steps = sl_calloc(most, sizeof(*c->steps));
    c->parts = sl_calloc(most, sizeof(*c->parts));
    return c->slots != NULL && c->steps != NULL && c->parts != NULL
               ? directions_init(&c->directions, plan)
               : SL_ENOMEM;
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
        sl_free(c->slots[i].norms);
    }
    sl_free(c->slots);
    sl_free(c->steps);
    sl_free(c->parts);
    directions_release(&c->directions);
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

void contributions_clear(struct contributions *c)
{
    for (uint32_t i = 0; i < c->most; i++)
        contributions_let_go(c, &c->slots[i]);
    c->last = (struct contributions_last){0};
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

// Takes the values of a contribution, or notes where they are.
static enum sl_err contributions_take(struct contributions *c,
                                      struct contributions_slot *slot,
                                      uint64_t closure, enum wire_type type,
                                      const struct sl_slices *payload,
                                      bool last)
{
    size_t pieces = c->directions.count;

    if (pieces > 0 && slot->norms == NULL)
        slot->norms = sl_calloc(pieces, sizeof(*slot->norms));
    if (pieces > 0 && slot->norms == NULL)
        return SL_ENOMEM;
    if (pieces > 0)
        directions_norms(&c->directions, c->coded, type, payload, slot->norms);
    if (last) {
        c->last = (struct contributions_last){closure, type, *payload};
        slot->most = coded_bound(c->coded, type, payload);
        return SL_OK;
    }
    if (slot->gradient == NULL)
        slot->gradient = sl_aligned(64, c->elements * sizeof(float));
    if (slot->gradient == NULL)
        return SL_ENOMEM;
    slot->most = coded_read(c->coded, type, payload, slot->gradient);
    return SL_OK;
}

enum sl_err contributions_hold(struct contributions *c,
                               const struct once_step *step,
                               enum wire_type type,
                               const struct sl_slices *payload,
                               const struct tables_push *rows, bool last)
{
    struct contributions_slot *slot = &c->slots[step->closure - c->first];
    enum sl_err rc = SL_OK;

    assert(!slot->held);
    c->last = (struct contributions_last){0};
    slot->most = 0;
    if (!step->skip)
        rc = contributions_take(c, slot, step->closure, type, payload, last);
    if (rc == SL_OK && !step->skip)
        rc = contributions_hold_rows(c, slot, rows);
    if (rc != SL_OK) {
        c->last = (struct contributions_last){0};
        return rc;
    }
    slot->step = *step;
    slot->held = true;
    c->held++;
    return SL_OK;
}

void contributions_drop(struct contributions *c, uint64_t closure)
{
    contributions_let_go(c, &c->slots[closure - c->first]);
    c->last = (struct contributions_last){0};
    c->held--;
}

bool contributions_skip(const struct contributions *c)
{
    bool skip = false;

    for (uint32_t i = 0; i < c->most; i++)
        skip = skip || (c->slots[i].held && c->slots[i].step.skip);
    return skip;
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

// Sums up the norms of what is averaged, by piece.
static void contributions_sizes(struct contributions *c, size_t count)
{
    for (size_t p = 0; p < c->directions.count; p++) {
        double sum = 0;

        for (size_t k = 0; k < count; k++)
            sum += (double)c->parts[k].weight * c->parts[k].norms[p];
        c->directions.sizes[p] = sum;
    }
}

// Sets *mean to that of all held slots. They are added in the order of slots,
// not of arrival, so that any number of workers makes the same bits.
static void mean_of_all(struct contributions *c, uint64_t samples,
                        struct mean *mean)
{
    mean->parts = c->parts;
    mean->count = 0;
    mean->elements = c->elements;
    mean->by = 1.0f / (float)samples;
    mean->directions = NULL;
    mean->coded = c->coded;
    mean->type = c->last.type;
    mean->payload = c->last.payload;
    for (uint32_t i = 0; i < c->most; i++) {
        const struct contributions_slot *slot = &c->slots[i];
        bool last =
            c->last.payload.bytes > 0 && slot->step.closure == c->last.closure;

        if (slot->held)
            c->parts[mean->count++] =
                (struct mean_part){.values = last ? NULL : slot->gradient,
                                   .weight = (float)slot->step.samples,
                                   .most = slot->most,
                                   .norms = slot->norms};
    }
    contributions_sizes(c, mean->count);
    if (c->directions.count > 0)
        directions_mean(&c->directions, (double)samples, mean);
}

bool contributions_mean(struct contributions *c, bool skip, uint32_t *count,
                        uint64_t *largest, struct mean *mean)
{
    uint64_t samples;

    *count = take_steps(c, &samples, largest);
    if (!skip) {
        mean_of_all(c, samples, mean);
        skip = !mean_finite(mean);
    }
    for (uint32_t i = 0; i < *count; i++)
        c->steps[i].skip = skip; // or too large together
    contributions_clear(c);
    return !skip;
}
