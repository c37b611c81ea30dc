// SPDX-License-Identifier: Apache-2.0
// common/base/utf8.c -- the check of UTF-8 text, and of where it may be cut.
#include "common/base/utf8.h"

#include <string.h>

static bool follows(unsigned char c)
{
    return (c & 0xc0) == 0x80;
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

const char *utf8_line(char *out, size_t size, const char *bytes)
{
    size_t to = 0;

    while (*bytes != '\0') {
        size_t n = utf8_sequence(bytes, strnlen(bytes, 4));
        bool plain = n > 1 || (n == 1 && *bytes >= ' ' && *bytes != 0x7f);

        if (to + (plain ? n : 1) >= size)
            break;
        if (plain)
            memcpy(out + to, bytes, n);
        else
            out[to] = '?';
        to += plain ? n : 1;
        bytes += n > 0 ? n : 1;
    }
    out[to] = '\0';
    return out;
}
