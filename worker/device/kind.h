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

// Returns true if right results have the same bits on every device of a kind. A
// GPU's libraries choose among kernels by time, and what they chose is not all
// in a plan's name.
bool kind_repeats(const struct kern_dev *dev);

// Returns the number of a list of kernels, `kernels` (0: an empty one), with
// another behind it.
uint64_t kind_with(uint64_t kernels, const char *impl);

// Returns the number, not 0, of all that decides the bits of a right result of
// the device that `kernels` compute: the product and what it was built by, the
// host, the device and its threads, and the kernels themselves.
uint64_t kind_of(struct kern_dev *dev, uint64_t kernels);

#endif
