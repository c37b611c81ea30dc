// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops_reduce.c -- sums over rows; penalties; unscale and check.
#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

// ---- Sum of rows ----------------------------------------------------------

static size_t reduce_workspace(const struct kern_desc *d)
{
    return (size_t)(LOOPS(row_chunks)(d) * kern_cols(&d->io[0])) *
           sizeof(float);
}

static void reduce_part(const struct loop_args *a, int64_t chunk)
{
    struct rows r = rows_of(a, chunk);
    int64_t cols = r.cols;
    const float *x = (const float *)a->io[0] + r.first * cols;
    float *sum = (float *)a->workspace + chunk * cols;

    memset(sum, 0, (size_t)cols * sizeof(float));
    for (int64_t i = 0; i < r.count; i++, x += cols)
        for (int64_t c = 0; c < cols; c++)
            sum[c] += x[c];
}

static void reduce_join(const struct loop_args *a)
{
    int64_t cols = kern_cols(&a->d->io[0]);
    const float *partial = a->workspace;
    float *y = a->io[1];

    for (int64_t c = 0; c < cols; c++) {
        double sum = kern_has(a->d, KERN_ACCUM) ? y[c] : 0;

        for (int64_t i = 0; i < a->chunks; i++)
            sum += partial[i * cols + c];
        y[c] = (float)sum;
    }
}

const struct loop_op LOOPS(reduce) = {.chunks = LOOPS(row_chunks),
                                      .workspace_bytes = reduce_workspace,
                                      .step = {{reduce_part, reduce_join}}};

// ---- Unscale and check ----------------------------------------------------

static size_t check_workspace(const struct kern_desc *d)
{
    return (size_t)LOOPS(flat_chunks)(d) * 2 * sizeof(double);
}

#define LANES 16 // whatever the instruction set, so that sums agree

// Adds one element to its lane. An f32 squared is exact in f64. Not finite:
// all bits of the exponent are set.
static inline void cpu_unscale_add(float h, double *sum, int32_t *bad)
{
    uint32_t bits;
    bool finite;

    memcpy(&bits, &h, sizeof(bits));
    finite = (bits & 0x7f800000u) != 0x7f800000u;
    *sum += finite ? (double)h * h : 0;
    *bad += !finite;
}

static void check_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first), i;
    const float *g = (const float *)a->io[0] + first;
    float *h = (float *)a->io[2] + first, scale = *(const float *)a->io[1];
    double sum[LANES] = {0}, *out = (double *)a->workspace + chunk * 2;
    int32_t bad[LANES] = {0};

    LOOPS_IVDEP
    for (i = 0; i < n; i++)
        h[i] = g[i] * scale;
    for (i = 0; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            cpu_unscale_add(h[i + k], &sum[k], &bad[k]);
    for (; i < n; i++)
        cpu_unscale_add(h[i], &sum[i % LANES], &bad[i % LANES]);
    out[0] = 0;
    out[1] = 0;
    for (int k = 0; k < LANES; k++) {
        out[0] += sum[k];
        out[1] += bad[k];
    }
}

static void check_join(const struct loop_args *a)
{
    double *stats = a->io[a->d->inputs + 1], sum = 0, bad = 0;
    const double *partial = a->workspace;

    for (int64_t i = 0; i < a->chunks; i++) {
        sum += partial[2 * i];
        bad += partial[2 * i + 1];
    }
    stats[0] = (kern_has(a->d, KERN_ACCUM) ? stats[0] : 0) + sum;
    stats[1] = (kern_has(a->d, KERN_ACCUM) ? stats[1] : 0) + bad;
}

const struct loop_op LOOPS(unscale_check) = {
    .chunks = LOOPS(flat_chunks),
    .workspace_bytes = check_workspace,
    .step = {{check_part, check_join}}};

// ---- Penalties ------------------------------------------------------------

static void penalty_part(const struct loop_args *a, int64_t chunk)
{
    int64_t first,
        n = loops_chunk_count(kern_shape_count(&a->d->io[0]), chunk, &first);
    const float *w = (const float *)a->io[0] + first;
    float *h = (float *)a->io[3] + first;
    double l1 = a->d->u.penalty.l1, l2 = a->d->u.penalty.l2;
    double rows = a->d->u.penalty.rows, sum = 0;
    double share = rows * *(const float *)a->io[1] * *(const float *)a->io[2];
    float one = (float)(share * l1), two = (float)(share * 2 * l2);
    double *out = (double *)a->workspace + chunk * 2;

    LOOPS_IVDEP
    for (int64_t i = 0; i < n; i++)
        h[i] = two * w[i] + (float)((w[i] > 0) - (w[i] < 0)) * one;
    for (int64_t i = 0; i < n; i++)
        sum += l1 * fabs((double)w[i]) + l2 * w[i] * w[i];
    out[0] = rows * sum;
    out[1] = 0;
}

const struct loop_op LOOPS(penalty) = {.chunks = LOOPS(flat_chunks),
                                       .workspace_bytes = check_workspace,
                                       .step = {{penalty_part, check_join}}};
