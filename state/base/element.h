// SPDX-License-Identifier: Apache-2.0
// state/base/element.h -- the numbers of a payload, as kernels know them.
//
// Threads  any; values only. Memory  the two do not overlap. Errors  none.
#ifndef STATE_BASE_ELEMENT_H
#define STATE_BASE_ELEMENT_H

#include "kernels/cast.h"
#include "proto/wire.h"

// Returns the kernels' type of the elements of a payload.
static inline enum kern_dtype element_dtype(enum wire_type type)
{
    return type == WIRE_F32    ? KERN_F32
           : type == WIRE_BF16 ? KERN_BF16
                               : KERN_F16;
}

// Writes n values of a shard, f32, as elements of a payload at `to`, which may
// be at any address.
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

#endif
