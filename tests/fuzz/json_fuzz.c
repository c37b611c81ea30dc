// SPDX-License-Identifier: Apache-2.0
// JSON within its bounds. Bit 0 of byte 0: small limits.
#include "common/base/buf.h"
#include "common/base/json.h"
#include "tests/fuzz/fuzz.h"

static unsigned depth_of(const json_t *v)
{
    unsigned deepest = 0;
    const char *key;
    json_t *inside;
    size_t i;

    if (json_is_array(v)) {
        json_array_foreach(v, i, inside)
        {
            unsigned d = depth_of(inside);
            deepest = d > deepest ? d : deepest;
        }
    } else if (json_is_object(v)) {
        json_object_foreach((json_t *)v, key, inside)
        {
            unsigned d = depth_of(inside);
            deepest = d > deepest ? d : deepest;
        }
    } else {
        return 0;
    }
    return deepest + 1;
}

static void check_accepted(const json_t *value, unsigned depth)
{
    struct buf text = BUF_INIT;
    json_t *again = NULL;

    FUZZ_TRUE(json_is_object(value) || json_is_array(value));
    FUZZ_TRUE(depth_of(value) <= depth);
    for (int pretty = 0; pretty < 2; pretty++) {
        buf_reset(&text);
        FUZZ_TRUE(sl_json_write(&text, value, pretty) == SL_OK);
        FUZZ_TRUE(sl_json_parse(&again, "again", buf_text(&text), text.len,
                                NULL, NULL) == SL_OK);
        FUZZ_TRUE(json_equal((json_t *)value, again));
        json_decref(again);
    }
    buf_release(&text);
}

// A string of any bytes, quoted, is JSON.
static void check_quote(const char *text, size_t len)
{
    struct buf out = BUF_INIT;
    json_t *value = NULL;
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    FUZZ_TRUE(buf_append_char(&out, '[') == SL_OK);
    FUZZ_TRUE(sl_json_quote(&out, text, len) == SL_OK);
    FUZZ_TRUE(buf_append_char(&out, ']') == SL_OK);
    rc = sl_json_parse(&value, "quoted", buf_text(&out), out.len, NULL, &err);
    // A 0 byte is the one thing that our strings cannot hold.
    FUZZ_TRUE(rc == SL_OK || memchr(text, 0, len) != NULL);
    json_decref(value);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_json_limits limits = {0, 0, 0, 0};
    json_t *const untouched = (json_t *)(uintptr_t)0xa5;
    struct sl_error err = SL_ERROR_INIT;
    json_t *value = untouched;
    enum sl_err rc;

    if (size == 0)
        return 0;
    if (data[0] & 1)
        limits = (struct sl_json_limits){4096, 4, 64, 32};
    rc = sl_json_parse(&value, "fuzz.json", (const char *)data + 1, size - 1,
                       &limits, &err);
    if (rc == SL_OK) {
        check_accepted(value, limits.depth ? limits.depth : 64);
        json_decref(value);
    } else {
        fuzz_refused(rc, &err);
        FUZZ_TRUE(value == untouched);
    }
    check_quote((const char *)data + 1, size - 1);
    return 0;
}
