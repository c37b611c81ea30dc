// SPDX-License-Identifier: Apache-2.0
// coordinator/core/shards/shard_rows.c -- see shard_rows.h.
#include "coordinator/core/shards/shard_rows.h"

#include <math.h>

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
static void figures_copy(Sluice__V1__TableFigures *to,
                         const Sluice__V1__TableFigures *from)
{
    *to = *from;
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
    figures_copy(&t->figures, f);
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

uint64_t shard_rows_bytes(const struct shard_rows *r)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->count; i++)
        if (r->table[i].known)
            bytes += r->table[i].figures.bytes;
    return bytes;
}

bool shard_rows_show(const struct shard_rows *r, Sluice__V1__ShardStatus *m,
                     uint64_t now_ms)
{
    if (r->count == 0)
        return true;
    m->tables = sl_calloc(r->count, sizeof(*m->tables));
    if (m->tables == NULL)
        return false;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct known_table *t = &r->table[i];
        Sluice__V1__TableFigures *f;

        if (!t->known)
            continue;
        f = wire_new(&sluice__v1__table_figures__descriptor);
        if (f == NULL)
            return false;
        m->tables[m->n_tables++] = f;
        figures_copy(f, &t->figures);
        WIRE_SET_KNOWN(
            f, rows_per_minute,
            SLUICE__V1__TABLE_FIGURES__KNOWN_ROWS_PER_MINUTE_ROWS_PER_MINUTE,
            known_table_growth(t, now_ms));
    }
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
