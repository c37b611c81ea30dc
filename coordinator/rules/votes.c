// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/votes.c -- the slots of the last audited rounds, each at
// the place that its number gives it.
#include "coordinator/rules/votes.h"

#include <string.h>

#include "common/base/mem.h"
#include "coordinator/rules/witness.h"

#define ROUNDS 4 // rounds whose slots are kept

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

static bool votes_comparable(const struct vote *a, const struct vote *b)
{
    return a->kind == b->kind && a->inputs == b->inputs;
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
bool votes_outvoted(const struct vote *x, const struct vote *a,
                    const struct vote *b)
{
    const struct vote *all[] = {x, a, b};

    return votes_comparable(x, a) && votes_comparable(x, b) &&
           a->output == b->output && x->output != a->output &&
           votes_independent(all, 3);
}

// Looks for a wrong vote among any three of the slot.
static void votes_decide(const struct votes_slot *s, struct votes_result *out)
{
    for (uint32_t x = 0; x < s->count; x++) {
        for (uint32_t a = 0; a < s->count; a++) {
            for (uint32_t b = a + 1; b < s->count; b++) {
                if (x == a || x == b ||
                    !votes_outvoted(&s->list[x], &s->list[a], &s->list[b]))
                    continue;
                out->wrong = &s->list[x];
                out->right[0] = &s->list[a];
                out->right[1] = &s->list[b];
                return;
            }
        }
    }
}

static void votes_compare(struct votes_slot *s, struct votes_result *out)
{
    const struct vote *last = &s->list[s->count - 1];
    bool compared = false, differs = false;

    for (uint32_t i = 0; i + 1 < s->count; i++) {
        const struct vote *pair[] = {&s->list[i], last};

        if (!votes_comparable(pair[0], last))
            continue;
        compared = true;
        differs |= pair[0]->output != last->output;
        if (!votes_independent(pair, 2))
            continue;
        if (pair[0]->output == last->output)
            out->agrees = true;
        else
            out->against[out->against_count++] = pair[0];
    }
    out->compared = compared && !s->compared;
    out->differs = differs && !s->differs;
    s->compared |= compared;
    s->differs |= differs;
}

static bool votes_has(const struct votes_slot *s, const char *name)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->list[i].name, name) == 0)
            return true;
    return false;
}

void votes_take(struct votes *v, uint32_t round, uint64_t closure,
                const struct vote *vote, struct votes_result *out)
{
    struct votes_slot *s = votes_slot_of(v, round, closure);
    struct vote mine = *vote;

    *out = (struct votes_result){false};
    if (s == NULL || s->count == VOTES_MOST || votes_has(s, vote->name))
        return;
    mine.name = sl_strdup(vote->name);
    if (mine.name == NULL)
        return;
    s->list[s->count++] = mine;
    votes_compare(s, out);
    if (s->differs && !s->decided)
        votes_decide(s, out);
    s->decided |= out->wrong != NULL;
}
