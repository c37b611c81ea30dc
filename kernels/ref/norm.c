// SPDX-License-Identifier: Apache-2.0
// kernels/ref/norm.c -- batch norm over all axes but the last.
//
// mean, var: of the batch, var biased. xhat = (x - mean) / sqrt(var + eps).
// y = gamma xhat + beta. With m rows, backward is
// dx = gamma / sqrt(var + eps) (dy - sum dy / m - xhat sum(dy xhat) / m).
#include "kernels/ref/ref.h"

#include <math.h>

struct ref_bn_table {
    int64_t rows, cols;
    double epsilon;
};

static struct ref_bn_table ref_bn_table_of(const struct kern_desc *d)
{
    return (struct ref_bn_table){.rows = kern_rows(&d->io[0]),
                                 .cols = kern_cols(&d->io[0]),
                                 .epsilon = d->u.norm.epsilon};
}

static double ref_bn_mean(const struct ref_bn_table *t, const real *x,
                          int64_t c)
{
    double sum = 0;

    for (int64_t i = 0; i < t->rows; i++)
        sum += x[i * t->cols + c];
    return t->rows ? sum / (double)t->rows : 0;
}

static double ref_bn_var(const struct ref_bn_table *t, const real *x, int64_t c,
                         double mean)
{
    double sum = 0;

    for (int64_t i = 0; i < t->rows; i++) {
        double diff = x[i * t->cols + c] - mean;

        sum += diff * diff;
    }
    return t->rows ? sum / (double)t->rows : 0;
}

static void ref_bn_apply(const struct ref_bn_table *t, const real *x, real *y,
                         int64_t c, double mean, double var, double gamma,
                         double beta)
{
    double scale = gamma / sqrt(var + t->epsilon);

    for (int64_t i = 0; i < t->rows; i++)
        y[i * t->cols + c] = (real)((x[i * t->cols + c] - mean) * scale + beta);
}

// ---- each row by itself

struct ref_ln_stats {
    double mean, rstd;
};

static struct ref_ln_stats ref_ln_stats_of(const struct kern_desc *d,
                                           const real *x)
{
    int64_t cols = kern_cols(&d->io[0]);
    double sum = 0, square = 0;
    struct ref_ln_stats r;

    for (int64_t c = 0; c < cols; c++)
        sum += x[c];
    r.mean = sum / (double)cols;
    for (int64_t c = 0; c < cols; c++)
        square += (x[c] - r.mean) * (x[c] - r.mean);
    r.rstd = 1 / sqrt(square / (double)cols + (double)d->u.norm.epsilon);
    return r;
}

void REF(ln_fwd)(const struct kern_desc *d, void *const *io)
{
    int64_t rows = kern_rows(&d->io[0]), cols = kern_cols(&d->io[0]);
    const real *gamma = io[1], *beta = io[2];

    for (int64_t i = 0; i < rows; i++) {
        const real *x = (const real *)io[0] + i * cols;
        real *y = (real *)io[3] + i * cols;
        struct ref_ln_stats r = ref_ln_stats_of(d, x);

        for (int64_t c = 0; c < cols; c++)
            y[c] = (real)((x[c] - r.mean) * r.rstd * gamma[c] + beta[c]);
    }
}

// With g = dy gamma: dx = rstd (g - mean g - xhat mean(g xhat)).
void REF(ln_bwd)(const struct kern_desc *d, void *const *io)
{
    int64_t rows = kern_rows(&d->io[0]), cols = kern_cols(&d->io[0]);
    const real *gamma = io[2];

    for (int64_t i = 0; i < rows; i++) {
        const real *x = (const real *)io[0] + i * cols;
        const real *dy = (const real *)io[1] + i * cols;
        real *dx = (real *)io[3] + i * cols, *t = (real *)io[4] + i * cols;
        struct ref_ln_stats r = ref_ln_stats_of(d, x);
        double sum = 0, dot = 0;

        for (int64_t c = 0; c < cols; c++) {
            double g = (double)dy[c] * gamma[c];

            sum += g / (double)cols;
            dot += g * (x[c] - r.mean) * r.rstd / (double)cols;
        }
        for (int64_t c = 0; c < cols; c++) {
            double g = (double)dy[c] * gamma[c];
            double xhat = (x[c] - r.mean) * r.rstd;

            t[c] = (real)(dy[c] * xhat);
            dx[c] = (real)(r.rstd * (g - sum - xhat * dot));
        }
    }
}

// ---- all rows together

void REF(bn_fwd)(const struct kern_desc *d, void *const *io)
{
    const real *x = io[0], *gamma = io[1], *beta = io[2];
    real *y = io[3], *mean = io[4], *var = io[5];
    struct ref_bn_table t = ref_bn_table_of(d);

    for (int64_t c = 0; c < t.cols; c++) {
        double mu = ref_bn_mean(&t, x, c), v = ref_bn_var(&t, x, c, mu);

        ref_bn_apply(&t, x, y, c, mu, v, gamma[c], beta[c]);
        mean[c] = (real)mu;
        var[c] = (real)v;
    }
}

void REF(bn_infer)(const struct kern_desc *d, void *const *io)
{
    const real *gamma = io[1], *beta = io[2], *mean = io[3], *var = io[4];
    struct ref_bn_table t = ref_bn_table_of(d);

    for (int64_t c = 0; c < t.cols; c++)
        ref_bn_apply(&t, io[0], io[5], c, mean[c], var[c], gamma[c], beta[c]);
}

void REF(bn_bwd)(const struct kern_desc *d, void *const *io)
{
    const real *x = io[0], *dy = io[1];
    const real *gamma = io[2], *mean = io[3], *var = io[4];
    real *dx = io[5], *dgamma = io[6], *dbeta = io[7];
    struct ref_bn_table t = ref_bn_table_of(d);

    for (int64_t c = 0; c < t.cols; c++) {
        double invstd = 1 / sqrt(var[c] + t.epsilon), sum = 0, dot = 0, all = 0;
        double m = (double)t.rows;

        for (int64_t i = 0; i < t.rows; i++) {
            int64_t at = i * t.cols + c;

            sum += dy[at];
            dot += dy[at] * ((x[at] - (double)mean[c]) * invstd);
        }
        for (int64_t i = 0; i < t.rows; i++) {
            int64_t at = i * t.cols + c;
            double xhat = (x[at] - (double)mean[c]) * invstd;
            double g = gamma[c] * invstd * (dy[at] - sum / m - xhat * dot / m);

            dx[at] = (real)(kern_has(d, KERN_DRELU) && !(x[at] > 0) ? 0 : g);
            all += dx[at];
        }
        if (kern_has(d, KERN_BGRAD))
            ref_put(d, (real *)io[8] + c, all);
        ref_put(d, dgamma + c, dot);
        ref_put(d, dbeta + c, sum);
    }
}
