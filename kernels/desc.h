// SPDX-License-Identifier: Apache-2.0
// kernels/desc.h -- reading a checked descriptor, for backends.
//
// Threads  any. Memory  values only. Units  elements.
// Errors   a descriptor that kern_desc_check refuses is undefined here. `err`
//          may be NULL; no other pointer may.
#ifndef KERNELS_DESC_H
#define KERNELS_DESC_H

#include "kernels/kern.h"

// The sizes of a convolution, whichever direction, and of a pool (co = ci,
// groups = 1).
struct kern_conv_dims {
    int64_t n, h, w, ci, oh, ow, co, groups;
    struct kern_window win;
};

// Reads the sizes off a checked CONV_* or POOL_* descriptor: n, h, w, ci are
// those of x (or dx), oh, ow, co those of y (or dy).
void kern_conv_dims(struct kern_conv_dims *out, const struct kern_desc *d);

// The sizes of a product: C[m,n] = op(A)[m,k] op(B)[k,n].
struct kern_matmul_dims {
    int64_t m, n, k, batch;
};

// Reads the sizes off a checked MATMUL descriptor, transposed or not.
void kern_matmul_dims(struct kern_matmul_dims *out, const struct kern_desc *d);

// Returns the columns of a shape: the last axis; 1 for a shape without axes.
int64_t kern_cols(const struct kern_shape *s);
// Returns the rows of a shape: the product of all axes but the last.
int64_t kern_rows(const struct kern_shape *s);

// Returns the tensors of io[] that have the op's dtype T, as bits by index;
// sums, statistics, labels and parameters of norms keep theirs
// (kern_desc_dtype).
uint32_t kern_typed(const struct kern_desc *d);

// Returns true if the op is f32 (or f64) throughout and has no padded channels:
// what a backend can do that knows f32 only.
bool kern_desc_plain(const struct kern_desc *d);

// Returns true if some tensor of the op has no elements.
bool kern_desc_empty(const struct kern_desc *d);

// Checks a plan's workspace against the cap. SL_ENOMEM, with both numbers in
// *err: the plan of this op wants more than it may have. SIZE_MAX is no cap; 0
// allows none.
enum sl_err kern_desc_fits(const struct kern_desc *d, size_t workspace_bytes,
                           size_t cap_bytes, struct sl_error *err);

// Returns true if the op has the epilogue `bit` (KERN_ACCUM and so on).
static inline bool kern_has(const struct kern_desc *d, uint32_t bit)
{
    return (d->epilogue & bit) != 0;
}

// Returns true if the tensor has elements of 16 bits.
static inline bool kern_is_half(const struct kern_shape *s)
{
    return s->dtype == KERN_F16 || s->dtype == KERN_BF16;
}

// Writes a description for logs to out[n], cut if it is longer, and returns
// out: "conv_fwd [2,5,5,3] ... window 3x3 stride 1,1 ...".
const char *kern_desc_text(char *out, size_t n, const struct kern_desc *d);

// Returns the epilogue bits that the op may have, whatever its backend.
uint32_t kern_op_epilogues(enum kern_op op);

#endif
