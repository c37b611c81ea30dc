// SPDX-License-Identifier: Apache-2.0
// plan/counted.c -- a watermark, and above it a bitset per touched
// closure.
//
// Invariants (counted_check in the test):
//   1. closures below `low` are full and have no entry;
//   2. the closure `low` itself is not full, or low == closures;
//   3. an entry's `count` is its number of bits; an empty one was reserved and
//      means nothing;
//   4. `steps` is the steps of the closures below low + all counts.
#include "plan/counted.h"

#include <assert.h>
#include <string.h>

#include "plan/counted_entry.h"
#include "common/base/mem.h"
#include "common/base/num.h"

enum sl_err counted_init(struct counted *c, const struct schedule *s)
{
    enum sl_err rc = schedule_check(s, NULL);

    if (rc != SL_OK)
        return rc;
    *c = (struct counted){.schedule = *s, .closures = schedule_closures(s)};
    map_init(&c->sparse);
    return SL_OK;
}

void counted_release(struct counted *c)
{
    map_release_owned(&c->sparse);
    c->low = c->steps = 0;
}

struct counted_entry *counted_entry_get(const struct counted *c,
                                        uint64_t closure)
{
    return map_get(&c->sparse, closure);
}

enum sl_err counted_entry_make(struct counted *c, uint64_t closure,
                               struct counted_entry **out)
{
    struct counted_entry *e = counted_entry_get(c, closure);
    uint32_t nbits;

    if (e == NULL) {
        nbits = schedule_closure_steps(&c->schedule, closure);
        e = sl_calloc(1, sizeof(*e) + (nbits + 7) / 8);
        if (e == NULL)
            return SL_ENOMEM;
        e->nbits = nbits;
        if (map_put(&c->sparse, closure, e) != SL_OK) {
            sl_free(e);
            return SL_ENOMEM;
        }
    }
    *out = e;
    return SL_OK;
}

bool counted_entry_bit(const struct counted_entry *e, uint32_t step)
{
    return e->bits[step / 8] >> (step % 8) & 1;
}

void counted_advance(struct counted *c)
{
    struct counted_entry *e;

    while ((e = counted_entry_get(c, c->low)) != NULL && e->count == e->nbits) {
        sl_free(map_remove(&c->sparse, c->low));
        c->low++;
    }
}

enum sl_err counted_reserve(struct counted *c, uint64_t closure)
{
    struct counted_entry *e;

    if (closure >= c->closures)
        return SL_ERANGE;
    if (closure < c->low)
        return SL_OK;
    return counted_entry_make(c, closure, &e);
}

enum sl_err counted_add(struct counted *c, uint64_t closure, uint32_t step)
{
    struct counted_entry *e;

    if (closure >= c->closures ||
        step >= schedule_closure_steps(&c->schedule, closure))
        return SL_ERANGE;
    if (closure < c->low)
        return SL_EEXIST;
    if (counted_entry_make(c, closure, &e) != SL_OK)
        return SL_ENOMEM;
    if (counted_entry_bit(e, step))
        return SL_EEXIST;
    e->bits[step / 8] |= (uint8_t)(1u << (step % 8));
    e->count++;
    c->steps++;
    if (closure == c->low)
        counted_advance(c);
    return SL_OK;
}

enum sl_err counted_add_closure(struct counted *c, uint64_t closure)
{
    struct counted_entry *e;

    if (closure >= c->closures)
        return SL_ERANGE;
    if (closure < c->low)
        return SL_EEXIST;
    if (counted_entry_make(c, closure, &e) != SL_OK)
        return SL_ENOMEM;
    if (e->count == e->nbits)
        return SL_EEXIST;
    memset(e->bits, 0xff, e->nbits / 8);
    if (e->nbits % 8 != 0)
        e->bits[e->nbits / 8] = (uint8_t)((1u << (e->nbits % 8)) - 1);
    c->steps += e->nbits - e->count;
    e->count = e->nbits;
    counted_advance(c);
    return SL_OK;
}

// Whole epochs, then whole closures: only the last closure of an epoch is
// short.
uint64_t counted_steps_below(const struct schedule *s, uint64_t low)
{
    uint64_t per_epoch = schedule_closures_per_epoch(s);

    return low / per_epoch * schedule_steps_per_epoch(s) +
           low % per_epoch * s->steps_per_closure;
}

enum sl_err counted_raise(struct counted *c, uint64_t low)
{
    uint64_t *below, closure;
    size_t at = 0, n = 0;
    void *value;

    if (low > c->closures)
        return SL_ERANGE;
    if (low <= c->low)
        return SL_OK;
    below = sl_malloc_array(c->sparse.len, sizeof(*below));
    if (below == NULL)
        return SL_ENOMEM;
    while (map_next(&c->sparse, &at, &closure, &value))
        if (closure < low)
            below[n++] = closure;
    for (size_t i = 0; i < n; i++) {
        struct counted_entry *e = map_remove(&c->sparse, below[i]);

        c->steps -= e->count;
        sl_free(e);
    }
    sl_free(below);
    c->steps += counted_steps_below(&c->schedule, low) -
                counted_steps_below(&c->schedule, c->low);
    c->low = low;
    counted_advance(c);
    return SL_OK;
}

bool counted_has(const struct counted *c, uint64_t closure, uint32_t step)
{
    const struct counted_entry *e;

    if (closure >= c->closures ||
        step >= schedule_closure_steps(&c->schedule, closure))
        return false;
    if (closure < c->low)
        return true;
    e = counted_entry_get(c, closure);
    return e != NULL && counted_entry_bit(e, step);
}

bool counted_closure_full(const struct counted *c, uint64_t closure)
{
    const struct counted_entry *e;

    if (closure >= c->closures)
        return false;
    if (closure < c->low)
        return true;
    e = counted_entry_get(c, closure);
    return e != NULL && e->count == e->nbits;
}

uint64_t counted_next_open(const struct counted *c, uint64_t from)
{
    if (from < c->low)
        from = c->low;
    while (from < c->closures && counted_closure_full(c, from))
        from++;
    return sl_min(from, c->closures);
}

bool counted_full(const struct counted *c)
{
    return c->low == c->closures;
}

uint64_t counted_low(const struct counted *c)
{
    return c->low;
}

uint64_t counted_steps(const struct counted *c)
{
    return c->steps;
}

size_t counted_sparse(const struct counted *c)
{
    return c->sparse.len;
}

static bool same_schedule(const struct counted *a, const struct counted *b)
{
    return memcmp(&a->schedule, &b->schedule, sizeof(a->schedule)) == 0;
}

// Every bit of `part` is in `whole`.
static bool entry_includes(const struct counted_entry *whole,
                           const struct counted_entry *part)
{
    if (part->count == 0)
        return true;
    if (whole == NULL)
        return false;
    for (uint32_t i = 0; i < (part->nbits + 7) / 8; i++) {
        if ((part->bits[i] & ~whole->bits[i]) != 0)
            return false;
    }
    return true;
}

bool counted_includes(const struct counted *a, const struct counted *b)
{
    size_t at = 0;
    uint64_t closure;
    void *entry;

    if (!same_schedule(a, b) || b->steps > a->steps)
        return false;
    // Between a's mark and b's, a has to hold each closure in full.
    for (closure = a->low; closure < b->low; closure++) {
        if (!counted_closure_full(a, closure))
            return false;
    }
    while (map_next(&b->sparse, &at, &closure, &entry)) {
        if (closure >= a->low &&
            !entry_includes(counted_entry_get(a, closure), entry))
            return false;
    }
    return true;
}

bool counted_equal(const struct counted *a, const struct counted *b)
{
    return a->steps == b->steps && a->low == b->low && counted_includes(a, b);
}
