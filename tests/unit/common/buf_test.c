// SPDX-License-Identifier: Apache-2.0
#include "common/base/buf.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

TEST(buf, grows_and_stays_a_string)
{
    struct buf b = BUF_INIT;
    char want[3001];

    T_STR(buf_text(&b), "");
    for (int i = 0; i < 3000; i++) {
        want[i] = (char)('a' + i % 26);
        want[i + 1] = '\0';
        T_OK(buf_append_char(&b, want[i]));
        T_EQ(b.data[b.len], 0);
    }
    T_EQ(b.len, 3000);
    T_STR(buf_text(&b), want);
    buf_reset(&b);
    T_STR(buf_text(&b), "");
    buf_release(&b);
}

TEST(buf, format)
{
    struct buf b = BUF_INIT;
    uint8_t *detached;
    size_t len;

    T_OK(buf_appendf(&b, "%s-%d", "abc", 42));
    T_OK(buf_append_str(&b, "!"));
    T_STR(buf_text(&b), "abc-42!");
    detached = buf_detach(&b, &len);
    T_EQ(len, 7);
    T_TRUE(b.data == NULL && b.len == 0);
    sl_free(detached);
}

TEST(buf, out_of_memory_leaves_it_as_it_was)
{
    struct buf b = BUF_INIT;

    T_OK(buf_append_str(&b, "kept"));
    sl_mem_fail_at(1);
    T_FAILS(SL_ENOMEM, buf_append(&b, &b, SIZE_MAX - 2));
    T_FAILS(SL_ENOMEM, buf_reserve(&b, 1000));
    T_TRUE(sl_mem_failed());
    T_STR(buf_text(&b), "kept");
    T_FAILS(SL_ENOMEM, buf_reserve(&b, SIZE_MAX)); // would wrap
    T_STR(buf_text(&b), "kept");
    buf_release(&b);
}
