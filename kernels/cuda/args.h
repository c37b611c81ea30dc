// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/args.h -- what a kernel is given: one struct, by value.
//
// Host C and device code read the same declarations, so an argument cannot
// have one size here and another there; a launch (CUDA_LAUNCH in cuda.h)
// asserts that the struct has the size of the one in kernels.def.
//
// Units    Elements, rows, columns. `wide`: all addresses and row lengths allow
//          16-byte accesses.
// Memory   Addresses of the device.
#ifndef KERNELS_CUDA_ARGS_H
#define KERNELS_CUDA_ARGS_H

#include <stdint.h>

#include "kernels/prove/allow.h"

#define CUDA_THREADS 256 // of every block

struct args_unary {
    const void *x, *dy; // forward: x alone; backward: saved, dy
    void *y;
    int64_t n;
    float a;
    int32_t kind, wide;
};

struct args_binary {
    const void *x[8];
    void *y;
    int64_t n;
    int32_t inputs, kind, wide;
};

struct args_pick {
    const void *dy, *x[8];
    void *y;
    int64_t n;
    int32_t inputs, kind, which, wide; // inputs: of the x
};

struct args_axpby {
    const void *x;
    void *y;
    int64_t n;
    float a, b;
    int32_t wide;
};

// Also for fill, without x. A thread has one element, or, where the last dim
// lies side by side in whole packs, one pack of it.
struct args_view {
    const void *x;
    void *y;
    int64_t n; // threads with an element or pack
    float a, b;
    int32_t nd;
    int32_t packs; // packs of the last dim; 0: element by element
    int32_t wide;
    uint32_t dim[6];
    int64_t x_stride[6], y_stride[6];
};

struct args_dropout {
    const void *x;
    const int64_t *key; // seed, step
    void *y;
    int64_t n;
    uint32_t below, layer;
    float keep; // 1 / (1 - rate)
    int32_t wide;
    uint64_t first; // the element of the mask that x begins with
};

struct args_image {
    const uint8_t *x;
    void *y;
    int64_t n; // elements of y
    int32_t x_cols, y_cols;
    float a, b;
    int32_t wide;
};

struct args_pool {
    const void *x; // backward: dy
    void *y;       // backward: dx
    void *aux;     // forward: written, or NULL; backward: read
    int64_t n;     // threads with a pixel and pack
    int32_t h, w, c, oh, ow;
    int32_t kh, kw, sh, sw, ph, pw;
    int32_t packs;   // packs of 16 bytes, per pixel
    int32_t aux_i32; // else u8
    int32_t drelu;   // forward: note a winner <= 0 as no tap
    int32_t wide;
};

// How [rows, cols] is cut: a block has `across` threads (a power of two) side
// by side, each with one pack of columns, and CUDA_THREADS / across rows of
// them; it walks `chunk` rows. Fixed by shape and dtype, so sums are the same
// every time.
struct args_table {
    int64_t rows, cols, chunk;
    int32_t across, wide;
};

// The mean of all pixels of each image: the image is a table, and blocks leave
// partial[image][block][col], in f32.
struct args_pool_all {
    struct args_table t;
    const void *x;
    float *partial;
    int32_t across; // blocks side by side, per image
};

struct args_pool_all_end {
    const float *partial;
    void *y;
    int64_t n; // elements of y: images, then cols
    int32_t cols, blocks;
    float over; // pixels
};

// Column sums: blocks leave partial[block][sum][col], in f32.
struct args_reduce {
    struct args_table t;
    const void *x;
    const void *aux; // a max-pool's: sum only dy with a tap; else NULL
    int32_t aux_i32;
    float *partial;
};

struct args_reduce_end {
    const float *partial;
    float *y;
    int64_t cols;
    int32_t blocks, accum;
};

struct args_bn {
    struct args_table t;
    const void *x, *dy;
    void *y; // dx
    const float *gamma, *beta, *mean, *var;
    const float *sums; // backward: [2][cols], of dy and of dy xhat
    float *partial;
    float epsilon;
    int32_t drelu;
};

struct args_bn_end {
    const void *x; // forward: its first row shifted the sums
    const float *partial;
    float *mean, *var;     // forward
    float *dgamma, *dbeta; // backward
    float *sums;           // backward
    int64_t rows, cols;
    int32_t blocks, accum;
};

struct args_softmax {
    const void *x, *dy; // forward: x alone; backward: y, dy
    void *y;
    int64_t rows;
    int32_t cols;
};

struct args_xent {
    const void *x;
    const int32_t *label; // or NULL, and
    const float *target;
    const float *scale;
    const float *weight; // [rows], or NULL
    void *dx;
    double *partial; // [block][2]
    int64_t rows;
    int32_t cols, top;  // top: at least 1
    int32_t label_each; // numbers from one label to the next
    float smoothing;
};

// A row of [rows, cols] by itself: layer norm.
struct args_ln {
    const void *x, *dy; // forward: x alone
    const float *gamma, *beta;
    void *y;  // backward: dx
    float *t; // backward
    int64_t rows;
    int32_t cols;
    float epsilon;
};

// Rows of a table of f32; backward, `from` is dy and `to` the table's gradient.
struct args_gather {
    const float *ids;
    const void *from;
    void *to;
    int64_t n, rows; // ids, rows of the table
    int32_t cols;
};

struct args_penalty {
    const void *w;
    const float *scale, *unscale;
    float *h;
    double *partial; // [block][2]
    int64_t n;
    float l1, l2, rows;
    int32_t wide;
};

// bce and mse.
struct args_loss {
    const void *x;
    const float *target, *scale;
    const float *weight; // one for `each` elements, or NULL
    void *dx;
    double *partial; // [block][2]
    int64_t n, each;
    float over; // 1 / cols
    float smoothing;
    int32_t logits, absolute, wide;
};

struct args_unscale {
    const void *g;
    const float *scale;
    float *h;
    double *partial; // [block][2]
    int64_t n;
    int32_t wide;
};

// stats = (accum ? stats : 0) + sum of the partials / over
struct args_stats_end {
    const double *partial;
    double *stats;
    double over;
    int32_t blocks, accum;
};

// y = relu?(x + bias), by columns, rounded once.
struct args_bias {
    const float *x;
    const void *bias;
    void *y;
    int64_t n;
    int32_t cols, relu, wide;
};

// ---- Proofs ---------------------------------------------------------------

enum {
    ORACLE_MATMUL = 1, // a: A, b: B
    ORACLE_FWD,        // a: x, b: w
    ORACLE_DGRAD,      // a: dy, b: w
    ORACLE_WGRAD,      // a: x, b: dy
    ORACLE_SUMS,       // a: a matrix, whose columns are summed
};

// Elements of a product or convolution, by definition. With `at`: these
// elements go to want[], and how far off they may be to bound[]. Without: the
// first `count` elements go to y itself. Dtypes are those of kern.h.
struct args_oracle {
    const void *a, *b, *bias; // bias: NULL if there is none
    void *y;
    const int64_t *at;
    double *want, *bound;
    int64_t count, terms;                      // terms: of the sum of one
    int64_t m, n, k;                           // a product; sums: n columns
    int32_t h, w, ci, oh, ow, co, kh, kw;      // a convolution
    int32_t stride[2], dilation[2], before[2]; // before: padding
    int32_t groups, trans_a, trans_b, op, relu, accum;
    int32_t dtype, y_dtype, bias_dtype;
    int32_t warps; // for one element: 1 or 8
    struct allow allow;
};

// Random contents, a function of seed and place.
struct args_oracle_fill {
    void *y;
    int64_t n;
    uint64_t seed;
    int32_t dtype;
};

// What a comparison has found.
struct oracle_verdict {
    int64_t wrong, beyond; // elements; bytes beside the tensor
    int64_t element;       // the worst
    double got, want, bound;
};

struct args_oracle_compare {
    const void *y;
    const uint8_t *before, *behind; // CUDA_THREADS bytes of guard each
    const int64_t *at;
    const double *want, *bound;
    struct oracle_verdict *out;
    int64_t count;
    int32_t dtype, guard;
};

// One update of an optimizer. Its constants lie in device memory, so that a
// recorded step needs no change when the learning rate or t moves.
struct args_optim {
    const float *grad;
    float *w, *slot[3];
    const struct optim_consts *consts;
    int64_t n;
    int32_t wide;
};

#endif
