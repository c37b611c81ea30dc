// SPDX-License-Identifier: Apache-2.0
// state/base/element.h -- the numbers of a payload, and those of rows of
// tables, as kernels know them.
//
// Threads  any; values only. Memory  source and destination do not overlap.
// Units    elements; a type is WIRE_F32, WIRE_BF16 or WIRE_F16, and in the
//          functions of rows also WIRE_INT8. Errors  none.
#ifndef STATE_BASE_ELEMENT_H
#define STATE_BASE_ELEMENT_H

#include "kernels/cast.h"
#include "kernels/quant.h"
#include "proto/table_rows.h"

// Returns the kernels' type of the elements of a payload.
static inline enum kern_dtype element_dtype(enum wire_type type)
{
    return type == WIRE_F32    ? KERN_F32
           : type == WIRE_BF16 ? KERN_BF16
                               : KERN_F16;
}

// Writes n values of a shard, f32, as elements of a payload at `to`, which may
// be at any address. For 16 bits they are rounded, and what is finite stays
// finite (cast_narrow).
static inline void element_write(enum wire_type type, size_t n, void *to,
                                 const float *values)
{
    cast_narrow(element_dtype(type), n, values, to);
}

// Reads n elements of a payload at `from`, which may be at any address, as f32.
static inline void element_read(enum wire_type type, size_t n, float *values,
                                const void *from)
{
    cast_widen(element_dtype(type), n, from, values);
}

// Writes n rows of `dim` values, f32, as a table's block in a message has them,
// at `to`, which may be at any address: one behind the other, a row of
// WIRE_INT8 as quant_row_bytes(dim) bytes.
static inline void element_write_rows(enum wire_type type, size_t n,
                                      uint32_t dim, void *to,
                                      const float *values)
{
    uint8_t *row = to;

    if (type != WIRE_INT8) {
        element_write(type, n * dim, to, values);
        return;
    }
    for (size_t i = 0; i < n; i++, row += quant_row_bytes(dim))
        quant_narrow(dim, values + i * dim, row);
}

// Reads one row of `dim` values of a block at `from`, which may be at any
// address, as f32.
static inline void element_read_row(enum wire_type type, uint32_t dim,
                                    float *values, const void *from)
{
    if (type == WIRE_INT8)
        quant_widen(dim, from, values);
    else
        element_read(type, dim, values, from);
}

#endif
