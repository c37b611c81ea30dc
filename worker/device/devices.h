// SPDX-License-Identifier: Apache-2.0
// worker/device/devices.h -- the list of this host's devices, for people and
// programs.
//
// Threads  main, before the daemon starts. Each device is opened and closed.
// Memory   *out is appended to.
// Errors   SL_ENOMEM: *out has a part. A device that does not open is a line.
#ifndef WORKER_DEVICE_DEVICES_H
#define WORKER_DEVICE_DEVICES_H

#include "common/base/buf.h"

// Appends one line per device to *out, best first: its name for --device, and
// what it is or why it is of no use; and, behind those of a backend with
// several usable GPUs, one that says which may compute together. With `json`,
// to an empty *out, an array of objects {device, usable, and either name, about
// (unless it is empty), bytes and dtypes, or why} on one line.
enum sl_err devices_list(struct buf *out, bool json);

#endif
