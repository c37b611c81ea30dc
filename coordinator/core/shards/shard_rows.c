// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shard_rows.c -- see shard_rows.h.
#include "coordinator/core/shards/shard_rows.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"

#define MARK_MS 60000
#define GROWTH_MS 2000 // less tells nothing of a minute

void shard_rows_release(struct shard_rows *r)
{
    sl_free(r->table);
    *r = (struct shard_rows){0};
}

// Copies the numbers, and nothing that a later version may have added.
static void known_table_copy(struct known_table *t,
                             const Sluice__V1__TableFigures *from)
{
    Sluice__V1__TableFigures *to = &t->figures;
    size_t n = sl_min(from->n_hot_ids, from->n_hot_updates);

    n = sl_min(n, TABLE_HOT);
    if (n > 0) {
        memcpy(t->hot_ids, from->hot_ids, n * sizeof(*t->hot_ids));
        memcpy(t->hot_updates, from->hot_updates, n * sizeof(*t->hot_updates));
    }
    *to = *from;
    to->hot_ids = t->hot_ids;
    to->hot_updates = t->hot_updates;
    to->n_hot_ids = to->n_hot_updates = n;
    to->base.n_unknown_fields = 0;
    to->base.unknown_fields = NULL;
    to->known_rows_per_minute_case =
        SLUICE__V1__TABLE_FIGURES__KNOWN_ROWS_PER_MINUTE__NOT_SET;
}

static void known_table_take(struct known_table *t,
                             const Sluice__V1__TableFigures *f, uint64_t now_ms)
{
    struct rows_mark now = {now_ms, f->rows};

    if (!t->known)
        t->mark[0] = t->mark[1] = now;
    if (now_ms - t->mark[1].ms >= MARK_MS) {
        t->mark[0] = t->mark[1];
        t->mark[1] = now;
    }
    t->known = true;
    known_table_copy(t, f);
}

void shard_rows_take(struct shard_rows *r,
                     const Sluice__V1__ShardReport *report, size_t tables,
                     uint32_t shards, uint64_t now_ms)
{
    if (r->count == 0 && report->n_tables > 0) {
        uint32_t n = (uint32_t)sl_min(tables, SHARD_ROWS_MOST / shards);

        r->table = n == 0 ? NULL : sl_calloc(n, sizeof(*r->table));
        r->count = r->table == NULL ? 0 : n;
    }
    for (size_t i = 0; i < report->n_tables; i++)
        if (report->tables[i]->table < r->count)
            known_table_take(&r->table[report->tables[i]->table],
                             report->tables[i], now_ms);
}

static double known_table_growth(const struct known_table *t, uint64_t now_ms)
{
    uint64_t ms = now_ms - t->mark[0].ms;

    if (ms < GROWTH_MS)
        return NAN;
    return ((double)t->figures.rows - (double)t->mark[0].rows) * 60000 /
           (double)ms;
}

struct rows_sum shard_rows_sum(const struct shard_rows *r)
{
    struct rows_sum sum = {0};

    for (uint32_t i = 0; i < r->count; i++) {
        const Sluice__V1__TableFigures *f = &r->table[i].figures;

        if (!r->table[i].known)
            continue;
        sum.rows += f->rows;
        sum.bytes += f->bytes;
        sum.disk += f->disk_bytes;
    }
    return sum;
}

// Adds a table to a status; false: there is no memory for all of it.
static bool known_table_show(Sluice__V1__ShardStatus *m,
                             const struct known_table *t, uint64_t now_ms)
{
    ProtobufCMessage *copy;
    Sluice__V1__TableFigures *f;

    if (wire_dup(&copy, &t->figures.base) != SL_OK)
        return false;
    f = (Sluice__V1__TableFigures *)copy;
    m->tables[m->n_tables++] = f;
    WIRE_SET_KNOWN(
        f, rows_per_minute,
        SLUICE__V1__TABLE_FIGURES__KNOWN_ROWS_PER_MINUTE_ROWS_PER_MINUTE,
        known_table_growth(t, now_ms));
    return true;
}

bool shard_rows_show(const struct shard_rows *r, Sluice__V1__ShardStatus *m,
                     uint64_t now_ms)
{
    if (r->count == 0)
        return true;
    m->tables = sl_calloc(r->count, sizeof(*m->tables));
    if (m->tables == NULL)
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (r->table[i].known && !known_table_show(m, &r->table[i], now_ms))
            return false;
    return true;
}

bool shard_rows_replace(Sluice__V1__ShardStatus *m,
                        const Sluice__V1__ShardReport *report, uint32_t shards)
{
    Sluice__V1__ShardStatus view = SLUICE__V1__SHARD_STATUS__INIT, *made;
    ProtobufCMessage *copy = NULL;
    size_t had = m->n_tables;

    view.tables = report->tables;
    view.n_tables = sl_min(report->n_tables, SHARD_ROWS_MOST / shards);
    if (view.n_tables == 0 || view.n_tables < had ||
        wire_dup(&copy, &view.base) != SL_OK)
        return false;
    made = (Sluice__V1__ShardStatus *)copy;
    view.tables = m->tables;
    m->tables = made->tables;
    m->n_tables = made->n_tables;
    made->tables = view.tables;
    made->n_tables = had;
    wire_free(copy);
    return true;
}
