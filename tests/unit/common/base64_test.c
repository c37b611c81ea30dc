// SPDX-License-Identifier: Apache-2.0
#include "common/base/base64.h"

#include "tests/harness/t.h"

// RFC 4648, 10.
TEST(base64, known_answers)
{
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct buf text = BUF_INIT, back = BUF_INIT;

        T_OK(base64_encode(&text, rows[i][0], strlen(rows[i][0])));
        T_STR(buf_text(&text), rows[i][1]);
        T_OK(base64_decode(&back, rows[i][1], strlen(rows[i][1])));
        T_STR(buf_text(&back), rows[i][0]);
        buf_release(&text);
        buf_release(&back);
    }
}

TEST(base64, round_trip)
{
    for (size_t n = 0; n < 200; n++) {
        struct buf text = BUF_INIT, back = BUF_INIT;
        uint8_t bytes[200];

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)t_rand();
        T_OK(base64_encode(&text, bytes, n));
        T_OK(base64_decode(&back, buf_text(&text), text.len));
        T_EQ(back.len, n);
        T_MEM(back.data, bytes, n);
        buf_release(&text);
        buf_release(&back);
    }
}

TEST(base64, refuses_what_is_none)
{
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",      "=g==",     "Z===", "====",
        "Zh==", "Zm9=", "Zm9v Zg=", "Zg==Zg==", "Zm-v", "Zm9v\n"};
    struct buf out = BUF_INIT;

    T_OK(buf_append_str(&out, "kept"));
    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        T_FAILS(SL_ECORRUPT, base64_decode(&out, bad[i], strlen(bad[i])));
        T_STR(buf_text(&out), "kept");
    }
    buf_release(&out);
}
