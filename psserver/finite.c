// SPDX-License-Identifier: Apache-2.0
#include "psserver/finite.h"

#include <stdint.h>
#include <string.h>

// Exponent all ones: infinite or not a number. Integers, so that the compiler
// may use vectors whatever it thinks of NaN.
static inline uint32_t not_finite(uint32_t bits)
{
    return (bits & 0x7f800000u) == 0x7f800000u;
}

// No way out of the loop: it is one of vectors then, and a payload that is not
// finite is rare.
static inline __attribute__((always_inline)) bool scan(const uint8_t *bytes,
                                                       size_t n)
{
    uint32_t bad = 0, bits;

    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, bytes + 4 * i, 4);
        bad |= not_finite(bits);
    }
    return bad == 0;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static bool scan_avx2(const uint8_t *bytes,
                                                      size_t n)
{
    return scan(bytes, n);
}
#endif

bool finite_all(const void *elements, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return scan_avx2(elements, n);
#endif
    return scan(elements, n);
}

size_t finite_find(const void *elements, size_t n)
{
    const uint8_t *bytes = elements;
    uint32_t bits;
    size_t i = 0;

    for (; i < n; i++) {
        memcpy(&bits, bytes + 4 * i, 4);
        if (not_finite(bits))
            break;
    }
    return i;
}
