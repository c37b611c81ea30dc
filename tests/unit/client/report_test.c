// SPDX-License-Identifier: Apache-2.0
// The page of a report: one HTML text with its data, or nothing.
#include "client/show/report.h"

#include "common/base/mem.h"
#include "tests/harness/t.h"

// Without memory at any point the text before the page stays as it was.
TEST(report, a_page_is_appended_whole_or_not_at_all)
{
    json_t *data = json_pack("{s:s}", "name", "</script>");
    struct buf out = BUF_INIT;
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        enum sl_err rc;

        buf_reset(&out);
        T_OK(buf_append_str(&out, "before"));
        sl_mem_fail_at(n);
        rc = report_page(&out, data);
        failed = sl_mem_failed();
        T_EQ(rc, failed ? SL_ENOMEM : SL_OK);
        if (failed)
            T_STR(buf_text(&out), "before");
        buf_release(&out);
    }
    T_OK(report_page(&out, data));
    T_HAS(buf_text(&out), "<!doctype html>");
    T_HAS(buf_text(&out), "\\u003c/script>");
    buf_release(&out);
    json_decref(data);
}
