// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own.h -- ops by our own kernels: from a descriptor to launches.
//
// An op is a function that enqueues its kernels, and how much workspace they
// share. How work is cut follows from shapes and dtypes alone; addresses only
// decide whether accesses are wide. So a sum has the same bits every time.
//
// Threads  as struct cuda_dev. Memory  workspace is aligned to 64.
// Units    elements, rows, columns; a pack is 16 bytes of elements.
// Errors   as cuda.h, of the launches.
#ifndef KERNELS_CUDA_OWN_H
#define KERNELS_CUDA_OWN_H

#include "kernels/cuda/cuda.h"

struct own_call {
    struct cuda_dev *dev;
    cudaStream_t s;
    const struct kern_desc *d;
    void *const *io;
    char *workspace;
};

struct own_op {
    enum sl_err (*run)(const struct own_call *c);
    size_t (*workspace_bytes)(const struct kern_desc *d); // NULL: none
};

extern const struct own_op own_unary_fwd, own_unary_bwd;
extern const struct own_op own_binary, own_axpby, own_fill;
extern const struct own_op own_dropout, own_image_u8;
extern const struct own_op own_pool_fwd, own_pool_bwd;
extern const struct own_op own_reduce;
extern const struct own_op own_bn_fwd, own_bn_infer, own_bn_bwd;
extern const struct own_op own_softmax_fwd, own_softmax_bwd;
extern const struct own_op own_pick, own_penalty;
extern const struct own_op own_ln_fwd, own_ln_bwd, own_gather, own_gather_bwd;
extern const struct own_op own_xent, own_bce, own_mse, own_unscale_check;

#define OWN_LAUNCH(c, kernel, gx, gy, args)                                    \
    CUDA_LAUNCH((c)->dev, (c)->s, kernel, gx, gy, args)

// Returns the kernel for `dtype`: `f32`, or one of the two that follow it on
// its TYPED line, for f16 and bf16.
enum cuda_kernel own_typed(enum cuda_kernel f32, uint8_t dtype);

// Returns n / by, rounded up.
static inline int64_t own_ceil(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

// Returns the elements of a pack.
static inline int64_t own_pack(uint8_t dtype)
{
    return 16 / (int64_t)kern_dtype_bytes((enum kern_dtype)dtype);
}

// Returns the blocks for one thread per pack of n elements.
static inline int64_t own_blocks(int64_t n, int64_t pack)
{
    return own_ceil(own_ceil(n, pack), CUDA_THREADS);
}

// Returns true if all n addresses are multiples of 32 (NULL is): accesses of a
// whole pack are allowed then.
bool own_wide(unsigned n, void *const *at);

// How a table is cut, and into how many blocks.
struct own_table {
    struct args_table t;
    int64_t across, down;
};
// Cuts a shape, seen as [rows, cols] of its last axis. `wide`: addresses allow
// wide accesses, which are used if the columns are whole packs.
void own_table(struct own_table *out, const struct kern_shape *s, bool wide);
// Cuts each of `tables` tables, which are summed at once, as own_table does.
void own_tables(struct own_table *out, int64_t tables, int64_t rows,
                int64_t cols, uint8_t dtype, bool wide);
// Returns the bytes of the partial sums that the blocks leave, `sums` per
// column, rounded up to 64.
size_t own_table_bytes(const struct own_table *t, int64_t sums);
// Returns the number of blocks of the second pass over them.
int64_t own_end_blocks(int64_t cols);

// Enqueues the sums of the columns of x, as both reduce and pool_bwd want them,
// in both passes: y = sums, or += with ACCUM. With `aux`, a max-pool's, only
// pixels with a tap are summed; else aux and aux_shape are NULL.
enum sl_err own_column_sum(const struct own_call *c, const struct kern_shape *s,
                           const void *x, const struct kern_shape *aux_shape,
                           const void *aux, float *y);

// Enqueues the second pass: y from what the blocks left in the workspace, or
// added to it with ACCUM.
enum sl_err own_column_end(const struct own_call *c, const struct own_table *t,
                           float *y);

// Returns the blocks of a kernel over `s` that leaves a pair of f64 per block.
int64_t own_stats_blocks(const struct kern_shape *s);
// Returns the bytes of workspace that these pairs take: 16 per block.
size_t own_stats_bytes(int64_t blocks);
// Enqueues the sum of the pairs in the workspace, divided by `over`: stats[2]
// is set to it, or added to with ACCUM.
enum sl_err own_stats_end(const struct own_call *c, int64_t blocks,
                          double *stats, double over);

#endif
