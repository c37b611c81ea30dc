// SPDX-License-Identifier: Apache-2.0
// state/base/initial.c -- draws of the generator, scaled to a distribution.
#include "state/base/initial.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

void initial_fill(float *out, const struct initial *initial, uint64_t seed,
                  uint64_t stream, uint64_t first, size_t n)
{
    double a = initial->a, b = initial->b;

    switch (initial->kind) {
    case SLUICE__V1__INIT_KIND__INIT_UNIFORM:
        rng_fill_uniform(out, seed, stream, first, n);
        for (size_t i = 0; i < n; i++) {
            out[i] = (float)(a + (b - a) * out[i]);
            // [a, b): rounding to f32 must not reach b.
            if (out[i] >= (float)b && b > a)
                out[i] = nextafterf((float)b, (float)a);
        }
        return;
    case SLUICE__V1__INIT_KIND__INIT_NORMAL:
        rng_fill_normal(out, seed, stream, first, n);
        break;
    case SLUICE__V1__INIT_KIND__INIT_TRUNCATED_NORMAL:
        rng_fill_truncated(out, seed, stream, first, n);
        break;
    case SLUICE__V1__INIT_KIND__INIT_ONES_WITHIN:
        for (size_t i = 0; i < n; i++)
            out[i] = (double)(first + i) >= a && (double)(first + i) < b;
        return;
    default: // constant: wire.h lets no other number through
        for (size_t i = 0; i < n; i++)
            out[i] = (float)a;
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(a + b * out[i]);
}

// Returns the product of two vectors, as four sums side by side.
static double initial_dot(const float *x, const float *y, size_t n)
{
    double sum[4] = {0};
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (unsigned k = 0; k < 4; k++)
            sum[k] += (double)x[i + k] * y[i + k];
    for (; i < n; i++)
        sum[0] += (double)x[i] * y[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Takes what is along the `count` vectors before it out of vector x, twice, as
// rounding leaves a part of it, and gives x the length 1. Gram and Schmidt's is
// the factor Q of which R has a positive diagonal, as Keras' has.
static void initial_orthonormal(float *x, const float *before, size_t count,
                                size_t n)
{
    double length;

    for (unsigned turn = 0; turn < 2; turn++) {
        for (size_t k = 0; k < count; k++) {
            float part = (float)initial_dot(x, before + k * n, n);

            for (size_t i = 0; i < n; i++)
                x[i] -= part * before[k * n + i];
        }
    }
    length = sqrt(initial_dot(x, x, n));
    if (!(length > 0)) // a draw of nothing but zeroes
        x[0] = 1, length = 1;
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(x[i] / length);
}

enum sl_err initial_orthogonal(float *out, const struct initial *initial,
                               uint64_t seed, uint64_t stream, uint64_t first,
                               size_t n)
{
    size_t rows = (size_t)initial->a, columns = (size_t)initial->b;
    size_t count = rows < columns ? rows : columns;
    size_t length = rows < columns ? columns : rows;
    float *vectors = sl_malloc_array(count * length, sizeof(*vectors));

    if (vectors == NULL)
        return SL_ENOMEM;
    rng_fill_normal(vectors, seed, stream, 0, count * length);
    for (size_t k = 0; k < count; k++)
        initial_orthonormal(vectors + k * length, vectors, k, length);
    for (size_t i = 0; i < n; i++) {
        size_t row = (first + i) / columns, column = (first + i) % columns;

        out[i] = rows < columns ? vectors[row * length + column]
                                : vectors[column * length + row];
    }
    sl_free(vectors);
    return SL_OK;
}
