// SPDX-License-Identifier: Apache-2.0
// lib/rounds.c -- a rank of a job in allreduce mode: the worker's
// trainer/lease/task_ring.c, for slots that the program computes. Rows of
// tables are pulled, and their gradients added, by the user's thread, while the
// program has the slot; the rest of them is rank_rows.h, on the ring's thread.
#include <inttypes.h>
#include <math.h>

#include "common/base/mem.h"
#include "lib/ring.h"
#include "trainer/base/grad.h"
#include "trainer/lease/rank_rows.h"
#include "trainer/lease/task_ring.h"

// All of it the ring's thread's.
struct lib_rounds {
    struct lib_ring base;
    struct round_key *keys; // of the round's slots, and the one behind; owned
    uint32_t keys_count, keys_capacity;
    bool skips;     // the program said so of a slot of the round
    uint64_t round; // of which slots were computed last
    uint32_t computed;
    struct rank_rows rows;
};

static struct lib_rounds *rounds_of_contributor(struct contributor *c)
{
    return (struct lib_rounds *)c;
}

static enum sl_err rounds_take_state(struct contributor *c,
                                     struct sl_error *err)
{
    struct lib_rounds *g = rounds_of_contributor(c);

    rank_rows_place(&g->rows, c->ring->rank.tag.incarnation);
    slot_stale(&g->base.slot, false);
    return rank_values(&c->ring->rank, c->ring->fresh, err);
}

static enum sl_err rounds_set_keys(struct contributor *c,
                                   const struct round_key *const rounds[2],
                                   const uint32_t counts[2],
                                   struct sl_error *err)
{
    struct lib_rounds *g = rounds_of_contributor(c);
    uint32_t count = counts[0] + (counts[1] > 0);
    struct round_key *more;

    g->skips = false;
    g->computed = 0;
    if (count > g->keys_capacity) {
        more = sl_realloc_array(g->keys, count, sizeof(*more));
        if (more == NULL)
            return sl_fail(err, SL_ENOMEM, "no memory for %" PRIu32 " slots",
                           count);
        g->keys = more;
        g->keys_capacity = count;
    }
    for (uint32_t i = 0; i < counts[0]; i++)
        g->keys[i] = rounds[0][i];
    if (counts[1] > 0)
        g->keys[counts[0]] = rounds[1][0];
    g->keys_count = count;
    return SL_OK;
}

static void rounds_offer_slot(struct lib_rounds *g, const struct ring_round *r,
                              uint32_t slot)
{
    const struct schedule *s = &r->lease->record->schedule;
    const struct wire_tag tag = g->base.base.ring->rank.tag;
    struct slot_told told = {.key = g->keys[slot],
                             .generation = tag.incarnation,
                             .rounds = tag.sequence,
                             .ranks = r->ranks,
                             .self = r->self};

    schedule_step_range(s, told.key.closure, told.key.step, &told.first,
                        &told.count);
    if (slot + 1 < g->keys_count) {
        const struct round_key *next = &g->keys[slot + 1];

        if (schedule_epoch(s, next->closure) ==
            schedule_epoch(s, told.key.closure))
            schedule_step_range(s, next->closure, next->step, &told.next_first,
                                &told.next_count);
    }
    slot_offer(&g->base.slot, &told);
}

static enum sl_err rounds_add_bucket(struct lib_rounds *g, struct ring_round *r,
                                     uint32_t b, struct sl_error *err)
{
    const struct job_ring *ring = g->base.base.ring;
    const struct elements *range = &ring->buckets[b];

    return round_whole(
        r, b, grad_finite(ring->grads + range->first, (size_t)range->count), 1,
        err);
}

// The rest of a slot that the program has ended.
static enum sl_err add_rest(struct lib_rounds *g, struct ring_round *r,
                            struct sl_error *err)
{
    const struct sluice_result *result = &g->base.slot.shared.result;
    enum sl_err rc = SL_OK;

    g->computed++;
    g->round = g->base.base.ring->rank.tag.sequence;
    r->loss_sum += result->loss_sum;
    r->right_sum += result->right;
    round_absent(r, g->base.slot.shared.absent);
    if (result->skip) {
        g->skips = true;
        round_spoilt(r, false);
    }
    for (uint32_t b = g->base.slot.ranges; rc == SL_OK && b-- > 0;) {
        if (!r->bad && !slot_said(&g->base.slot, b))
            rc = rounds_add_bucket(g, r, b, err);
    }
    return rc;
}

// The program has packed the gradients of its rows (sluice_end).
static enum sl_err rounds_push_rows(struct lib_rounds *g, struct ring_round *r,
                                    uint32_t slot, struct sl_error *err)
{
    if (!r->bad && !job_tables_finite(g->rows.tables))
        round_spoilt(r, false);
    return rank_rows_push(&g->rows, r, slot, err);
}

static enum sl_err rounds_compute_slot(struct contributor *c,
                                       struct ring_round *r, uint32_t slot,
                                       struct sl_error *err)
{
    struct lib_rounds *g = rounds_of_contributor(c);
    enum slot_state at;
    enum sl_err rc = rank_rows_begin(&g->rows, g->keys[slot], err);
    uint32_t b;

    if (rc != SL_OK)
        return rc;
    rounds_offer_slot(g, r, slot);
    for (;;) {
        at = slot_next(&g->base.slot, SLOT_ANY, &b);
        if (at == SLOT_NONE)
            return rc != SL_OK ? rc : slot_why(&g->base.slot, err);
        if (at == SLOT_DONE)
            break;
        if (rc != SL_OK)
            continue; // the program gives the slot up at its next call
        rc = rounds_add_bucket(g, r, b, err);
        if (rc != SL_OK)
            slot_stale(&g->base.slot, true);
    }
    if (rc == SL_OK)
        rc = add_rest(g, r, err);
    slot_put(&g->base.slot);
    return rc == SL_OK ? rounds_push_rows(g, r, slot, err) : rc;
}

static enum sl_err rounds_skip_slot(struct contributor *c, struct ring_round *r,
                                    uint32_t slot, struct sl_error *err)
{
    return rank_rows_pass(&rounds_of_contributor(c)->rows, r, slot, err);
}

static bool rounds_was_skipped(struct contributor *c, struct ring_round *r,
                               bool finite)
{
    (void)r;
    return !finite && rounds_of_contributor(c)->skips;
}

// Counts gradients of a round that the state does not have as computed for
// nothing.
static void rounds_count_lost(struct contributor *c)
{
    struct lib_rounds *g = rounds_of_contributor(c);

    if (g->computed > 0 && c->ring->rank.tag.sequence == g->round)
        slot_lost(&g->base.slot, g->computed);
    g->computed = 0;
}

static void rounds_mark_stale(struct contributor *c)
{
    struct lib_rounds *g = rounds_of_contributor(c);

    slot_stale(&g->base.slot, true);
    rank_rows_hurry(&g->rows);
}

static const struct contributor_ops ops = {
    .place = rounds_take_state,
    .choose = rounds_set_keys,
    .compute = rounds_compute_slot,
    .pass = rounds_skip_slot,
    .scaled = rounds_was_skipped,
    .leave = rounds_count_lost,
    .hurry = rounds_mark_stale,
};

static void rounds_run(struct lib_ring *g, struct lease *l)
{
    struct lib_rounds *r = (struct lib_rounds *)g;

    rank_rows_init(&r->rows, g->job->sync, g->job->tables, &l->gate.pulse);
    g->base.beside = g->job->sync != NULL;
    task_ring_run(&g->base, l);
    rank_rows_end(&r->rows);
}

static void rounds_free_keys(struct lib_ring *g)
{
    sl_free(((struct lib_rounds *)g)->keys);
}

struct lib_ring *rounds_new(void)
{
    struct lib_rounds *g = sl_calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->base.base.ops = &ops;
    g->base.run = rounds_run;
    g->base.release = rounds_free_keys;
    return &g->base;
}
