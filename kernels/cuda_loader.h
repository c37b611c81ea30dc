// SPDX-License-Identifier: Apache-2.0
// kernels/cuda_loader.h -- the cuda backend of a program that does not link
// CUDA.
//
// A backend with name, probe and open only: probe asks the driver for devices
// and then loads the module; open calls the module's open. The device that it
// opens has the module's backend.
//
// Threads  any; what it opens belongs to the thread that opened it.
// Errors   probe returns 0 and says why. open: SL_ENOTSUP if there is no
//          driver, device or module; else those of the module.
#ifndef KERNELS_CUDA_LOADER_H
#define KERNELS_CUDA_LOADER_H

#include "kernels/kern.h"

extern const struct kern_backend kern_cuda_loader;

#endif
