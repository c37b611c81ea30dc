// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_norm.c -- batch norm; formulas in ref/norm.c.
//
// Two passes for the statistics (mean, then squares about it): no
// cancellation, whatever the mean. Each chunk of rows leaves one partial per
// channel in the workspace; the join adds them in double, in order.
#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

// The rows of one chunk, and its two partials of c floats each.
struct block {
    int64_t cols, first, rows;
    float *one, *two;
};

static struct block block_of(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    struct block b = {.cols = r.cols, .first = r.first, .rows = r.count};

    b.one = (float *)a->workspace + chunk * 2 * r.cols;
    b.two = b.one + r.cols;
    return b;
}

// Workspace: partials [chunks][2][c], then scale [c].
static size_t workspace(const struct kern_desc *d)
{
    return (size_t)(kern_cols(&d->io[0]) * (2 * LOOPS(row_chunks)(d) + 1)) *
           sizeof(float);
}

static float *scale_of(const struct loop_args *a)
{
    return (float *)a->workspace + a->chunks * 2 * kern_cols(&a->d->io[0]);
}

static double total(const struct loop_args *a, int64_t c, bool second)
{
    int64_t cols = kern_cols(&a->d->io[0]);
    const float *partial = (const float *)a->workspace + (second ? cols : 0);
    double sum = 0;

    for (int64_t k = 0; k < a->chunks; k++)
        sum += partial[k * 2 * cols + c];
    return sum;
}

static void cpu_bn_write_grad(const struct loop_args *a, float *y, double v)
{
    *y = (float)(kern_has(a->d, KERN_ACCUM) ? *y + v : v);
}

// y = (x - mean) scale + beta per channel. Not x scale + shift: that loses
// digits where the mean is far from 0.
static void cpu_bn_apply(const struct loop_args *a, int64_t chunk,
                         const float *mean, float *y)
{
    struct block b = block_of(a, chunk);
    const float *x = (const float *)a->io[0] + b.first * b.cols;
    const float *scale = scale_of(a), *beta = a->io[2];

    y += b.first * b.cols;
    for (int64_t i = 0; i < b.rows; i++, x += b.cols, y += b.cols) {
        LOOPS_IVDEP
        for (int64_t c = 0; c < b.cols; c++)
            y[c] = (x[c] - mean[c]) * scale[c] + beta[c];
    }
}

// ---- Forward, training ----------------------------------------------------

static void sum_part(const struct loop_args *a, int64_t chunk)
{
    struct block b = block_of(a, chunk);
    const float *x = (const float *)a->io[0] + b.first * b.cols;

    memset(b.one, 0, (size_t)b.cols * sizeof(float));
    for (int64_t i = 0; i < b.rows; i++, x += b.cols)
        for (int64_t c = 0; c < b.cols; c++)
            b.one[c] += x[c];
}

static void mean_join(const struct loop_args *a)
{
    double rows = (double)kern_rows(&a->d->io[0]);
    float *mean = a->io[4];

    for (int64_t c = 0; c < kern_cols(&a->d->io[0]); c++)
        mean[c] = (float)(total(a, c, false) / rows);
}

static void square_part(const struct loop_args *a, int64_t chunk)
{
    struct block b = block_of(a, chunk);
    const float *x = (const float *)a->io[0] + b.first * b.cols;
    const float *mean = a->io[4];

    memset(b.two, 0, (size_t)b.cols * sizeof(float));
    for (int64_t i = 0; i < b.rows; i++, x += b.cols)
        for (int64_t c = 0; c < b.cols; c++)
            b.two[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
}

static void set_scale(const struct loop_args *a, const float *var)
{
    const float *gamma = a->io[1];
    float *scale = scale_of(a);

    for (int64_t c = 0; c < kern_cols(&a->d->io[0]); c++)
        scale[c] =
            (float)(gamma[c] / sqrt((double)var[c] + a->d->u.norm.epsilon));
}

static void var_join(const struct loop_args *a)
{
    double rows = (double)kern_rows(&a->d->io[0]);
    float *var = a->io[5];

    for (int64_t c = 0; c < kern_cols(&a->d->io[0]); c++)
        var[c] = (float)(total(a, c, true) / rows);
    set_scale(a, var);
}

static void cpu_bn_fwd_part(const struct loop_args *a, int64_t chunk)
{
    cpu_bn_apply(a, chunk, a->io[4], a->io[3]);
}

const struct loop_op LOOPS(bn_fwd) = {.chunks = LOOPS(row_chunks),
                                      .workspace_bytes = workspace,
                                      .step = {{sum_part, mean_join},
                                               {square_part, var_join},
                                               {cpu_bn_fwd_part, NULL}}};

// ---- Inference ------------------------------------------------------------

static void cpu_bn_empty_part(const struct loop_args *a, int64_t chunk)
{
}

static void infer_join(const struct loop_args *a)
{
    set_scale(a, a->io[4]);
}

static void infer_part(const struct loop_args *a, int64_t chunk)
{
    cpu_bn_apply(a, chunk, a->io[3], a->io[5]);
}

const struct loop_op LOOPS(bn_infer) = {
    .chunks = LOOPS(row_chunks),
    .workspace_bytes = workspace,
    .step = {{cpu_bn_empty_part, infer_join}, {infer_part, NULL}}};

// ---- Backward -------------------------------------------------------------

// one: sum dy; two: sum dy (x - mean).
static void dot_part(const struct loop_args *a, int64_t chunk)
{
    struct block b = block_of(a, chunk);
    const float *x = (const float *)a->io[0] + b.first * b.cols;
    const float *dy = (const float *)a->io[1] + b.first * b.cols;
    const float *mean = a->io[3];

    memset(b.one, 0, 2 * (size_t)b.cols * sizeof(float));
    for (int64_t i = 0; i < b.rows; i++, x += b.cols, dy += b.cols)
        for (int64_t c = 0; c < b.cols; c++) {
            b.one[c] += dy[c];
            b.two[c] += dy[c] * (x[c] - mean[c]);
        }
}

// Leaves, per channel, what dx = p dy - q (x - mean) - r wants: p is gamma
// invstd; q and r take the places of the first two partials.
static void dot_join(const struct loop_args *a)
{
    const float *gamma = a->io[2], *var = a->io[4];
    double rows = (double)kern_rows(&a->d->io[0]);
    int64_t cols = kern_cols(&a->d->io[0]);
    float *dgamma = a->io[6], *dbeta = a->io[7];
    float *p = scale_of(a), *q = a->workspace, *r = q + cols;

    for (int64_t c = 0; c < cols; c++) {
        double invstd = 1 / sqrt((double)var[c] + a->d->u.norm.epsilon);
        double sum = total(a, c, false), dot = total(a, c, true) * invstd;

        cpu_bn_write_grad(a, dgamma + c, dot);
        cpu_bn_write_grad(a, dbeta + c, sum);
        p[c] = (float)(gamma[c] * invstd);
        q[c] = (float)(gamma[c] * invstd * invstd * dot / rows);
        r[c] = (float)(gamma[c] * invstd * sum / rows);
    }
}

static void cpu_bn_bwd_part(const struct loop_args *a, int64_t chunk)
{
    struct block b = block_of(a, chunk);
    const float *x = (const float *)a->io[0] + b.first * b.cols;
    const float *dy = (const float *)a->io[1] + b.first * b.cols;
    const float *mean = a->io[3];
    const float *p = scale_of(a), *q = a->workspace, *r = q + b.cols;
    float *dx = (float *)a->io[5] + b.first * b.cols;
    bool mask = kern_has(a->d, KERN_DRELU);

    for (int64_t i = 0; i < b.rows; i++) {
        if (mask) {
            LOOPS_IVDEP
            for (int64_t c = 0; c < b.cols; c++) {
                float g = p[c] * dy[c] - q[c] * (x[c] - mean[c]) - r[c];

                dx[c] = x[c] > 0 ? g : 0;
            }
        } else {
            LOOPS_IVDEP
            for (int64_t c = 0; c < b.cols; c++)
                dx[c] = p[c] * dy[c] - q[c] * (x[c] - mean[c]) - r[c];
        }
        x += b.cols;
        dy += b.cols;
        dx += b.cols;
    }
}

// The sum of dx would cost here what it saves where it is wanted.
static bool without_sum(const struct kern_desc *d)
{
    return !kern_has(d, KERN_BGRAD);
}

const struct loop_op LOOPS(bn_bwd) = {
    .can = without_sum,
    .chunks = LOOPS(row_chunks),
    .workspace_bytes = workspace,
    .step = {{dot_part, dot_join}, {cpu_bn_bwd_part, NULL}}};
