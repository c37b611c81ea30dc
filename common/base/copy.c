// SPDX-License-Identifier: Apache-2.0
// common/base/copy.c -- copies of large payloads by vector moves, where `rep
// movsb` would be slower.
#include "common/base/copy.h"

#include <stdint.h>
#include <string.h>

#ifdef __x86_64__

#include <immintrin.h>

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

// `to` lies at a multiple of 32.
__attribute__((target("avx2"))) static void
stream_blocks(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += BLOCK) {
        const __m256i_u *in = (const __m256i_u *)(from + at);
        __m256i *out = (__m256i *)(to + at);

        for (int i = 0; i < BLOCK / 32; i++)
            _mm256_stream_si256(out + i, _mm256_loadu_si256(in + i));
    }
}

void sl_copy_away(void *to, const void *from, size_t bytes)
{
    size_t ahead = -(uintptr_t)to % 32, whole;

    if (bytes < LEAST_BYTES || !__builtin_cpu_supports("avx2")) {
        memcpy(to, from, bytes);
        return;
    }
    whole = (bytes - ahead) / BLOCK * BLOCK;
    memcpy(to, from, ahead);
    stream_blocks((uint8_t *)to + ahead, (const uint8_t *)from + ahead, whole);
    ahead += whole;
    memcpy((uint8_t *)to + ahead, (const uint8_t *)from + ahead, bytes - ahead);
}

void sl_copy_settle(void)
{
    _mm_sfence();
}

#else

void sl_copy_settle(void)
{
}

void sl_copy_away(void *to, const void *from, size_t bytes)
{
    sl_copy(to, from, bytes);
}

void sl_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

#endif
