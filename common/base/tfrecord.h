// SPDX-License-Identifier: Apache-2.0
// common/base/tfrecord.h -- the framing of TFRecord files, which TensorBoard's
// event files have too.
//
//     u64 length | u32 masked crc32c of those 8 bytes | bytes | u32 masked
//     crc32c of the bytes
//
// Threads  any.
// Memory   appended to the caller's buffer.
// Errors   SL_ENOMEM leaves the buffer as it was.
#ifndef COMMON_BASE_TFRECORD_H
#define COMMON_BASE_TFRECORD_H

#include <stdbool.h>

#include "common/base/buf.h"

#define TFRECORD_HEAD 12 // bytes before those of the record
#define TFRECORD_TAIL 4  // bytes behind the record

// Appends one record of n bytes to `out`. `bytes` may be NULL if n is 0, and
// must not lie in `out`. SL_ENOMEM.
enum sl_err tfrecord_append(struct buf *out, const void *bytes, size_t n);

// Sets *bytes to the length of a record, from its TFRECORD_HEAD bytes. Returns
// false if their checksum is wrong: *bytes is set all the same, to any number.
bool tfrecord_head(const uint8_t *head, uint64_t *bytes);

// Returns true if the checksum behind a record, in its TFRECORD_TAIL bytes, is
// that of its n bytes.
bool tfrecord_whole(const uint8_t *bytes, size_t n, const uint8_t *tail);

#endif
