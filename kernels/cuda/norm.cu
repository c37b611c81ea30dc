// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/norm.cu -- batch norm over all axes but the last.
//
// Forward: sums of x - s and of its square, where s is the first row: a sample
// of the data, so that a mean far from 0 costs no digits. Then mean and var,
// then y. Backward: sums of dy and of dy xhat, then dx.
#include "kernels/cuda/device.cuh"

template <int V>
DEV void load_param(float (&to)[V], const float *from, const struct place &p)
{
    for (int l = 0; l < V; l++)
        to[l] = l < p.m ? from[p.col + l] : 0;
}

template <class T> DEV void bn_stats_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct place p = place_of<V>(a.t);
    float sum[2][V] = {}, x[V], shift[V];

    if (p.m > 0)
        load(shift, (const T *)a.x + p.col, p.m, a.t.wide);
    for (int64_t row = p.row; row < p.below && p.m > 0; row += p.step) {
        load(x, (const T *)a.x + row * a.t.cols + p.col, p.m, a.t.wide);
        for (int l = 0; l < V; l++) {
            float far = x[l] - shift[l];

            sum[0][l] += far;
            sum[1][l] += far * far;
        }
    }
    table_sums<2>(a.t, p, a.partial, sum);
}

template <class T> DEV void bn_stats_end_of(const struct args_bn_end &a)
{
    float sum[2];
    int64_t c = end_col();

    if (!end_sums<2>(a.partial, a.blocks, a.cols, sum))
        return;
    float m = a.rows > 0 ? (float)a.rows : 1;
    float shift = a.rows > 0 ? real(((const T *)a.x)[c]) : 0;
    float off = sum[0] / m, var = sum[1] / m - off * off;

    a.mean[c] = shift + off;
    a.var[c] = var < 0 ? 0 : var; // a NaN stays
}

template <class T> DEV void bn_apply_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct place p = place_of<V>(a.t);
    float x[V], mean[V], scale[V], beta[V], var[V];

    if (p.m == 0)
        return;
    load_param(mean, a.mean, p);
    load_param(var, a.var, p);
    load_param(scale, a.gamma, p);
    load_param(beta, a.beta, p);
    for (int l = 0; l < V; l++)
        scale[l] /= sqrtf(var[l] + a.epsilon);
    for (int64_t row = p.row; row < p.below; row += p.step) {
        int64_t at = row * a.t.cols + p.col;

        load(x, (const T *)a.x + at, p.m, a.t.wide);
        for (int l = 0; l < V; l++)
            x[l] = (x[l] - mean[l]) * scale[l] + beta[l];
        store((T *)a.y + at, x, p.m, a.t.wide);
    }
}

template <class T> DEV void bn_sums_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct place p = place_of<V>(a.t);
    float sum[2][V] = {}, x[V], dy[V], mean[V], var[V];

    load_param(mean, a.mean, p);
    load_param(var, a.var, p);
    for (int l = 0; l < V; l++)
        var[l] = 1 / sqrtf(var[l] + a.epsilon);
    for (int64_t row = p.row; row < p.below && p.m > 0; row += p.step) {
        int64_t at = row * a.t.cols + p.col;

        load(x, (const T *)a.x + at, p.m, a.t.wide);
        load(dy, (const T *)a.dy + at, p.m, a.t.wide);
        for (int l = 0; l < V; l++) {
            sum[0][l] += dy[l];
            sum[1][l] += dy[l] * ((x[l] - mean[l]) * var[l]);
        }
    }
    table_sums<2>(a.t, p, a.partial, sum);
}

DEV void bn_sums_end_of(const struct args_bn_end &a)
{
    float sum[2];
    int64_t c = end_col();

    if (!end_sums<2>(a.partial, a.blocks, a.cols, sum))
        return;
    a.sums[c] = sum[0];
    a.sums[a.cols + c] = sum[1];
    a.dbeta[c] = a.accum ? a.dbeta[c] + sum[0] : sum[0];
    a.dgamma[c] = a.accum ? a.dgamma[c] + sum[1] : sum[1];
}

// dx = gamma invstd (dy - sum dy / m - xhat sum(dy xhat) / m)
template <class T> DEV void bn_bwd_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct place p = place_of<V>(a.t);
    float x[V], dy[V], mean[V], invstd[V], scale[V], sum[V], dot[V];

    if (p.m == 0)
        return;
    load_param(mean, a.mean, p);
    load_param(invstd, a.var, p);
    load_param(scale, a.gamma, p);
    load_param(sum, a.sums, p);
    load_param(dot, a.sums + a.t.cols, p);
    for (int l = 0; l < V; l++) {
        invstd[l] = 1 / sqrtf(invstd[l] + a.epsilon);
        scale[l] *= invstd[l];
        sum[l] /= (float)a.t.rows;
        dot[l] /= (float)a.t.rows;
    }
    for (int64_t row = p.row; row < p.below; row += p.step) {
        int64_t at = row * a.t.cols + p.col;

        load(x, (const T *)a.x + at, p.m, a.t.wide);
        load(dy, (const T *)a.dy + at, p.m, a.t.wide);
        for (int l = 0; l < V; l++) {
            float xhat = (x[l] - mean[l]) * invstd[l];
            float g = scale[l] * (dy[l] - sum[l] - xhat * dot[l]);

            dy[l] = a.drelu && !(x[l] > 0) ? 0 : g;
        }
        store((T *)a.y + at, dy, p.m, a.t.wide);
    }
}

TYPED_ENTRY(bn_stats, bn)
TYPED_ENTRY(bn_stats_end, bn_end)
TYPED_ENTRY(bn_apply, bn)
TYPED_ENTRY(bn_sums, bn)
ENTRY(bn_sums_end, bn_sums_end_of, bn_end)
TYPED_ENTRY(bn_bwd, bn)
