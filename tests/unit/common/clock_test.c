// SPDX-License-Identifier: Apache-2.0
#include "common/base/clock.h"

#include "tests/harness/t.h"

TEST(clock, fake_stands_still_until_moved)
{
    struct clock_fake f;

    clock_fake_init(&f, 5000, 1000000);
    T_EQ(sl_now_us(&f.clock), 5000);
    T_EQ(sl_now_ms(&f.clock), 5);
    clock_fake_advance_ms(&f, 2);
    clock_fake_advance_us(&f, 1);
    T_EQ(sl_now_us(&f.clock), 7001);
    T_EQ(sl_wall_us(&f.clock), 1002001);
}

TEST(clock, real_does_not_go_back)
{
    uint64_t before = sl_now_us(sl_clock_real());

    T_LE(before, sl_now_us(sl_clock_real()));
    T_GT(sl_wall_us(sl_clock_real()), UINT64_C(1700000000) * 1000000);
}

TEST(clock, rfc3339)
{
    char text[CLOCK_RFC3339];

    sl_rfc3339(text, 0);
    T_STR(text, "1970-01-01T00:00:00.000000Z");
    sl_rfc3339(text, UINT64_C(1709210096000042)); // a leap day
    T_STR(text, "2024-02-29T12:34:56.000042Z");
}
