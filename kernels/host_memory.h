// SPDX-License-Identifier: Apache-2.0
// kernels/host_memory.h -- memory and streams of backends that compute on the
// host.
//
// A host stream is a formality: everything has finished when it returns. A dev
// and its streams belong to one thread. On failure *out is untouched.
#ifndef KERNELS_HOST_MEMORY_H
#define KERNELS_HOST_MEMORY_H

#include "kernels/kern.h"

// Allocates `bytes` bytes aligned to 64, an address of its own even for 0;
// `place` makes no difference. host_release frees it. Returns SL_OK or
// SL_ENOMEM.
enum sl_err host_alloc(struct kern_mem *out, struct kern_dev *dev, size_t bytes,
                       enum kern_place place);
// Frees what host_alloc gave and zeroes *mem; an empty *mem is allowed, and
// `dev` is not looked at.
void host_release(struct kern_dev *dev, struct kern_mem *mem);
// Makes a stream of `dev`, for host_stream_free; `priority` is not looked at.
// Returns SL_OK or SL_ENOMEM.
enum sl_err host_stream_new(struct kern_stream **out, struct kern_dev *dev,
                            int priority);
// Frees a stream of host_stream_new. NULL is allowed.
void host_stream_free(struct kern_stream *s);
// Returns SL_OK: nothing is ever under way. `s` may be NULL.
enum sl_err host_stream_sync(struct kern_stream *s);
// Copies at once, as memmove does, in any `dir`. Returns SL_OK. `s` may be
// NULL.
enum sl_err host_copy(struct kern_stream *s, void *to, const void *from,
                      size_t bytes, enum kern_dir dir);
// Fills at once, as memset does. Returns SL_OK. `s` may be NULL.
enum sl_err host_fill(struct kern_stream *s, void *to, int byte, size_t bytes);

#endif
