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

// What others say begins no line, ends none, and turns no direction.
TEST(utf8, shows_what_is_hidden)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"\n", "\\u000a"},
        {"\t", "\\u0009"},
        {"\x1b[2J", "\\u001b"},
        {"\x7f", "\\u007f"},
        {"\xc2\x80", "\\u0080"},
        {"\xc2\x9b", "\\u009b"},
        {"\xc2\x9f", "\\u009f"},
        {"\xc2\xa0", ""},
        {"\xd8\x9c", "\\u061c"},
        {"\xe2\x80\x8d", ""},
        {"\xe2\x80\x8e", "\\u200e"},
        {"\xe2\x80\x8f", "\\u200f"},
        {"\xe2\x80\xa7", ""},
        {"\xe2\x80\xa8", "\\u2028"},
        {"\xe2\x80\xae", "\\u202e"},
        {"\xe2\x80\xaf", ""},
        {"\xe2\x81\xa5", ""},
        {"\xe2\x81\xa6", "\\u2066"},
        {"\xe2\x81\xa9", "\\u2069"},
        {"\xe2\x81\xaa", ""},
        {"\x9b", "\\x9b"},
        {"\xff", "\\xff"},
        {"a", ""},
        {"\xc3\xa4", ""},
        {"\xf0\x9f\x98\x80", ""},
    };

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        char shown[UTF8_SHOWN];
        size_t n = strlen(rows[i].text), took;

        T_STR(utf8_shown(shown, rows[i].text, n, &took), rows[i].shown);
        T_EQ(took, utf8_sequence(rows[i].text, n) > 0
                       ? utf8_sequence(rows[i].text, n)
                       : 1);
        T_EQ(utf8_plain(rows[i].text, n), rows[i].shown[0] == '\0');
    }
}

TEST(utf8, a_line_of_any_bytes)
{
    char line[16] = "a\n\xe2\x80\xae\xff\xc3\xa4z";

    T_STR(utf8_line(line, sizeof(line), line), "a???\xc3\xa4z");
    T_STR(utf8_line(line, 5, "\xc3\xa4\xc3\xa4\xc3\xa4"), "\xc3\xa4\xc3\xa4");
    T_TRUE(utf8_plain("", 0));
}

TEST(utf8, texts)
{
    T_TRUE(utf8_valid("", 0));
    T_TRUE(utf8_valid("gr\xc3\xbc\xc3\x9f", 6));
    T_FALSE(utf8_valid("gr\xc3", 3));
    T_FALSE(utf8_valid("a\xffz", 3));
}
