// SPDX-License-Identifier: Apache-2.0
// common/base/buf.h -- a growing byte buffer that owns its bytes.
//
// Invariant: data[len] is 0 when data is not NULL, so that text can be read
// as a C string (buf_text gives "" for an empty one).
//
// Threads  one at a time.
// Memory   buf_release frees; BUF_INIT or all zeroes is an empty buffer. Bytes
//          and texts that are passed are copied; they are not NULL and do not
//          lie in the buffer itself: growth may move those.
// Errors   SL_ENOMEM, the only one, leaves the buffer's bytes as they were.
#ifndef COMMON_BASE_BUF_H
#define COMMON_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/slices.h"
#include "common/base/status.h"

struct buf {
    uint8_t *data; // owned
    size_t len;    // bytes in use
    size_t cap;    // bytes allocated
};
#define BUF_INIT                                                               \
    {                                                                          \
        NULL, 0, 0                                                             \
    }

// Makes `b` an empty buffer and frees nothing: for memory not yet in use.
void buf_init(struct buf *b);
// Frees the memory and leaves an empty buffer, which is allowed.
void buf_release(struct buf *b);
// Sets len to 0 and keeps the memory.
void buf_reset(struct buf *b);

// Allocates space for `more` bytes after len, and the 0 behind them: appends of
// that much then cannot fail. SL_ENOMEM.
enum sl_err buf_reserve(struct buf *b, size_t more);

// Lengthens `b` by n bytes of unknown content and returns where they begin;
// NULL when out of memory. The pointer is valid until the buffer next grows.
uint8_t *buf_extend(struct buf *b, size_t n);

// Appends n bytes (`bytes` may be NULL if n is 0). SL_ENOMEM.
enum sl_err buf_append(struct buf *b, const void *bytes, size_t n);
// Appends `text` without its 0. SL_ENOMEM.
enum sl_err buf_append_str(struct buf *b, const char *text);
// Appends one byte. SL_ENOMEM.
enum sl_err buf_append_char(struct buf *b, char c);

// Appends text as printf formats it. SL_ENOMEM, also if `fmt` cannot be
// printed.
enum sl_err buf_appendf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Appends the same from `ap`, which the caller ends (va_end). SL_ENOMEM.
enum sl_err buf_vappendf(struct buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

// Returns the bytes as a C string, "" for an empty buffer; valid until `b` next
// changes. A 0 among the bytes ends the string early.
const char *buf_text(const struct buf *b);

// Returns the bytes with a 0 behind them, to be freed by the caller (sl_free),
// and leaves an empty buffer. *len (may be NULL) is their number. Returns NULL,
// and *len 0, for a buffer for which nothing was allocated yet.
uint8_t *buf_detach(struct buf *b, size_t *len);

#endif
