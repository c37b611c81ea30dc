// SPDX-License-Identifier: Apache-2.0
// kernels/ref/reduce.c -- sums over rows; unscale and check.
#include "kernels/ref/ref.h"

#include <math.h>

void REF(reduce)(const struct kern_desc *d, void *const *io)
{
    int64_t rows = kern_rows(&d->io[0]), cols = kern_cols(&d->io[0]);
    const real *x = io[0];

    for (int64_t c = 0; c < cols; c++) {
        double sum = 0;

        for (int64_t i = 0; i < rows; i++)
            sum += x[i * cols + c];
        ref_put(d, (real *)io[1] + c, sum);
    }
}

void REF(unscale_check)(const struct kern_desc *d, void *const *io)
{
    const real *g = io[0];
    real scale = *(const real *)io[1], *h = io[2];
    double sum = 0, bad = 0;

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++) {
        h[i] = g[i] * scale;
        if (isfinite(h[i]))
            sum += (double)h[i] * h[i];
        else
            bad++;
    }
    ref_stats(d, io[3], sum, bad);
}
