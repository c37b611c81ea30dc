// SPDX-License-Identifier: Apache-2.0
// kernels/flaky.h -- a host backend that fails when it is told to.
//
// "flaky:cpu" is the cpu backend until one of its words comes true; "flaky:ref"
// likewise. There for tests of what is above it, in builds with SLUICE_FAULTS
// only: kern_open of any other build knows no such device. Words come from the
// options of kern_open ("flaky.lost=3,threads=2"; the rest is the other
// backend's) and from the environment (SLUICE_FLAKY="lost=3,opens=1"), and
// count from 1, for each device that is opened:
//
//   alloc=N     no memory for the N-th allocation, only for that
//   bytes=N     no memory beyond so many bytes at a time
//   plan=N      no memory for the N-th plan, only for that
//   refuse=N    the N-th plan and all later ones are refused (SL_EINTERNAL)
//   lost=N      the device is lost at the N-th run: that and all later calls
//               say SL_ELOST, and fault() why
//   nan=N       each real output of the N-th run begins with a NaN
//   slow=N ms=M the N-th run takes M ms more; enough of them are a hang
//   op=NAME     only runs of that op count (kern_op_name: "xent")
//   opens=K     only the first K devices of this process are flaky, those of
//               its lives before it started itself anew among them
//   shut=K      after the first, K openings fail (SL_ELOST)
//
// Threads  a device belongs to the thread that opened it.
// Memory   what is made of a device is freed before it.
// Errors   an unknown word is SL_EINVAL: a fault that was never armed must not
//          let a test pass. *out is untouched then. `err` may be NULL.
#ifndef KERNELS_FLAKY_H
#define KERNELS_FLAKY_H

#include "kernels/kern.h"

// The prefix of device names.
#define FLAKY_PREFIX "flaky:"

// Opens a flaky device over backend `inner`, the name behind the prefix; called
// by kern_open. kern_close frees it. `options` may be NULL. Counts the openings
// in the environment ($SLUICE_FLAKY_OPENED), which no other thread may read or
// set meanwhile. Returns SL_OK; SL_EINVAL: an unknown word in `options` or
// $SLUICE_FLAKY; SL_ENOTSUP: `inner` is no host backend; SL_ELOST: shut=;
// SL_ENOMEM; else what opening `inner` says (kern_open).
enum sl_err flaky_open(struct kern_dev **out, const char *inner,
                       const char *options, struct sl_error *err);

#endif
