// SPDX-License-Identifier: Apache-2.0
// A number of bytes, as messages say it.
#include "common/base/bytes.h"

#include "tests/harness/t.h"

TEST(bytes, are_said_in_the_largest_unit_that_they_fill)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } all[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1 KiB"},
               {600 << 10, "600 KiB"},
               {1536 << 10, "1.5 MiB"},
               {UINT64_C(2) << 30, "2 GiB"},
               {UINT64_C(3) << 40, "3 TiB"},
               {UINT64_C(5) << 50, "5 PiB"},
               {UINT64_C(1) << 60, "1 EiB"},
               {UINT64_MAX, "16 EiB"}};
    char text[BYTES_TEXT];

    for (size_t i = 0; i < SL_COUNT(all); i++)
        T_STR(bytes_text(text, all[i].bytes), all[i].text);
}
