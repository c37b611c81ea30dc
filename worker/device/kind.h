// SPDX-License-Identifier: Apache-2.0
// worker/device/kind.h -- of what kind a device of this host is: right results
// of one kind have the same bits (A2, A7).
//
// Threads  that of the device.
// Memory   nothing is kept.
// Errors   none. No pointer is NULL.
#ifndef WORKER_DEVICE_KIND_H
#define WORKER_DEVICE_KIND_H

#include "kernels/kern.h"

// Returns true if right results have the same bits on every device of the same
// kind as this one. Not so for a GPU: its libraries choose among kernels by
// time, and their choice is not all in a plan's name.
bool kind_repeats(const struct kern_dev *dev);

// Returns the number of a list of kernels that is `kernels` (0: an empty list)
// with the kernel of the name `impl` behind it.
uint64_t kind_with(uint64_t kernels, const char *impl);

// Returns a number, not 0, that is equal if all is equal that decides the bits
// of a right result: the program's version and compiler, the host's processors
// and C library, the device and its threads, and the list of kernels
// (kind_with). Equal hosts give the same.
uint64_t kind_of(struct kern_dev *dev, uint64_t kernels);

#endif
