// SPDX-License-Identifier: Apache-2.0
// kernels/cpu/product.h -- a plan for a product: oneDNN, then small own loops.
//
// Threads, memory: as struct cpu_plan.
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

// y (+)= the sum of the rows of x [rows, cols]; both are io[] indexes.
void product_sum_rows(struct product *p, int64_t rows, int64_t cols, int x,
                      int y, bool accum);
// io[y] += the `count` floats at `at` in the workspace.
void product_add(struct product *p, int64_t count, size_t at, int y);

// Builds the product of an op into *p, which is zeroed but for a ready prog.
// SL_ENOTSUP if oneDNN has only its reference code for it.
enum sl_err product_conv(struct product *p, struct cpu_dev *dev,
                         const struct kern_desc *d, struct sl_error *err);
enum sl_err product_matmul(struct product *p, struct cpu_dev *dev,
                           const struct kern_desc *d, struct sl_error *err);

// oneDNN's name of a dtype.
dnnl_data_type_t product_type(const struct kern_shape *s);

// True for the names of oneDNN's reference implementations, which are a
// hundred times slower and chosen without a word.
bool product_is_ref(const char *impl);

// True if oneDNN's implementation of this name computes wrong numbers for *d:
// what a conformance run found on some host (the table is in onednn.c).
bool product_is_wrong(const struct kern_desc *d, const char *impl);

// True if the device's option without=TEXT leaves this implementation out.
bool product_left_out(const struct cpu_dev *dev, const char *impl);

#endif
