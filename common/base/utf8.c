// SPDX-License-Identifier: Apache-2.0
// common/base/utf8.c -- the check of UTF-8 text, of where it may be cut, and of
// what of it may be shown.
#include "common/base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool follows(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

bool utf8_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

size_t utf8_sequence(const char *text, size_t left)
{
    const unsigned char *b = (const unsigned char *)text;

    if (left == 0)
        return 0;
    if (b[0] < 0x80)
        return 1;
    if (b[0] >= 0xc2 && b[0] <= 0xdf)
        return left >= 2 && follows(b[1]) ? 2 : 0;
    if (b[0] >= 0xe0 && b[0] <= 0xef) {
        unsigned char low = b[0] == 0xe0 ? 0xa0 : 0x80;
        unsigned char high = b[0] == 0xed ? 0x9f : 0xbf;

        return left >= 3 && b[1] >= low && b[1] <= high && follows(b[2]) ? 3
                                                                         : 0;
    }
    if (b[0] >= 0xf0 && b[0] <= 0xf4) {
        unsigned char low = b[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = b[0] == 0xf4 ? 0x8f : 0xbf;

        return left >= 4 && b[1] >= low && b[1] <= high && follows(b[2]) &&
                       follows(b[3])
                   ? 4
                   : 0;
    }
    return 0;
}

bool utf8_valid(const char *text, size_t len)
{
    while (len > 0) {
        size_t n = utf8_sequence(text, len);

        if (n == 0)
            return false;
        text += n;
        len -= n;
    }
    return true;
}

// What lies above U+FFFF is shown: its value is of no interest.
static uint32_t code_of(const unsigned char *b, size_t n)
{
    return n == 1   ? b[0]
           : n == 2 ? (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f)
           : n == 3 ? (uint32_t)(b[0] & 0x0f) << 12 |
                          (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f)
                    : 0x10000;
}

static bool is_hidden(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c ||
           code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

const char *utf8_shown(char out[UTF8_SHOWN], const char *text, size_t left,
                       size_t *took)
{
    const unsigned char *b = (const unsigned char *)text;
    size_t n = utf8_sequence(text, left);
    uint32_t code = code_of(b, n);

    *took = n > 0 ? n : 1;
    out[0] = '\0';
    if (n == 0)
        snprintf(out, UTF8_SHOWN, "\\x%02x", b[0]);
    else if (is_hidden(code))
        snprintf(out, UTF8_SHOWN, "\\u%04x", (unsigned)(code & 0xffff));
    return out;
}

bool utf8_plain(const char *text, size_t len)
{
    char shown[UTF8_SHOWN];
    size_t n;

    for (; len > 0; text += n, len -= n) {
        unsigned char c = (unsigned char)*text;

        n = 1;
        if ((c < ' ' || c >= 0x7f) &&
            utf8_shown(shown, text, len, &n)[0] != '\0')
            return false;
    }
    return true;
}

const char *utf8_line(char *out, size_t size, const char *bytes)
{
    size_t to = 0;

    while (*bytes != '\0') {
        char shown[UTF8_SHOWN];
        size_t n;
        bool plain = utf8_shown(shown, bytes, strnlen(bytes, 4), &n)[0] == '\0';

        if (to + (plain ? n : 1) >= size)
            break;
        if (plain)
            memmove(out + to, bytes, n);
        else
            out[to] = '?';
        to += plain ? n : 1;
        bytes += n;
    }
    out[to] = '\0';
    return out;
}
