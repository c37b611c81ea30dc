// SPDX-License-Identifier: Apache-2.0
// common/base/base64.c -- the encoder and the strict decoder of RFC 4648,
// section 4.
#include "common/base/base64.h"

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

enum sl_err base64_encode(struct buf *out, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint8_t *to;

    if (n > SIZE_MAX / 4 || (to = buf_extend(out, (n + 2) / 3 * 4)) == NULL)
        return SL_ENOMEM;
    for (; n > 0; at += 3, to += 4) {
        unsigned have = n < 3 ? (unsigned)n : 3;
        uint32_t bits = (uint32_t)at[0] << 16 |
                        (have > 1 ? (uint32_t)at[1] << 8 : 0) |
                        (have > 2 ? at[2] : 0);

        to[0] = (uint8_t)letters[bits >> 18];
        to[1] = (uint8_t)letters[bits >> 12 & 63];
        to[2] = have > 1 ? (uint8_t)letters[bits >> 6 & 63] : '=';
        to[3] = have > 2 ? (uint8_t)letters[bits & 63] : '=';
        n -= have;
    }
    return SL_OK;
}

static int base64_digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

// Four letters, `pad` of them '=', to 3 - pad bytes. -1: not base64.
static int decode_four(uint8_t *to, const char *four, unsigned pad)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < 4; i++) {
        int v = i < 4 - pad ? base64_digit_value(four[i]) : 0;

        if (v < 0)
            return -1;
        bits = bits << 6 | (uint32_t)v;
    }
    if ((pad == 1 && (bits & 0xff) != 0) || (pad == 2 && (bits & 0xffff) != 0))
        return -1;
    for (unsigned i = 0; i < 3 - pad; i++)
        to[i] = (uint8_t)(bits >> (16 - 8 * i));
    return 0;
}

enum sl_err base64_decode(struct buf *out, const char *text, size_t len)
{
    size_t start = out->len, pad = 0;
    uint8_t *to;

    if (len % 4 != 0)
        return SL_ECORRUPT;
    if (len > 0)
        pad = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
    to = buf_extend(out, len / 4 * 3 - pad);
    if (to == NULL)
        return SL_ENOMEM;
    for (size_t i = 0; i < len; i += 4, to += 3) {
        if (decode_four(to, text + i, i + 4 == len ? (unsigned)pad : 0) != 0) {
            out->len = start;
            out->data[start] = '\0';
            return SL_ECORRUPT;
        }
    }
    return SL_OK;
}
