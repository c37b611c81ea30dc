// SPDX-License-Identifier: Apache-2.0
// state/shard/tagged_rows.c -- see tagged_rows.h.
#include "state/shard/tagged_rows.h"

#include "common/base/mem.h"
#include "plan/tables.h"
#include "state/base/element.h"

#define PLACE_NONE UINT32_MAX

// Where the wanted ids stand in their block, which has them by rising hash
// (T3): those with a hash that begins with the bits p are first[p] to
// first[p + 1] - 1. Few ids share these bits. However a peer chooses its ids, a
// search halves those that do, so no pull keeps a thread of the pool for long.
struct wanted {
    const struct table_rows *block;
    uint32_t *first;
    unsigned shift; // leaves the first bits of a hash
};

static enum sl_err wanted_init(struct wanted *w, const struct table_rows *b,
                               struct sl_error *err)
{
    unsigned bits = 1;
    size_t parts;

    while ((1u << bits) < b->count)
        bits++;
    parts = (size_t)1 << bits;
    *w = (struct wanted){.block = b, .shift = 64 - bits};
    w->first = sl_calloc(parts + 1, sizeof(*w->first));
    if (w->first == NULL)
        return sl_no_memory(err);
    for (uint32_t i = 0; i < b->count; i++)
        w->first[(table_hash(table_id(b->ids, i)) >> w->shift) + 1] = i + 1;
    for (size_t p = 0; p < parts; p++)
        if (w->first[p + 1] < w->first[p])
            w->first[p + 1] = w->first[p];
    return SL_OK;
}

// Returns where an id stands in the block, or PLACE_NONE.
static uint32_t wanted_find(const struct wanted *w, uint64_t id)
{
    uint64_t hash = table_hash(id);
    uint32_t low = w->first[hash >> w->shift];
    uint32_t end = w->first[(hash >> w->shift) + 1];

    while (low < end) {
        uint32_t middle = low + (end - low) / 2;
        uint64_t at = table_hash(table_id(w->block->ids, middle));

        if (at == hash)
            return middle;
        if (at < hash)
            low = middle + 1;
        else
            end = middle;
    }
    return PLACE_NONE;
}

// Writes the rows that a run of records has of the wanted ids.
static void records_read(const struct wanted *w, const struct table_run *run,
                         size_t stride, uint32_t dim, uint8_t *out)
{
    size_t row = table_rows_row_bytes(dim, w->block->type);
    const uint8_t *record = table_run_data(run);

    for (uint64_t i = 0; i < run->n; i++, record += stride) {
        uint32_t place = wanted_find(w, table_id(record, 0));

        if (place != PLACE_NONE) // records are aligned as floats are
            element_write_rows(
                w->block->type, 1, dim, out + place * row,
                (const float *)(const void *)(record + TABLE_RECORD_HEAD));
    }
}

// Reads a block; `live` are the rows of its table. First no id has a row.
static enum sl_err block_read(const struct tables *tables,
                              const struct table_live *live,
                              const struct table_rows *b, uint8_t *out,
                              struct sl_error *err)
{
    struct table_live_at at = {0};
    struct table_run run;
    uint32_t dim = tables->dims[b->table];
    size_t row = table_rows_row_bytes(dim, b->type);
    float first[TABLE_DIM_MOST];
    struct wanted w;
    enum sl_err rc = wanted_init(&w, b, err);

    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < b->count; i++) {
        rowset_first(tables->sets[b->table], table_id(b->ids, i), first);
        element_write_rows(b->type, 1, dim, out + i * row, first);
    }
    while (table_live_next(live, &at, UINT64_MAX, &run))
        records_read(&w, &run, live->record_bytes, dim, out);
    sl_free(w.first);
    return SL_OK;
}

static enum sl_err blocks_read(const struct tables *tables,
                               const struct plan *plan,
                               const struct tagged_file *file,
                               const struct tables_push *ids, uint8_t *out,
                               struct sl_error *err)
{
    struct table_rows_at at = {ids->bytes, ids->n, 0};
    enum sl_err rc = SL_OK;
    struct table_rows b;

    while (rc == SL_OK && tables_next(tables, &at, false, &b)) {
        const char *name = plan->tables[b.table].name;
        const struct table_live *live = tagged_file_rows(file, name);

        if (live == NULL ||
            live->record_bytes != rowset_stride(tables->sets[b.table]))
            return sl_fail(err, SL_ECORRUPT,
                           "the snapshot has no table %s of this form", name);
        rc = block_read(tables, live, &b, out, err);
        out +=
            table_rows_elements_bytes(b.count, tables->dims[b.table], b.type);
    }
    return rc;
}

enum sl_err tagged_rows(const struct tables *t, const struct plan *plan,
                        const struct tagged_file *file,
                        const struct tables_push *ids, size_t bytes,
                        uint8_t **out, struct sl_error *err)
{
    uint8_t *made = sl_calloc(bytes, 1);
    enum sl_err rc;

    if (made == NULL)
        return sl_no_memory(err);
    rc = blocks_read(t, plan, file, ids, made, err);
    if (rc == SL_OK)
        *out = made;
    else
        sl_free(made);
    return rc;
}
