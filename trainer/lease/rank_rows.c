// SPDX-License-Identifier: Apache-2.0
// trainer/lease/rank_rows.c -- see rank_rows.h.
#include "trainer/lease/rank_rows.h"

// The term of a rank's attempts. A slot's attempts are ordered by generations,
// which rise over all terms (I4).
#define RANK_TERM 1

void rank_rows_init(struct rank_rows *r, struct sync *sync,
                    struct job_tables *tables, struct pulse *pulse)
{
    *r = (struct rank_rows){.sync = sync, .tables = tables};
    pthread_mutex_init(&r->gate.trouble.lock, NULL);
    atomic_init(&r->gate.closed, GATE_DRAIN);
    atomic_init(&r->gate.lease_ends_ms, UINT64_MAX);
    atomic_init(&r->gate.pulse.outer, pulse);
}

void rank_rows_end(struct rank_rows *r)
{
    if (r->sync != NULL)
        r->sync->ops->close(r->sync);
    pthread_mutex_destroy(&r->gate.trouble.lock);
}

void rank_rows_place(struct rank_rows *r, uint64_t generation)
{
    r->generation = generation;
    atomic_store(&r->gate.closed, GATE_OPEN);
}

void rank_rows_hurry(struct rank_rows *r)
{
    gate_close(&r->gate, GATE_DRAIN);
    if (r->sync != NULL)
        r->sync->ops->wake(r->sync);
}

// A shard that fences the rank off, or has a part of a push, is of a generation
// that is to come.
enum sl_err rank_rows_pulled(struct rank_rows *r, enum sync_result result,
                             struct sl_error *err)
{
    if (result == SYNC_OK)
        return SL_OK;
    r->sync->ops->close(r->sync);
    if (result == SYNC_FAILED)
        return err == NULL || err->code == SL_OK ? SL_EINTERNAL : err->code;
    return sl_fail(err, SL_ECANCELED, "the generation of the ring is over");
}

// Asks the shards until all are of the generation and at our round.
static enum sync_result rank_rows_know(struct rank_rows *r,
                                       struct sl_error *err)
{
    enum sync_result result;
    uint32_t step;
    bool done;

    for (;;) {
        result = r->sync->ops->begin(r->sync, &step, &done, err);
        if (result != SYNC_BUSY && result != SYNC_AGAIN)
            return result;
        r->sync->ops->await(r->sync);
    }
}

enum sl_err rank_rows_begin(struct rank_rows *r, struct round_key key,
                            struct sl_error *err)
{
    const struct sync_closure c = {
        .closure = key.closure,
        .attempt = {.term = RANK_TERM, .n = r->generation},
        .incarnation = r->generation,
        .steps = 1,
        .gate = &r->gate};
    enum sync_result result;

    if (r->sync == NULL)
        return SL_OK;
    r->sync->ops->close(r->sync); // of a contribution that was given up
    result = r->sync->ops->open(r->sync, &c, err);
    if (result == SYNC_OK)
        result = rank_rows_know(r, err);
    if (result == SYNC_OK)
        job_tables_begin(r->tables);
    return rank_rows_pulled(r, result, err);
}

// Learns the shards anew; SYNC_AGAIN: it has, and all can be sent again.
static enum sync_result rank_rows_know_again(struct rank_rows *r,
                                             struct sl_error *err)
{
    enum sync_result known = rank_rows_know(r, err);

    return known == SYNC_OK ? SYNC_AGAIN : known;
}

// Sends what each shard lacks, and waits for all answers.
static enum sync_result rank_rows_send(struct rank_rows *r,
                                       const struct once_step *from, bool skip,
                                       struct sl_error *err)
{
    enum sync_result result = SYNC_OK;

    for (uint32_t i = 0; result == SYNC_OK && i < r->sync->ranges_count; i++) {
        struct sync_step step = {.step = from->step,
                                 .samples = from->samples,
                                 .digest = from->digest};

        if (!skip)
            (void)job_tables_fill(r->tables, i, &step);
        result = sync_wait(r->sync, i, err);
        if (result == SYNC_OK)
            result = r->sync->ops->send(r->sync, i, &step, skip, err);
    }
    return result == SYNC_OK ? sync_settle(r->sync, err) : result;
}

// R8: returns true if every shard holds the contribution.
static bool rank_rows_held(const struct rank_rows *r)
{
    bool held = true;

    for (uint32_t i = 0; i < r->sync->ranges_count; i++)
        held = held && r->sync->ops->held(r->sync, i);
    return held;
}

enum sl_err rank_rows_push(struct rank_rows *r, const struct ring_round *round,
                           uint32_t slot, struct sl_error *err)
{
    const struct once_step *step = &round->steps[round->first + slot];
    bool skip = round_is_spoilt(round);
    enum sync_result result = SYNC_AGAIN;

    if (r->sync == NULL)
        return SL_OK;
    while (result == SYNC_AGAIN) {
        result = rank_rows_send(r, step, skip, err);
        if (result == SYNC_AGAIN)
            result = rank_rows_know_again(r, err);
    }
    if (result != SYNC_OK)
        return rank_rows_pulled(r, result, err);
    if (!rank_rows_held(r)) {
        r->sync->ops->close(r->sync);
        return sl_fail(err, SL_EINTERNAL,
                       "a shard has counted rows of a round that is under way");
    }
    r->sync->ops->close(r->sync); // and asks for the round to be applied
    return SL_OK;
}

enum sl_err rank_rows_pass(struct rank_rows *r, const struct ring_round *round,
                           uint32_t slot, struct sl_error *err)
{
    enum sl_err rc = rank_rows_begin(r, round->keys[round->first + slot], err);

    return rc == SL_OK ? rank_rows_push(r, round, slot, err) : rc;
}
