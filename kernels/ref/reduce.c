// SPDX-License-Identifier: Apache-2.0
// kernels/ref/reduce.c -- sums over rows; tables; penalties; unscale and check.
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

// Returns the row of the table that `id` names; -1: outside the table.
static int64_t ref_table_row(real id, int64_t rows)
{
    return id > -1 && id < (real)rows ? (int64_t)id : -1;
}

void REF(gather)(const struct kern_desc *d, void *const *io)
{
    int64_t n = kern_rows(&d->io[2]), cols = kern_cols(&d->io[2]);
    const real *ids = io[0], *table = io[1];
    real *y = io[2];

    for (int64_t i = 0; i < n; i++) {
        int64_t row = ref_table_row(ids[i], d->io[1].dim[0]);

        for (int64_t c = 0; c < cols; c++)
            y[i * cols + c] = row < 0 ? (real)NAN : table[row * cols + c];
    }
}

void REF(gather_bwd)(const struct kern_desc *d, void *const *io)
{
    int64_t n = d->io[0].dim[0], cols = kern_cols(&d->io[2]);
    const real *ids = io[0], *dy = io[1];
    real *dtable = io[2];

    for (int64_t v = 0; v < d->io[2].dim[0]; v++)
        for (int64_t c = 0; c < cols; c++) {
            double sum = 0;

            for (int64_t i = 0; i < n; i++)
                if (ref_table_row(ids[i], d->io[2].dim[0]) == v)
                    sum += dy[i * cols + c];
            dtable[v * cols + c] = (real)sum;
        }
}

void REF(penalty)(const struct kern_desc *d, void *const *io)
{
    double l1 = d->u.penalty.l1, l2 = d->u.penalty.l2, rows = d->u.penalty.rows;
    double share = rows * *(const real *)io[1] * *(const real *)io[2];
    const real *w = io[0];
    real *h = io[3];
    double sum = 0;

    for (int64_t i = 0; i < kern_shape_count(&d->io[0]); i++) {
        double x = w[i], sign = x > 0 ? 1 : x < 0 ? -1 : 0;

        sum += l1 * fabs(x) + l2 * x * x;
        h[i] = (real)(share * (l1 * sign + 2 * l2 * x));
    }
    ref_stats(d, io[4], rows * sum, 0);
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
