// SPDX-License-Identifier: Apache-2.0
// The loss scale against Keras' sequences.
#include "tests/harness/t.h"

#include <float.h>
#include <math.h>

#include "worker/device/loss_scale.h"

// Computed by hand: growth after 3.
TEST(loss_scale, golden)
{
    static const double want[] = {32768, 32768, 65536, 32768, 16384,
                                  16384, 16384, 32768, 32768};
    static const char steps[] = "FFFNNFFFF";
    struct loss_scale l;

    loss_scale_init(&l, 0, 0);
    l.growth = 3;
    for (size_t i = 0; i < SL_COUNT(want); i++) {
        T_EQ(loss_scale_step(&l, steps[i] == 'F'), steps[i] == 'N');
        T_NEAR(l.s, want[i], 0);
    }
}

TEST(loss_scale, grows_after_2000)
{
    struct loss_scale l;

    loss_scale_init(&l, 0, 0);
    for (int i = 0; i < 1999; i++)
        T_FALSE(loss_scale_step(&l, true));
    T_NEAR(l.s, 32768, 0);
    T_FALSE(loss_scale_step(&l, true));
    T_NEAR(l.s, 65536, 0);
    T_EQ(l.good, 0);
}

// At 1 the scale is not why a gradient is not finite.
TEST(loss_scale, never_below_one)
{
    struct loss_scale l;
    int halved = 0;

    loss_scale_init(&l, 0, 0);
    while (loss_scale_step(&l, false))
        T_LT(halved++, 15);
    T_EQ(halved, 15);
    T_NEAR(l.s, 1, 0);
    loss_scale_init(&l, 0, 1.5);
    T_TRUE(loss_scale_step(&l, false));
    T_NEAR(l.s, 1, 0);
}

TEST(loss_scale, never_beyond_a_float)
{
    struct loss_scale l;

    loss_scale_init(&l, 0, 0x1p126);
    l.growth = 1;
    loss_scale_step(&l, true);
    T_NEAR(l.s / 0x1p127, 1, 0);
    loss_scale_step(&l, true);
    T_NEAR(l.s / 0x1p127, 1, 0);
}

TEST(loss_scale, starts_where_others_are)
{
    static const double odd[] = {
        -1, 0, 0.5, (double)INFINITY, (double)NAN, 2 * (double)FLT_MAX};
    struct loss_scale l;

    loss_scale_init(&l, 0, 512);
    T_NEAR(l.s, 512, 0);
    for (size_t i = 0; i < SL_COUNT(odd); i++) {
        loss_scale_init(&l, 0, odd[i]);
        T_NEAR(l.s, LOSS_SCALE_START, 0);
    }
}

TEST(loss_scale, fixed_is_fixed)
{
    struct loss_scale l;

    loss_scale_init(&l, 128, 512);
    l.growth = 2;
    for (int i = 0; i < 9; i++)
        T_FALSE(loss_scale_step(&l, i % 3 == 0));
    T_NEAR(l.s, 128, 0);
    T_FALSE(l.dynamic);
}
