// SPDX-License-Identifier: Apache-2.0
// common/base/crc.h -- CRC-32C (Castagnoli), as in TFRecord and iSCSI.
//
// By the SSE4.2 instruction where the processor has it, else by table; both
// are tested against each other.
//
// Threads  any; none waits or allocates.
#ifndef COMMON_BASE_CRC_H
#define COMMON_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

// Continues `crc` (0 at the start) over n bytes and returns the new one; the
// result is not masked. `bytes` may be NULL if n is 0.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

// Returns a checksum of `words` words of 8 bytes that is made in a third of the
// time, for bytes that stay in this process: the CRC-32C of the CRC-32Cs of the
// words 0, 3, 6, ..., of 1, 4, ..., and of 2, 5, ...; words behind the last
// whole three belong to the first.
uint32_t crc32c_words(const void *bytes, size_t words);

// Computes the same as crc32c by table, on any processor, for tests.
uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t n);

// Returns `crc` as TFRecord stores it (masked), since a CRC of data that holds
// CRCs is weak.
static inline uint32_t crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// Returns the CRC that crc32c_mask masked.
static inline uint32_t crc32c_unmask(uint32_t masked)
{
    uint32_t rot = masked - 0xa282ead8u;

    return (rot >> 17) | (rot << 15);
}

#endif
