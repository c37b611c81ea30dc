// SPDX-License-Identifier: Apache-2.0
// state/base/initial.c -- draws of the generator, scaled to a distribution.
#include "state/base/initial.h"

#include <math.h>

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
    default: // constant: wire.h lets no other number through
        for (size_t i = 0; i < n; i++)
            out[i] = (float)a;
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(a + b * out[i]);
}
