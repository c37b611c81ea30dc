// SPDX-License-Identifier: Apache-2.0
#include "psserver/copyin.h"

#include <stdint.h>
#include <string.h>

#include "psserver/finite.h"

// Bytes that are copied, and then looked at while they are in the first cache:
// where there is nothing better, and for the rest of what is.
#define CHUNK_ELEMENTS 4096

static bool in_chunks(uint8_t *to, const uint8_t *from, size_t n)
{
    bool finite = true;

    for (size_t at = 0; at < n; at += CHUNK_ELEMENTS) {
        size_t some = n - at < CHUNK_ELEMENTS ? n - at : CHUNK_ELEMENTS;

        memcpy(to + 4 * at, from + 4 * at, 4 * some);
        finite = finite_all(to + 4 * at, some) && finite;
    }
    return finite;
}

#ifdef __x86_64__

typedef uint32_t v8 __attribute__((vector_size(32)));
typedef uint32_t v8_anywhere
    __attribute__((vector_size(32), aligned(1), may_alias));

// Exponent all ones, as in finite.c.
#define EXPONENT 0x7f800000u

__attribute__((target("avx2"))) static bool
in_vectors(uint8_t *to, const uint8_t *from, size_t n)
{
    v8 exponent = (v8){0} + EXPONENT, bad = {0}, a, b;
    uint32_t any = 0;

    for (size_t at = 0; at < 4 * n; at += 64) {
        a = *(const v8_anywhere *)(from + at);
        b = *(const v8_anywhere *)(from + at + 32);
        // The compiler must not read them a second time to look at them.
        __asm__ volatile("" : "+x"(a), "+x"(b));
        *(v8_anywhere *)(to + at) = a;
        *(v8_anywhere *)(to + at + 32) = b;
        bad |= (v8)((a & exponent) == exponent);
        bad |= (v8)((b & exponent) == exponent);
    }
    for (int i = 0; i < 8; i++)
        any |= bad[i];
    return any == 0;
}

bool copyin_finite(void *to, const void *from, size_t n)
{
    size_t whole = n / 16 * 16;
    bool finite = true;

    if (!__builtin_cpu_supports("avx2"))
        return in_chunks(to, from, n);
    if (whole > 0)
        finite = in_vectors(to, from, whole);
    return in_chunks((uint8_t *)to + 4 * whole,
                     (const uint8_t *)from + 4 * whole, n - whole) &&
           finite;
}

#else

bool copyin_finite(void *to, const void *from, size_t n)
{
    return in_chunks(to, from, n);
}

#endif
