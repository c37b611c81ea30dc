// SPDX-License-Identifier: Apache-2.0
#include "common/base/num.h"

#include "tests/harness/t.h"

TEST(num, ceil_div_rounds_up_and_does_not_overflow)
{
    T_EQ(sl_ceil_div(0, 3), 0);
    T_EQ(sl_ceil_div(1, 3), 1);
    T_EQ(sl_ceil_div(3, 3), 1);
    T_EQ(sl_ceil_div(4, 3), 2);
    T_EQ(sl_ceil_div(UINT64_MAX, 1), UINT64_MAX);
    T_EQ(sl_ceil_div(UINT64_MAX, 2), UINT64_C(1) << 63);
    T_EQ(sl_ceil_div(UINT64_MAX, UINT64_MAX), 1);
}

TEST(num, min)
{
    T_EQ(sl_min(1, 2), 1);
    T_EQ(sl_min(2, 1), 1);
    T_EQ(sl_min(UINT64_MAX, 0), 0);
}
