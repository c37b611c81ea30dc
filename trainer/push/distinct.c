// SPDX-License-Identifier: Apache-2.0
// trainer/push/distinct.c -- sorts a list of ids by their hashes.
//
// Hashes are spread evenly, so the passes over their first bits that leave a
// few of them in each place put almost all in order, and moves of one place the
// rest. Ids that were chosen to share these bits are put in order by passes
// over all bits. Each step keeps the order of equal ones.
#include "trainer/push/distinct.h"

#include <endian.h>
#include <string.h>

#include "common/base/mem.h"
#include "plan/tables.h"

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)
#define DIGITS ((64 + DIGIT_BITS - 1) / DIGIT_BITS)
#define FEW 4         // in a place, after the passes over the first digits
#define MOVES_MOST 16 // of one, on average, before all digits are looked at

// Returns digit `d` of a hash, from the first; the last one overlaps.
static unsigned hash_digit(uint64_t hash, unsigned d)
{
    unsigned end = (d + 1) * DIGIT_BITS;

    return (unsigned)(hash >> (end < 64 ? 64 - end : 0)) & (DIGIT_VALUES - 1);
}

// Allocates anew, since what was there is not needed any more.
static void *anew(void *old, size_t count, size_t size)
{
    sl_free(old);
    return sl_malloc_array(count, size);
}

static enum sl_err distinct_grow(struct distinct *d, size_t n, uint32_t shards)
{
    if (n > d->capacity) {
        d->capacity = 0; // the arrays grow together
        d->sorted = anew(d->sorted, n, sizeof(*d->sorted));
        d->spare = anew(d->spare, n, sizeof(*d->spare));
        d->ids = anew(d->ids, n, sizeof(*d->ids));
        d->from = anew(d->from, n + 1, sizeof(*d->from));
        if (d->sorted == NULL || d->spare == NULL || d->ids == NULL ||
            d->from == NULL)
            return SL_ENOMEM;
        d->capacity = n;
    }
    if (shards > d->shards) {
        d->shards = 0;
        d->first = anew(d->first, (size_t)shards + 1, sizeof(*d->first));
        if (d->first == NULL)
            return SL_ENOMEM;
        d->shards = shards;
    }
    return SL_OK;
}

// Puts sorted[0..n) in the order of one digit of their hashes.
static void sort_by_digit(struct distinct *d, size_t n, unsigned digit)
{
    struct distinct_one *to = d->spare;
    uint32_t at[DIGIT_VALUES] = {0}, next = 0;

    for (size_t i = 0; i < n; i++)
        at[hash_digit(d->sorted[i].hash, digit)]++;
    for (unsigned v = 0; v < DIGIT_VALUES; v++) {
        uint32_t count = at[v];

        at[v] = next;
        next += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[hash_digit(d->sorted[i].hash, digit)]++] = d->sorted[i];
    d->spare = d->sorted;
    d->sorted = to;
}

static void sort_by_digits(struct distinct *d, size_t n, unsigned digits)
{
    while (digits-- > 0)
        sort_by_digit(d, n, digits);
}

// Moves each behind the last one that is not above it. Returns false, with some
// of them in order, if that takes too long.
static bool sort_by_moves(struct distinct *d, size_t n)
{
    struct distinct_one *s = d->sorted;
    size_t left = MOVES_MOST * n;

    for (size_t i = 1; i < n; i++) {
        struct distinct_one one = s[i];
        size_t to = i;

        for (; to > 0 && s[to - 1].hash > one.hash; to--)
            s[to] = s[to - 1];
        s[to] = one;
        if (i - to > left)
            return false;
        left -= i - to;
    }
    return true;
}

static void distinct_sort(struct distinct *d, size_t n, const uint64_t *ids)
{
    unsigned digits = 1;

    for (size_t i = 0; i < n; i++)
        d->sorted[i] = (struct distinct_one){table_hash(ids[i]), (uint32_t)i};
    while (n >> digits * DIGIT_BITS > FEW)
        digits++;
    sort_by_digits(d, n, digits);
    if (!sort_by_moves(d, n))
        sort_by_digits(d, n, DIGITS);
}

// Cuts what is sorted into ids, and those into shards.
static void distinct_cut(struct distinct *d, size_t n, const uint64_t *ids,
                         uint32_t buckets, uint32_t shards)
{
    uint32_t next = 0;

    d->count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = d->sorted[i].hash;
        uint32_t shard =
            table_shard(table_bucket(hash, buckets), buckets, shards);

        if (i > 0 && hash == d->sorted[i - 1].hash)
            continue;
        while (next <= shard)
            d->first[next++] = d->count;
        d->ids[d->count] = htole64(ids[d->sorted[i].at]);
        d->from[d->count++] = (uint32_t)i;
    }
    d->from[d->count] = (uint32_t)n;
    while (next <= shards)
        d->first[next++] = d->count;
}

enum sl_err distinct_make(struct distinct *d, size_t n, const uint64_t *ids,
                          uint32_t buckets, uint32_t shards,
                          struct sl_error *err)
{
    if (distinct_grow(d, n > 0 ? n : 1, shards) != SL_OK)
        return sl_fail(err, SL_ENOMEM, "no memory to sort %zu ids", n);
    distinct_sort(d, n, ids);
    distinct_cut(d, n, ids, buckets, shards);
    return SL_OK;
}

bool distinct_is_of(const struct distinct *d, size_t n, const uint64_t *ids)
{
    if (d->from == NULL || d->from[d->count] != n)
        return false;
    for (uint32_t k = 0; k < d->count; k++)
        for (uint32_t i = d->from[k]; i < d->from[k + 1]; i++)
            if (ids[d->sorted[i].at] != le64toh(d->ids[k]))
                return false;
    return true;
}

void distinct_spread(const struct distinct *d, uint32_t k, uint32_t n,
                     uint32_t dim, const float *of, float *rows)
{
    for (uint32_t end = k + n; k < end; k++, of += dim)
        for (uint32_t i = d->from[k]; i < d->from[k + 1]; i++)
            memcpy(rows + (size_t)d->sorted[i].at * dim, of,
                   dim * sizeof(float));
}

void distinct_release(struct distinct *d)
{
    sl_free(d->sorted);
    sl_free(d->spare);
    sl_free(d->ids);
    sl_free(d->from);
    sl_free(d->first);
    *d = (struct distinct){.count = 0};
}
