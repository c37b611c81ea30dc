// SPDX-License-Identifier: Apache-2.0
// kernels/host.h -- memory and streams of backends that compute on the host.
//
// A host stream is a formality: everything has finished when it returns.
// Contracts as in struct kern_backend.
#ifndef KERNELS_HOST_H
#define KERNELS_HOST_H

#include "kernels/kern.h"

enum sl_err host_alloc(struct kern_mem *out, struct kern_dev *dev, size_t bytes,
                       enum kern_place place);
void host_release(struct kern_dev *dev, struct kern_mem *mem);
enum sl_err host_stream_new(struct kern_stream **out, struct kern_dev *dev,
                            int priority);
void host_stream_free(struct kern_stream *s);
enum sl_err host_stream_sync(struct kern_stream *s);
enum sl_err host_copy(struct kern_stream *s, void *to, const void *from,
                      size_t bytes, enum kern_dir dir);
enum sl_err host_fill(struct kern_stream *s, void *to, int byte, size_t bytes);

#endif
