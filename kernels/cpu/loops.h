// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/loops.h -- our own loops: everything but products.
//
// The loops_*.c files are compiled once per instruction set (base, and on
// x86-64 avx2 and avx512), each time with another LOOPS_ISA, and the dev
// picks a table when it opens; so one build runs on any host, and nothing
// hangs on the loader's resolvers, which sanitizers do not like.
//
// An op is one to three steps. A step is `part`, called for each chunk, in any
// order and from several threads, and then `join`, called once. Chunks are
// fixed by the shape and partial sums are joined in order, so results do not
// depend on the number of threads.
//
// Threads  part: several; join: one.
// Memory   args are borrowed for the call. Workspace is aligned to 64.
// Units    elements.
// Errors   none: a loop is only run for what its `can` allows.
#ifndef KERNELS_CPU_LOOPS_H
#define KERNELS_CPU_LOOPS_H

#include "kernels/desc.h"

struct loop_args {
    const struct kern_desc *d;
    void *const *io;
    void *workspace; // shared by all threads of the op
    void *scratch;   // this thread's
    int64_t chunks;  // number of chunks of the op
};

struct loop_step {
    void (*part)(const struct loop_args *a, int64_t chunk);
    void (*join)(const struct loop_args *a); // or NULL
};

struct loop_op {
    bool (*can)(const struct kern_desc *d);               // NULL: always
    int64_t (*chunks)(const struct kern_desc *d);         // 0: joins alone
    size_t (*workspace_bytes)(const struct kern_desc *d); // NULL: none
    size_t (*scratch_bytes)(const struct kern_desc *d);   // per thread; or NULL
    struct loop_step step[3]; // up to the first without a part
};

// The loops by op; NULL: there is none.
extern const struct loop_op *const loops_base_table[KERN_OP_COUNT];
extern const struct loop_op *const loops_avx2_table[KERN_OP_COUNT];
extern const struct loop_op *const loops_avx512_table[KERN_OP_COUNT];

// The loops for products: what they can do is not always best (rules.c
// chooses).
struct loops_products {
    const struct loop_op *wino[KERN_OP_COUNT], *direct[KERN_OP_COUNT];
};
extern const struct loops_products loops_base_products, loops_avx2_products,
    loops_avx512_products;

// Returns how many tiles of 4 pixels cover the `made` pixels of one axis of a
// gradient by data (CONV_DGRAD). Each of these reads 3 of dy's `read` pixels,
// the first of them `before` pixels further up. A single pixel beyond the last
// whole tile that reads only one is left out: wino_edges computes it.
static inline int64_t wino_tiles(int64_t made, int64_t read, int64_t before)
{
    bool edge = made > 4 && made % 4 == 1 && read == made - before;

    return edge ? made / 4 : (made + 3) / 4;
}

// Converts n elements from 16 bits to f32 and back, as half.h does: f16, else
// bf16.
struct loops_half {
    void (*widen)(float *to, const uint16_t *from, int64_t n, bool f16);
    void (*narrow)(uint16_t *to, const float *from, int64_t n, bool f16);
};
extern const struct loops_half loops_base_half, loops_avx2_half,
    loops_avx512_half;

#ifdef LOOPS_ISA

#include <string.h>

#define LOOPS_JOIN2(isa, name) loops_##isa##_##name
#define LOOPS_JOIN(isa, name) LOOPS_JOIN2(isa, name)
#define LOOPS(name) LOOPS_JOIN(LOOPS_ISA, name)

// LOOPS_WIDTH floats, at any float's address.
#define VL LOOPS_WIDTH
typedef float vf __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint8_t vb __attribute__((vector_size(VL), aligned(1), may_alias));

// Precedes a loop with an output that may be one of its inputs: element i only
// depends on elements i, so it may become vector code all the same.
#ifdef __clang__
#define LOOPS_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#define LOOPS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LOOPS_IVDEP _Pragma("GCC ivdep")
#define LOOPS_UNROLL _Pragma("GCC unroll 16")
#endif

// Marks code that is called with constant counts.
#define LOOPS_INLINE static inline __attribute__((always_inline))

// Returns, lane by lane, a where `mask` is -1 and b where it is 0.
static inline vf vf_pick(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

// Returns x in all lanes.
static inline vf vf_all(float x)
{
    return x - (vf){0};
}

// Returns a vector of the n floats (0 to VL) at p, with zeros behind.
LOOPS_INLINE vf vf_some(const float *p, int64_t n)
{
    vf v = {0};

    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

// Returns n rounded up to a multiple of `to`; neither is negative.
static inline int64_t loops_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#define LOOPS_CHUNK 8192
// Returns how many elements chunk number `chunk` of an op on n elements has:
// LOOPS_CHUNK, or what is left for the last one. *first is the number of its
// first element.
static inline int64_t loops_chunk_count(int64_t n, int64_t chunk,
                                        int64_t *first)
{
    *first = chunk * LOOPS_CHUNK;
    return n - *first < LOOPS_CHUNK ? n - *first : LOOPS_CHUNK;
}

// Returns how many rows make one chunk of an op on [rows, cols]: so that there
// are enough chunks for threads, and at most 256, which are then joined.
static inline int64_t chunk_rows(int64_t rows, int64_t cols)
{
    int64_t want = LOOPS_CHUNK / (cols > 0 ? cols : 1);
    int64_t most = (rows + 255) / 256; // at most 256 chunks

    want = want < 1 ? 1 : want;
    return want > most ? want : most;
}

// The rows of one chunk: [first, first + count) of `cols` columns.
struct rows {
    int64_t cols, first, count;
};

// Returns the rows of chunk number `chunk` of the op's first tensor.
static inline struct rows rows_of(const struct loop_args *a, int64_t chunk)
{
    int64_t rows = kern_rows(&a->d->io[0]), cols = kern_cols(&a->d->io[0]);
    int64_t each = chunk_rows(rows, cols);
    struct rows r = {.cols = cols, .first = chunk * each};

    r.count = rows - r.first < each ? rows - r.first : each;
    return r;
}

// ---- sums of a row in f64, in as many lanes whatever the instruction set

// With one sum each addition waits for the one before it: softmax takes 2.7
// times as long.
#define ROW_LANES 16
// Returns the sum of the lanes, in order.
static inline double row_join(const double sum[ROW_LANES])
{
    double all = 0;

    for (int k = 0; k < ROW_LANES; k++)
        all += sum[k];
    return all;
}

// Returns the sum of x[n]; 0 if n is 0.
static inline double row_sum(const float *x, int64_t n)
{
    double sum[ROW_LANES] = {0};
    int64_t i = 0;

    for (; i + ROW_LANES <= n; i += ROW_LANES)
        for (int k = 0; k < ROW_LANES; k++)
            sum[k] += x[i + k];
    for (; i < n; i++)
        sum[i % ROW_LANES] += x[i];
    return row_join(sum);
}

// Returns the sum of the products x[i] y[i], each of them in f64.
static inline double row_dot(const float *x, const float *y, int64_t n)
{
    double sum[ROW_LANES] = {0};
    int64_t i = 0;

    for (; i + ROW_LANES <= n; i += ROW_LANES)
        for (int k = 0; k < ROW_LANES; k++)
            sum[k] += (double)x[i + k] * y[i + k];
    for (; i < n; i++)
        sum[i % ROW_LANES] += (double)x[i] * y[i];
    return row_join(sum);
}

// Returns the largest of x[n]; n is 1 or more. A NaN counts only as x[0], and
// is returned then.
static inline float row_largest(const float *x, int64_t n)
{
    float most[ROW_LANES], all = x[0];
    int64_t i = 0;

    for (int k = 0; k < ROW_LANES; k++)
        most[k] = x[0];
    for (; i + ROW_LANES <= n; i += ROW_LANES)
        for (int k = 0; k < ROW_LANES; k++)
            most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
    for (; i < n; i++)
        all = x[i] > all ? x[i] : all;
    for (int k = 0; k < ROW_LANES; k++)
        all = most[k] > all ? most[k] : all;
    return all;
}

extern const struct loop_op LOOPS(pool_fwd), LOOPS(pool_bwd);
extern const struct loop_op LOOPS(bn_fwd), LOOPS(bn_infer), LOOPS(bn_bwd);
extern const struct loop_op LOOPS(unary_fwd), LOOPS(unary_bwd);
extern const struct loop_op LOOPS(binary), LOOPS(axpby), LOOPS(fill);
extern const struct loop_op LOOPS(dropout), LOOPS(image_u8);
extern const struct loop_op LOOPS(softmax_fwd), LOOPS(softmax_bwd);
extern const struct loop_op LOOPS(xent), LOOPS(bce), LOOPS(mse);
extern const struct loop_op LOOPS(reduce), LOOPS(unscale_check);
extern const struct loop_op LOOPS(penalty), LOOPS(pick);
extern const struct loop_op LOOPS(ln_fwd), LOOPS(ln_bwd);
extern const struct loop_op LOOPS(gather), LOOPS(gather_bwd);
extern const struct loop_op LOOPS(wino_conv), LOOPS(wino_wgrad);
extern const struct loop_op LOOPS(direct_conv), LOOPS(direct_wgrad);

// Returns how many chunks of LOOPS_CHUNK elements the op's first tensor has; 0
// for an empty one.
int64_t LOOPS(flat_chunks)(const struct kern_desc *d);
// Returns how many chunks of rows the op's first tensor has (chunk_rows,
// rows_of).
int64_t LOOPS(row_chunks)(const struct kern_desc *d);

#endif
#endif
