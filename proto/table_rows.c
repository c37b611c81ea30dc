// SPDX-License-Identifier: Apache-2.0
// proto/table_rows.c -- see table_rows.h.
#include "proto/table_rows.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t table_rows_u32(const uint8_t *at)
{
    uint32_t x;

    memcpy(&x, at, sizeof(x));
    return le32toh(x);
}

enum sl_err table_rows_next(struct table_rows *out, struct table_rows_at *at,
                            const uint32_t *dims, size_t tables, bool elements,
                            struct sl_error *err)
{
    uint32_t table, count, type;
    size_t ids, more;

    if (at->left < TABLE_ROWS_HEAD)
        return sl_fail(err, SL_EINVAL,
                       "rows: %zu bytes are left, and a block's head has %d",
                       at->left, TABLE_ROWS_HEAD);
    table = table_rows_u32(at->at);
    count = table_rows_u32(at->at + 4);
    type = table_rows_u32(at->at + 8);
    if (table < at->least || table >= tables)
        return sl_fail(err, SL_EINVAL,
                       "rows: a block of table %u; the job has %zu tables, and "
                       "blocks come in their order",
                       table, tables);
    if (count == 0 || type >= WIRE_ROW_TYPES ||
        table_rows_u32(at->at + 12) != 0)
        return sl_fail(err, SL_EINVAL,
                       "rows of table %u: %u ids, elements of type %u", table,
                       count, type);
    ids = (size_t)count * sizeof(uint64_t);
    more = elements ? table_rows_elements_bytes(count, dims[table],
                                                (enum wire_type)type)
                    : 0;
    if (at->left - TABLE_ROWS_HEAD < ids ||
        at->left - TABLE_ROWS_HEAD - ids < more)
        return sl_fail(
            err, SL_EINVAL,
            "rows of table %u: %zu bytes for %u ids of dimension %u; "
            "%zu are needed",
            table, at->left - TABLE_ROWS_HEAD, count, dims[table], ids + more);
    *out = (struct table_rows){
        .table = table,
        .count = count,
        .type = (enum wire_type)type,
        .ids = at->at + TABLE_ROWS_HEAD,
        .elements = elements ? at->at + TABLE_ROWS_HEAD + ids : NULL};
    at->at += TABLE_ROWS_HEAD + ids + more;
    at->left -= TABLE_ROWS_HEAD + ids + more;
    at->least = (uint64_t)table + 1;
    return SL_OK;
}

uint8_t *table_rows_head(uint8_t *to, uint32_t table, uint32_t count,
                         enum wire_type type)
{
    const uint32_t head[] = {htole32(table), htole32(count),
                             htole32((uint32_t)type), 0};

    memcpy(to, head, sizeof(head));
    return to + sizeof(head);
}

const struct tensor_info *table_rows_find(const struct tensorfile *f,
                                          const char *prefix, const char *table)
{
    char name[32 + WIRE_NAME_BYTES];
    const struct tensor_info *t;
    int n = snprintf(name, sizeof(name), "%s%s", prefix, table);

    if (n < 0 || (size_t)n >= sizeof(name))
        return NULL;
    t = tensorfile_find(f, name);
    return t != NULL && t->dtype == TENSOR_U8 && t->rank == 2 && t->shape[1] > 0
               ? t
               : NULL;
}

enum sl_err table_file_find(struct table_file *out, const struct tensorfile *f,
                            uint32_t dim, struct sl_error *err)
{
    const struct tensor_info *ids = tensorfile_find(f, TABLE_FILE_IDS);
    const struct tensor_info *values = tensorfile_find(f, TABLE_FILE_VALUES);

    if (ids == NULL || values == NULL)
        return sl_fail(
            err, SL_EINVAL,
            "it has no tensor '%s'; `sluice export JOB --table NAME` "
            "writes a file of rows",
            ids == NULL ? TABLE_FILE_IDS : TABLE_FILE_VALUES);
    if (ids->dtype != TENSOR_U64 || ids->rank != 1)
        return sl_fail(
            err, SL_EINVAL, "tensor '%s' is %s of %u axes, not U64 of one",
            TABLE_FILE_IDS, tensor_dtype_name(ids->dtype), ids->rank);
    if (values->dtype != TENSOR_F32 || values->rank != 2)
        return sl_fail(
            err, SL_EINVAL, "tensor '%s' is %s of %u axes, not F32 of two",
            TABLE_FILE_VALUES, tensor_dtype_name(values->dtype), values->rank);
    if (values->shape[0] != ids->shape[0])
        return sl_fail(err, SL_EINVAL,
                       "it has %" PRIu64 " ids and values of %" PRIu64 " rows",
                       ids->shape[0], values->shape[0]);
    if (values->shape[1] != dim)
        return sl_fail(err, SL_EINVAL,
                       "its rows have %" PRIu64 " values, the table's dim is "
                       "%u",
                       values->shape[1], dim);
    *out = (struct table_file){ids, values, ids->shape[0]};
    return SL_OK;
}
