// SPDX-License-Identifier: Apache-2.0
#include "client/out.h"

#include "tests/harness/t.h"

TEST(out, numbers_for_people)
{
    char text[OUT_NUMBER];

    T_STR(out_count(text, 0), "0");
    T_STR(out_count(text, 999), "999");
    T_STR(out_count(text, 1000), "1,000");
    T_STR(out_count(text, UINT64_MAX), "18,446,744,073,709,551,615");
    T_STR(out_bytes(text, 1023), "1023 B");
    T_STR(out_bytes(text, 1536), "1.50 KiB");
    T_STR(out_bytes(text, (uint64_t)20 << 20), "20.0 MiB");
    T_STR(out_time(text, 0.3), "0.3s");
    T_STR(out_time(text, 9.96), "10s");
    T_STR(out_time(text, 124), "2m04s");
    T_STR(out_time(text, 3660), "1h01m");
    T_STR(out_time(text, 90000), "1d01h");
    T_STR(out_time(text, -1), "-");
    T_STR(out_time(text, 0.0 / 0.0), "-");
    T_STR(out_when(text, 0), "-");
}

TEST(out, a_table_is_as_wide_as_its_cells)
{
    static const char *const head[] = {"id", "steps", "note", NULL};
    struct table t;
    struct buf text = BUF_INIT;

    table_init(&t, 1u << 1, head);
    table_cell(&t, "j-1");
    table_cell(&t, "%d", 12345678);
    table_cell(&t, "größer");
    table_cell(&t, "j-100");
    table_cell(&t, "7");
    table_cell(&t, "x");
    T_OK(table_text(&text, &t));
    T_STR(buf_text(&text), "id        steps  note\n"
                           "j-1    12345678  größer\n"
                           "j-100         7  x\n");
    table_release(&t);
    buf_release(&text);
}
