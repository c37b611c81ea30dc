// SPDX-License-Identifier: Apache-2.0
// common/base/copy.c -- copies of large payloads by vector moves, where `rep
// movsb` would be slower.
#include "common/base/copy.h"

#include <stdint.h>
#include <string.h>

#ifdef __x86_64__

// Below this memcpy does not use `rep movsb` either.
#define LEAST_BYTES 2048
#define BLOCK 128

typedef uint64_t v4_anywhere
    __attribute__((vector_size(32), aligned(1), may_alias));

__attribute__((target("avx2"))) static void
copy_blocks(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += BLOCK) {
        const v4_anywhere *in = (const v4_anywhere *)(from + at);
        v4_anywhere *out = (v4_anywhere *)(to + at);
        v4_anywhere a = in[0], b = in[1], c = in[2], d = in[3];

        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
    }
}

void sl_copy(void *to, const void *from, size_t bytes)
{
    size_t whole = bytes / BLOCK * BLOCK;

    if (bytes < LEAST_BYTES || !__builtin_cpu_supports("avx2")) {
        memcpy(to, from, bytes);
        return;
    }
    copy_blocks(to, from, whole);
    memcpy((uint8_t *)to + whole, (const uint8_t *)from + whole, bytes - whole);
}

#else

void sl_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

#endif
