// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/product.h -- a plan for a product: oneDNN, then small own loops.
//
// Threads  that of the device, one call at a time per plan.
// Memory   a plan owns its primitives and a copy of its descriptor.
// Errors   `err` may be NULL.
#ifndef KERNELS_CPU_PRODUCT_H
#define KERNELS_CPU_PRODUCT_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/prog.h"

#define PRODUCT_TAILS 2

// An op of our own loops that runs behind the primitives. Each of its io is
// the plan's io[], or (-1) a place in the workspace.
struct product_tail {
    struct kern_desc desc;
    int io[2];
    size_t at[2];
    size_t workspace_at;
};

struct product {
    struct cpu_plan base;
    struct prog prog;
    struct product_tail tail[PRODUCT_TAILS];
    int tails;
    char impl[48];
};

// Appends a tail to *p, which has fewer than PRODUCT_TAILS: sets y [cols] to
// the sum of the rows of x [rows, cols], or adds that with `accum`. x and y are
// indexes of io[].
void product_sum_rows(struct product *p, int64_t rows, int64_t cols, int x,
                      int y, bool accum);
// Appends a tail to *p, which has fewer than PRODUCT_TAILS: adds the `count`
// floats at byte `at` of the workspace to io[y].
void product_add(struct product *p, int64_t count, size_t at, int y);

// Builds the plan of a convolution into *p, which is zeroed but for a ready
// prog and base.dev: its prog, its tails and its name. *p stays the caller's to
// release, also on failure. Returns SL_OK, or SL_ENOTSUP: oneDNN cannot, or has
// only its reference code or what is left out (product_is_wrong,
// product_left_out); SL_ENOMEM; SL_EINTERNAL.
enum sl_err product_conv(struct product *p, struct cpu_dev *dev,
                         const struct kern_desc *d, struct sl_error *err);
// Builds the plan of a MATMUL into *p, as product_conv does for a convolution.
// SL_ENOTSUP also for BGRAD without trans_a.
enum sl_err product_matmul(struct product *p, struct cpu_dev *dev,
                           const struct kern_desc *d, struct sl_error *err);

// Returns oneDNN's name of the dtype of *s, which is f32, f16 or bf16.
dnnl_data_type_t product_type(const struct kern_shape *s);

// Returns true for the names of oneDNN's reference implementations, which are a
// hundred times slower and chosen without a word.
bool product_is_ref(const char *impl);

// Returns true if oneDNN's implementation of this name computes wrong numbers
// for *d: what a conformance run found on some host (onednn.c has the cases).
bool product_is_wrong(const struct kern_desc *d, const char *impl);

// Returns true if the device's option without=TEXT leaves this implementation
// out, or it was found wrong for *d (prove.h).
bool product_left_out(const struct cpu_dev *dev, const struct kern_desc *d,
                      const char *impl);

#endif
