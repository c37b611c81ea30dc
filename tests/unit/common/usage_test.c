// SPDX-License-Identifier: Apache-2.0
#include "common/base/usage.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/t.h"

TEST(usage, what_is_used_is_counted)
{
    struct usage before = usage_read(), after;
    size_t n = 32u << 20;
    unsigned char *more = malloc(n);

    T_TRUE(more != NULL);
    memset(more, 1, n); // so that it is resident
    do {
        for (size_t i = 0; i < n; i += 64)
            more[i] = (unsigned char)(more[i] * 3);
        after = usage_read();
    } while (after.cpu_us < before.cpu_us + 1000);
    T_GE(after.resident_bytes, before.resident_bytes + n / 2);
    T_GE(after.sent_bytes, before.sent_bytes);
    T_GE(after.received_bytes, before.received_bytes);
    free(more);
}
