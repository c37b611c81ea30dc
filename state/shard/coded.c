// SPDX-License-Identifier: Apache-2.0
// state/shard/coded.c -- coded payloads of a shard, block by block.
#include "state/shard/coded.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "kernels/half.h"
#include "kernels/lanes.h"
#include "state/base/element.h"
#include "state/base/finite.h"

#define PLAIN_BLOCK 1024 // elements that are no code, at once
#define BLOCK_BYTES (PLAIN_BLOCK * sizeof(float))

_Static_assert(BLOCK_BYTES >= PACK_BYTES_MOST, "a block of any kind fits");
_Static_assert(WIRE_CODES - WIRE_INT8 == PACK_CODES, "in the same order");

static enum pack_code coded_code(enum wire_type type)
{
    return (enum pack_code)(type - WIRE_INT8);
}

static struct coded_walk coded_begin(const struct coded *p, enum wire_type type)
{
    return (struct coded_walk){.p = p, .type = type};
}

// Sets w->block to the next block; returns false at the end.
static bool coded_next(struct coded_walk *w)
{
    struct coded_block *b = &w->block;
    const struct coded_stretch *s;
    bool plain;

    b->first += b->n;
    if (w->stretch < w->p->count &&
        w->in == w->p->stretches[w->stretch].elements) {
        w->stretch++;
        w->in = 0;
    }
    if (w->stretch == w->p->count)
        return false;
    s = &w->p->stretches[w->stretch];
    b->as = s->exact && w->type >= WIRE_TYPES ? WIRE_F32 : w->type;
    plain = b->as < WIRE_TYPES;
    b->n = (size_t)sl_min(s->elements - w->in,
                          plain ? PLAIN_BLOCK : pack_block(coded_code(b->as)));
    b->bytes = plain ? b->n * wire_type_bytes(b->as)
                     : pack_bytes(coded_code(b->as), b->n);
    w->in += b->n;
    return true;
}

static void coded_block_write(const struct coded_block *b, const float *values,
                              void *out)
{
    if (b->as < WIRE_TYPES)
        element_write(b->as, b->n, out, values);
    else
        pack_narrow(coded_code(b->as), b->n, values, out);
}

static void coded_block_read(const struct coded_block *b, const void *in,
                             float *values)
{
    if (b->as < WIRE_TYPES)
        element_read(b->as, b->n, values, in);
    else
        pack_widen(coded_code(b->as), b->n, in, values);
}

static bool coded_block_valid(const struct coded_block *b, const void *in)
{
    return b->as < WIRE_TYPES ? finite_all(b->as, in, b->n)
                              : pack_valid(coded_code(b->as), b->n, in);
}

enum sl_err coded_add(struct coded *p, uint64_t elements, bool exact)
{
    struct coded_stretch *more;

    if (p->count > 0 && p->stretches[p->count - 1].exact == exact) {
        p->stretches[p->count - 1].elements += elements;
        return SL_OK;
    }
    more = sl_realloc(p->stretches, (p->count + 1) * sizeof(*more));
    if (more == NULL)
        return SL_ENOMEM;
    p->stretches = more;
    more[p->count++] = (struct coded_stretch){elements, exact};
    return SL_OK;
}

void coded_release(struct coded *p)
{
    sl_free(p->stretches);
    *p = (struct coded){NULL, 0};
}

size_t coded_bytes(const struct coded *p, enum wire_type type)
{
    struct coded_walk w = coded_begin(p, type);
    size_t bytes = 0;

    while (coded_next(&w))
        bytes += w.block.bytes;
    return bytes;
}

enum sl_err coded_check(const struct coded *p, enum wire_type type,
                        const struct sl_slices *payload, struct sl_error *err)
{
    struct coded_walk w = coded_begin(p, type);
    size_t bytes = coded_bytes(p, type);
    uint8_t space[BLOCK_BYTES];
    struct slices_cursor at;

    if (payload->bytes != bytes)
        return sl_fail(err, SL_EINVAL,
                       "payload: %zu bytes, but the shard has %zu in %s",
                       payload->bytes, bytes, wire_type_names[type]);
    slices_cursor_init(&at, payload);
    while (coded_next(&w)) {
        if (!coded_block_valid(&w.block,
                               slices_view(&at, w.block.bytes, space)))
            return sl_fail(err, SL_ENUMERIC,
                           "payload: the block of %s at element %" PRIu64
                           " is damaged or not finite; nothing was applied "
                           "(push it with `skip` to count the step)",
                           wire_type_names[type], w.block.first);
    }
    return SL_OK;
}

void coded_reader_init(struct coded_reader *r, const struct coded *p,
                       enum wire_type type, const struct sl_slices *payload)
{
    r->walk = coded_begin(p, type);
    r->left = 0;
    slices_cursor_init(&r->at, payload);
}

// Reads the next block to `to`, or to r->part if it has more than n elements.
static void coded_reader_block(struct coded_reader *r, size_t n, float *to)
{
    uint8_t space[BLOCK_BYTES];
    bool more = coded_next(&r->walk), whole = r->walk.block.n <= n;

    assert(more);
    coded_block_read(&r->walk.block,
                     slices_view(&r->at, r->walk.block.bytes, space),
                     whole ? to : r->part);
    r->left = whole ? 0 : r->walk.block.n;
}

void coded_reader_take(struct coded_reader *r, size_t n, float *out)
{
    size_t some;

    for (; n > 0; n -= some, out += some) {
        if (r->left == 0) {
            coded_reader_block(r, n, out);
            some = r->walk.block.n;
            if (r->left == 0)
                continue;
        }
        some = sl_min(r->left, n);
        memcpy(out, r->part + (r->walk.block.n - r->left), some * sizeof(*out));
        r->left -= some;
    }
}

static float coded_larger(float most, size_t n, const float *values)
{
    float here = half_bits_f32((uint32_t)lanes_largest(n, values));

    return here > most ? here : most;
}

float coded_read(const struct coded *p, enum wire_type type,
                 const struct sl_slices *payload, float *values)
{
    struct coded_walk w = coded_begin(p, type);
    uint8_t space[BLOCK_BYTES];
    struct slices_cursor at;
    float most = 0;

    slices_cursor_init(&at, payload);
    while (coded_next(&w)) {
        float *to = values + w.block.first;

        coded_block_read(&w.block, slices_view(&at, w.block.bytes, space), to);
        most = coded_larger(most, w.block.n, to);
    }
    return most;
}

float coded_bound(const struct coded *p, enum wire_type type,
                  const struct sl_slices *payload)
{
    struct coded_walk w = coded_begin(p, type);
    float values[PLAIN_BLOCK], most = 0, here;
    uint8_t space[BLOCK_BYTES];
    struct slices_cursor at;
    const void *block;

    slices_cursor_init(&at, payload);
    while (coded_next(&w)) {
        block = slices_view(&at, w.block.bytes, space);
        if (w.block.as >= WIRE_TYPES) {
            here = pack_most(coded_code(w.block.as), block);
            most = here > most ? here : most;
            continue;
        }
        coded_block_read(&w.block, block, values);
        most = coded_larger(most, w.block.n, values);
    }
    return most;
}

void coded_write(const struct coded *p, enum wire_type type,
                 const float *values, void *out)
{
    struct coded_walk w = coded_begin(p, type);
    uint8_t *to = out;

    for (; coded_next(&w); to += w.block.bytes)
        coded_block_write(&w.block, values + w.block.first, to);
}

// A moving statistic is sent whole, whatever was left out before.
void coded_write_rest(const struct coded *p, enum wire_type type, float beta,
                      const float *values, float *rest, void *out)
{
    struct coded_walk w = coded_begin(p, type);
    float sent[PACK_BLOCK_MOST];
    uint8_t *to = out;

    for (; coded_next(&w); to += w.block.bytes) {
        float *left = rest + w.block.first;
        bool exact = w.p->stretches[w.stretch].exact;

        for (size_t i = 0; i < w.block.n; i++)
            left[i] = values[w.block.first + i] + (exact ? 0 : beta * left[i]);
        coded_block_write(&w.block, left, to);
        coded_block_read(&w.block, to, sent);
        for (size_t i = 0; i < w.block.n; i++)
            left[i] -= sent[i];
    }
}

bool coded_follow(const struct coded *p, enum wire_type type,
                  const float *values, float *held, void *out)
{
    struct coded_walk w = coded_begin(p, type);
    float change[PACK_BLOCK_MOST];
    bool finite = true, good;
    uint8_t *to = out;

    for (; coded_next(&w); to += w.block.bytes) {
        const float *want = values + w.block.first;
        float *have = held + w.block.first;

        for (size_t i = 0; i < w.block.n; i++)
            change[i] = w.block.as == WIRE_F32 ? want[i] : want[i] - have[i];
        coded_block_write(&w.block, change, to);
        good = coded_block_valid(&w.block, to);
        finite = finite && good;
        if (!good || w.block.as == WIRE_F32) {
            memcpy(have, want, w.block.n * sizeof(*have));
            continue;
        }
        coded_block_read(&w.block, to, change);
        for (size_t i = 0; i < w.block.n; i++)
            have[i] += change[i];
    }
    return finite;
}

void coded_apply(const struct coded *p, enum wire_type type,
                 const struct sl_slices *payload, float *held)
{
    struct coded_walk w = coded_begin(p, type);
    uint8_t space[BLOCK_BYTES];
    float change[PACK_BLOCK_MOST];
    struct slices_cursor at;

    slices_cursor_init(&at, payload);
    while (coded_next(&w)) {
        float *have = held + w.block.first;

        coded_block_read(&w.block, slices_view(&at, w.block.bytes, space),
                         change);
        for (size_t i = 0; i < w.block.n; i++)
            have[i] = w.block.as == WIRE_F32 ? change[i] : have[i] + change[i];
    }
}
