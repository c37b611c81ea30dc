// SPDX-License-Identifier: Apache-2.0
// plan/counted_plain.c -- the counted set as plain data, and back.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/counted.h"
#include "plan/counted_entry.h"
#include "common/base/mem.h"

static size_t set_bytes(uint32_t nbits)
{
    return (nbits + 7) / 8;
}

static int by_closure(const void *a, const void *b)
{
    const struct counted_closure *x = a, *y = b;

    return x->closure < y->closure ? -1 : x->closure > y->closure;
}

// What one block has to hold: the array, then all bits.
static void counted_plain_measure(const struct counted *c, size_t *count,
                                  size_t *bytes)
{
    size_t at = 0;
    void *value;

    *count = *bytes = 0;
    while (map_next(&c->sparse, &at, NULL, &value)) {
        const struct counted_entry *e = value;

        if (e->count == 0)
            continue;
        ++*count;
        *bytes += sizeof(struct counted_closure) + set_bytes(e->nbits);
    }
}

enum sl_err counted_encode(const struct counted *c, struct counted_plain *out)
{
    struct counted_closure *sparse;
    size_t count, bytes, at = 0, n = 0;
    uint64_t closure;
    uint8_t *bits;
    void *value;

    counted_plain_measure(c, &count, &bytes);
    sparse = sl_malloc(bytes);
    if (sparse == NULL)
        return SL_ENOMEM;
    bits = (uint8_t *)(sparse + count);
    while (map_next(&c->sparse, &at, &closure, &value)) {
        const struct counted_entry *e = value;

        if (e->count == 0)
            continue;
        sparse[n++] = (struct counted_closure){closure, e->nbits, bits};
        memcpy(bits, e->bits, set_bytes(e->nbits));
        bits += set_bytes(e->nbits);
    }
    qsort(sparse, count, sizeof(*sparse), by_closure);
    *out = (struct counted_plain){c->low, count, sparse};
    return SL_OK;
}

void counted_plain_release(struct counted_plain *p)
{
    sl_free((void *)p->sparse);
    *p = (struct counted_plain){0, 0, NULL};
}

// Closure i of a plain set fits; `prev` is the one before it, or low - 1.
static enum sl_err
counted_plain_check_closure(const struct counted *c,
                            const struct counted_plain *plain, size_t i,
                            struct sl_error *err)
{
    const struct counted_closure *p = &plain->sparse[i];
    uint32_t nbits;

    if (p->closure < plain->low || p->closure >= c->closures)
        return sl_fail(err, SL_ECORRUPT,
                       "counted set: closure %" PRIu64 " lies outside [%" PRIu64
                       ", %" PRIu64 ")",
                       p->closure, plain->low, c->closures);
    if (i > 0 && p->closure <= p[-1].closure)
        return sl_fail(err, SL_ECORRUPT,
                       "counted set: closure %" PRIu64 " follows %" PRIu64
                       "; they have to ascend",
                       p->closure, p[-1].closure);
    nbits = schedule_closure_steps(&c->schedule, p->closure);
    if (p->nbits != nbits)
        return sl_fail(err, SL_ECORRUPT,
                       "counted set: closure %" PRIu64
                       " has %u bits, but %u steps",
                       p->closure, p->nbits, nbits);
    if (nbits % 8 != 0 && p->bits[nbits / 8] >> (nbits % 8) != 0)
        return sl_fail(err, SL_ECORRUPT,
                       "counted set: closure %" PRIu64
                       " has bits beyond its %u steps",
                       p->closure, nbits);
    return SL_OK;
}

static uint32_t popcount(const uint8_t *bits, size_t n)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += (uint32_t)__builtin_popcount(bits[i]);
    return count;
}

// Takes in one checked closure; memory is only what the schedule says.
static enum sl_err counted_plain_add_closure(struct counted *c,
                                             const struct counted_closure *p,
                                             struct sl_error *err)
{
    uint32_t count = popcount(p->bits, set_bytes(p->nbits));
    struct counted_entry *e;

    if (count == 0)
        return sl_fail(err, SL_ECORRUPT,
                       "counted set: closure %" PRIu64 " has no step",
                       p->closure);
    if (counted_entry_make(c, p->closure, &e) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "counted set: out of memory");
    memcpy(e->bits, p->bits, set_bytes(p->nbits));
    e->count = count;
    c->steps += count;
    return SL_OK;
}

enum sl_err counted_decode(struct counted *out, const struct schedule *s,
                           const struct counted_plain *plain,
                           struct sl_error *err)
{
    struct counted c;
    enum sl_err rc = schedule_check(s, err);

    if (rc != SL_OK)
        return rc;
    (void)counted_init(&c, s);
    if (plain->low > c.closures)
        return sl_fail(err, SL_ECORRUPT,
                       "counted set: watermark %" PRIu64
                       " is beyond the last closure %" PRIu64,
                       plain->low, c.closures);
    c.low = plain->low;
    c.steps = counted_steps_below(s, c.low);
    for (size_t i = 0; i < plain->count && rc == SL_OK; i++) {
        rc = counted_plain_check_closure(&c, plain, i, err);
        if (rc == SL_OK)
            rc = counted_plain_add_closure(&c, &plain->sparse[i], err);
    }
    if (rc != SL_OK) {
        counted_release(&c);
        return rc;
    }
    counted_advance(&c); // a foreign encoder may be lazy about its mark
    *out = c;
    return SL_OK;
}

enum sl_err counted_copy(struct counted *out, const struct counted *from)
{
    struct counted_plain plain;
    enum sl_err rc = counted_encode(from, &plain);

    if (rc != SL_OK)
        return rc;
    rc = counted_decode(out, &from->schedule, &plain, NULL);
    counted_plain_release(&plain);
    return rc;
}
