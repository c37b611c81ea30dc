// SPDX-License-Identifier: Apache-2.0
// state/shard/tagged_rows.c -- see tagged_rows.h.
#include "state/shard/tagged_rows.h"

#include <string.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "state/base/element.h"

#define PLACE_NONE UINT32_MAX

// Where the wanted ids stand in their block, by hash: an open table of twice as
// many places.
struct wanted {
    const struct table_rows *block;
    uint32_t *place;
    uint64_t mask;
};

static uint64_t wanted_id(const struct table_rows *b, uint32_t i)
{
    uint64_t id;

    memcpy(&id, b->ids + (size_t)i * sizeof(id), sizeof(id));
    return id;
}

static enum sl_err wanted_init(struct wanted *w, const struct table_rows *b,
                               struct sl_error *err)
{
    uint64_t places = 2;

    while (places < 2 * (uint64_t)b->count)
        places *= 2;
    *w = (struct wanted){.block = b, .mask = places - 1};
    w->place = sl_malloc_array((size_t)places, sizeof(*w->place));
    if (w->place == NULL)
        return sl_no_memory(err);
    memset(w->place, 0xff, (size_t)places * sizeof(*w->place)); // PLACE_NONE
    for (uint32_t i = 0; i < b->count; i++) {
        uint64_t at = table_hash(wanted_id(b, i)) & w->mask;

        while (w->place[at] != PLACE_NONE)
            at = (at + 1) & w->mask;
        w->place[at] = i;
    }
    return SL_OK;
}

// Returns where an id stands in the block, or PLACE_NONE.
static uint32_t wanted_find(const struct wanted *w, uint64_t id)
{
    uint64_t at = table_hash(id) & w->mask;

    while (w->place[at] != PLACE_NONE &&
           wanted_id(w->block, w->place[at]) != id)
        at = (at + 1) & w->mask;
    return w->place[at];
}

// Writes the rows that the records have of the wanted ids.
static void records_read(const struct wanted *w, const uint8_t *record,
                         uint64_t records, size_t stride, uint32_t dim,
                         uint8_t *out)
{
    size_t row = dim * wire_type_bytes(w->block->type);

    for (uint64_t i = 0; i < records; i++, record += stride) {
        uint32_t place;
        uint64_t id;

        memcpy(&id, record, sizeof(id));
        place = wanted_find(w, id);
        if (place != PLACE_NONE) // records are aligned as floats are
            element_write(
                w->block->type, dim, out + place * row,
                (const float *)(const void *)(record + TABLE_RECORD_HEAD));
    }
}

// Reads a block whose table's records are `t`, first as if no id had a row.
static enum sl_err block_read(const struct tables *tables,
                              const struct tagged_file *file,
                              const struct tensor_info *t,
                              const struct table_rows *b, uint8_t *out,
                              struct sl_error *err)
{
    uint32_t dim = tables->dims[b->table];
    size_t row = dim * wire_type_bytes(b->type);
    float first[TABLE_DIM_MOST];
    struct wanted w;
    enum sl_err rc = wanted_init(&w, b, err);

    if (rc != SL_OK)
        return rc;
    for (uint32_t i = 0; i < b->count; i++) {
        rowset_first(tables->sets[b->table], wanted_id(b, i), first);
        element_write(b->type, dim, out + i * row, first);
    }
    if (t->shape[0] > 0)
        records_read(&w, tensorfile_data(file->file, t), t->shape[0],
                     (size_t)t->shape[1], dim, out);
    sl_free(w.place);
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
        const struct tensor_info *t =
            table_rows_find(file->file, TABLE_ROWS_TENSOR, name);

        if (t == NULL || t->shape[1] != rowset_stride(tables->sets[b.table]))
            return sl_fail(err, SL_ECORRUPT,
                           "the snapshot has no table %s of this form", name);
        rc = block_read(tables, file, t, &b, out, err);
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
