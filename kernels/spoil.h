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

// Spoils what kernel `impl` has just computed, if it is one of those and its
// first output is f32.
void kern_spoil(const char *impl, const struct kern_desc *d, void *const *io);
#define SPOIL(impl, d, io) kern_spoil(impl, d, io)

#else

#define SPOIL(impl, d, io) ((void)0)

#endif

#endif
