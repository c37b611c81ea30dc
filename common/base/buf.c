// SPDX-License-Identifier: Apache-2.0
// common/base/buf.c -- the growth of a byte buffer, and formatted text at its
// end.
#include "common/base/buf.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

void buf_init(struct buf *b)
{
    *b = (struct buf)BUF_INIT;
}

void buf_release(struct buf *b)
{
    sl_free(b->data);
    buf_init(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data != NULL)
        b->data[0] = '\0';
}

enum sl_err buf_reserve(struct buf *b, size_t more)
{
    size_t need, cap;
    uint8_t *data;

    if (__builtin_add_overflow(b->len, more, &need) || need == SIZE_MAX)
        return SL_ENOMEM;
    need++; // the 0 behind
    if (need <= b->cap)
        return SL_OK;
    cap = b->cap < 32 ? 64 : b->cap;
    if (cap < need)
        cap = cap > SIZE_MAX / 2 || cap * 2 < need ? need : cap * 2;
    data = sl_realloc(b->data, cap);
    if (data == NULL)
        return SL_ENOMEM;
    data[b->len] = '\0';
    b->data = data;
    b->cap = cap;
    return SL_OK;
}

uint8_t *buf_extend(struct buf *b, size_t n)
{
    uint8_t *at;

    if (buf_reserve(b, n) != SL_OK)
        return NULL;
    at = b->data + b->len;
    b->len += n;
    b->data[b->len] = '\0';
    return at;
}

enum sl_err buf_append(struct buf *b, const void *bytes, size_t n)
{
    uint8_t *at = buf_extend(b, n);

    if (at == NULL)
        return SL_ENOMEM;
    if (n != 0)
        memcpy(at, bytes, n);
    return SL_OK;
}

enum sl_err buf_append_str(struct buf *b, const char *text)
{
    return buf_append(b, text, strlen(text));
}

enum sl_err buf_append_char(struct buf *b, char c)
{
    return buf_append(b, &c, 1);
}

enum sl_err buf_vappendf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0 || buf_reserve(b, (size_t)n) != SL_OK)
        return SL_ENOMEM;
    vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
    return SL_OK;
}

enum sl_err buf_appendf(struct buf *b, const char *fmt, ...)
{
    enum sl_err rc;
    va_list ap;

    va_start(ap, fmt);
    rc = buf_vappendf(b, fmt, ap);
    va_end(ap);
    return rc;
}

const char *buf_text(const struct buf *b)
{
    return b->data != NULL ? (const char *)b->data : "";
}

uint8_t *buf_detach(struct buf *b, size_t *len)
{
    uint8_t *data = b->data;

    if (len != NULL)
        *len = b->len;
    buf_init(b);
    return data;
}
