// SPDX-License-Identifier: Apache-2.0
// common/base/slices.c -- copies, cuts, checks and checksums of bytes that lie
// in several pieces.
#include "common/base/slices.h"

#include <assert.h>
#include <string.h>

#include "common/base/copy.h"

struct sl_slices slices_all(const struct sl_slice *at, size_t count)
{
    struct sl_slices s = {at, count, 0, 0};

    for (size_t i = 0; i < count; i++)
        s.bytes += at[i].len;
    return s;
}

struct sl_slices slices_one(const struct sl_slice *one)
{
    return slices_all(one, 1);
}

enum sl_err slices_sub(struct sl_slices *out, const struct sl_slices *s,
                       size_t offset, size_t bytes)
{
    struct sl_slices sub = *s;

    if (offset > s->bytes || bytes > s->bytes - offset)
        return SL_ERANGE;
    sub.offset_bytes += offset;
    sub.bytes = bytes;
    // Slices that lie wholly before it are left out, so that a chain of subs
    // does not walk from the start each time.
    while (sub.count > 1 && sub.offset_bytes >= sub.at->len) {
        sub.offset_bytes -= sub.at->len;
        sub.at++;
        sub.count--;
    }
    *out = sub;
    return SL_OK;
}

// Invariant: while left > 0, offset < at->len.
static void slices_cursor_normalize(struct slices_cursor *c)
{
    while (c->left > 0 && c->offset >= c->at->len) {
        c->offset -= c->at->len;
        c->at++;
    }
}

void slices_cursor_init(struct slices_cursor *c, const struct sl_slices *s)
{
    c->at = s->at;
    c->offset = s->offset_bytes;
    c->left = s->bytes;
    slices_cursor_normalize(c);
}

const uint8_t *slices_next(struct slices_cursor *c, size_t max, size_t *n)
{
    const uint8_t *run;
    size_t len;

    if (c->left == 0) {
        *n = 0;
        return NULL;
    }
    run = c->at->data + c->offset;
    len = c->at->len - c->offset;
    if (len > c->left)
        len = c->left;
    if (len > max)
        len = max;
    c->offset += len;
    c->left -= len;
    slices_cursor_normalize(c);
    *n = len;
    return run;
}

enum sl_err slices_take(struct slices_cursor *c, void *to, size_t n)
{
    uint8_t *at = to;

    if (n > c->left)
        return SL_ERANGE;
    while (n > 0) {
        size_t len;
        const uint8_t *run = slices_next(c, n, &len);

        sl_copy(at, run, len);
        at += len;
        n -= len;
    }
    return SL_OK;
}

const void *slices_view(struct slices_cursor *c, size_t n, void *space)
{
    size_t len;

    assert(n <= c->left);
    if (c->left > 0 && c->at->len - c->offset >= n)
        return slices_next(c, n, &len);
    (void)slices_take(c, space, n);
    return space;
}

void slices_copy(void *to, const struct sl_slices *s)
{
    struct slices_cursor c;

    slices_cursor_init(&c, s);
    (void)slices_take(&c, to, s->bytes);
}

enum sl_err slices_runs_init(struct slices_runs *it, const struct sl_slices *s,
                             size_t element_bytes)
{
    if (element_bytes == 0 || element_bytes > SLICES_ELEMENT_MAX ||
        s->bytes % element_bytes != 0)
        return SL_EINVAL;
    slices_cursor_init(&it->cursor, s);
    it->element_bytes = element_bytes;
    return SL_OK;
}

const void *slices_runs_next(struct slices_runs *it, size_t max,
                             size_t *elements)
{
    struct slices_cursor *c = &it->cursor;
    size_t size = it->element_bytes, here, whole, n;

    assert(max > 0);
    *elements = 0;
    if (c->left == 0)
        return NULL;
    here = c->at->len - c->offset;
    if (here > c->left)
        here = c->left;
    whole = here / size;
    if (whole == 0) { // the element goes on in the next piece
        *elements = 1;
        (void)slices_take(c, it->carry, size);
        return it->carry;
    }
    *elements = whole < max ? whole : max;
    return slices_next(c, *elements * size, &n);
}
