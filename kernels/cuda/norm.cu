// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/norm.cu -- batch norm over all axes but the last.
//
// Forward: sums of x - s and of its square, where s is the first row: a sample
// of the data, so that a mean far from 0 costs no digits. Then mean and var,
// then y. Backward: sums of dy and of dy xhat, then dx, and perhaps its
// column sums.
#include "kernels/cuda/cuda_device.cuh"

template <int V>
DEV void load_param(float (&to)[V], const float *from,
                    const struct table_place &p)
{
    for (int l = 0; l < V; l++)
        to[l] = l < p.m ? from[p.col + l] : 0;
}

// Rows that a thread loads at a time: 4 accesses of 16 bytes are under way.
#define FLIGHT_ONE 4
#define FLIGHT_TWO 2

template <class T> DEV void bn_stats_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct table_place p = place_of<V>(a.t);
    const T *const from[1] = {(const T *)a.x};
    float sum[2][V] = {}, shift[V];

    if (p.m > 0)
        pack_load(shift, (const T *)a.x + p.col, p.m, a.t.wide);
    table_walk<FLIGHT_ONE>(a.t, p, from,
                           [&](int64_t at, int m, bool wide, float(&x)[1][V]) {
                               for (int l = 0; l < V; l++) {
                                   float far = x[0][l] - shift[l];

                                   sum[0][l] += far;
                                   sum[1][l] += far * far;
                               }
                           });
    table_sums<2>(a.t, p, a.partial, sum);
}

template <class T> DEV void bn_stats_end_of(const struct args_bn_end &a)
{
    float sum[2];
    int64_t c = end_col();

    if (!end_sums<2>(a.partial, a.blocks, a.cols, sum))
        return;
    float m = a.rows > 0 ? (float)a.rows : 1;
    float shift = a.rows > 0 ? elem_float(((const T *)a.x)[c]) : 0;
    float off = sum[0] / m, var = sum[1] / m - off * off;

    a.mean[c] = shift + off;
    a.var[c] = var < 0 ? 0 : var; // a NaN stays
}

template <class T> DEV void bn_apply_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct table_place p = place_of<V>(a.t);
    const T *const from[1] = {(const T *)a.x};
    float mean[V], scale[V], beta[V], var[V];

    if (p.m == 0)
        return;
    load_param(mean, a.mean, p);
    load_param(var, a.var, p);
    load_param(scale, a.gamma, p);
    load_param(beta, a.beta, p);
    for (int l = 0; l < V; l++)
        scale[l] /= sqrtf(var[l] + a.epsilon);
    table_walk<FLIGHT_ONE>(
        a.t, p, from, [&](int64_t at, int m, bool wide, float(&x)[1][V]) {
            for (int l = 0; l < V; l++)
                x[0][l] = (x[0][l] - mean[l]) * scale[l] + beta[l];
            pack_store((T *)a.y + at, x[0], m, wide);
        });
}

template <class T> DEV void bn_sums_of(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct table_place p = place_of<V>(a.t);
    const T *const from[2] = {(const T *)a.x, (const T *)a.dy};
    float sum[2][V] = {}, mean[V], var[V];

    load_param(mean, a.mean, p);
    load_param(var, a.var, p);
    for (int l = 0; l < V; l++)
        var[l] = 1 / sqrtf(var[l] + a.epsilon);
    table_walk<FLIGHT_TWO>(
        a.t, p, from, [&](int64_t at, int m, bool wide, float(&x)[2][V]) {
            for (int l = 0; l < V; l++) {
                sum[0][l] += x[1][l];
                sum[1][l] += x[1][l] * ((x[0][l] - mean[l]) * var[l]);
            }
        });
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

// dx = gamma invstd (dy - sum dy / m - xhat sum(dy xhat) / m), and with SUM its
// column sums: the bias gradient of what x came from, in the bits that
// reduce.cu has for dx, without another read of all of it.
template <bool SUM, class T> DEV void bn_dx(const struct args_bn &a)
{
    const int V = pack<T>::n;
    struct table_place p = place_of<V>(a.t);
    const T *const from[2] = {(const T *)a.x, (const T *)a.dy};
    float mean[V], scale[V], off[V], slope[V], total[1][V] = {};

    load_param(mean, a.mean, p);
    load_param(slope, a.var, p);
    load_param(scale, a.gamma, p);
    load_param(off, a.sums, p);
    for (int l = 0; l < V; l++) {
        float invstd = 1 / sqrtf(slope[l] + a.epsilon);
        float dot = l < p.m ? a.sums[a.t.cols + p.col + l] : 0;

        scale[l] *= invstd;
        off[l] *= scale[l] / (float)a.t.rows;
        slope[l] = scale[l] * invstd * (dot / (float)a.t.rows);
        if (sizeof(T) == 2) { // x is no nearer to its mean: save registers
            off[l] -= slope[l] * mean[l];
            mean[l] = 0;
        }
    }
    table_walk<FLIGHT_TWO>(a.t, p, from,
                           [&](int64_t at, int m, bool wide, float(&x)[2][V]) {
                               for (int l = 0; l < V; l++) {
                                   float g = scale[l] * x[1][l] - off[l] -
                                             slope[l] * (x[0][l] - mean[l]);

                                   x[1][l] = a.drelu && !(x[0][l] > 0) ? 0 : g;
                                   if (SUM)
                                       total[0][l] += as_stored<T>(x[1][l]);
                               }
                               pack_store((T *)a.y + at, x[1], m, wide);
                           });
    if (SUM)
        table_sums<1>(a.t, p, a.partial, total);
}

template <class T> DEV void bn_bwd_of(const struct args_bn &a)
{
    bn_dx<false, T>(a);
}

template <class T> DEV void bn_bwd_sum_of(const struct args_bn &a)
{
    bn_dx<true, T>(a);
}

TYPED_ENTRY(bn_stats, bn)
TYPED_ENTRY(bn_stats_end, bn_end)
TYPED_ENTRY(bn_apply, bn)
TYPED_ENTRY(bn_sums, bn)
ENTRY(bn_sums_end, bn_sums_end_of, bn_end)
TYPED_ENTRY(bn_bwd, bn)
TYPED_ENTRY(bn_bwd_sum, bn)
