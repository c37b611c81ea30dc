// SPDX-License-Identifier: Apache-2.0
// kernels/desc.h -- reading a checked descriptor, for backends.
//
// Threads  any. Memory  values only. Units  elements.
#ifndef KERNELS_DESC_H
#define KERNELS_DESC_H

#include "kernels/kern.h"

// The sizes of a convolution, whichever direction, and of a pool (co = ci,
// groups = 1).
struct kern_conv_dims {
    int64_t n, h, w, ci, oh, ow, co, groups;
    struct kern_window win;
};

void kern_conv_dims(struct kern_conv_dims *out, const struct kern_desc *d);

// The sizes of a product: C[m,n] = op(A)[m,k] op(B)[k,n].
struct kern_matmul_dims {
    int64_t m, n, k, batch;
};

void kern_matmul_dims(struct kern_matmul_dims *out, const struct kern_desc *d);

// Return the columns (last axis) and the rows (all other axes) of a shape.
int64_t kern_cols(const struct kern_shape *s);
int64_t kern_rows(const struct kern_shape *s);

// Which tensors of io[] have the op's dtype T, as bits; sums, statistics,
// labels and parameters of norms keep theirs (kern_desc_dtype).
uint32_t kern_typed(const struct kern_desc *d);

// f32 (or f64) throughout, and no padded channels: what a backend knows that
// knows f32 only.
bool kern_desc_plain(const struct kern_desc *d);

// True if some tensor of the op has no elements.
bool kern_desc_empty(const struct kern_desc *d);

// SL_ENOMEM: a plan of this op wants more workspace than it may have.
enum sl_err kern_desc_fits(const struct kern_desc *d, size_t workspace_bytes,
                           size_t cap_bytes, struct sl_error *err);

// The mask with which ACCUM and friends are asked.
static inline bool kern_has(const struct kern_desc *d, uint32_t bit)
{
    return (d->epilogue & bit) != 0;
}

// Which epilogue bits the op takes at all.
uint32_t kern_op_epilogues(enum kern_op op);

#endif
