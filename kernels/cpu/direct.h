// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/direct.h -- convolutions of few input channels, as they are
// written down. For the loops_direct*.c files alone, which are compiled per
// instruction set.
//
// A net's first layer reads 1 or 3 channels: too few for a vector, so vectors
// lie along the outputs' channels, and a float of the image is multiplied into
// all of them. Each pixel of the filter times each channel is a tap; taps are
// in the order of OHWI, [kh][kw][ci], and what tap t of output pixel (p, q)
// reads lies at p * row + q * step + at[t] of the image. Nothing is rearranged;
// where the convolution pads, a band of the image is copied with its zeros.
//
// Threads, memory: plain functions over the caller's memory.
#ifndef KERNELS_CPU_DIRECT_H
#define KERNELS_CPU_DIRECT_H

#include "kernels/cpu/loops.h"

#define DIRECT_CHANNELS 8 // of the image, at most
#define DIRECT_TAPS 512   // at most
// A tile of sums is up to DIRECT_MR(v) rows of v vectors, as registers allow:
// the more vectors, the fewer floats have to be spread over one.
#define DIRECT_NR 4
#define DIRECT_MR(v) ((VL >= 16 ? 24 : 12) / ((v) < 2 ? 2 : (v)))
#define DIRECT_MR_MOST 12

// So many rows of a tile, each of its own code: TILE(n).
#define DIRECT_CASE(v, n)                                                      \
    case n:                                                                    \
        if (n <= DIRECT_MR(v))                                                 \
            TILE(n);                                                           \
        break;
#define DIRECT_CASES(v)                                                        \
    DIRECT_CASE(v, 1)                                                          \
    DIRECT_CASE(v, 2)                                                          \
    DIRECT_CASE(v, 3)                                                          \
    DIRECT_CASE(v, 4)                                                          \
    DIRECT_CASE(v, 5)                                                          \
    DIRECT_CASE(v, 6)                                                          \
    DIRECT_CASE(v, 7)                                                          \
    DIRECT_CASE(v, 8)                                                          \
    DIRECT_CASE(v, 9)                                                          \
    DIRECT_CASE(v, 10)                                                         \
    DIRECT_CASE(v, 11)                                                         \
    DIRECT_CASE(v, 12)

// Returns how many whole vectors of channels the next panel has, with `left`
// channels left: at most DIRECT_NR; 0 if `left` is less than a vector.
static inline int64_t direct_vectors(int64_t left)
{
    int64_t vectors = left / VL;

    return vectors == DIRECT_NR + 1 ? (vectors + 1) / 2
           : vectors > DIRECT_NR    ? DIRECT_NR
                                    : vectors;
}

// Returns how many rows the next tile has, with `left` rows left and at most
// `most` in one: the last two tiles share what is left.
static inline int64_t direct_rows(int64_t left, int64_t most)
{
    return left >= 2 * most ? most : left > most ? (left + 1) / 2 : left;
}

// sum[rows][vectors] += x w, of one tap or pixel: what is fewer stays in
// registers. x(i) is a macro.
#define DIRECT_ADD(sum, rows, vectors, X, w)                                   \
    do {                                                                       \
        vf own_[4];                                                            \
                                                                               \
        if (VL < 16 && vectors > 3) {                                          \
            LOOPS_UNROLL                                                       \
            for (int i = 0; i < rows; i++)                                     \
                own_[i & 3] = vf_all(X(i));                                    \
            LOOPS_UNROLL                                                       \
            for (int v = 0; v < vectors; v++)                                  \
                for (int i = 0; i < rows; i++)                                 \
                    sum[i][v] += own_[i & 3] * *(const vf *)((w) + v * VL);    \
        } else {                                                               \
            for (int v = 0; v < vectors; v++)                                  \
                own_[v] = *(const vf *)((w) + v * VL);                         \
            LOOPS_UNROLL                                                       \
            for (int i = 0; i < rows; i++)                                     \
                for (int v = 0; v < vectors; v++)                              \
                    sum[i][v] += X(i) * own_[v];                               \
        }                                                                      \
    } while (0)

struct direct {
    struct kern_conv_dims c;
    int64_t taps, cop;       // co rounded up to a vector
    int64_t row, step;       // floats from an output's image to the next's
    bool padded;             // it reads a band's copy,
    int64_t wide, high;      // floats of a row of that copy; its rows
    int64_t line;            // floats of one of the image's rows, as read
    int64_t rows, bands;     // outputs' rows of a band; of an image
    int64_t at[DIRECT_TAPS]; // offset of each tap, in floats
};

// One band: an image, its outputs' rows.
struct direct_band {
    int64_t image, first, rows;
    const float *x; // what tap 0 of its first output reads
};

// Returns true if these loops can do the convolution `d`: no groups, few enough
// channels and taps, and no empty tensor.
static inline bool direct_can(const struct kern_desc *d)
{
    struct kern_conv_dims c;

    kern_conv_dims(&c, d);
    return c.groups == 1 && c.ci <= DIRECT_CHANNELS &&
           c.win.size[0] * c.win.size[1] * c.ci <= DIRECT_TAPS &&
           !kern_desc_empty(d);
}

// Fills in *s for `d`, which direct_can does, with bands of as many rows as
// make about `band_bytes` bytes of the output, one at least.
static inline void direct_shape(struct direct *s, const struct kern_desc *d,
                                int64_t band_bytes)
{
    const struct kern_window *w = &s->c.win;
    int64_t t = 0;

    kern_conv_dims(&s->c, d);
    s->cop = loops_up(s->c.co, VL);
    s->rows = band_bytes / ((int64_t)sizeof(float) * s->c.ow * s->c.co);
    s->rows = s->rows < 1 ? 1 : s->rows > s->c.oh ? s->c.oh : s->rows;
    s->bands = (s->c.oh + s->rows - 1) / s->rows;
    s->padded = w->pad_before[0] > 0 || w->pad_before[1] > 0 ||
                w->pad_after[0] > 0 || w->pad_after[1] > 0;
    s->wide =
        ((s->c.ow - 1) * w->stride[1] + (w->size[1] - 1) * w->dilation[1] + 1) *
        s->c.ci;
    s->high =
        (s->rows - 1) * w->stride[0] + (w->size[0] - 1) * w->dilation[0] + 1;
    s->line = s->padded ? s->wide : s->c.w * s->c.ci;
    s->row = w->stride[0] * s->line;
    s->step = w->stride[1] * s->c.ci;
    s->taps = w->size[0] * w->size[1] * s->c.ci;
    for (int64_t r = 0; r < w->size[0]; r++)
        for (int64_t q = 0; q < w->size[1]; q++)
            for (int64_t i = 0; i < s->c.ci; i++)
                s->at[t++] = r * w->dilation[0] * s->line +
                             q * w->dilation[1] * s->c.ci + i;
}

// Returns how many floats the copy of a band takes; 0: no copy is needed.
static inline int64_t direct_copy(const struct direct *s)
{
    return s->padded ? loops_up(s->high * s->wide, 16) : 0;
}

// Copies one row of the image, at `from`, to `to`, with the zeros of the
// padding before and behind it: s->wide floats in all.
static inline void direct_line(float *to, const struct direct *s,
                               const float *from)
{
    int64_t before = s->c.win.pad_before[1] * s->c.ci;
    int64_t count = s->c.w * s->c.ci;

    before = before > s->wide ? s->wide : before;
    count = count > s->wide - before ? s->wide - before : count;
    memset(to, 0, (size_t)before * sizeof(float));
    memcpy(to + before, from, (size_t)count * sizeof(float));
    memset(to + before + count, 0,
           (size_t)(s->wide - before - count) * sizeof(float));
}

// Returns band number `index`, counted over all images at `x`. If the
// convolution pads, the rows that it reads are copied to `copy`, which has
// direct_copy() floats and lives as long as the band.
static inline struct direct_band direct_band_of(const struct direct *s,
                                                const float *x, float *copy,
                                                int64_t index)
{
    struct direct_band b = {.image = index / s->bands,
                            .first = index % s->bands * s->rows};
    const float *image = x + b.image * s->c.h * s->c.w * s->c.ci;
    int64_t top = b.first * s->c.win.stride[0] - s->c.win.pad_before[0];

    b.rows = s->c.oh - b.first < s->rows ? s->c.oh - b.first : s->rows;
    if (!s->padded) {
        b.x = image + top * s->line;
        return b;
    }
    for (int64_t i = 0; i < s->high; i++) {
        if (top + i < 0 || top + i >= s->c.h)
            memset(copy + i * s->wide, 0, (size_t)s->wide * sizeof(float));
        else
            direct_line(copy + i * s->wide, s,
                        image + (top + i) * s->c.w * s->c.ci);
    }
    b.x = copy;
    return b;
}

#endif
