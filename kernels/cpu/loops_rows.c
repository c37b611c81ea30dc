// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_rows.c -- layer norm, and rows of a table.
//
// Formulas in ref/norm.c and ref/reduce.c. A row of a layer norm is in the
// cache when its second and third pass come.
#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

// ---- Layer norm -----------------------------------------------------------

struct stats {
    float mean, rstd;
};

static struct stats stats_of(const struct loop_args *a, const float *x,
                             int64_t n)
{
    double square[ROW_LANES] = {0}, var;
    struct stats s;
    int64_t c = 0;

    s.mean = (float)(row_sum(x, n) / (double)n);
    for (; c + ROW_LANES <= n; c += ROW_LANES)
        for (int k = 0; k < ROW_LANES; k++)
            square[k] += (double)(x[c + k] - s.mean) * (x[c + k] - s.mean);
    for (; c < n; c++)
        square[c % ROW_LANES] += (double)(x[c] - s.mean) * (x[c] - s.mean);
    var = row_join(square) / (double)n;
    s.rstd = (float)(1 / sqrt(var + (double)a->d->u.norm.epsilon));
    return s;
}

static void ln_fwd_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    const float *x = (const float *)a->io[0] + r.first * r.cols;
    const float *gamma = a->io[1], *beta = a->io[2];
    float *y = (float *)a->io[3] + r.first * r.cols;

    for (int64_t i = 0; i < r.count; i++, x += r.cols, y += r.cols) {
        struct stats s = stats_of(a, x, r.cols);

        LOOPS_IVDEP
        for (int64_t c = 0; c < r.cols; c++)
            y[c] = (x[c] - s.mean) * s.rstd * gamma[c] + beta[c];
    }
}

const struct loop_op LOOPS(ln_fwd) = {.chunks = LOOPS(row_chunks),
                                      .step = {{ln_fwd_part, NULL}}};

static double row_dot3(const float *x, const float *y, const float *z,
                       int64_t n)
{
    double sum[ROW_LANES] = {0};
    int64_t i = 0;

    for (; i + ROW_LANES <= n; i += ROW_LANES)
        for (int k = 0; k < ROW_LANES; k++)
            sum[k] += (double)x[i + k] * y[i + k] * z[i + k];
    for (; i < n; i++)
        sum[i % ROW_LANES] += (double)x[i] * y[i] * z[i];
    return row_join(sum);
}

static void ln_bwd_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    const float *x = (const float *)a->io[0] + r.first * r.cols;
    const float *dy = (const float *)a->io[1] + r.first * r.cols;
    const float *gamma = a->io[2];
    float *dx = (float *)a->io[3] + r.first * r.cols;
    float *t = (float *)a->io[4] + r.first * r.cols;

    for (int64_t i = 0; i < r.count; i++) {
        struct stats s = stats_of(a, x, r.cols);
        float mean = (float)(row_dot(dy, gamma, r.cols) / (double)r.cols);
        float slope;

        LOOPS_IVDEP
        for (int64_t c = 0; c < r.cols; c++)
            t[c] = (x[c] - s.mean) * s.rstd;
        slope = (float)(row_dot3(dy, gamma, t, r.cols) / (double)r.cols);
        LOOPS_IVDEP
        for (int64_t c = 0; c < r.cols; c++) {
            float g = dy[c], xhat = t[c];

            t[c] = g * xhat;
            dx[c] = s.rstd * (g * gamma[c] - mean - xhat * slope);
        }
        x += r.cols;
        dy += r.cols;
        dx += r.cols;
        t += r.cols;
    }
}

const struct loop_op LOOPS(ln_bwd) = {.chunks = LOOPS(row_chunks),
                                      .step = {{ln_bwd_part, NULL}}};

// ---- Rows of a table ------------------------------------------------------

// -1: there is none.
static int64_t cpu_table_row(float id, int64_t rows)
{
    return id > -1 && id < (float)rows ? (int64_t)id : -1;
}

// Chunks of y's rows; of the gradient's, those of the table.
static int64_t table_chunks(const struct kern_desc *d)
{
    const struct kern_shape *out = &d->io[d->inputs];
    int64_t each = chunk_rows(out->dim[0], out->dim[1]);

    return (out->dim[0] + each - 1) / each;
}

static struct rows table_rows(const struct loop_args *a, int64_t chunk)
{
    const struct kern_shape *out = &a->d->io[a->d->inputs];
    int64_t each = chunk_rows(out->dim[0], out->dim[1]);
    struct rows r = {.cols = out->dim[1], .first = chunk * each};

    r.count = out->dim[0] - r.first < each ? out->dim[0] - r.first : each;
    return r;
}

static void gather_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = table_rows(a, chunk);
    const float *ids = (const float *)a->io[0] + r.first, *table = a->io[1];
    float *y = (float *)a->io[2] + r.first * r.cols;

    for (int64_t i = 0; i < r.count; i++, y += r.cols) {
        int64_t row = cpu_table_row(ids[i], a->d->io[1].dim[0]);

        if (row >= 0)
            memcpy(y, table + row * r.cols, (size_t)r.cols * sizeof(float));
        for (int64_t c = 0; c < r.cols && row < 0; c++)
            y[c] = NAN;
    }
}

const struct loop_op LOOPS(gather) = {.chunks = table_chunks,
                                      .step = {{gather_part, NULL}}};

// Each chunk has some rows of the table, and looks at all ids for them: so each
// sum has one order, whatever the number of threads.
static void gather_bwd_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = table_rows(a, chunk);
    const float *ids = a->io[0], *dy = a->io[1];
    float *sum = (float *)a->io[2] + r.first * r.cols;

    memset(sum, 0, (size_t)(r.count * r.cols) * sizeof(float));
    for (int64_t i = 0; i < a->d->io[0].dim[0]; i++, dy += r.cols) {
        int64_t row = cpu_table_row(ids[i], a->d->io[2].dim[0]) - r.first;

        if (row < 0 || row >= r.count)
            continue;
        for (int64_t c = 0; c < r.cols; c++)
            sum[row * r.cols + c] += dy[c];
    }
}

const struct loop_op LOOPS(gather_bwd) = {.chunks = table_chunks,
                                          .step = {{gather_bwd_part, NULL}}};
