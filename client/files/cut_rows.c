// SPDX-License-Identifier: Apache-2.0
// client/files/cut_rows.c -- rows of a cut, sorted shard by shard.
#include "client/files/cut_rows.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "plan/tables.h"
#include "proto/table_rows.h"

#define ROWS_AHEAD 16 // that are fetched into the cache

struct cut_row {
    uint64_t hash;
    const uint8_t *record;
};

static int cut_row_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct cut_row *)a)->hash;
    uint64_t y = ((const struct cut_row *)b)->hash;

    return (x > y) - (x < y);
}

static enum sl_err cut_rows_sort(struct cut_rows *r, struct sl_error *err)
{
    const struct table_live *live = table_export_records(r->x, r->shard++);
    struct table_live_at at = {0};
    struct table_run run;

    sl_free(r->sorted);
    r->at = r->count = 0;
    r->sorted = sl_malloc_array(live->records, sizeof(*r->sorted));
    if (r->sorted == NULL)
        return sl_no_memory(err);
    while (table_live_next(live, &at, UINT64_MAX, &run)) {
        const uint8_t *record = table_run_data(&run);

        for (uint64_t i = 0; i < run.n; i++, record += live->record_bytes)
            r->sorted[r->count++] =
                (struct cut_row){table_hash(table_id(record, 0)), record};
    }
    qsort(r->sorted, r->count, sizeof(*r->sorted), cut_row_compare);
    return SL_OK;
}

static enum sl_err cut_rows_next(struct row_stream *s, struct table_row *row,
                                 struct sl_error *err)
{
    struct cut_rows *r = sl_container_of(s, struct cut_rows, stream);
    const struct cut_row *next;

    while (r->at == r->count && r->shard < r->x->shards) {
        enum sl_err rc = cut_rows_sort(r, err);

        if (rc != SL_OK)
            return rc;
    }
    *row = (struct table_row){.values = NULL};
    if (r->at == r->count)
        return SL_OK;
    // Records lie in no order: each is a line that no cache has.
    if (r->count - r->at > ROWS_AHEAD)
        __builtin_prefetch(r->sorted[r->at + ROWS_AHEAD].record);
    next = &r->sorted[r->at++];
    row->id = table_id(next->record, 0);
    if (next->hash < r->least)
        return sl_fail(err, SL_ECORRUPT,
                       "table %s: id %llu stands twice, or in the rows of "
                       "shard %u, where it does not belong",
                       r->x->name, (unsigned long long)row->id, r->shard - 1);
    r->least = next->hash + (next->hash != UINT64_MAX);
    row->hash = next->hash;
    row->values = next->record + TABLE_RECORD_HEAD;
    return SL_OK;
}

void cut_rows_init(struct cut_rows *r, const struct table_export *x)
{
    *r =
        (struct cut_rows){.stream = {cut_rows_next}, .x = x, .shard = x->first};
}

void cut_rows_release(struct cut_rows *r)
{
    sl_free(r->sorted);
    r->sorted = NULL;
}
