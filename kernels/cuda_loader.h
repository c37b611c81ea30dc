// SPDX-License-Identifier: Apache-2.0
// kernels/cuda_loader.h -- the cuda backend of a program that does not link
// CUDA.
//
// A backend by name, probe and open only: probe asks the driver, then loads
// the module; open hands over to it. What it opens is the module's own.
//
// Threads, errors  as struct kern_backend.
#ifndef KERNELS_CUDA_LOADER_H
#define KERNELS_CUDA_LOADER_H

#include "kernels/kern.h"

extern const struct kern_backend kern_cuda_loader;

#endif
