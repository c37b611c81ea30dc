// SPDX-License-Identifier: Apache-2.0
// What a sketch tells of two gradients.
#include "plan/sketch.h"

#include <math.h>

#include "tests/harness/t.h"

enum { N = 4000 };

static float right[N], other[N];

// Numbers of which two of opposite signs have one mean.
static void draw(void)
{
    for (unsigned i = 0; i < N; i++)
        right[i] = other[i] = (float)((double)(t_rand() >> 11) * 0x1p-52 - 1);
}

static struct sketch sketch_of(uint64_t seed, const float *x)
{
    struct sketch s = {{0}};

    sketch_add(&s, seed, 0, x, N);
    return s;
}

static double apart(double *norm)
{
    struct sketch a = sketch_of(7, right), b = sketch_of(7, other);

    return sketch_apart(norm, &a, &b);
}

// The pieces of a ring come from the last to the first.
TEST(sketch, pieces_may_come_in_any_order)
{
    struct sketch whole, pieces = {{0}};

    draw();
    whole = sketch_of(7, right);
    for (unsigned end = N; end > 0;) {
        unsigned n = 1 + (unsigned)t_below(end < 99 ? end : 99);

        end -= n;
        sketch_add(&pieces, 7, end, right + end, n);
    }
    for (unsigned k = 0; k < SKETCH_NUMBERS; k++)
        T_NEAR(pieces.of[k], whole.of[k], 1e-9);
}

// The mean square of the sums is the sum of squares, whatever the seed.
TEST(sketch, sums_are_as_long_as_the_vector)
{
    double squares = 0;

    draw();
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sketch s = sketch_of(sketch_seed(1, seed, 0), right);

        for (unsigned k = 1; k < SKETCH_NUMBERS; k++)
            squares += s.of[k] * s.of[k] / s.of[0] / (SKETCH_NUMBERS - 1);
    }
    T_NEAR(squares / 200, 1, 0.2);
    T_TRUE(sketch_seed(1, 2, 3) != sketch_seed(1, 3, 2));
}

TEST(sketch, tells_how_long_a_difference_is)
{
    double norm, length = 0;

    draw();
    T_TRUE(apart(&norm) == 0);
    for (unsigned i = 0; i < N; i += 8) { // a lane
        other[i] *= 1.125f;
        length += pow((double)(other[i] - right[i]), 2);
    }
    T_GE(apart(&norm), sqrt(length) / 2);
    T_LE(apart(&norm), sqrt(length) * 5);
    draw();
    other[N / 2] = -1e3f; // an exponent
    T_NEAR(apart(&norm) / 1e3, 1, 0.1);
    T_TRUE(norm < 100); // the smaller one
    draw();
    for (unsigned i = 0; i < N; i++)
        other[i] = -right[i];
    T_GE(apart(&norm), norm);
}

TEST(sketch, what_is_not_finite_is_near_its_like_alone)
{
    struct sketch a, b, finite;
    double norm;

    draw();
    finite = sketch_of(7, right);
    a = finite;
    sketch_end(&a, true);
    T_TRUE(sketch_apart(&norm, &a, &finite) == 0);
    sketch_end(&a, false);
    other[3] = NAN; // spoilt unseen
    b = sketch_of(7, other);
    sketch_end(&b, true);
    T_TRUE(sketch_apart(&norm, &a, &b) == 0 && norm == 0);
    T_TRUE(isinf(sketch_apart(&norm, &a, &finite)));
    T_NEAR(norm, sqrt(finite.of[0]), 1e-9);
    T_TRUE(isinf(sketch_apart(&norm, &finite, &b)));
}
