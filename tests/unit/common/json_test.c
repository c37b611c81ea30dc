// SPDX-License-Identifier: Apache-2.0
#include "common/base/json.h"

#include "common/base/buf.h"
#include "tests/harness/t.h"

static enum sl_err parse(const char *text, const struct sl_json_limits *limits,
                         struct sl_error *err)
{
    json_t *out = NULL;
    enum sl_err rc =
        sl_json_parse(&out, "a.json", text, strlen(text), limits, err);

    json_decref(out);
    return rc;
}

TEST(json, errors_say_where)
{
    struct sl_error err = SL_ERROR_INIT;

    T_FAILS(SL_EINVAL, parse("{\n  \"a\": 1,\n  \"a\": 2\n}", NULL, &err));
    T_HAS(err.text, "a.json:3:");
    T_HAS(err.text, "duplicate");
}

TEST(json, refuses)
{
    static const char *const bad[] = {"",
                                      "5",
                                      "{",
                                      "[1,]",
                                      "{\"a\"}",
                                      "[1e400]",
                                      "[99999999999999999999]",
                                      "[\"\xff\"]",
                                      "[\"\\u0000\"]",
                                      "[1] x",
                                      "[NaN]"};

    for (size_t i = 0; i < SL_COUNT(bad); i++) {
        if (parse(bad[i], NULL, t_err()) != SL_EINVAL)
            T_FAIL("accepted: %s", bad[i]);
    }
    T_OK(parse("[9223372036854775807, -1.5e-3, \"\xc3\xa4\"]", NULL, t_err()));
}

TEST(json, limits_hold_at_their_edge)
{
    const struct sl_json_limits limits = {60, 3, 6, 8};
    struct sl_error err = SL_ERROR_INIT;

    T_OK(parse("[[[1]]]", &limits, t_err()));
    T_FAILS(SL_ERANGE, parse("[[[[]]]]", &limits, &err));
    T_HAS(err.text, "a.json:1:4: more than 3 levels");
    T_OK(parse("[1,2,3,4,5]", &limits, t_err()));
    T_FAILS(SL_ERANGE, parse("[1,2,3,4,5,6]", &limits, t_err()));
    T_OK(parse("[\"12345678\"]", &limits, t_err()));
    T_FAILS(SL_ERANGE, parse("[\"123456789\"]", &limits, t_err()));
    T_OK(parse("[\"[[[[\\\"[\"]", &limits, t_err())); // not structure
    T_FAILS(
        SL_ERANGE,
        parse("[                                                           ]",
              &limits, t_err()));
}

// A million opening brackets must not reach a recursive parser.
TEST(json, depth_is_bounded_by_default)
{
    size_t n = 1000000;
    char *text = malloc(n + 1);

    memset(text, '[', n);
    text[n] = '\0';
    T_FAILS(SL_ERANGE, parse(text, NULL, t_err()));
    free(text);
}

TEST(json, writes_reals_with_the_fewest_digits_that_read_back)
{
    static const struct {
        double value;
        const char *text;
    } table[] = {
        {0.1, "[0.1]"},          {0.853, "[0.853]"},
        {1.0, "[1.0]"},          {1.0 / 3, "[0.3333333333333333]"},
        {-2.5e-7, "[-2.5e-07]"}, {0.1 + 0.2, "[0.30000000000000004]"},
        {1e300, "[1e+300]"},
    };

    for (size_t i = 0; i < SL_COUNT(table); i++) {
        struct buf out = BUF_INIT;
        json_t *a = json_pack("[f]", table[i].value);

        T_OK(sl_json_write(&out, a, false));
        T_STR(buf_text(&out), table[i].text);
        buf_release(&out);
        json_decref(a);
    }
}

TEST(json, writes_nested_values_indented)
{
    struct buf out = BUF_INIT;
    json_t *o = json_pack("{s[i{}[]]s{s:s}}", "a", 1, "b", "c", "d\n");

    T_OK(sl_json_write(&out, o, true));
    T_STR(buf_text(&out), "{\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n"
                          "  \"b\": {\n    \"c\": \"d\\n\"\n  }\n}");
    buf_release(&out);
    json_decref(o);
}

TEST(json, writes_in_the_order_of_insertion)
{
    json_t *o = json_pack("{s:i, s:[b,n], s:s}", "z", 1, "a", 1, "m", "\n");
    struct buf out = BUF_INIT;

    T_OK(sl_json_write(&out, o, false));
    T_STR(buf_text(&out), "{\"z\":1,\"a\":[true,null],\"m\":\"\\n\"}");
    buf_reset(&out);
    T_OK(sl_json_write(&out, o, true));
    T_HAS(buf_text(&out), "{\n  \"z\": 1,\n");
    buf_release(&out);
    json_decref(o);
}

// Whatever the bytes, the result is JSON and reads back.
TEST(json, quote_is_always_valid)
{
    for (int round = 0; round < 2000; round++) {
        struct buf out = BUF_INIT;
        json_t *back = NULL;
        char text[40];
        size_t n = t_below(sizeof(text));

        for (size_t i = 0; i < n; i++)
            text[i] = (char)(1 + t_below(255)); // jansson refuses NUL
        T_OK(buf_append_char(&out, '['));
        T_OK(sl_json_quote(&out, text, n));
        T_OK(buf_append_char(&out, ']'));
        T_OK(sl_json_parse(&back, "q", buf_text(&out), out.len, NULL, t_err()));
        json_decref(back);
        buf_release(&out);
    }
}

TEST(json, members)
{
    json_t *o = json_pack("{s:s, s:i, s:i, s:b, s:f}", "s", "text", "n", 5,
                          "neg", -1, "b", 1, "d", 1.5);
    struct sl_error err = SL_ERROR_INIT;
    const char *text = "untouched";
    uint64_t n = 7;
    bool b;

    T_FAILS(SL_ENOENT, sl_json_str(&text, o, "x", &err));
    T_HAS(err.text, "'x'");
    T_FAILS(SL_EINVAL, sl_json_str(&text, o, "n", t_err()));
    T_STR(text, "untouched");
    T_OK(sl_json_str(&text, o, "s", t_err()));
    T_STR(text, "text");
    T_FAILS(SL_EINVAL, sl_json_u64(&n, o, "neg", t_err()));
    T_FAILS(SL_EINVAL, sl_json_u64(&n, o, "d", t_err()));
    T_EQ(n, 7);
    T_OK(sl_json_u64(&n, o, "n", t_err()));
    T_EQ(n, 5);
    T_FAILS(SL_EINVAL, sl_json_bool(&b, o, "n", t_err()));
    T_OK(sl_json_bool(&b, o, "b", t_err()));
    T_TRUE(b);
    json_decref(o);
}
