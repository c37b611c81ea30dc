// SPDX-License-Identifier: Apache-2.0
// state/shard/copyin.c -- copies of memory that another process may change
// meanwhile, checked as they are made.
#include "state/shard/copyin.h"

#include <stdint.h>
#include <string.h>

#include "state/base/finite.h"

// Bytes that are copied, and then looked at while they are in the first cache:
// where there is nothing better, and for the rest of what is.
#define CHUNK_BYTES 16384

static bool in_chunks(enum wire_type type, uint8_t *to, const uint8_t *from,
                      size_t bytes)
{
    bool finite = true;

    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        size_t some = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;

        memcpy(to + at, from + at, some);
        finite =
            finite_all(type, to + at, some / wire_type_bytes(type)) && finite;
    }
    return finite;
}

#ifdef __x86_64__

typedef uint32_t v8 __attribute__((vector_size(32)));
typedef uint16_t v16 __attribute__((vector_size(32)));
typedef uint32_t v8_anywhere
    __attribute__((vector_size(32), aligned(1), may_alias));

#define VECTOR __attribute__((target("avx2")))

// Returns all ones in the lanes with infinite elements or NaN.
VECTOR static inline v8 copyin_nonfinite_lanes(bool wide, v8 a, v8 exponent)
{
    return wide ? (v8)((a & exponent) == exponent)
                : (v8)((v16)(a & exponent) == (v16)exponent);
}

// `exponent` is that of one element, or of both in a lane. A loop for each
// `wide`, since this is inlined.
VECTOR static inline __attribute__((always_inline)) bool
in_lanes(bool wide, uint32_t exponent_bits, uint8_t *to, const uint8_t *from,
         size_t bytes)
{
    v8 exponent = (v8){0} + exponent_bits, bad = {0}, a, b;
    uint32_t any = 0;

    for (size_t at = 0; at < bytes; at += 64) {
        a = *(const v8_anywhere *)(from + at);
        b = *(const v8_anywhere *)(from + at + 32);
        // The compiler must not read them a second time to look at them.
        __asm__ volatile("" : "+x"(a), "+x"(b));
        *(v8_anywhere *)(to + at) = a;
        *(v8_anywhere *)(to + at + 32) = b;
        bad |= copyin_nonfinite_lanes(wide, a, exponent);
        bad |= copyin_nonfinite_lanes(wide, b, exponent);
    }
    for (int i = 0; i < 8; i++)
        any |= bad[i];
    return any == 0;
}

VECTOR static bool in_vectors(enum wire_type type, uint8_t *to,
                              const uint8_t *from, size_t bytes)
{
    uint32_t half = type == WIRE_BF16 ? FINITE_BF16 : FINITE_F16;

    if (type == WIRE_F32)
        return in_lanes(true, FINITE_F32, to, from, bytes);
    return in_lanes(false, half << 16 | half, to, from, bytes);
}

bool copyin_finite(enum wire_type type, void *to, const void *from, size_t n)
{
    size_t bytes = n * wire_type_bytes(type), whole = bytes / 64 * 64;
    bool finite = true;

    if (!__builtin_cpu_supports("avx2"))
        return in_chunks(type, to, from, bytes);
    if (whole > 0)
        finite = in_vectors(type, to, from, whole);
    return in_chunks(type, (uint8_t *)to + whole, (const uint8_t *)from + whole,
                     bytes - whole) &&
           finite;
}

#else

bool copyin_finite(enum wire_type type, void *to, const void *from, size_t n)
{
    return in_chunks(type, to, from, n * wire_type_bytes(type));
}

#endif
