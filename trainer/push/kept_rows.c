// SPDX-License-Identifier: Apache-2.0
// trainer/push/kept_rows.c -- see kept_rows.h.
#include "trainer/push/kept_rows.h"

#include <endian.h>
#include <string.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "trainer/base/grad.h"

void kept_rows_clear(struct kept_rows *k)
{
    for (size_t i = 0; i < (size_t)k->count * k->tables; i++) {
        sl_free(k->table[i].ids);
        sl_free(k->table[i].values);
    }
    sl_free(k->table);
    *k = (struct kept_rows){0};
}

enum sl_err kept_rows_next(struct kept_rows *k, uint32_t tables)
{
    uint32_t space = k->space == 0 ? 4 : 2 * k->space;
    struct kept_table *more;

    if (k->count == k->space) {
        more =
            sl_realloc_array(k->table, (size_t)space * tables, sizeof(*more));
        if (more == NULL)
            return SL_ENOMEM;
        k->table = more;
        k->space = space;
    }
    k->tables = tables;
    memset(k->table + (size_t)k->count * tables, 0, tables * sizeof(*k->table));
    k->count++;
    return SL_OK;
}

enum sl_err kept_rows_put(struct kept_rows *k, uint32_t table, uint32_t n,
                          const uint64_t *ids, uint32_t dim,
                          const float *values)
{
    struct kept_table *t =
        &k->table[(size_t)(k->count - 1) * k->tables + table];
    size_t elements = (size_t)n * dim;

    t->ids = sl_malloc_array(n, sizeof(*ids));
    t->values = sl_malloc_array(elements, sizeof(*values));
    if (t->ids == NULL || t->values == NULL)
        return SL_ENOMEM;
    memcpy(t->ids, ids, n * sizeof(*ids));
    memcpy(t->values, values, elements * sizeof(*values));
    t->count = n;
    t->dim = dim;
    return SL_OK;
}

// Returns the place of an id; t->count: it is not there.
static uint32_t kept_table_find(const struct kept_table *t, uint64_t id)
{
    uint64_t hash = table_hash(id);
    uint32_t low = 0, high = t->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (table_hash(le64toh(t->ids[middle])) < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && le64toh(t->ids[low]) == id ? low : t->count;
}

bool kept_rows_get(const struct kept_rows *k, uint32_t at, uint32_t table,
                   size_t n, const uint64_t *ids, float *rows)
{
    const struct kept_table *t = &k->table[(size_t)at * k->tables + table];

    for (size_t i = 0; i < n; i++) {
        uint32_t place = kept_table_find(t, ids[i]);

        if (place == t->count)
            return false;
        memcpy(rows + i * t->dim, t->values + (size_t)place * t->dim,
               t->dim * sizeof(*rows));
    }
    return true;
}

uint64_t kept_rows_digest(const struct kept_rows *k, uint64_t before)
{
    for (size_t i = 0; i < (size_t)k->count * k->tables; i++) {
        const struct kept_table *t = &k->table[i];

        if (t->count > 0)
            before = grad_digest(before, t->values, (size_t)t->count * t->dim);
    }
    return before;
}
