// SPDX-License-Identifier: Apache-2.0
// Norms and angles of folded vectors.
#include "plan/fold.h"

#include <math.h>

#include "tests/harness/t.h"

enum { N = 20000 };

static float a[N], b[N];

static float drawn(void)
{
    return (float)((double)(t_rand() >> 11) * 0x1p-52 - 1);
}

static void draw(void)
{
    for (unsigned i = 0; i < N; i++)
        a[i] = b[i] = drawn();
}

static struct fold whole(const float *x)
{
    struct fold f = {0};

    fold_add(&f, 0, x, N);
    return f;
}

static double angle(void)
{
    struct fold x = whole(a), y = whole(b);

    return fold_angle(x.sums, y.sums);
}

TEST(fold, pieces_add_up_to_the_whole)
{
    struct fold one, parts = {0};

    draw();
    one = whole(a);
    fold_add(&parts, 777, a + 777, N - 777);
    fold_add(&parts, 0, a, 130);
    fold_add(&parts, 130, a + 130, 647);
    T_NEAR(fold_norm(&parts), fold_norm(&one), 1e-9);
    for (unsigned i = 0; i < FOLD_SUMS; i++)
        T_NEAR(parts.sums[i], one.sums[i], 1e-3);
}

TEST(fold, the_norm_is_that_of_the_vector)
{
    struct fold f = {0};

    fold_add(&f, 5, (const float[]){3, 0, -4}, 3);
    T_NEAR(fold_norm(&f), 5, 1e-12);
    fold_add(&f, 9, &(const float){NAN}, 1);
    T_EQ(fold_norm(&f), -1);
    f = fold_not_finite();
    T_EQ(fold_norm(&f), -1);
}

TEST(fold, angles_are_those_of_the_vectors)
{
    draw();
    T_NEAR(angle(), 0, 1e-3);
    for (unsigned i = 0; i < N; i++)
        b[i] = -3 * a[i];
    T_NEAR(angle(), 180, 1e-3);
    for (unsigned i = 0; i < N; i++)
        b[i] = drawn();
    T_NEAR(angle(), 90, 20); // five standard deviations
    for (unsigned i = 0; i < N; i++)
        b[i] = i % 2 == 0 ? a[i] : 0;
    T_NEAR(angle(), 45, 20);
}

// As in the columns of a kernel of 256 units.
TEST(fold, a_column_does_not_hide_in_one_sum)
{
    unsigned used = 0;
    struct fold f;

    for (unsigned i = 0; i < N; i++)
        a[i] = i % FOLD_SUMS == 3;
    f = whole(a);
    for (unsigned i = 0; i < FOLD_SUMS; i++)
        used += f.sums[i] != 0;
    T_TRUE(used > 20);
}

TEST(fold, nothing_has_no_angle)
{
    struct fold zero = {0};

    draw();
    T_TRUE(isnan(fold_angle(zero.sums, whole(a).sums)));
}
