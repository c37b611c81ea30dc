// SPDX-License-Identifier: Apache-2.0
// tests/emul/cudart.h -- how tests break the stand-in for libcudart, and what
// they may ask it.
#ifndef TESTS_EMUL_CUDART_H
#define TESTS_EMUL_CUDART_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

// The nth call from now (1: the next) of `what` fails with `code`: "malloc",
// "host_alloc", "copy", "fill", "launch", "sync", "kernel", ... If sticky, so
// does every call after it.
void emul_fail(const char *what, unsigned nth, cudaError_t code, bool sticky);
// A new device, as it were.
void emul_heal(void);

// How often `what` was called since the process began. Also "unpinned": copies
// that waited, since the host's memory was not pinned; "busy_free": memory
// that was freed while streams had work.
unsigned emul_calls(const char *what);
// Bytes that were copied that way since the process began.
uint64_t emul_copied(enum cudaMemcpyKind dir);
// Allocations, streams, events and recordings that there are.
unsigned emul_alive(void);

// So many devices are there from now on. A thread's calls are those of the
// device that it has chosen; what breaks one leaves the others alone.
void emul_devices(int count);

// The compute capability of the device from now on: 90 is 9.0.
void emul_capability(int sm);

// The kernel of this name does nothing from now on; NULL: all of them work.
void emul_skip(const char *kernel);

// From now on streams are lazy (streams.h), with turns by this seed; 0: they
// are not.
void emul_lazy(unsigned seed);

#endif
