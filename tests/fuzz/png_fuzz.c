// SPDX-License-Identifier: Apache-2.0
// PNG files, through the function of ours that calls libpng: once as they are,
// and once with the checksums of their chunks put right, or changes would get
// no further than those.
#include <zlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/image_kit.h"

#define MAGIC "\x89PNG\r\n\x1a\n"
#define MAGIC_BYTES 8
#define CHUNK_BYTES 12 // length, kind, checksum
#define FILE_MOST ((size_t)1 << 16)

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

static void put_right(uint8_t *file, size_t size)
{
    size_t at = MAGIC_BYTES;

    while (size - at >= CHUNK_BYTES &&
           size - at - CHUNK_BYTES >= be32(file + at)) {
        size_t n = be32(file + at) + 4; // with its kind
        uint32_t sum = (uint32_t)crc32(0, file + at + 4, (uInt)n);

        at += 4 + n;
        for (int i = 0; i < 4; i++)
            file[at++] = (uint8_t)(sum >> (24 - 8 * i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[FILE_MOST];

    image_check(data, size, MAGIC, MAGIC_BYTES);
    if (size < MAGIC_BYTES || size > FILE_MOST)
        return 0;
    memcpy(file, data, size);
    put_right(file, size);
    image_check(file, size, MAGIC, MAGIC_BYTES);
    return 0;
}
