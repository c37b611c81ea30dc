// SPDX-License-Identifier: Apache-2.0
// kernels/host_memory.c -- memory and streams of host backends.
#include "kernels/host_memory.h"

#include <string.h>

#include "common/base/mem.h"

enum sl_err host_alloc(struct kern_mem *out, struct kern_dev *dev, size_t bytes,
                       enum kern_place place)
{
    void *at = sl_aligned(64, bytes ? bytes : 1);

    if (!at)
        return SL_ENOMEM;
    *out = (struct kern_mem){.at = at, .bytes = bytes};
    return SL_OK;
}

void host_release(struct kern_dev *dev, struct kern_mem *mem)
{
    sl_free(mem->at);
    *mem = (struct kern_mem){0};
}

enum sl_err host_stream_new(struct kern_stream **out, struct kern_dev *dev,
                            int priority)
{
    struct kern_stream *s = sl_calloc(1, sizeof(*s));

    if (!s)
        return SL_ENOMEM;
    s->dev = dev;
    *out = s;
    return SL_OK;
}

void host_stream_free(struct kern_stream *s)
{
    sl_free(s);
}

enum sl_err host_stream_sync(struct kern_stream *s)
{
    return SL_OK;
}

enum sl_err host_copy(struct kern_stream *s, void *to, const void *from,
                      size_t bytes, enum kern_dir dir)
{
    memmove(to, from, bytes);
    return SL_OK;
}

enum sl_err host_fill(struct kern_stream *s, void *to, int byte, size_t bytes)
{
    memset(to, byte, bytes);
    return SL_OK;
}
