// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/differences.c -- see differences.h.
#include "coordinator/rules/differences.h"

#include <string.h>

#include "common/base/mem.h"

// Returns true if both are votes of one worker at one place: a name that went
// on to another host is accused of nothing that it computed before.
static bool differences_same(const struct vote *a, const struct vote *b)
{
    return a->witness == b->witness && strcmp(a->name, b->name) == 0;
}

static bool differences_apart(const struct vote *a, const struct vote *b)
{
    const struct vote *const pair[] = {a, b};

    return votes_independent(pair, 2);
}

static void difference_free(struct difference *x)
{
    sl_free(x->sides[0].name);
    sl_free(x->sides[1].name);
}

static void differences_remove(struct differences *d, uint32_t at)
{
    difference_free(&d->list[at]);
    d->count--;
    memmove(&d->list[at], &d->list[at + 1], (d->count - at) * sizeof(*d->list));
}

void differences_release(struct differences *d)
{
    while (d->count > 0)
        differences_remove(d, d->count - 1);
    sl_free(d->list);
    *d = (struct differences){NULL};
}

static bool difference_is_of(const struct difference *x, const char *name)
{
    return strcmp(x->sides[0].name, name) == 0 ||
           strcmp(x->sides[1].name, name) == 0;
}

void differences_forget(struct differences *d, const char *name)
{
    struct difference gone[DIFFERENCES_MOST];
    uint32_t kept = 0, n = 0;

    for (uint32_t i = 0; i < d->count; i++)
        if (difference_is_of(&d->list[i], name))
            gone[n++] = d->list[i];
        else
            d->list[kept++] = d->list[i];
    d->count = kept;
    while (n > 0) // `name` may belong to a difference
        difference_free(&gone[--n]);
}

// Returns the place of the difference that is kept of two workers, or count.
static uint32_t differences_of(const struct differences *d,
                               const struct vote *a, const struct vote *b)
{
    uint32_t i = 0;

    while (i < d->count &&
           !(differences_same(&d->list[i].sides[0], a) &&
             differences_same(&d->list[i].sides[1], b)) &&
           !(differences_same(&d->list[i].sides[0], b) &&
             differences_same(&d->list[i].sides[1], a)))
        i++;
    return i;
}

void differences_note(struct differences *d, uint64_t closure,
                      const struct vote *a, const struct vote *b)
{
    struct difference x = {closure, {*a, *b}};
    uint32_t old;

    if (d->list == NULL)
        d->list = sl_calloc(DIFFERENCES_MOST, sizeof(*d->list));
    x.sides[0].name = sl_strdup(a->name);
    x.sides[1].name = sl_strdup(b->name);
    if (d->list == NULL || x.sides[0].name == NULL || x.sides[1].name == NULL) {
        difference_free(&x);
        return;
    }
    old = differences_of(d, a, b);
    if (old < d->count)
        differences_remove(d, old);
    else if (d->count == DIFFERENCES_MOST)
        differences_remove(d, 0);
    d->list[d->count++] = x;
}

// ---- who is wrong

// Returns true if the word of `a` stands against `accused`: it differed from
// none that is independent of that one.
static bool differences_stands(const struct differences *d,
                               const struct vote *accused, const struct vote *a)
{
    for (uint32_t i = 0; i < d->count; i++) {
        for (unsigned s = 0; s < 2; s++) {
            const struct vote *side = &d->list[i].sides[s];
            const struct vote *other = &d->list[i].sides[1 - s];

            if ((side->witness == a->witness ||
                 strcmp(side->name, a->name) == 0) &&
                differences_apart(accused, other))
                return false;
        }
    }
    return true;
}

// Returns true if the workers of sides s and t of two differences are one,
// which is wrong by them.
static bool differences_prove(const struct differences *d,
                              const struct difference *one, unsigned s,
                              const struct difference *two, unsigned t)
{
    const struct vote *x = &two->sides[t], *a = &one->sides[1 - s],
                      *b = &two->sides[1 - t];
    const struct vote *const all[] = {x, a, b};

    return differences_same(&one->sides[s], x) && votes_independent(all, 3) &&
           differences_stands(d, x, a) && differences_stands(d, x, b);
}

// Looks for a proof that a side of difference `at` is of a worker that is
// wrong.
static bool differences_judge_at(const struct differences *d, uint32_t at,
                                 struct differences_proof *out)
{
    const struct difference *one = &d->list[at];

    for (uint32_t k = at + 1; k < d->count; k++) {
        const struct difference *two = &d->list[k];

        for (unsigned i = 0; i < 4; i++) {
            unsigned s = i / 2, t = i % 2;

            if (!differences_prove(d, one, s, two, t))
                continue;
            *out = (struct differences_proof){
                {one->closure, two->closure},
                {&one->sides[s], &two->sides[t]},
                {&one->sides[1 - s], &two->sides[1 - t]}};
            return true;
        }
    }
    return false;
}

bool differences_judge(const struct differences *d,
                       struct differences_proof *out)
{
    for (uint32_t at = 0; at < d->count; at++)
        if (differences_judge_at(d, at, out))
            return true;
    return false;
}
