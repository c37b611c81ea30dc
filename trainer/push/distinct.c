// SPDX-License-Identifier: Apache-2.0
// trainer/push/distinct.c -- sorts a list of ids by their hashes.
//
// The hashes are spread evenly and all of their bits are needed: eight passes
// over one byte each, which keep the order of equal ones.
#include "trainer/push/distinct.h"

#include <endian.h>
#include <string.h>

#include "common/base/mem.h"
#include "plan/tables.h"

#define BYTE_VALUES 256
#define HASH_BYTES 8

static unsigned hash_byte(uint64_t hash, unsigned b)
{
    return (unsigned)(hash >> (8 * b)) & (BYTE_VALUES - 1);
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

// Puts sorted[0..n) in the order of byte b of their hashes, of which `counts`
// has how many have each value. Turns `counts` into where the next one goes.
static void sort_by_byte(struct distinct *d, size_t n, unsigned b,
                         uint32_t counts[BYTE_VALUES])
{
    struct distinct_one *to = d->spare;
    uint32_t at = 0;

    for (unsigned v = 0; v < BYTE_VALUES; v++) {
        uint32_t count = counts[v];

        counts[v] = at;
        at += count;
    }
    for (size_t i = 0; i < n; i++)
        to[counts[hash_byte(d->sorted[i].hash, b)]++] = d->sorted[i];
    d->spare = d->sorted;
    d->sorted = to;
}

static void distinct_sort(struct distinct *d, size_t n, const uint64_t *ids)
{
    uint32_t counts[HASH_BYTES][BYTE_VALUES];

    memset(counts, 0, sizeof(counts));
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = table_hash(ids[i]);

        d->sorted[i] = (struct distinct_one){hash, (uint32_t)i};
        for (unsigned b = 0; b < HASH_BYTES; b++)
            counts[b][hash_byte(hash, b)]++;
    }
    for (unsigned b = 0; b < HASH_BYTES; b++)
        sort_by_byte(d, n, b, counts[b]);
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
