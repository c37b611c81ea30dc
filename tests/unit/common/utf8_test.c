// SPDX-License-Identifier: Apache-2.0
#include "common/base/utf8.h"

#include "tests/harness/t.h"

static size_t encode(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

TEST(utf8, every_code_point)
{
    for (uint32_t c = 0; c < 0x120000; c++) {
        bool good = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        char text[4];
        size_t n = encode(text, c);

        T_EQ(utf8_sequence(text, n), good ? n : 0);
        if (n > 1)
            T_EQ(utf8_sequence(text, n - 1), 0); // cut short
    }
}

TEST(utf8, long_forms_are_refused)
{
    T_EQ(utf8_sequence("\xc0\x80", 2), 0);
    T_EQ(utf8_sequence("\xc1\xbf", 2), 0);
    T_EQ(utf8_sequence("\xe0\x9f\xbf", 3), 0);
    T_EQ(utf8_sequence("\xf0\x8f\xbf\xbf", 4), 0);
    T_EQ(utf8_sequence("\x80", 1), 0);
    T_EQ(utf8_sequence("", 0), 0);
}

TEST(utf8, texts)
{
    T_TRUE(utf8_valid("", 0));
    T_TRUE(utf8_valid("gr\xc3\xbc\xc3\x9f", 6));
    T_FALSE(utf8_valid("gr\xc3", 3));
    T_FALSE(utf8_valid("a\xffz", 3));
}
