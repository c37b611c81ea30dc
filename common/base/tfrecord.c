// SPDX-License-Identifier: Apache-2.0
// common/base/tfrecord.c -- see tfrecord.h.
#include "common/base/tfrecord.h"

#include <string.h>

#include "common/base/crc.h"

static void tfrecord_put_le(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

enum sl_err tfrecord_append(struct buf *out, const void *bytes, size_t n)
{
    uint8_t *to = buf_extend(out, TFRECORD_HEAD + n + TFRECORD_TAIL);

    if (to == NULL)
        return SL_ENOMEM;
    tfrecord_put_le(to, n, 8);
    tfrecord_put_le(to + 8, crc32c_mask(crc32c(0, to, 8)), 4);
    if (n > 0)
        memcpy(to + TFRECORD_HEAD, bytes, n);
    tfrecord_put_le(to + TFRECORD_HEAD + n, crc32c_mask(crc32c(0, bytes, n)),
                    4);
    return SL_OK;
}

static uint64_t tfrecord_get_le(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

bool tfrecord_head(const uint8_t *head, uint64_t *bytes)
{
    *bytes = tfrecord_get_le(head, 8);
    return tfrecord_get_le(head + 8, 4) == crc32c_mask(crc32c(0, head, 8));
}

bool tfrecord_whole(const uint8_t *bytes, size_t n, const uint8_t *tail)
{
    return tfrecord_get_le(tail, 4) == crc32c_mask(crc32c(0, bytes, n));
}
