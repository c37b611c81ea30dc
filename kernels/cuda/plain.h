// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/plain.h -- products and convolutions by definition, on the
// device: what others are compared with, and what computes where all others are
// wrong.
//
// Threads  that of the dev.
// Memory   addresses of the device.
// Errors   SL_OK is success; SL_ELOST: the device is lost, then and ever after;
//          SL_ENOMEM; SL_EINTERNAL: another error of the device. Work that was
//          enqueued fails at a later call. `err` may be NULL.
#ifndef KERNELS_CUDA_PLAIN_H
#define KERNELS_CUDA_PLAIN_H

#include "kernels/cuda/cuda.h"

// Fills *a with the arguments for all elements of output `out` (an index of
// io[]) of *d, a product or convolution, read and written at the addresses
// io[]. `tf32`: what it is compared with may cut its factors, so a->allow is
// wider.
void plain_args(struct args_oracle *a, const struct kern_desc *d, unsigned out,
                void *const *io, bool tf32);
// Enqueues on `s` the kernel that computes the sums that *a describes; *a may
// change afterwards. Returns SL_OK or the launch's error.
enum sl_err plain_launch(struct cuda_dev *dev, cudaStream_t s,
                         const struct args_oracle *a);

// Makes a plan, for cuda_plan_free, of a product or convolution of f32, f16 or
// bf16; slow: each element is a loop. It wants no workspace. SL_ENOMEM.
enum sl_err plain_plan(struct kern_plan **out, size_t *workspace_bytes,
                       struct cuda_dev *dev, const struct kern_desc *d,
                       struct sl_error *err);

#endif
