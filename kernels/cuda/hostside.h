// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/hostside.h -- the program around the module.
//
// Threads  hostside_set: one, before any other call.
// Memory   *h is borrowed until the process ends.
#ifndef KERNELS_CUDA_HOSTSIDE_H
#define KERNELS_CUDA_HOSTSIDE_H

#include "kernels/module.h"

// Takes over the host's memory functions and log, before anything else. Returns
// false, and has taken nothing, if the program is older than this module or has
// another abi.
bool hostside_set(const struct kern_host *h);

#endif
