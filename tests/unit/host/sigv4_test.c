// SPDX-License-Identifier: Apache-2.0
// What a request is signed as. That the signatures are right, botocore says:
// tests/system/store_test.py.
#include "host/store/sigv4.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

TEST(sigv4, dates)
{
    char date[SIGV4_DATE];

    sigv4_date(date, 0);
    T_STR(date, "19700101T000000Z");
    sigv4_date(date, 1369353600999999u);
    T_STR(date, "20130524T000000Z");
}

TEST(sigv4, all_but_unreserved_bytes_are_encoded)
{
    struct buf out = BUF_INIT;

    T_OK(sigv4_encode(&out, "AZaz09-._~ /+%&=\xc3\xa9\x7f", true));
    T_STR(buf_text(&out), "AZaz09-._~%20/%2B%25%26%3D%C3%A9%7F");
    buf_reset(&out);
    T_OK(sigv4_encode(&out, "a/b", false));
    T_STR(buf_text(&out), "a%2Fb");
    buf_release(&out);
}

TEST(sigv4, a_query_is_sorted_by_name_then_value)
{
    const struct sigv4_pair query[] = {
        {"b", "1"}, {"a-b", "2"}, {"a", "z"},        {"a", "b"},
        {"B", "/"}, {"a b", ""},  {"\xc3\xa9", "x"}, {NULL, NULL}};
    struct buf out = BUF_INIT;

    T_OK(sigv4_query(&out, query));
    T_STR(buf_text(&out), "%C3%A9=x&B=%2F&a=b&a=z&a%20b=&a-b=2&b=1");
    buf_reset(&out);
    T_OK(sigv4_query(&out, NULL));
    T_STR(buf_text(&out), "");
    buf_release(&out);
}

static const struct sigv4_pair headers[] = {
    {"x-amz-date", "20130524T000000Z"}, {"host", " a   b "}, {NULL, NULL}};
static const struct sigv4 request = {.method = "GET",
                                     .path = "/",
                                     .header = headers,
                                     .payload = "UNSIGNED-PAYLOAD",
                                     .region = "r",
                                     .service = "s3",
                                     .key_id = "id",
                                     .secret = "secret",
                                     .date = "20130524T000000Z"};

TEST(sigv4, every_part_is_signed)
{
    const struct sigv4_pair query[] = {{"a", ""}, {NULL, NULL}};
    const struct sigv4_pair trimmed[] = {
        {"host", "a b"}, {"x-amz-date", "20130524T000000Z"}, {NULL, NULL}};
    const struct sigv4_pair fewer[] = {{"host", "a b"}, {NULL, NULL}};
    struct sigv4 other[8];
    struct buf first = BUF_INIT, next = BUF_INIT;
    const char *signature;

    T_OK(sigv4_sign(&first, &request));
    T_HAS(buf_text(&first), "Credential=id/20130524/r/s3/aws4_request");
    T_HAS(buf_text(&first), "SignedHeaders=host;x-amz-date,");
    signature = strstr(buf_text(&first), "Signature=");
    for (size_t i = 0; i < SL_COUNT(other); i++)
        other[i] = request;
    other[0].method = "PUT";
    other[1].path = "/a";
    other[2].query = query;
    other[3].header = fewer;
    other[4].payload = "x";
    other[5].region = "q";
    other[6].secret = "Secret";
    other[7].date[0] = '3';
    for (size_t i = 0; i < SL_COUNT(other); i++) {
        buf_reset(&next);
        T_OK(sigv4_sign(&next, &other[i]));
        T_TRUE(strcmp(strstr(buf_text(&next), "Signature="), signature) != 0);
    }
    other[0] = request; // order and blanks do not count
    other[0].header = trimmed;
    buf_reset(&next);
    T_OK(sigv4_sign(&next, &other[0]));
    T_STR(buf_text(&next), buf_text(&first));
    buf_release(&first);
    buf_release(&next);
}

TEST(sigv4, out_of_memory)
{
    for (uint64_t n = 1;; n++) {
        struct buf out = BUF_INIT;
        enum sl_err rc;

        sl_mem_fail_at(n);
        rc = sigv4_sign(&out, &request);
        buf_release(&out);
        if (!sl_mem_failed()) {
            T_EQ(rc, SL_OK);
            return;
        }
        T_EQ(rc, SL_ENOMEM);
    }
}
