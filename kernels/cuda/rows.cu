// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/rows.cu -- layer norm, and rows of a table: a warp per row.
//
// A lane only ever touches its own columns, so gradients may replace each
// other.
#include "kernels/cuda/cuda_device.cuh"

#define TABLE_ROWS (CUDA_THREADS / 32) // of a block
#define TABLE_COLS 128                 // of a warp, backward

DEV int64_t warp_number(void)
{
    return (int64_t)blockIdx.x * TABLE_ROWS + threadIdx.x / 32;
}

// ---- Layer norm -----------------------------------------------------------

struct row_stats {
    float mean, rstd;
};

template <class T>
DEV struct row_stats row_stats_of(const struct args_ln &a, const T *x)
{
    float sum = 0, square = 0;
    struct row_stats s;

    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        sum += elem_float(x[c]);
    s.mean = warp_sum(sum) / a.cols;
    for (int c = threadIdx.x % 32; c < a.cols; c += 32) {
        float far = elem_float(x[c]) - s.mean;

        square += far * far;
    }
    s.rstd = 1 / sqrtf(warp_sum(square) / a.cols + a.epsilon);
    return s;
}

template <class T> DEV void ln_fwd_of(const struct args_ln &a)
{
    int64_t row = warp_number();

    if (row >= a.rows)
        return;
    const T *x = (const T *)a.x + row * a.cols;
    T *y = (T *)a.y + row * a.cols;
    struct row_stats s = row_stats_of(a, x);

    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        elem_store(y + c, (elem_float(x[c]) - s.mean) * s.rstd * a.gamma[c] +
                              a.beta[c]);
}

template <class T> DEV void ln_bwd_of(const struct args_ln &a)
{
    int64_t row = warp_number();

    if (row >= a.rows)
        return;
    const T *x = (const T *)a.x + row * a.cols;
    const T *dy = (const T *)a.dy + row * a.cols;
    T *dx = (T *)a.y + row * a.cols;
    float *t = a.t + row * a.cols;
    struct row_stats s = row_stats_of(a, x);
    float sum = 0, dot = 0;

    for (int c = threadIdx.x % 32; c < a.cols; c += 32) {
        float g = elem_float(dy[c]) * a.gamma[c];

        sum += g;
        dot += g * ((elem_float(x[c]) - s.mean) * s.rstd);
    }
    sum = warp_sum(sum) / a.cols;
    dot = warp_sum(dot) / a.cols;
    for (int c = threadIdx.x % 32; c < a.cols; c += 32) {
        float xhat = (elem_float(x[c]) - s.mean) * s.rstd,
              g = elem_float(dy[c]);

        t[c] = g * xhat;
        elem_store(dx + c, s.rstd * (g * a.gamma[c] - sum - xhat * dot));
    }
}

// ---- Rows of a table ------------------------------------------------------

// -1: there is none.
DEV int64_t table_row(float id, int64_t rows)
{
    return id > -1 && id < (float)rows ? (int64_t)id : -1;
}

template <class T> DEV void gather_of(const struct args_gather &a)
{
    int64_t i = warp_number();

    if (i >= a.n)
        return;
    int64_t row = table_row(a.ids[i], a.rows);
    const float *from = (const float *)a.from + row * a.cols;
    T *to = (T *)a.to + i * a.cols;

    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        elem_store(to + c, row < 0 ? NAN : from[c]);
}

// A warp has some columns of one row of the table, and looks at all ids for
// those that name it: their gradients are added in the order of the ids.
template <class T> DEV void gather_bwd_of(const struct args_gather &a)
{
    int64_t row = warp_number();
    int lane = threadIdx.x % 32, first = blockIdx.y * TABLE_COLS + lane;
    float sum[TABLE_COLS / 32] = {};

    if (row >= a.rows)
        return;
    for (int64_t i = 0; i < a.n; i += 32) {
        float id = i + lane < a.n ? a.ids[i + lane] : -1;
        unsigned mine = __ballot_sync(ALL_LANES, table_row(id, a.rows) == row);

        for (int k = 0; mine >> k != 0; k++) {
            const T *dy = (const T *)a.from + (i + k) * a.cols;

            if (mine >> k & 1)
                for (int j = 0; j < TABLE_COLS / 32; j++)
                    if (first + 32 * j < a.cols)
                        sum[j] += elem_float(dy[first + 32 * j]);
            if (k == 31)
                break;
        }
    }
    for (int j = 0; j < TABLE_COLS / 32; j++)
        if (first + 32 * j < a.cols)
            ((float *)a.to)[row * a.cols + first + 32 * j] = sum[j];
}

TYPED_ENTRY(ln_fwd, ln)
TYPED_ENTRY(ln_bwd, ln)
TYPED_ENTRY(gather, gather)
TYPED_ENTRY(gather_bwd, gather)
