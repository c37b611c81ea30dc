// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/votes.c -- the slots of the last audited rounds, each at
// the place that its number gives it.
#include "coordinator/rules/votes.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "coordinator/rules/witness.h"

#define ROUNDS 4 // rounds whose slots are kept

// Bounds of sketches, in norms; see votes_bound.
#define BOUND_32 0.02
#define BOUND_16 1
#define NEAR 0.25 // within this share of the bound kinds are near
// A longer gradient may be infinite on some kinds of host alone.
#define LONG 1e18

static void votes_slot_empty(struct votes_slot *s, uint64_t closure)
{
    for (uint32_t i = 0; i < s->count; i++)
        sl_free(s->list[i].name);
    *s = (struct votes_slot){.closure = closure};
}

void votes_release(struct votes *v)
{
    for (uint32_t i = 0; i < v->capacity; i++)
        votes_slot_empty(&v->slots[i], 0);
    sl_free(v->slots);
    *v = (struct votes){NULL};
}

// Returns the slot's place; NULL: a newer slot has it, or no memory.
static struct votes_slot *votes_slot_of(struct votes *v, uint32_t round,
                                        uint64_t closure)
{
    struct votes_slot *s;

    if (v->slots == NULL) {
        v->slots = sl_calloc((size_t)round * ROUNDS, sizeof(*v->slots));
        v->capacity = v->slots == NULL ? 0 : round * ROUNDS;
    }
    if (v->capacity == 0)
        return NULL;
    s = &v->slots[closure % v->capacity];
    if (s->closure > closure)
        return NULL;
    if (s->closure < closure)
        votes_slot_empty(s, closure);
    return s;
}

// Returns the place of a worker's vote, or count.
static uint32_t votes_index(const struct votes_slot *s, const char *name)
{
    uint32_t i = 0;

    while (i < s->count && strcmp(s->list[i].name, name) != 0)
        i++;
    return i;
}

// ---- two votes

enum votes_said { VOTES_NOTHING, VOTES_AGREE, VOTES_DIFFER };

// Several times what was measured of right results (docs/modes.md, Audits). In
// TF32 a processor computes in f32.
double votes_bound(enum spec_precision precision)
{
    return precision == SPEC_BF16 || precision == SPEC_F16 ? BOUND_16
                                                           : BOUND_32;
}

static enum votes_said votes_compare_sketches(const struct kinds *kinds,
                                              const struct vote *a,
                                              const struct vote *b)
{
    double known = kinds_norm(kinds, a->kind, b->kind), norm;
    double apart = sketch_apart(&norm, &a->sketch, &b->sketch);

    if (norm > LONG)
        return VOTES_NOTHING;
    if (apart <= a->bound * fmax(norm, known))
        return VOTES_AGREE;
    return known > 0 ? VOTES_DIFFER : VOTES_NOTHING;
}

// Notes that two kinds are near, if these votes show it: a part of the bound is
// left for what rounding makes of other samples.
static void votes_note_kinds(struct kinds *kinds, const struct vote *a,
                             const struct vote *b)
{
    double norm, apart = sketch_apart(&norm, &a->sketch, &b->sketch);

    if (a->kind != b->kind && a->inputs == b->inputs && b->bound > 0 &&
        norm > 0 && apart <= a->bound * NEAR * norm)
        kinds_note(kinds, a->kind, b->kind, norm);
}

static enum votes_said votes_said(const struct kinds *kinds,
                                  const struct vote *a, const struct vote *b)
{
    if (a->inputs != b->inputs)
        return VOTES_NOTHING;
    if (a->kind == b->kind)
        return a->output == b->output ? VOTES_AGREE : VOTES_DIFFER;
    return a->bound > 0 && b->bound > 0 ? votes_compare_sketches(kinds, a, b)
                                        : VOTES_NOTHING;
}

bool votes_independent(const struct vote *const *votes, uint32_t n)
{
    struct witness_tally t;

    witness_begin(&t, n);
    for (uint32_t i = 0; i < n; i++)
        witness_note(&t, votes[i]->witness);
    return witness_independent(&t) == n;
}

// Two agree against it, all of independent witnesses (A2).
bool votes_outvoted(const struct kinds *kinds, const struct vote *x,
                    const struct vote *a, const struct vote *b)
{
    const struct vote *all[] = {x, a, b};

    return votes_said(kinds, a, b) == VOTES_AGREE &&
           votes_said(kinds, x, a) == VOTES_DIFFER &&
           votes_said(kinds, x, b) == VOTES_DIFFER && votes_independent(all, 3);
}

// ---- a slot

// Looks for two votes of the slot that vote x is wrong by.
static bool votes_find_right(const struct kinds *kinds,
                             const struct votes_slot *s, uint32_t x,
                             const struct vote *right[2])
{
    for (uint32_t a = 0; a < s->count; a++) {
        for (uint32_t b = a + 1; b < s->count; b++) {
            if (x == a || x == b ||
                !votes_outvoted(kinds, &s->list[x], &s->list[a], &s->list[b]))
                continue;
            right[0] = &s->list[a];
            right[1] = &s->list[b];
            return true;
        }
    }
    return false;
}

// Returns true if the vote of that worker is wrong in another slot, too.
static bool votes_again(const struct votes *v, const struct votes_slot *not_in,
                        const char *name)
{
    const struct vote *right[2];

    for (uint32_t i = 0; i < v->capacity; i++) {
        const struct votes_slot *s = &v->slots[i];
        uint32_t x = votes_index(s, name);

        if (s != not_in && x < s->count &&
            votes_find_right(&v->kinds, s, x, right))
            return true;
    }
    return false;
}

// Looks for a wrong vote. One of another kind than both that agree against it
// must be wrong twice: an element that rounding moves over the kink of an
// activation may turn a right gradient by itself, but seldom.
static void votes_decide(const struct votes *v, const struct votes_slot *s,
                         struct votes_result *out)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct vote *x = &s->list[i], *right[2];

        if (!votes_find_right(&v->kinds, s, i, right) ||
            (x->kind != right[0]->kind && x->kind != right[1]->kind &&
             !votes_again(v, s, x->name)))
            continue;
        out->wrong = x;
        out->right[0] = right[0];
        out->right[1] = right[1];
        return;
    }
}

static void votes_compare(struct kinds *kinds, struct votes_slot *s,
                          struct votes_result *out)
{
    const struct vote *last = &s->list[s->count - 1];
    bool compared = false, differs = false;

    for (uint32_t i = 0; i + 1 < s->count; i++) {
        const struct vote *pair[] = {&s->list[i], last};
        enum votes_said said = votes_said(kinds, pair[0], last);

        votes_note_kinds(kinds, pair[0], last);
        compared |= said != VOTES_NOTHING;
        differs |= said == VOTES_DIFFER;
        if (said == VOTES_NOTHING || !votes_independent(pair, 2))
            continue;
        if (said == VOTES_AGREE)
            out->agrees = true;
        else
            out->against[out->against_count++] = pair[0];
    }
    out->compared = compared && !s->compared;
    out->differs = differs && !s->differs;
    s->compared |= compared;
    s->differs |= differs;
}

void votes_take(struct votes *v, uint32_t round, uint64_t closure,
                const struct vote *vote, struct votes_result *out)
{
    struct votes_slot *s = votes_slot_of(v, round, closure);
    struct vote mine = *vote;

    *out = (struct votes_result){false};
    if (s == NULL || s->count == VOTES_MOST ||
        votes_index(s, vote->name) < s->count)
        return;
    mine.name = sl_strdup(vote->name);
    if (mine.name == NULL)
        return;
    s->list[s->count++] = mine;
    votes_compare(&v->kinds, s, out);
    if (s->differs && !s->decided)
        votes_decide(v, s, out);
    s->decided |= out->wrong != NULL;
}
