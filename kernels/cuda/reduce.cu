// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/reduce.cu -- sums over all axes but the last.
#include "kernels/cuda/cuda_device.cuh"

// With an aux (of a max-pool; x is its dy) only the elements that reached
// a pixel count: the sum of dx, over a quarter of the elements.
template <class T> DEV void reduce_of(const struct args_reduce &a)
{
    const int V = pack<T>::n;
    struct table_place p = place_of<V>(a.t);
    const T *const from[1] = {(const T *)a.x};
    float sum[1][V] = {};
    int nobody = a.aux_i32 ? -1 : 255;

    if (a.aux)
        table_walk<2>(a.t, p, from,
                      [&](int64_t at, int m, bool wide, float(&x)[1][V]) {
                          int tap[V];

                          load_aux(tap, a.aux, a.aux_i32, at, m, wide);
                          for (int l = 0; l < V; l++)
                              sum[0][l] += tap[l] == nobody ? 0 : x[0][l];
                      });
    else
        table_walk<4>(a.t, p, from,
                      [&](int64_t at, int m, bool wide, float(&x)[1][V]) {
                          for (int l = 0; l < V; l++)
                              sum[0][l] += x[0][l];
                      });
    table_sums<1>(a.t, p, a.partial, sum);
}

DEV void reduce_end_of(const struct args_reduce_end &a)
{
    float sum[1];

    if (end_sums<1>(a.partial, a.blocks, a.cols, sum)) {
        float *y = a.y + end_col();

        *y = a.accum ? *y + sum[0] : sum[0];
    }
}

TYPED_ENTRY(reduce, reduce)
ENTRY(reduce_end, reduce_end_of, reduce_end)
