// SPDX-License-Identifier: Apache-2.0
// worker/device/cpu_model.h -- which processor this host has, as far as the
// bits of what it computes may depend on it.
//
// Threads  any.
// Memory   the text is the caller's.
// Errors   none: what cannot be read is left out.
#ifndef WORKER_DEVICE_CPU_MODEL_H
#define WORKER_DEVICE_CPU_MODEL_H

#define CPU_MODEL_TEXT 256

// Writes the processor's model, its caches and how many processors there are:
// libraries choose kernels and their blocks by these.
void cpu_model(char out[CPU_MODEL_TEXT]);

#endif
