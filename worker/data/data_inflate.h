// SPDX-License-Identifier: Apache-2.0
// worker/data/data_inflate.h -- zlib, with bounds.
//
// What comes out is limited three ways: by the caller's exact expectation, by
// ARRAY_INFLATE_RATIO times what went in, and by ARRAY_INFLATE_BYTES. So a few
// bytes on disk cannot become all of the memory.
//
// Threads  any. Memory: borrowed.
// Errors   SL_ECORRUPT for bad data, SL_ERANGE over a bound.
#ifndef WORKER_DATA_DATA_INFLATE_H
#define WORKER_DATA_DATA_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum inflate_form {
    INFLATE_RAW,  // deflate, as in zip
    INFLATE_GZIP, // with header and CRC; several members in a row are one
};

// SL_ERANGE unless `bytes` may come out of `compressed` bytes.
enum sl_err inflate_bounds(uint64_t bytes, uint64_t compressed,
                           struct sl_error *err);

// Exactly `bytes` must come out, and all of `from` must be used.
enum sl_err inflate_exact(void *to, size_t bytes, const uint8_t *from, size_t n,
                          enum inflate_form form, struct sl_error *err);

// The first up to `bytes` bytes, for a header: *got says how many there are.
enum sl_err inflate_begin(void *to, size_t bytes, size_t *got,
                          const uint8_t *from, size_t n, enum inflate_form form,
                          struct sl_error *err);

#endif
