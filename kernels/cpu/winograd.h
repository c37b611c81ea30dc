// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/winograd.h -- F(4x4, 3x3): transforms of tiles, and the products
// between them. For the loops_wino*.c files alone, which are compiled per
// instruction set: LOOPS(name) of loops.h is the name for one of them, as
// loops_avx2_name. loops.h has VL (floats of a vector), vf (a vector) and the
// other LOOPS_ macros, too.
//
// A tile of 6x6 of the image and the filter of 3x3, both transformed, are
// multiplied element by element and summed over channels: 36 small matrix
// products where the plain sum has 144 multiplications per output tile of 4x4.
// The points are 0, +-5/8, +-3/2 and infinity: their constants are exact in
// binary, and errors a third of those with +-1 and +-2.
//
// Vectors lie along channels. Transformed tensors are [36][rows][channels];
// the right side of a product is in panels, [36][panel][k][WINO_PANEL].
//
// Threads, memory: plain functions over the caller's memory.
#ifndef KERNELS_CPU_WINOGRAD_H
#define KERNELS_CPU_WINOGRAD_H

#include "kernels/cpu/loops.h"

#include <string.h>

#define WINO_IN 6   // edge of an input tile
#define WINO_OUT 4  // of an output tile
#define WINO_ALL 36 // products
// Columns of a product's micro tile, and its most rows: as registers allow.
#define WINO_NR 2
#define WINO_PANEL (WINO_NR * VL)
#define WINO_MR (VL >= 16 ? 12 : 6)

#define WINO_A 0.625f
#define WINO_B 1.5f
#define WINO_AA (WINO_A * WINO_A)
#define WINO_BB (WINO_B * WINO_B)

// The image that is cut into tiles, the image that tiles make, and how many
// tiles a block has: as many as stay in the second cache with their products.
struct wino {
    int64_t n, ih, iw, ic; // read
    int64_t oh, ow, oc;    // made
    int64_t py, px;        // zeros before the image
    int64_t th, tw, tiles; // tiles of an image's columns and rows; of all
    bool edge_y, edge_x;   // the last row, column is not in a tile
    int64_t block, blocks; // tiles
    int64_t icv, ocp;      // channels as they lie: ic, oc rounded up
    // Floats from one of the 36 transformed values to the next.
    int64_t in_step, out_step, filter_step;
};

// Where a tile lies: its image's first float, its corner, which of its rows
// and columns are inside.
struct wino_tile {
    int64_t image, y, x;
    int i0, i1, j0, j1;
};

// Sets [*from, *to) to the rows (or columns) of a tile of `edge` pixels that
// are inside of [0, size), counted from the tile's own edge, which is at `at`.
static inline void wino_cut(int *from, int *to, int64_t at, int64_t size,
                            int edge)
{
    *from = at < 0 ? (int)(at < -edge ? edge : -at) : 0;
    *to = at + edge > size ? (int)(size > at ? size - at : 0) : edge;
}

// Returns tile t of images of h x wide pixels, of which tiles of `edge` pixels
// a side are cut, each 4 further, from py and px zeros before the image on.
static inline struct wino_tile wino_tile_of(const struct wino *w, int64_t t,
                                            int64_t h, int64_t wide, int edge,
                                            int64_t py, int64_t px)
{
    int64_t in = t % (w->th * w->tw);
    struct wino_tile o = {.image = t / (w->th * w->tw),
                          .y = in / w->tw * WINO_OUT - py,
                          .x = in % w->tw * WINO_OUT - px};

    wino_cut(&o.i0, &o.i1, o.y, h, edge);
    wino_cut(&o.j0, &o.j1, o.x, wide, edge);
    return o;
}

// ---- Transforms of six or four vectors, `s` apart ---------------------------

// Applies B^T, which transforms the image, to six vectors x[0], x[s], ...;
// writes six, o[0], o[os], ... (so do those below: `s` and `os` are how far
// vectors lie apart).
LOOPS_INLINE void wino_bt(vf *o, int os, const vf *x, int s)
{
    const float sum = WINO_AA + WINO_BB, product = WINO_AA * WINO_BB;
    vf even = x[4 * s] - WINO_BB * x[2 * s];
    vf odd = WINO_A * (x[3 * s] - WINO_BB * x[s]);
    vf even2 = x[4 * s] - WINO_AA * x[2 * s];
    vf odd2 = WINO_B * (x[3 * s] - WINO_AA * x[s]);

    o[0] = product * x[0] - sum * x[2 * s] + x[4 * s];
    o[os] = even + odd;
    o[2 * os] = even - odd;
    o[3 * os] = even2 + odd2;
    o[4 * os] = even2 - odd2;
    o[5 * os] = product * x[s] - sum * x[3 * s] + x[5 * s];
}

// Applies A^T, which makes four outputs of six products.
LOOPS_INLINE void wino_at(vf *o, int os, const vf *y, int s)
{
    vf plus = y[s] + y[2 * s], minus = y[s] - y[2 * s];
    vf plus2 = y[3 * s] + y[4 * s], minus2 = y[3 * s] - y[4 * s];

    o[0] = y[0] + plus + plus2;
    o[os] = WINO_A * minus + WINO_B * minus2;
    o[2 * os] = WINO_AA * plus + WINO_BB * plus2;
    o[3 * os] = WINO_A * WINO_AA * minus + WINO_B * WINO_BB * minus2 + y[5 * s];
}

// Applies A, which transforms the gradient of four outputs to six.
LOOPS_INLINE void wino_a(vf *o, int os, const vf *d, int s)
{
    vf even = d[0] + WINO_AA * d[2 * s];
    vf odd = WINO_A * d[s] + WINO_A * WINO_AA * d[3 * s];
    vf even2 = d[0] + WINO_BB * d[2 * s];
    vf odd2 = WINO_B * d[s] + WINO_B * WINO_BB * d[3 * s];

    o[0] = d[0];
    o[os] = even + odd;
    o[2 * os] = even - odd;
    o[3 * os] = even2 + odd2;
    o[4 * os] = even2 - odd2;
    o[5 * os] = d[3 * s];
}

#define WINO_G0 (1.0f / (WINO_AA * WINO_BB))
#define WINO_GA (1.0f / (2.0f * WINO_AA * (WINO_AA - WINO_BB)))
#define WINO_GB (1.0f / (2.0f * WINO_BB * (WINO_BB - WINO_AA)))

// Applies G, which transforms three values of the filter to six.
LOOPS_INLINE void wino_g(vf *o, int os, const vf *g, int s)
{
    vf even = WINO_GA * g[0] + WINO_GA * WINO_AA * g[2 * s];
    vf odd = WINO_GA * WINO_A * g[s];
    vf even2 = WINO_GB * g[0] + WINO_GB * WINO_BB * g[2 * s];
    vf odd2 = WINO_GB * WINO_B * g[s];

    o[0] = WINO_G0 * g[0];
    o[os] = even + odd;
    o[2 * os] = even - odd;
    o[3 * os] = even2 + odd2;
    o[4 * os] = even2 - odd2;
    o[5 * os] = g[2 * s];
}

// Applies G^T, which makes three values of the filter's gradient of six.
LOOPS_INLINE void wino_gt(vf *o, int os, const vf *m, int s)
{
    vf plus = m[s] + m[2 * s], minus = m[s] - m[2 * s];
    vf plus2 = m[3 * s] + m[4 * s], minus2 = m[3 * s] - m[4 * s];

    o[0] = WINO_G0 * m[0] + WINO_GA * plus + WINO_GB * plus2;
    o[os] = WINO_GA * WINO_A * minus + WINO_GB * WINO_B * minus2;
    o[2 * os] = WINO_GA * WINO_AA * plus + WINO_GB * WINO_BB * plus2 + m[5 * s];
}

// ---- Products ---------------------------------------------------------------

// Computes c[rows][WINO_PANEL] = (`add`: +=) a b, of 1 to WINO_MR rows and one
// panel b[k][WINO_PANEL], with k the length of the sums and cs the floats
// between c's rows: element (i, p) of a is at a[i * ai + p * ap].
LOOPS_INLINE void wino_micro(int rows, bool add, int64_t k, const float *a,
                             int64_t ai, int64_t ap, const float *b, float *c,
                             int64_t cs)
{
    vf sum[WINO_MR][WINO_NR];

    LOOPS_UNROLL
    for (int i = 0; i < rows; i++) {
        sum[i][0] = add ? *(const vf *)(c + i * cs) : (vf){0};
        sum[i][1] = add ? *(const vf *)(c + i * cs + VL) : (vf){0};
    }
    for (int64_t p = 0; p < k; p++) {
        vf b0 = *(const vf *)b, b1 = *(const vf *)(b + VL);

        LOOPS_UNROLL
        for (int i = 0; i < rows; i++) {
            sum[i][0] += a[i * ai] * b0;
            sum[i][1] += a[i * ai] * b1;
        }
        a += ap;
        b += WINO_PANEL;
    }
    LOOPS_UNROLL
    for (int i = 0; i < rows; i++) {
        *(vf *)(c + i * cs) = sum[i][0];
        *(vf *)(c + i * cs + VL) = sum[i][1];
    }
}

// So many rows of a panel, each a micro tile of its own code.
#define WINO_CASE(n)                                                           \
    case n:                                                                    \
        wino_micro(n, add, k, a, ai, ap, b, c, cs);                            \
        break;

// Computes what wino_micro does, for any number of `rows` from 1 to WINO_MR;
// nothing for others.
LOOPS_INLINE void wino_rows(int64_t rows, bool add, int64_t k, const float *a,
                            int64_t ai, int64_t ap, const float *b, float *c,
                            int64_t cs)
{
    switch (rows) {
        WINO_CASE(1)
        WINO_CASE(2)
        WINO_CASE(3)
        WINO_CASE(4)
        WINO_CASE(5)
        WINO_CASE(6)
#if LOOPS_WIDTH >= 16
        WINO_CASE(7)
        WINO_CASE(8)
        WINO_CASE(9)
        WINO_CASE(10)
        WINO_CASE(11)
        WINO_CASE(12)
#endif
    default:
        break;
    }
}

// Computes c[m][n] = a[m][k] b (`add`: +=), where b is in panels for n columns,
// a multiple of WINO_PANEL; element (i, p) of a is at a[i * ai + p * ap], and
// cs is the number of floats from one row of c to the next.
LOOPS_INLINE void wino_product(bool add, int64_t m, int64_t n, int64_t k,
                               const float *a, int64_t ai, int64_t ap,
                               const float *b, float *c, int64_t cs)
{
    for (int64_t j = 0; j < n; j += WINO_PANEL) {
        int64_t left = m;

        while (left > 0) {
            int64_t i = m - left, rows = left;

            if (left >= 2 * WINO_MR)
                rows = WINO_MR;
            else if (left > WINO_MR)
                rows = (left + 1) / 2;
            wino_rows(rows, add, k, a + i * ai, ai, ap, b, c + i * cs + j, cs);
            left -= rows;
        }
        b += k * WINO_PANEL;
    }
}

// ---- What the files share ---------------------------------------------------

// Fills in *w for the convolution `d`, which wino_can accepts; for CONV_DGRAD
// dy is the image that is read.
void LOOPS(wino_shape)(struct wino *w, const struct kern_desc *d);
// Returns true if these loops can do the convolution `d`: its window is 3x3
// with strides and dilation 1, at most 2 pads before, and one group.
bool LOOPS(wino_can)(const struct kern_desc *d);

// Returns how many floats an edge's filter takes. Two of these, for the last
// row and the last column, lie in the workspace behind the transformed filters.
static inline int64_t wino_edge_floats(const struct wino *w)
{
    return 3 * w->ic * w->ocp;
}
// Returns how many bytes of a thread's scratch wino_edges wants.
size_t LOOPS(wino_edge_scratch)(const struct wino *w);
// Computes the last row and column of image number `image` of a gradient by
// data, where they are in no tile (edge_y, edge_x); else does nothing. The
// edges' filters lie in the workspace already.
void LOOPS(wino_edges)(const struct loop_args *a, const struct wino *w,
                       int64_t image);

// Transforms `count` tiles of the image that is read, from tile `first` on:
// to[36][tile][icv], in_step apart. Outside of the image is 0.
void LOOPS(wino_image_in)(float *to, const struct wino *w, const float *x,
                          int64_t first, int64_t count);

#endif
