// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/contributed.c -- see contributed.h.
#include "coordinator/rules/contributed.h"

#include <string.h>

static bool range_rough(const struct contributed_range *r)
{
    return r->closures != r->last - r->first + 1;
}

static void contributed_drop(struct contributed *c, uint32_t at)
{
    c->count--;
    memmove(&c->ranges[at], &c->ranges[at + 1],
            (c->count - at) * sizeof(c->ranges[0]));
}

// Makes one range of range `at` and the next one.
static void contributed_join(struct contributed *c, uint32_t at)
{
    struct contributed_range *r = &c->ranges[at];

    r->last = r[1].last;
    r->closures += r[1].closures;
    r->steps += r[1].steps;
    contributed_drop(c, at + 1);
}

// Makes room for one more range.
static void contributed_shorten(struct contributed *c)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i + 1 < c->count; i++) {
        uint64_t gap = c->ranges[i + 1].first - c->ranges[i].last;

        if (gap < least) {
            least = gap;
            best = i;
        }
    }
    contributed_join(c, best);
}

// Returns the place of the first range that ends at `closure` or later.
static uint32_t contributed_at(const struct contributed *c, uint64_t closure)
{
    uint32_t at = c->count;

    while (at > 0 && c->ranges[at - 1].last >= closure)
        at--;
    return at;
}

// Takes a closure into range `at` if that holds it, or begins or ends beside
// it. Whether a rough range has seen it before is not known: then it is a new
// one, but the range stays rough.
static bool contributed_extend(struct contributed *c, uint32_t at,
                               uint64_t closure, uint64_t steps)
{
    struct contributed_range *r = &c->ranges[at];

    if (at >= c->count || closure + 1 < r->first || closure > r->last + 1)
        return false;
    if (closure < r->first)
        r->first = closure;
    else if (closure > r->last)
        r->last = closure;
    else if (closure == r->last || r->closures + 1 >= r->last - r->first + 1)
        r->closures--; // it is there
    r->closures++;
    r->steps += steps;
    return true;
}

void contributed_add(struct contributed *c, uint64_t closure, uint64_t steps)
{
    uint32_t at = contributed_at(c, closure);

    if (at > 0 && contributed_extend(c, at - 1, closure, steps)) {
        if (at < c->count && c->ranges[at].first == closure + 1)
            contributed_join(c, at - 1);
        return;
    }
    if (contributed_extend(c, at, closure, steps))
        return;
    if (c->count == CONTRIBUTED_RANGES) {
        contributed_shorten(c);
        contributed_add(c, closure, steps);
        return;
    }
    memmove(&c->ranges[at + 1], &c->ranges[at],
            (c->count - at) * sizeof(c->ranges[0]));
    c->ranges[at] = (struct contributed_range){closure, closure, 1, steps};
    c->count++;
}

void contributed_clean(struct contributed *c, uint64_t closure, uint64_t cut)
{
    struct contributed_range *r = &c->ranges[0];

    if (c->audited && closure < c->closure)
        return;
    c->audited = true;
    c->closure = closure;
    c->cut = cut;
    while (c->count > 0 && r->last <= closure)
        contributed_drop(c, 0);
    if (c->count == 0 || r->first > closure || range_rough(r))
        return;
    r->steps -= r->steps / r->closures * (closure + 1 - r->first);
    r->closures -= closure + 1 - r->first;
    r->first = closure + 1;
}

uint64_t contributed_newest(const struct contributed *c)
{
    return c->count == 0 ? 0 : c->ranges[c->count - 1].last;
}

uint64_t contributed_total(const struct contributed *c, bool steps)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < c->count; i++)
        total += steps ? c->ranges[i].steps : c->ranges[i].closures;
    return total;
}

bool contributed_rough(const struct contributed *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (range_rough(&c->ranges[i]))
            return true;
    return false;
}
