// SPDX-License-Identifier: Apache-2.0
// common/base/crc.c -- CRC-32C by the processor's instruction, or by table
// where it has none.
#include "common/base/crc.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define POLYNOMIAL 0x82f63b78u // 0x1edc6f41, reflected

// table[k][b]: the CRC of byte b followed by k zeroes, so that eight bytes
// need eight look-ups and no carry between them.
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_make(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t before = table[k - 1][b];

            table[k][b] = before >> 8 ^ table[0][before & 0xff];
        }
    }
}

uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;

    pthread_once(&table_once, table_make);
    crc = ~crc;
    for (; n >= 8; n -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 |
                              (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);

        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
              table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
              table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
              table[0][at[7]];
    }
    for (; n > 0; n--, at++)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc32c_sse42(uint32_t start, const uint8_t *at, size_t n)
{
    uint64_t crc = ~start;

    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;

        memcpy(&word, at, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    for (; n > 0; n--, at++)
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}
#endif

// Each instruction waits for the one before of its CRC: of three CRCs, three
// are under way.
#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static void
threes_sse42(uint32_t crc[3], const uint8_t *at, size_t threes)
{
    uint64_t a = ~crc[0], b = ~crc[1], c = ~crc[2], word[3];

    for (; threes > 0; threes--, at += sizeof(word)) {
        memcpy(word, at, sizeof(word));
        a = _mm_crc32_u64(a, word[0]);
        b = _mm_crc32_u64(b, word[1]);
        c = _mm_crc32_u64(c, word[2]);
    }
    crc[0] = ~(uint32_t)a;
    crc[1] = ~(uint32_t)b;
    crc[2] = ~(uint32_t)c;
}
#endif

static void threes_table(uint32_t crc[3], const uint8_t *at, size_t threes)
{
    for (; threes > 0; threes--)
        for (int k = 0; k < 3; k++, at += 8)
            crc[k] = crc32c_table(crc[k], at, 8);
}

uint32_t crc32c_words(const void *bytes, size_t words)
{
    uint32_t crc[3] = {0};
    size_t threes = words / 3;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        threes_sse42(crc, bytes, threes);
    else
#endif
        threes_table(crc, bytes, threes);
    crc[0] =
        crc32c(crc[0], (const uint8_t *)bytes + 24 * threes, 8 * (words % 3));
    return crc32c(0, crc, sizeof(crc));
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, bytes, n);
#endif
    return crc32c_table(crc, bytes, n);
}
