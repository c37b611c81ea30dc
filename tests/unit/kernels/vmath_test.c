// SPDX-License-Identifier: Apache-2.0
// tests/unit/kernels/vmath_test.c -- what the vector functions make of their
// ends, and of numbers that are none; sanitizers look at what is undefined.
#include <math.h>

#include "kernels/cpu/vmath.h"
#include "tests/harness/t.h"

TEST(vmath, nan_stays_nan)
{
    T_TRUE(isnan(vm_exp(NAN)));
    T_TRUE(isnan(vm_expm1(NAN)));
    T_TRUE(isnan(vm_sigmoid(NAN)));
    T_TRUE(isnan(vm_tanh(NAN)));
}

TEST(vmath, ends_are_reached)
{
    T_EQ(vm_exp(-INFINITY), 0);
    T_EQ(vm_exp(INFINITY), INFINITY);
    T_EQ(vm_expm1(-INFINITY), -1);
    T_EQ(vm_sigmoid(-INFINITY), 0);
    T_EQ(vm_sigmoid(INFINITY), 1);
    T_EQ(vm_tanh(-INFINITY), -1);
    T_TRUE(vm_exp(-87.2f) > 0);
    T_TRUE(isfinite(vm_exp(88.7f)));
}
