// SPDX-License-Identifier: Apache-2.0
// lib/slot.c -- a slot between the thread that wants it and the user's.
#include "lib/slot.h"

#include <string.h>

#include "common/base/deadline.h"
#include "common/base/mem.h"
#include "lib/ring.h"

#define LOOK_MS 200 // at the gate, at least so often

enum range_state { RANGE_OPEN, RANGE_WHOLE, RANGE_SAID };

static void slot_lock(struct lib_slot *t)
{
    pthread_mutex_lock(&t->session->shared.lock);
}

static void slot_unlock(struct lib_slot *t)
{
    pthread_mutex_unlock(&t->session->shared.lock);
}

static void changed_locked(struct lib_slot *t)
{
    pthread_cond_broadcast(&t->session->shared.changed);
}

enum sl_err slot_init(struct lib_slot *t, struct sluice *s, struct lease *l,
                      uint32_t ranges, uint32_t variables)
{
    t->session = s;
    t->lease = l;
    t->ranges = ranges;
    t->variables = variables;
    t->shared.range = sl_calloc(ranges, 1);
    t->shared.absent = sl_calloc(variables, sizeof(*t->shared.absent));
    return t->shared.range != NULL && t->shared.absent != NULL ? SL_OK
                                                               : SL_ENOMEM;
}

void slot_release(struct lib_slot *t)
{
    sl_free(t->shared.range);
    sl_free(t->shared.absent);
    t->shared.range = NULL;
    t->shared.absent = NULL;
}

// ---- the thread that wants it

void slot_offer(struct lib_slot *t, const struct slot_told *told)
{
    slot_lock(t);
    t->shared.at = SLOT_OFFERED;
    t->shared.told = *told;
    memset(t->shared.range, RANGE_OPEN, t->ranges);
    changed_locked(t);
    slot_unlock(t);
}

// The ring's gate alone: a group gets to the end of a step of a training lease
// that was taken from its leader, which then pushes nothing.
static bool closed_locked(struct lib_slot *t)
{
    return gate_look(&t->lease->gate, sl_clock_real()) != GATE_OPEN;
}

// Returns true if the offer is to be withdrawn: its generation or lease is
// over, the session drains, or the program lets go of the lease.
static bool withdraws_locked(struct lib_slot *t)
{
    if (t->shared.leaving)
        return true;
    return t->shared.at == SLOT_OFFERED &&
           (t->shared.stale || t->session->shared.draining || closed_locked(t));
}

// A range that is whole and was not said yet; else their count.
static uint32_t whole_locked(const struct lib_slot *t, uint32_t wanted)
{
    uint32_t n = t->ranges;

    if (wanted < n)
        return t->shared.range[wanted] == RANGE_WHOLE ? wanted : n;
    for (uint32_t i = wanted == SLOT_ANY ? n : 0; i-- > 0;) {
        if (t->shared.range[i] == RANGE_WHOLE)
            return i;
    }
    return n;
}

// The program's signs of life are the ring's; so the training lease gets on.
static void beat_locked(struct lib_slot *t)
{
    uint64_t beats = atomic_load(&t->lease->gate.pulse.beats);

    if (t->shared.inner != NULL && beats != t->beats)
        atomic_fetch_add(&t->shared.inner->pulse.beats, 1);
    t->beats = beats;
}

enum slot_state slot_next(struct lib_slot *t, uint32_t wanted, uint32_t *range)
{
    enum slot_state at;

    slot_lock(t);
    for (;;) {
        struct deadline until = deadline_in_ms(LOOK_MS);

        beat_locked(t);
        if (withdraws_locked(t))
            t->shared.at = SLOT_NONE;
        at = t->shared.at;
        *range = whole_locked(t, wanted);
        if (at == SLOT_NONE || at == SLOT_DONE || *range < t->ranges)
            break;
        (void)deadline_wait(&until, &t->session->shared.changed,
                            &t->session->shared.lock);
    }
    if (at == SLOT_TAKEN)
        t->shared.range[*range] = RANGE_SAID;
    slot_unlock(t);
    return at;
}

bool slot_said(const struct lib_slot *t, uint32_t range)
{
    return t->shared.range[range] == RANGE_SAID;
}

void slot_put(struct lib_slot *t)
{
    slot_lock(t);
    t->shared.at = SLOT_NONE;
    slot_unlock(t);
}

enum sl_err slot_why(struct lib_slot *t, struct sl_error *err)
{
    enum sl_err rc;

    slot_lock(t);
    rc = t->shared.failed.code;
    if (rc != SL_OK)
        *err = t->shared.failed;
    slot_unlock(t);
    return rc != SL_OK ? rc
                       : sl_fail(err, SL_ECANCELED,
                                 "the program has not computed its gradient");
}

void slot_lost(struct lib_slot *t, uint32_t lost)
{
    slot_lock(t);
    t->shared.redone += lost;
    slot_unlock(t);
}

void slot_stale(struct lib_slot *t, bool stale)
{
    slot_lock(t);
    t->shared.stale = stale;
    changed_locked(t);
    slot_unlock(t);
}

void slot_within(struct lib_slot *t, struct gate *inner)
{
    slot_lock(t);
    t->shared.inner = inner;
    slot_unlock(t);
}

void slot_ended(struct lib_slot *t)
{
    slot_lock(t);
    t->shared.at = SLOT_NONE;
    t->shared.ended = true;
    changed_locked(t);
    slot_unlock(t);
}

// ---- the user's

void slot_leave(struct lib_slot *t)
{
    slot_lock(t);
    t->shared.leaving = true;
    if (t->shared.inner != NULL)
        gate_close(t->shared.inner, GATE_DRAIN);
    changed_locked(t);
    slot_unlock(t);
}

bool slot_news_locked(const struct lib_slot *t)
{
    return t->shared.at == SLOT_OFFERED || t->shared.ended;
}

bool slot_grab(struct lib_slot *t, struct sluice_closure *c)
{
    const struct slot_told *told = &t->shared.told;
    bool there;

    slot_lock(t);
    there = t->shared.at == SLOT_OFFERED && !withdraws_locked(t);
    if (there) {
        t->shared.at = SLOT_TAKEN;
        c->lease = t->lease;
        c->key = told->key;
        c->first = told->first;
        c->count = told->count;
        c->info.ranks = told->ranks;
        c->info.rank = told->self;
        c->info.generation = told->generation;
        c->info.rounds = told->rounds;
        c->info.redone = t->shared.redone;
        c->info.next_first = told->next_first;
        c->info.next_count = told->next_count;
    }
    slot_unlock(t);
    return there;
}

static struct lib_slot *slot_of(const struct sluice_closure *c)
{
    return &c->session->ring->slot;
}

// Returns true if the slot was withdrawn or its gradient would count for
// nothing; the slot is given up then.
static bool lost_locked(struct lib_slot *t)
{
    bool lost =
        t->shared.at != SLOT_TAKEN || t->shared.stale || closed_locked(t);

    if (lost && t->shared.at == SLOT_TAKEN) {
        t->shared.at = SLOT_NONE;
        changed_locked(t);
    }
    return lost;
}

enum sl_err slot_lose_closure(struct sluice_closure *c, struct sl_error *err)
{
    c->at = CLOSURE_LOST;
    c->inside = false;
    return sl_fail(err, SL_ECANCELED,
                   "the ring is made anew, or left: the step counts for "
                   "nothing; take the next closure");
}

void slot_fail(struct sluice_closure *c, const struct sl_error *failed,
               bool stopped)
{
    struct lib_slot *t = slot_of(c);

    slot_lock(t);
    t->shared.at = SLOT_NONE;
    if (failed != NULL)
        t->shared.failed = *failed;
    else if (stopped && !t->shared.stale)
        gate_close(&t->lease->gate, GATE_DRAIN);
    changed_locked(t);
    slot_unlock(t);
}

enum sl_err slot_begin(struct sluice_closure *c, struct sluice_step *out,
                       struct sl_error *err)
{
    struct lib_slot *t = slot_of(c);
    bool lost = false;

    *out = (struct sluice_step){.none = c->at == CLOSURE_DONE,
                                .number = c->key.step};
    if (out->none)
        return SL_OK;
    slot_lock(t);
    lost = c->at == CLOSURE_LOST || lost_locked(t);
    slot_unlock(t);
    if (lost)
        return slot_lose_closure(c, err);
    out->first = c->first;
    out->count = c->count;
    c->at = CLOSURE_STEPS;
    c->inside = true; // a closure is one step: nothing is absent yet
    return SL_OK;
}

// The range that leaves last waits for what sluice_end says: by it a round is
// skipped.
enum sl_err slot_ready(struct sluice_closure *c, uint32_t range,
                       struct sl_error *err)
{
    struct lib_slot *t = slot_of(c);
    bool lost;

    c->sent[range] = true;
    slot_lock(t);
    lost = lost_locked(t);
    if (!lost && range > 0) {
        t->shared.range[range] = RANGE_WHOLE;
        changed_locked(t);
    }
    slot_unlock(t);
    return lost ? slot_lose_closure(c, err) : SL_OK;
}

enum sl_err slot_end(struct sluice_closure *c, const struct sluice_result *r,
                     struct sl_error *err)
{
    struct lib_slot *t = slot_of(c);
    bool lost;

    slot_lock(t);
    lost = lost_locked(t);
    if (!lost) {
        t->shared.at = SLOT_DONE;
        t->shared.result = *r;
        memcpy(t->shared.absent, c->absent,
               t->variables * sizeof(*t->shared.absent));
        changed_locked(t);
    }
    slot_unlock(t);
    if (lost)
        return slot_lose_closure(c, err);
    c->inside = false;
    c->at = CLOSURE_DONE;
    return SL_OK;
}

bool slot_over(const struct sluice_closure *c)
{
    return c->at == CLOSURE_DONE || c->at == CLOSURE_LOST;
}

uint32_t slot_absent(struct sync_step *step, const struct layout *l,
                     uint32_t range, const bool *absent)
{
    const struct layout_shard *shard = &l->shards[range];
    const struct layout_piece *piece = &l->pieces[shard->first_piece];
    uint32_t n = 0;

    for (uint32_t i = 0; i < shard->pieces && i < WIRE_ABSENT_MAX; i++) {
        if (!absent[piece[i].variable])
            continue;
        n++;
        step->absent[i / 8] |= (uint8_t)(1u << (i % 8));
        step->absent_bytes = i / 8 + 1;
    }
    step->none = n == shard->pieces;
    return n;
}
