// SPDX-License-Identifier: Apache-2.0
// state/base/finite.h -- checks that the elements of a gradient are finite.
//
// Every payload is checked whole before any of it is applied, so this loop runs
// over each byte that is pushed: it is built once per instruction set, and the
// host's is chosen at run time.
//
// Threads  any; a function of its arguments.
// Memory   any address: the bytes are as they came from the wire.
// Units    elements; n may be 0. A type is WIRE_F32, WIRE_BF16 or WIRE_F16, and
//          in finite_find_row also WIRE_INT8, of which a row's scale is looked
//          at.
// Errors   none.
#ifndef STATE_BASE_FINITE_H
#define STATE_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire.h"

// The bits of an exponent: all ones are infinite, or not a number.
#define FINITE_F32 0x7f800000u
#define FINITE_BF16 0x7f80
#define FINITE_F16 0x7c00

// Returns true if none of n elements is infinite or NaN.
bool finite_all(enum wire_type type, const void *elements, size_t n);

// Returns the index of the first of n elements that is infinite or NaN; n if
// none is.
size_t finite_find(enum wire_type type, const void *elements, size_t n);

// Returns the index of the first of n rows with an element that is not finite;
// n: none has. A row is `dim` elements, or with WIRE_INT8 a row of quant.h: its
// scale, an f32, and `dim` bytes. Rows lie one behind the other.
size_t finite_find_row(enum wire_type type, const void *rows, size_t n,
                       uint32_t dim);

#endif
