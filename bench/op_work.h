// SPDX-License-Identifier: Apache-2.0
// bench/op_work.h -- what an operation asks of a GPU: bytes, FLOP, and the
// least time that they take on a card.
//
// Bytes  each tensor once, except that batch norm reads its inputs twice: the
//        statistics must be whole before the second pass; and that a bias
//        gradient reads dy by itself. Caches may do better.
// FLOP   of products and convolutions, padding included.
//
// The least time is the longer of bytes by the memory's peak and FLOP by the
// peak of the units that may be used: what no engine beats, and what a measured
// time is held against.
//
// Threads  any. Memory  none. Units  bytes, FLOP, seconds. Errors  none.
#ifndef BENCH_OP_WORK_H
#define BENCH_OP_WORK_H

#include <stdbool.h>

#include "kernels/kern.h"

// A card's rates by NVIDIA's data sheet: SXM, dense, without boost of memory.
struct gpu_rates {
    const char *name;                // as the driver names it
    const char *head;                // for a table
    double bytes_s, f32, tf32, half; // FLOP/s
};

#define GPU_RATES 3
extern const struct gpu_rates gpu_rates[GPU_RATES]; // H100, H200, A100

// Returns the rates of the card whose name is in `text`; NULL for another card.
const struct gpu_rates *gpu_rates_of(const char *text);

// Returns the bytes that the op reads and writes, except those of
// op_work_extra_bytes.
double op_work_bytes(const struct kern_desc *d);

// Returns the bytes that a bias gradient reads, a kernel behind the product.
double op_work_extra_bytes(const struct kern_desc *d);

// Returns the FLOP of a product or a convolution; 0 for any other op.
double op_work_flop(const struct kern_desc *d);

// Returns true if the op may use tensor cores.
bool op_work_tensor_cores(const struct kern_desc *d);

// Returns the least time that the op can take on this card.
double op_work_seconds(const struct kern_desc *d, const struct gpu_rates *r);

#endif
