// SPDX-License-Identifier: Apache-2.0
// client/show/table_sums.c -- see table_sums.h.
#include "client/show/table_sums.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/tables.h"
#include "proto/spec.h"
#include "proto/wire.h"

void tables_report_release(struct tables_report *r)
{
    sl_free(r->msg.tables);
    sl_free(r->rows);
    sl_free(r->figures);
    sl_free(r->hot);
    *r = (struct tables_report){0};
}

static void tables_row_begin(struct tables_report *r, size_t row,
                             const Sluice__V1__JobStatus *s, size_t table,
                             const char *psserver)
{
    const Sluice__V1__TableSpec *t = s->spec->model->tables[table];
    const Sluice__V1__OptimizerSpec *o =
        t->optimizer != NULL ? t->optimizer : s->spec->optimizer;
    Sluice__V1__TableStatus *m = &r->rows[row];
    Sluice__V1__TableFigures *f = &r->figures[row];

    sluice__v1__table_status__init(m);
    sluice__v1__table_figures__init(f);
    f->table = (uint32_t)table;
    f->hot_ids = r->hot + row * 2 * TABLE_HOT;
    f->hot_updates = f->hot_ids + TABLE_HOT;
    m->figures = f;
    m->name = t->name;
    m->dim = t->dim;
    m->psserver = (char *)psserver;
    if (o != NULL && o->type != NULL)
        m->optimizer = o->type;
    r->msg.tables[row] = m;
}

// Returns what the shard reported of a table; NULL: nothing.
static const Sluice__V1__TableFigures *
tables_reported(const Sluice__V1__ShardStatus *shard, size_t table)
{
    for (size_t i = 0; i < shard->n_tables; i++)
        if (shard->tables[i]->table == table)
            return shard->tables[i];
    return NULL;
}

// Puts an id into its place among those with most updates: its row is in one
// shard alone.
static void tables_put_hot(Sluice__V1__TableFigures *to, uint64_t id,
                           uint64_t updates)
{
    size_t at = to->n_hot_ids;

    if (at == TABLE_HOT && to->hot_updates[--at] >= updates)
        return;
    for (; at > 0 && to->hot_updates[at - 1] < updates; at--) {
        to->hot_ids[at] = to->hot_ids[at - 1];
        to->hot_updates[at] = to->hot_updates[at - 1];
    }
    to->hot_ids[at] = id;
    to->hot_updates[at] = updates;
    to->n_hot_ids = sl_min(to->n_hot_ids + 1, TABLE_HOT);
    to->n_hot_updates = to->n_hot_ids;
}

static void tables_take_hot(Sluice__V1__TableFigures *to,
                            const Sluice__V1__TableFigures *from)
{
    size_t n = sl_min(from->n_hot_ids, from->n_hot_updates);

    for (size_t i = 0; i < n; i++)
        tables_put_hot(to, from->hot_ids[i], from->hot_updates[i]);
    if (n == 0 &&
        from->hottest_updates > 0) // an older psserver, or many tables
        tables_put_hot(to, from->hottest_id, from->hottest_updates);
    if (to->n_hot_ids == 0)
        return;
    to->hottest_id = to->hot_ids[0];
    to->hottest_updates = to->hot_updates[0];
}

// `growth` is NAN from the first shard on of which it is not known.
static void tables_row_add(Sluice__V1__TableStatus *m,
                           const Sluice__V1__TableFigures *from, double *growth)
{
    Sluice__V1__TableFigures *to = m->figures;

    m->known++;
    to->rows += from->rows;
    to->waiting += from->waiting;
    to->bytes += from->bytes;
    to->admitted += from->admitted;
    to->evicted += from->evicted;
    to->forgotten += from->forgotten;
    to->unadmitted += from->unadmitted;
    if (to->largest_bucket < from->largest_bucket)
        to->largest_bucket = from->largest_bucket;
    tables_take_hot(to, from);
    to->disk_rows += from->disk_rows;
    to->disk_bytes += from->disk_bytes;
    to->found_memory += from->found_memory;
    to->found_disk += from->found_disk;
    to->to_disk += from->to_disk;
    to->evicted_full += from->evicted_full;
    to->gradients += from->gradients;
    *growth += WIRE_KNOWN(from, rows_per_minute);
}

// Returns the number of the first shard with rows: before it are the parts of a
// ring, which have parameters.
static uint32_t tables_first_shard(const Sluice__V1__JobStatus *s)
{
    uint32_t first = 0;

    while (spec_ring_rows(s->spec) && first < s->n_shards &&
           s->shards[first]->bytes > 0)
        first++;
    return first;
}

// Fills a row with the sums of the shards of its psserver, or of all.
static void tables_row_fill(struct tables_report *r, size_t row,
                            const Sluice__V1__JobStatus *s)
{
    Sluice__V1__TableStatus *m = &r->rows[row];
    size_t table = m->figures->table;
    const Sluice__V1__TableSpec *spec = s->spec->model->tables[table];
    uint32_t buckets = spec->buckets > 0 ? spec->buckets : TABLE_BUCKETS;
    uint32_t first = tables_first_shard(s);
    uint32_t shards = (uint32_t)s->n_shards - first;
    double growth = 0;

    for (uint32_t i = 0; i < shards; i++) {
        const Sluice__V1__ShardStatus *shard = s->shards[first + i];
        const Sluice__V1__TableFigures *from;

        if (table_first(i, buckets, shards) ==
                table_first(i + 1, buckets, shards) ||
            (m->psserver[0] != '\0' &&
             strcmp(m->psserver, shard->psserver) != 0))
            continue;
        m->shards++;
        from = tables_reported(shard, table);
        if (from != NULL)
            tables_row_add(m, from, &growth);
        else
            r->unsaid++;
    }
    if (m->known > 0)
        WIRE_SET_KNOWN(
            m->figures, rows_per_minute,
            SLUICE__V1__TABLE_FIGURES__KNOWN_ROWS_PER_MINUTE_ROWS_PER_MINUTE,
            growth);
}

// Returns true if no shard before has the same psserver.
static bool tables_first_of(const Sluice__V1__JobStatus *s, size_t shard)
{
    for (size_t i = tables_first_shard(s); i < shard; i++)
        if (strcmp(s->shards[i]->psserver, s->shards[shard]->psserver) == 0)
            return false;
    return true;
}

// Lists the psservers of a job: names[], which has room for each shard.
static size_t tables_psservers(const char **names,
                               const Sluice__V1__JobStatus *s)
{
    size_t n = 0;

    for (size_t i = tables_first_shard(s); i < s->n_shards; i++)
        if (tables_first_of(s, i))
            names[n++] = s->shards[i]->psserver;
    return n;
}

static void tables_rows_make(struct tables_report *r,
                             const Sluice__V1__JobStatus *s,
                             const char *const *names, size_t n)
{
    for (size_t t = 0; t < s->spec->model->n_tables; t++)
        for (size_t i = 0; i < n; i++) {
            size_t row = r->msg.n_tables;

            tables_row_begin(r, row, s, t, names[i]);
            tables_row_fill(r, row, s);
            // A psserver may have none of the table's buckets.
            if (r->rows[row].shards > 0 || names[i][0] == '\0')
                r->msg.n_tables++;
        }
}

enum sl_err tables_report_init(struct tables_report *out,
                               const Sluice__V1__JobStatus *s, bool by_psserver)
{
    const char *all[] = {""}, **names = all;
    size_t n = 1, rows;

    *out = (struct tables_report){.unsaid = 0};
    sluice__v1__tables_report__init(&out->msg);
    if (by_psserver && s->n_shards > 0) {
        names = sl_malloc_array(s->n_shards, sizeof(*names));
        if (names == NULL)
            return SL_ENOMEM;
        n = tables_psservers(names, s);
    }
    rows = s->spec->model->n_tables * n;
    out->rows = sl_malloc_array(rows, sizeof(*out->rows));
    out->figures = sl_malloc_array(rows, sizeof(*out->figures));
    out->hot = sl_malloc_array(rows, 2 * TABLE_HOT * sizeof(*out->hot));
    out->msg.tables = sl_malloc_array(rows, sizeof(*out->msg.tables));
    out->msg.job = s->id;
    out->msg.state = s->state;
    if (out->rows != NULL && out->figures != NULL && out->hot != NULL &&
        out->msg.tables != NULL)
        tables_rows_make(out, s, names, n);
    if (names != all)
        sl_free(names);
    if (out->msg.n_tables > 0 || rows == 0)
        return SL_OK;
    tables_report_release(out);
    return SL_ENOMEM;
}
