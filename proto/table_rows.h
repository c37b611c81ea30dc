// SPDX-License-Identifier: Apache-2.0
// proto/table_rows.h -- rows of tables, as a push and a pull carry them.
//
// Blocks, one behind another, one for each table that the step touches on this
// shard; their tables rise. All numbers are little-endian:
//
//     u32 table, u32 count (at least 1), u32 type (WireType, or 3), u32 0
//     count ids, u64 each, in rising order of table_hash (plan/tables.h)
//     count * dim elements of the type, row by row: gradients of a push
//     zeroes up to a multiple of 8 bytes
//
// A row of type 3 (WIRE_INT8) has a scale, an f32, and `dim` signed bytes: each
// stands for its product with the scale (kernels/quant.h). A scale that is
// negative, above QUANT_MOST or NaN makes the row one that is not finite.
//
// A pull has the blocks without elements; its answer has the elements alone,
// in the same order, each block's filled up in the same way.
//
// Threads  functions of their arguments; any.
// Memory   blocks point into the bytes, at any address.
// Units    elements and ids unless it says bytes.
// Errors   SL_EINVAL names the block's table and what does not fit. `err` may
//          be NULL.
#ifndef PROTO_TABLE_ROWS_H
#define PROTO_TABLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/base/tensorfile.h"
#include "proto/wire.h"

#define TABLE_ROWS_HEAD 16 // bytes before the ids

// In a snapshot (state/SNAPSHOT.md): the tensor of a table's rows is
// TABLE_ROWS_TENSOR and the table's name; a record begins with so many bytes,
// the first 8 of which are the id.
#define TABLE_ROWS_TENSOR "#rows."
#define TABLE_RECORD_HEAD 16

// In a file of the rows of one table, as an export writes it and a job begins
// with it (TableFile): id i is that of row i, in any order.
#define TABLE_FILE_IDS "ids"       // U64 of shape [rows]
#define TABLE_FILE_VALUES "values" // F32 of shape [rows, dim]

struct table_rows {
    uint32_t table, count;
    enum wire_type type;
    const uint8_t *ids;      // count * 8 bytes
    const uint8_t *elements; // count * dim of the type; NULL in a pull
};

// A place in the bytes; {bytes, n} at the beginning.
struct table_rows_at {
    const uint8_t *at;
    size_t left;
    uint64_t least; // lowest table that may come
};

// Returns the bytes of the elements of one row.
static inline size_t table_rows_row_bytes(uint32_t dim, enum wire_type type)
{
    return type == WIRE_INT8 ? sizeof(float) + dim
                             : dim * wire_type_bytes(type);
}

// Returns the bytes of count * dim elements, filled up to a multiple of 8.
static inline size_t table_rows_elements_bytes(uint32_t count, uint32_t dim,
                                               enum wire_type type)
{
    return (count * table_rows_row_bytes(dim, type) + 7) & ~(size_t)7;
}

// Reads the block at *at, which is not at its end, to *out and steps over it.
// dims[i] is the number of a row's elements in table `i`, of `tables` tables.
// `elements`: the block has elements (a push), not ids alone (a pull).
// SL_EINVAL: the block is cut short, is not of a later table than the one
// before or of no table, has no ids or an unknown type, or its last u32 is not
// 0; *out and *at are then untouched. Neither the order of ids nor the elements
// are looked at.
enum sl_err table_rows_next(struct table_rows *out, struct table_rows_at *at,
                            const uint32_t *dims, size_t tables, bool elements,
                            struct sl_error *err);

// Writes the TABLE_ROWS_HEAD bytes of a block's head to `to`; returns the
// address behind it, where its ids go.
uint8_t *table_rows_head(uint8_t *to, uint32_t table, uint32_t count,
                         enum wire_type type);

// Returns the tensor of a snapshot that holds the records of table `table`: the
// one with the name `prefix` (TABLE_ROWS_TENSOR, say) and the table's, U8 of
// shape [records, bytes of a record]. NULL: there is none of this name and
// form. It is borrowed from `f`.
const struct tensor_info *table_rows_find(const struct tensorfile *f,
                                          const char *prefix,
                                          const char *table);

struct table_file {
    const struct tensor_info *ids, *values; // the file's
    uint64_t rows;
};

// Finds the tensors of a file of rows with `dim` values each, and sets *out,
// which borrows from `f`. SL_EINVAL says what the file lacks; *out is then
// untouched. Neither ids nor values are looked at.
enum sl_err table_file_find(struct table_file *out, const struct tensorfile *f,
                            uint32_t dim, struct sl_error *err);

#endif
