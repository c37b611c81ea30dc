// SPDX-License-Identifier: Apache-2.0
// common/base/base64.h -- RFC 4648 base64 with padding.
//
// Threads  any.
// Memory   the text and the bytes must not lie in `out`.
// Errors   SL_ECORRUPT for a character, a length or padding that does not
//          fit, and for bits that a canonical encoder leaves 0.
#ifndef COMMON_BASE_BASE64_H
#define COMMON_BASE_BASE64_H

#include <stddef.h>

#include "common/base/buf.h"
#include "common/base/status.h"

// Appends the base64 text of the n bytes at `bytes` to `out`. SL_ENOMEM: `out`
// holds what it held before.
enum sl_err base64_encode(struct buf *out, const void *bytes, size_t n);

// Appends the bytes that the `len` characters of `text` encode to `out`. After
// SL_ECORRUPT or SL_ENOMEM `out` holds what it held before.
enum sl_err base64_decode(struct buf *out, const char *text, size_t len);

#endif
