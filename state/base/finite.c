// SPDX-License-Identifier: Apache-2.0
// state/base/finite.c -- the test for infinities and NaN over f32, f16 and
// bf16, by vectors.
#include "state/base/finite.h"

#include <stdint.h>
#include <string.h>

#include "kernels/quant.h"
#include "proto/table_rows.h"

#define ALWAYS static inline __attribute__((always_inline))

// Exponent all ones: infinite or not a number. Integers, so that the compiler
// may use vectors whatever it thinks of NaN; and no way out of the loop: it is
// one of vectors then, and a payload that is not finite is rare.
ALWAYS bool scan32(const uint8_t *bytes, size_t n)
{
    const uint32_t exponent = FINITE_F32;
    uint32_t bad = 0, bits;

    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, bytes + 4 * i, 4);
        bad |= (bits & exponent) == exponent;
    }
    return bad == 0;
}

ALWAYS bool scan16(const uint8_t *bytes, size_t n, uint16_t exponent)
{
    uint16_t bad = 0, bits;

    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, bytes + 2 * i, 2);
        bad |= (bits & exponent) == exponent;
    }
    return bad == 0;
}

ALWAYS bool finite_scan(enum wire_type type, const uint8_t *bytes, size_t n)
{
    if (type == WIRE_F32)
        return scan32(bytes, n);
    return scan16(bytes, n, type == WIRE_BF16 ? FINITE_BF16 : FINITE_F16);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static bool
scan_avx2(enum wire_type type, const uint8_t *bytes, size_t n)
{
    return finite_scan(type, bytes, n);
}
#endif

bool finite_all(enum wire_type type, const void *elements, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return scan_avx2(type, elements, n);
#endif
    return finite_scan(type, elements, n);
}

size_t finite_find(enum wire_type type, const void *elements, size_t n)
{
    const uint8_t *bytes = elements;
    size_t i = 0;

    while (i < n && finite_scan(type, bytes + i * wire_type_bytes(type), 1))
        i++;
    return i;
}

size_t finite_find_row(enum wire_type type, const void *rows, size_t n,
                       uint32_t dim)
{
    const uint8_t *row = rows;
    size_t i = 0;

    if (type != WIRE_INT8 && finite_all(type, rows, n * dim))
        return n;
    for (; i < n; i++, row += table_rows_row_bytes(dim, type))
        if (type == WIRE_INT8 ? !quant_finite(row)
                              : !finite_all(type, row, dim))
            break;
    return i;
}
