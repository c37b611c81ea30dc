// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/own.h -- ops by our own kernels: from a descriptor to launches.
//
// An op is a function that enqueues its kernels, and how much workspace they
// share. How work is cut follows from shapes and dtypes alone; addresses only
// decide whether accesses are wide. So a sum has the same bits every time.
//
// Threads  that of the dev.
// Memory   workspace is aligned to 64.
// Units    elements, rows, columns; a pack is 16 bytes of elements.
// Errors   SL_OK is success; SL_ELOST: the device is lost, then and ever after;
//          SL_ENOMEM; SL_EINTERNAL: another error of the device. Work that was
//          enqueued fails at a later call.
#ifndef KERNELS_CUDA_OWN_H
#define KERNELS_CUDA_OWN_H

#include "kernels/cuda/cuda.h"

// One run of an op: all is borrowed for the call.
struct own_call {
    struct cuda_dev *dev;
    cudaStream_t s;
    const struct kern_desc *d;
    void *const *io;
    char *workspace;
};

struct own_op {
    // Enqueues the op's kernels.
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

// Returns the kernel for `dtype` of three that follow each other on a TYPED
// line of kernels.def: `f32` itself, or the one for f16 or bf16 behind it.
enum cuda_kernel own_typed(enum cuda_kernel f32, uint8_t dtype);

// Returns n / by, rounded up.
static inline int64_t own_ceil(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

// Returns how many elements of `dtype` a pack has.
static inline int64_t own_pack(uint8_t dtype)
{
    return 16 / (int64_t)kern_dtype_bytes((enum kern_dtype)dtype);
}

// Returns how many blocks have one thread for each pack of n elements.
static inline int64_t own_blocks(int64_t n, int64_t pack)
{
    return own_ceil(own_ceil(n, pack), CUDA_THREADS);
}

// Returns true if all n addresses are multiples of 32 (NULL is one): accesses
// of a whole pack are allowed then.
bool own_wide(unsigned n, void *const *at);

// How a table is cut, and into how many blocks.
struct own_table {
    struct args_table t;
    int64_t across, down;
};
// Fills *out with how the table [rows, cols] that *s is (its last axis are the
// columns) is cut into blocks. `wide`: own_wide allows wide accesses, which are
// used if the columns are whole packs.
void own_table(struct own_table *out, const struct kern_shape *s, bool wide);
// Fills *out with how each of `tables` tables of rows x cols elements is cut,
// which are summed by one launch, as own_table does.
void own_tables(struct own_table *out, int64_t tables, int64_t rows,
                int64_t cols, uint8_t dtype, bool wide);
// Returns the bytes of the partial sums that the blocks of *t leave, `sums` of
// them for each column, rounded up to 64.
size_t own_table_bytes(const struct own_table *t, int64_t sums);
// Returns the number of blocks of the second pass, which adds up the partial
// sums of `cols` columns.
int64_t own_end_blocks(int64_t cols);

// Enqueues both passes that sum the columns of `x`, of shape *s: y = sums, or
// += if the op has ACCUM. With `aux`, that of a max-pool, only pixels with a
// tap are summed; else aux and aux_shape are NULL. c->workspace has
// own_table_bytes for one sum.
enum sl_err own_column_sum(const struct own_call *c, const struct kern_shape *s,
                           const void *x, const struct kern_shape *aux_shape,
                           const void *aux, float *y);

// Enqueues the second pass alone: y = the sums of what the blocks of *t left in
// the workspace, or += if the op has ACCUM.
enum sl_err own_column_end(const struct own_call *c, const struct own_table *t,
                           float *y);

// Returns the number of blocks of a kernel that goes over the elements of *s
// and leaves a pair of f64 for each block.
int64_t own_stats_blocks(const struct kern_shape *s);
// Returns the bytes of workspace that these pairs take: 16 per block.
size_t own_stats_bytes(int64_t blocks);
// Enqueues the sum of the pairs that `blocks` blocks left in the workspace,
// divided by `over`: stats[2] is set to it, or added to if the op has ACCUM.
enum sl_err own_stats_end(const struct own_call *c, int64_t blocks,
                          double *stats, double over);

#endif
