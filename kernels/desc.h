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
// Returns the rows of a shape: the product of all axes but the last; 1 for a
// shape without others.
int64_t kern_rows(const struct kern_shape *s);
// Returns the elements of each row of the first axis: the product of the other
// axes.
int64_t kern_each(const struct kern_shape *s);

// Returns which tensors of io[] have the dtype that kern_desc_dtype gives the
// op, as bits by index. The others (sums, statistics, labels, parameters of
// norms) keep theirs.
uint32_t kern_typed(const struct kern_desc *d);

// Returns true if no tensor of the op has 16 bits and it pads no channels
// (kern_desc_image_pad): what a backend can do that knows f32 (or f64) only.
bool kern_desc_plain(const struct kern_desc *d);

// Returns true if at least one tensor of the op has no elements.
bool kern_desc_empty(const struct kern_desc *d);

// Returns SL_OK if workspace_bytes, what the plan of op *d wants, is at most
// cap_bytes; else SL_ENOMEM, with both numbers in *err. cap_bytes SIZE_MAX is
// no cap; 0 allows none.
enum sl_err kern_desc_fits(const struct kern_desc *d, size_t workspace_bytes,
                           size_t cap_bytes, struct sl_error *err);

// Returns true if the op has at least one of the epilogue bits in `bit`
// (KERN_ACCUM and so on).
static inline bool kern_has(const struct kern_desc *d, uint32_t bit)
{
    return (d->epilogue & bit) != 0;
}

// Returns true if the tensor has elements of 16 bits.
static inline bool kern_is_half(const struct kern_shape *s)
{
    return s->dtype == KERN_F16 || s->dtype == KERN_BF16;
}

// Writes a description for logs to out[n] (n > 0), cut if it is longer, and
// returns out: "conv_fwd epilogue 0 kind 0 [2,5,5,3] ... window 3x3 stride 1,1
// ...".
const char *kern_desc_text(char *out, size_t n, const struct kern_desc *d);

// Returns the epilogue bits that kern_desc_check accepts for the op; 0 if it
// has none, and for an unknown op.
uint32_t kern_op_epilogues(enum kern_op op);

#endif
