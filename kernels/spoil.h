// SPDX-License-Identifier: Apache-2.0
// kernels/spoil.h -- kernels that compute wrong numbers when they are told to.
//
// There for tests of what is above (kernels/prove), in builds with
// SLUICE_FAULTS only: SLUICE_SPOIL=TEXT in the environment spoils the last
// element of what each kernel computes whose name contains TEXT ("winograd",
// "jit:", "avx").
//
// Threads  any.
// Memory   nothing is kept.
// Errors   none.
#ifndef KERNELS_SPOIL_H
#define KERNELS_SPOIL_H

#include "kernels/kern.h"

#ifdef SLUICE_FAULTS

// Adds 1 to the last element of the first output of *d, at io[], if that is f32
// and SLUICE_SPOIL names kernel `impl`, which has just computed it; else does
// nothing.
void kern_spoil(const char *impl, const struct kern_desc *d, void *const *io);
#define SPOIL(impl, d, io) kern_spoil(impl, d, io)

#else

#define SPOIL(impl, d, io) ((void)0)

#endif

#endif
