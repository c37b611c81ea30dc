// SPDX-License-Identifier: Apache-2.0
#include "common/base/usage.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/harness/t.h"

TEST(usage, what_is_used_is_counted)
{
    struct usage before = usage_read(), after;
    size_t n = 32u << 20;
    // Pages of its own: the allocator may have kept some of other tests.
    unsigned char *more = mmap(NULL, n, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    T_TRUE(more != MAP_FAILED);
    memset(more, 1, n); // so that it is resident
    do {
        for (size_t i = 0; i < n; i += 64)
            more[i] = (unsigned char)(more[i] * 3);
        after = usage_read();
    } while (after.cpu_us < before.cpu_us + 1000);
    T_GE(after.resident_bytes, before.resident_bytes + n / 2);
    T_GE(after.sent_bytes, before.sent_bytes);
    T_GE(after.received_bytes, before.received_bytes);
    munmap(more, n);
}
