// SPDX-License-Identifier: Apache-2.0
// kernels/processor.h -- which processor this host has, as far as what it
// computes may depend on it.
//
// Threads  any.
// Memory   static.
// Errors   none: what cannot be read is left out.
#ifndef KERNELS_PROCESSOR_H
#define KERNELS_PROCESSOR_H

struct processor {
    // Model and stepping, caches, and how many processors there are: libraries
    // choose kernels and their blocks by these.
    char model[256];
    char microcode[32]; // "" where the kernel does not tell
};

// Returns this host's processor, which is read once.
const struct processor *processor_here(void);

#endif
