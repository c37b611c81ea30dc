// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/evidence.c -- the counted sets of a job's shards, and what
// is to be issued by them.
#include "coordinator/rules/evidence.h"

#include <string.h>

#include "common/base/mem.h"

enum sl_err evidence_init(struct evidence *e, const struct schedule *s,
                          uint32_t shards, struct sl_error *err)
{
    struct evidence fresh = {.schedule = *s, .shards = shards};
    enum sl_err rc = schedule_check(s, err);

    if (rc != SL_OK)
        return rc;
    fresh.closures = schedule_closures(s);
    fresh.shard = sl_calloc(shards, sizeof(*fresh.shard));
    if (fresh.shard == NULL)
        return sl_fail(err, SL_ENOMEM, "evidence of %u shards", shards);
    for (uint32_t i = 0; i < shards; i++) {
        rc = counted_init(&fresh.shard[i].counted, s);
        if (rc != SL_OK) {
            evidence_release(&fresh);
            return sl_fail(err, rc, "evidence of shard %u", i);
        }
    }
    *e = fresh;
    return SL_OK;
}

void evidence_release(struct evidence *e)
{
    for (uint32_t i = 0; e->shard != NULL && i < e->shards; i++)
        counted_release(&e->shard[i].counted);
    sl_free(e->shard);
    memset(e, 0, sizeof(*e));
}

// One past the highest closure with a counted step.
static uint64_t highest(const struct counted *c)
{
    uint64_t high = counted_low(c), closure;
    size_t at = 0;
    void *unused;

    while (map_next(&c->sparse, &at, &closure, &unused)) {
        if (closure >= high)
            high = closure + 1;
    }
    return high;
}

void evidence_admit(struct evidence *e, uint32_t shard, uint64_t incarnation,
                    struct counted *counted)
{
    struct evidence_shard *s = &e->shard[shard];
    uint64_t high = highest(counted);

    counted_release(&s->counted);
    s->counted = *counted;
    s->incarnation = incarnation;
    memset(s->held, 0, sizeof(s->held)); // facts of a memory that is gone (Y3)
    memset(counted, 0, sizeof(*counted));
    if (high > e->high)
        e->high = high;
}

// ---- rounds

// The first closure of the round of `closure`, and the first after it.
uint64_t evidence_round_first(const struct evidence *e, uint64_t closure)
{
    uint64_t per_epoch = schedule_closures_per_epoch(&e->schedule);
    uint64_t epoch = closure / per_epoch * per_epoch;

    return epoch + (closure - epoch) / e->round * e->round;
}

static uint64_t round_end(const struct evidence *e, uint64_t closure)
{
    uint64_t per_epoch = schedule_closures_per_epoch(&e->schedule);
    uint64_t epoch_end = (closure / per_epoch + 1) * per_epoch;
    uint64_t end = evidence_round_first(e, closure) + e->round;

    return end < epoch_end ? end : epoch_end;
}

static void hold(struct evidence *e, struct evidence_shard *s, uint64_t closure)
{
    uint64_t first = evidence_round_first(e, closure);

    if (s->held_first != first)
        memset(s->held, 0, sizeof(s->held));
    s->held_first = first;
    s->held[(closure - first) / 64] |= UINT64_C(1) << ((closure - first) % 64);
}

static bool holds(const struct evidence *e, const struct evidence_shard *s,
                  uint64_t closure)
{
    uint64_t first = evidence_round_first(e, closure);

    return s->held_first == first &&
           (s->held[(closure - first) / 64] >> ((closure - first) % 64) & 1);
}

static enum sl_err count(struct evidence *e, struct evidence_shard *s,
                         uint64_t from, uint64_t end)
{
    for (uint64_t at = from; at < end; at++) {
        enum sl_err rc = counted_add_closure(&s->counted, at);

        if (rc != SL_OK && rc != SL_EEXIST)
            return rc;
    }
    if (end > e->high)
        e->high = end;
    return SL_OK;
}

enum sl_err evidence_low_take(struct evidence *e, uint32_t shard,
                              uint64_t incarnation, uint64_t low)
{
    struct evidence_shard *s;

    if (shard >= e->shards || low > e->closures)
        return SL_OK;
    s = &e->shard[shard];
    if (s->incarnation == 0 || s->incarnation != incarnation)
        return SL_OK;
    return count(e, s, counted_low(&s->counted), low);
}

bool evidence_closure_held(const struct evidence *e, uint64_t closure)
{
    for (uint32_t i = 0; e->round > 0 && i < e->shards; i++) {
        const struct evidence_shard *s = &e->shard[i];

        if (!counted_closure_full(&s->counted, closure) &&
            !holds(e, s, closure))
            return false;
    }
    return e->round > 0;
}

// What one item says: in sync a round is counted whole (Y2).
static enum sl_err take(struct evidence *e, struct evidence_shard *s,
                        uint64_t closure, const struct evidence_item *item)
{
    if (!item->held && (e->round == 0 || !item->closed))
        return count(e, s, closure, closure + 1);
    if (!item->held)
        return count(e, s, evidence_round_first(e, closure),
                     round_end(e, closure));
    if (e->round > 0 && !counted_closure_full(&s->counted, closure))
        hold(e, s, closure);
    return SL_OK;
}

enum sl_err evidence_complete(struct evidence *e, uint64_t closure,
                              const struct evidence_item *items, size_t count,
                              bool *full)
{
    if (closure >= e->closures)
        return SL_ERANGE;

    for (size_t i = 0; i < count; i++) {
        struct evidence_shard *s;
        enum sl_err rc;

        if (items[i].shard >= e->shards)
            continue;
        s = &e->shard[items[i].shard];
        if (s->incarnation == 0 || s->incarnation != items[i].incarnation)
            continue; // C1: a fact of a memory that is gone, or of a stranger
        rc = take(e, s, closure, &items[i]);
        if (rc != SL_OK)
            return rc;
    }
    *full = evidence_closure_full(e, closure);
    return SL_OK;
}

enum sl_err evidence_count(struct evidence *e, uint64_t closure, uint32_t step)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < e->shards; i++)
        rc = counted_add(&e->shard[i].counted, closure, step);
    if (rc == SL_OK && closure >= e->high)
        e->high = closure + 1;
    return rc;
}

bool evidence_closure_full(const struct evidence *e, uint64_t closure)
{
    for (uint32_t i = 0; i < e->shards; i++) {
        if (!counted_closure_full(&e->shard[i].counted, closure))
            return false;
    }
    return true;
}

uint64_t evidence_closure_steps(const struct evidence *e, uint64_t closure)
{
    uint32_t steps = schedule_closure_steps(&e->schedule, closure);
    uint64_t fewest = e->shards == 0 ? 0 : steps;

    for (uint32_t i = 0; i < e->shards; i++) {
        uint64_t here = 0;

        for (uint32_t step = 0; step < steps; step++)
            here += counted_has(&e->shard[i].counted, closure, step);
        if (here < fewest)
            fewest = here;
    }
    return fewest;
}

uint64_t evidence_next(const struct evidence *e, uint64_t from)
{
    uint64_t next = e->closures;

    for (uint32_t i = 0; i < e->shards; i++) {
        uint64_t open = counted_next_open(&e->shard[i].counted, from);

        if (open < next)
            next = open;
    }
    return next;
}

uint64_t evidence_limit(const struct evidence *e, uint64_t window)
{
    uint64_t low = evidence_low(e);

    if (e->round > 0 && low < e->closures)
        return round_end(e, low); // (Y4)
    return e->closures - low <= window ? e->closures : low + window;
}

uint64_t evidence_low(const struct evidence *e)
{
    uint64_t low = e->closures;

    for (uint32_t i = 0; i < e->shards; i++) {
        uint64_t of_shard = counted_low(&e->shard[i].counted);

        if (of_shard < low)
            low = of_shard;
    }
    return low;
}

bool evidence_full(const struct evidence *e)
{
    return e->shards > 0 && evidence_low(e) == e->closures;
}

uint32_t evidence_epochs(const struct evidence *e)
{
    return (uint32_t)(evidence_low(e) /
                      schedule_closures_per_epoch(&e->schedule));
}

uint64_t evidence_steps(const struct evidence *e)
{
    uint64_t steps = UINT64_MAX;

    for (uint32_t i = 0; i < e->shards; i++) {
        uint64_t of_shard = counted_steps(&e->shard[i].counted);

        if (of_shard < steps)
            steps = of_shard;
    }
    return e->shards == 0 ? 0 : steps;
}

// Walks from one hole to the next: bounded by the window (C5).
uint64_t evidence_closures(const struct evidence *e)
{
    uint64_t at = evidence_low(e), full = at;

    while (at < e->high) {
        uint64_t hole = evidence_next(e, at);

        if (hole > e->high)
            hole = e->high;
        full += hole - at;
        at = hole + 1;
    }
    return full;
}
