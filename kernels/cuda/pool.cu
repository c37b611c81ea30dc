// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/pool.cu -- max and average pools, NHWC, as ref/pool.c.
//
// A thread has one pixel and one pack of its channels. Backward gathers: each
// pixel of dx looks at the windows that cover it, so nothing is added
// atomically and equals are as the forward pass noted them.
#include "kernels/cuda/cuda_device.cuh"

// Which pixel and channels a thread has; c.m == 0: none.
struct pixel {
    int64_t n;
    int row, col, c, m;
};

template <int V>
DEV struct pixel pixel_of(const struct args_pool &a, int rows, int cols)
{
    uint64_t i = thread_number();
    struct pixel p = {0, 0, 0, 0, 0};

    if ((int64_t)i >= a.n)
        return p;
    p.c = (int)index_split(&i, a.packs) * V;
    p.col = (int)index_split(&i, cols);
    p.row = (int)index_split(&i, rows);
    p.n = (int64_t)i;
    p.m = pack_part<V>(a.c, p.c);
    return p;
}

// Where the channels of a pixel lie in a tensor of `rows` x `cols` pixels.
DEV int64_t offset(const struct args_pool &a, const struct pixel &p, int rows,
                   int cols, int row, int col)
{
    return ((p.n * rows + row) * cols + col) * a.c + p.c;
}

// The window of output (row, col), cut to the image.
struct cuda_pool_span {
    int top, left, h0, h1, w0, w1;
};

DEV struct cuda_pool_span cuda_pool_span_of(const struct args_pool &a, int row,
                                            int col)
{
    struct cuda_pool_span s;

    s.top = row * a.sh - a.ph;
    s.left = col * a.sw - a.pw;
    s.h0 = s.top < 0 ? 0 : s.top;
    s.w0 = s.left < 0 ? 0 : s.left;
    s.h1 = s.top + a.kh > a.h ? a.h : s.top + a.kh;
    s.w1 = s.left + a.kw > a.w ? a.w : s.left + a.kw;
    return s;
}

template <int V>
DEV void store_aux(const struct args_pool &a, int64_t at, const int (&tap)[V],
                   int m)
{
    if (a.aux_i32) {
        for (int l = 0; l < V; l++)
            if (l < m)
                ((int32_t *)a.aux)[at + l] = tap[l];
        return;
    }
    if (a.wide && m == V) {
        run<uint8_t, V> r;

        for (int l = 0; l < V; l++)
            r.at[l] = (uint8_t)tap[l]; // -1 becomes 255
        *(run<uint8_t, V> *)((uint8_t *)a.aux + at) = r;
        return;
    }
    for (int l = 0; l < V; l++)
        if (l < m)
            ((uint8_t *)a.aux)[at + l] = (uint8_t)tap[l];
}

// ---- Forward --------------------------------------------------------------

template <class T> DEV void pool_max_fwd_of(const struct args_pool &a)
{
    const int V = pack<T>::n;
    struct pixel p = pixel_of<V>(a, a.oh, a.ow);
    float best[V], x[V];
    int tap[V];

    if (p.m == 0)
        return;
    struct cuda_pool_span s = cuda_pool_span_of(a, p.row, p.col);
    bool first = true;

    for (int h = s.h0; h < s.h1; h++)
        for (int w = s.w0; w < s.w1; w++) {
            pack_load(x, (const T *)a.x + offset(a, p, a.h, a.w, h, w), p.m,
                      a.wide);
            for (int l = 0; l < V; l++)
                if (first || x[l] > best[l]) {
                    best[l] = x[l];
                    tap[l] = (h - s.top) * a.kw + w - s.left;
                }
            first = false;
        }
    int64_t at = offset(a, p, a.oh, a.ow, p.row, p.col);

    pack_store((T *)a.y + at, best, p.m, a.wide);
    if (!a.aux)
        return;
    for (int l = 0; l < V; l++)
        if (a.drelu && !(best[l] > 0))
            tap[l] = -1;
    store_aux(a, at, tap, p.m);
}

DEV float taps_in(const struct cuda_pool_span &s)
{
    return (float)((int64_t)(s.h1 - s.h0) * (s.w1 - s.w0));
}

template <class T> DEV void pool_avg_fwd_of(const struct args_pool &a)
{
    const int V = pack<T>::n;
    struct pixel p = pixel_of<V>(a, a.oh, a.ow);
    float sum[V] = {}, x[V];

    if (p.m == 0)
        return;
    struct cuda_pool_span s = cuda_pool_span_of(a, p.row, p.col);

    for (int h = s.h0; h < s.h1; h++)
        for (int w = s.w0; w < s.w1; w++) {
            pack_load(x, (const T *)a.x + offset(a, p, a.h, a.w, h, w), p.m,
                      a.wide);
            for (int l = 0; l < V; l++)
                sum[l] += x[l];
        }
    for (int l = 0; l < V; l++)
        sum[l] /= taps_in(s);
    pack_store((T *)a.y + offset(a, p, a.oh, a.ow, p.row, p.col), sum, p.m,
               a.wide);
}

// A window that is the whole image: each image is a table of pixels, summed in
// parts; the second kernel adds those. blockIdx.x is images, then columns.
template <class T> DEV void pool_all_fwd_of(const struct args_pool_all &a)
{
    const int V = pack<T>::n;
    int64_t image = blockIdx.x / a.across;
    struct table_place p = place_at<V>(a.t, blockIdx.x % a.across, blockIdx.y);
    const T *const from[1] = {(const T *)a.x + image * a.t.rows * a.t.cols};
    float sum[1][V] = {};

    table_walk<4>(a.t, p, from,
                  [&](int64_t at, int m, bool wide, float(&x)[1][V]) {
                      for (int l = 0; l < V; l++)
                          sum[0][l] += x[0][l];
                  });
    table_sums<1>(a.t, p, a.partial + image * gridDim.y * a.t.cols, sum);
}

template <class T> DEV void pool_all_end_of(const struct args_pool_all_end &a)
{
    uint64_t i = thread_number();
    float sum = 0;

    if ((int64_t)i >= a.n)
        return;
    T *y = (T *)a.y + i;
    int64_t col = index_split(&i, a.cols); // and i is the image
    const float *from = a.partial + (int64_t)i * a.blocks * a.cols + col;

#pragma unroll 4
    for (int b = 0; b < a.blocks; b++)
        sum += from[(int64_t)b * a.cols];
    elem_store(y, sum / a.over);
}

// ---- Backward -------------------------------------------------------------

// The outputs [from, to] with windows that cover place `at` of an axis.
struct cover {
    int from, to;
};

DEV struct cover cover_of(int at, int pad, int size, int stride, int out)
{
    int far = at + pad, low = far - size + 1;
    struct cover c;

    c.from = low <= 0 ? 0 : (low + stride - 1) / stride;
    c.to = far / stride < out ? far / stride : out - 1;
    return c;
}

template <class T> DEV void pool_max_bwd_of(const struct args_pool &a)
{
    const int V = pack<T>::n;
    struct pixel p = pixel_of<V>(a, a.h, a.w);
    float sum[V] = {}, dy[V];
    int tap[V];

    if (p.m == 0)
        return;
    struct cover rows = cover_of(p.row, a.ph, a.kh, a.sh, a.oh);
    struct cover cols = cover_of(p.col, a.pw, a.kw, a.sw, a.ow);

    for (int r = rows.from; r <= rows.to; r++)
        for (int c = cols.from; c <= cols.to; c++) {
            int64_t at = offset(a, p, a.oh, a.ow, r, c);
            int mine =
                (p.row - r * a.sh + a.ph) * a.kw + p.col - c * a.sw + a.pw;

            load_aux(tap, a.aux, a.aux_i32, at, p.m, a.wide);
            pack_load(dy, (const T *)a.x + at, p.m, a.wide);
            for (int l = 0; l < V; l++)
                sum[l] += tap[l] == mine ? dy[l] : 0;
        }
    pack_store((T *)a.y + offset(a, p, a.h, a.w, p.row, p.col), sum, p.m,
               a.wide);
}

template <class T> DEV void pool_avg_bwd_of(const struct args_pool &a)
{
    const int V = pack<T>::n;
    struct pixel p = pixel_of<V>(a, a.h, a.w);
    float sum[V] = {}, dy[V];

    if (p.m == 0)
        return;
    struct cover rows = cover_of(p.row, a.ph, a.kh, a.sh, a.oh);
    struct cover cols = cover_of(p.col, a.pw, a.kw, a.sw, a.ow);

    for (int r = rows.from; r <= rows.to; r++)
        for (int c = cols.from; c <= cols.to; c++) {
            float taps = taps_in(cuda_pool_span_of(a, r, c));

            pack_load(dy, (const T *)a.x + offset(a, p, a.oh, a.ow, r, c), p.m,
                      a.wide);
            for (int l = 0; l < V; l++)
                sum[l] += dy[l] / taps;
        }
    pack_store((T *)a.y + offset(a, p, a.h, a.w, p.row, p.col), sum, p.m,
               a.wide);
}

TYPED_ENTRY(pool_max_fwd, pool)
TYPED_ENTRY(pool_max_bwd, pool)
TYPED_ENTRY(pool_avg_fwd, pool)
TYPED_ENTRY(pool_avg_bwd, pool)
TYPED_ENTRY(pool_all_fwd, pool_all)
TYPED_ENTRY(pool_all_end, pool_all_end)
