// SPDX-License-Identifier: Apache-2.0
// worker/data/ids.c -- ids out of text, and the bags of a batch; see ids.h.
#include "worker/data/ids.h"

#include <string.h>
#include <xxhash.h>

#include "common/base/mem.h"

struct ids_column {
    struct buf ids, offsets; // of uint64_t, of uint32_t
};

// ---- text

// Reads a whole decimal number of n bytes with blanks around it, in
// [-2^63, 2^64).
static bool ids_parse_number(const char *text, size_t n, uint64_t *out)
{
    const char *end = text + n;
    uint64_t value = 0;
    bool negative;

    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    while (text < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    negative = text < end && *text == '-';
    text += negative;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out = negative ? 0 - value : value;
    return !negative || value <= UINT64_C(1) << 63;
}

uint64_t ids_hash(const struct id_column *how, const void *text, size_t n)
{
    return XXH64(text, n, how->seed);
}

static enum sl_err ids_parse_element(const struct id_column *how,
                                     const char *text, size_t n, size_t element,
                                     uint64_t *out, struct sl_error *err)
{
    if (n == 0)
        return sl_fail(err, SL_EINVAL,
                       "element %zu of the bag is empty; a bag without ids is "
                       "an empty cell",
                       element);
    if (how->hashed) {
        *out = ids_hash(how, text, n);
        return SL_OK;
    }
    if (ids_parse_number(text, n, out))
        return SL_OK;
    return sl_fail(err, SL_EINVAL,
                   "element %zu of the bag is no whole number from -2^63 to "
                   "2^64 - 1; hash: xxh64 makes ids of text",
                   element);
}

enum sl_err ids_parse(struct buf *out, const struct id_column *how,
                      const char *cell, struct sl_error *err)
{
    const char *next = cell;
    uint64_t id = 0;

    for (size_t element = 0; *cell != '\0' && next != NULL; element++) {
        const char *bar = strchr(next, IDS_SEPARATOR);
        size_t n = bar != NULL ? (size_t)(bar - next) : strlen(next);
        enum sl_err rc = ids_parse_element(how, next, n, element, &id, err);

        if (rc == SL_OK)
            rc = buf_append(out, &id, sizeof(id));
        if (rc != SL_OK)
            return rc == SL_ENOMEM ? sl_no_memory(err) : rc;
        next = bar != NULL ? bar + 1 : NULL;
    }
    return SL_OK;
}

// ---- the bags of a batch

static enum sl_err ids_make_columns(struct ids *s, size_t columns)
{
    struct ids_column *more =
        sl_realloc_array(s->columns, columns, sizeof(*more));
    struct id_bag *bags;

    if (more == NULL)
        return SL_ENOMEM;
    s->columns = more;
    bags = sl_realloc_array(s->bags, columns, sizeof(*bags));
    if (bags == NULL)
        return SL_ENOMEM;
    s->bags = bags;
    for (; s->capacity < columns; s->capacity++) {
        buf_init(&more[s->capacity].ids);
        buf_init(&more[s->capacity].offsets);
    }
    return SL_OK;
}

enum sl_err ids_begin(struct ids *s, size_t columns, struct sl_error *err)
{
    static const uint32_t zero;

    s->count = 0;
    if (columns > s->capacity && ids_make_columns(s, columns) != SL_OK)
        return sl_no_memory(err);
    for (size_t i = 0; i < columns; i++) {
        buf_reset(&s->columns[i].ids);
        buf_reset(&s->columns[i].offsets);
        if (buf_append(&s->columns[i].offsets, &zero, sizeof(zero)) != SL_OK)
            return sl_no_memory(err);
    }
    s->count = columns;
    return SL_OK;
}

enum sl_err ids_add(struct ids *s, size_t column, const uint64_t *ids, size_t n,
                    struct sl_error *err)
{
    struct ids_column *c = &s->columns[column];
    size_t had = c->ids.len / sizeof(*ids);
    uint32_t end = (uint32_t)(had + n);

    if (n > IDS_BATCH_MAX - had)
        return sl_fail(err, SL_ERANGE,
                       "a batch has over %u ids of one column; take a smaller "
                       "batch",
                       IDS_BATCH_MAX);
    if (buf_reserve(&c->offsets, sizeof(end)) != SL_OK ||
        buf_append(&c->ids, ids, n * sizeof(*ids)) != SL_OK)
        return sl_no_memory(err);
    return buf_append(&c->offsets, &end, sizeof(end));
}

const struct id_bag *ids_bags(struct ids *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct ids_column *c = &s->columns[i];

        s->bags[i] = (struct id_bag){
            .ids = (const void *)c->ids.data,
            .offsets = (const void *)c->offsets.data,
            .samples = (uint32_t)(c->offsets.len / sizeof(uint32_t)) - 1,
        };
    }
    return s->count > 0 ? s->bags : NULL;
}

void ids_release(struct ids *s)
{
    for (size_t i = 0; i < s->capacity; i++) {
        buf_release(&s->columns[i].ids);
        buf_release(&s->columns[i].offsets);
    }
    sl_free(s->columns);
    sl_free(s->bags);
    *s = (struct ids){0};
}
