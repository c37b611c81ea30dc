// SPDX-License-Identifier: Apache-2.0
// common/base/tfrecord.c -- see tfrecord.h.
#include "common/base/tfrecord.h"

#include <string.h>

#include "common/base/crc.h"

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

enum sl_err tfrecord_append(struct buf *out, const void *bytes, size_t n)
{
    uint8_t *to = buf_extend(out, TFRECORD_HEAD + n + TFRECORD_TAIL);

    if (to == NULL)
        return SL_ENOMEM;
    put(to, n, 8);
    put(to + 8, crc32c_mask(crc32c(0, to, 8)), 4);
    if (n > 0)
        memcpy(to + TFRECORD_HEAD, bytes, n);
    put(to + TFRECORD_HEAD + n, crc32c_mask(crc32c(0, bytes, n)), 4);
    return SL_OK;
}
