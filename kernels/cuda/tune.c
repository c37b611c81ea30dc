// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/tune.c -- which of several plans is fastest, by trying.
#include <float.h>

#include "kernels/cuda/vendor.h"

#define ROUNDS 3

struct bench {
    struct cuda_dev *dev;
    struct kern_stream *stream;
    cudaEvent_t begin, end;
    struct kern_mem mem[KERN_IO], workspace;
    void *io[KERN_IO];
};

// Zeroes everywhere: no infinities or denormals to stumble over.
static enum sl_err make_buffers(struct bench *b, const struct kern_desc *d)
{
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < d->inputs + d->outputs && rc == SL_OK; i++) {
        size_t bytes = kern_shape_bytes(&d->io[i]);

        rc = cuda_alloc(&b->mem[i], &b->dev->base, bytes, KERN_DEVICE);
        if (rc == SL_OK)
            rc = cuda_fill(b->stream, b->mem[i].at, 0, bytes);
        b->io[i] = b->mem[i].at;
    }
    return rc;
}

static enum sl_err make_bench(struct bench *b, const struct kern_desc *d,
                              size_t workspace_bytes)
{
    cudaError_t cuda;
    enum sl_err rc = cuda_stream_new(&b->stream, &b->dev->base, 0);

    if (rc == SL_OK)
        rc = make_buffers(b, d);
    if (rc == SL_OK)
        rc = cuda_alloc(&b->workspace, &b->dev->base, workspace_bytes,
                        KERN_DEVICE);
    if (rc != SL_OK)
        return rc;
    cuda = cudaEventCreate(&b->begin);
    if (cuda == cudaSuccess)
        cuda = cudaEventCreate(&b->end);
    return cuda_result(b->dev, cuda, "creating an event");
}

static void free_bench(struct bench *b)
{
    if (b->begin)
        cudaEventDestroy(b->begin);
    if (b->end)
        cudaEventDestroy(b->end);
    for (unsigned i = 0; i < KERN_IO; i++)
        cuda_release(&b->dev->base, &b->mem[i]);
    cuda_release(&b->dev->base, &b->workspace);
    cuda_stream_free(b->stream);
}

// The best of the rounds in milliseconds; FLT_MAX if candidate i fails.
static float time_one(struct bench *b, unsigned i, tune_run run, void *arg)
{
    cudaStream_t s = cuda_stream(b->stream);
    float best = FLT_MAX, ms = 0;
    enum sl_err rc = run(arg, i, s, b->io, b->workspace.at);

    for (unsigned r = 0; r < ROUNDS && rc == SL_OK; r++) {
        cudaError_t cuda = cudaEventRecord(b->begin, s);

        rc = run(arg, i, s, b->io, b->workspace.at);
        if (cuda == cudaSuccess)
            cuda = cudaEventRecord(b->end, s);
        if (cuda == cudaSuccess)
            cuda = cudaEventSynchronize(b->end);
        if (cuda == cudaSuccess)
            cuda = cudaEventElapsedTime(&ms, b->begin, b->end);
        if (rc == SL_OK)
            rc = cuda_result(b->dev, cuda, "timing a plan");
        if (rc == SL_OK && ms < best)
            best = ms;
    }
    return best;
}

unsigned tune(struct cuda_dev *dev, const struct kern_desc *d, unsigned n,
              size_t workspace_bytes, tune_run run, void *arg)
{
    struct bench b = {.dev = dev};
    float best = FLT_MAX;
    unsigned winner = 0;

    if (n < 2)
        return 0;
    if (make_bench(&b, d, workspace_bytes) == SL_OK) {
        for (unsigned i = 0; i < n && !dev->lost; i++) {
            float ms = time_one(&b, i, run, arg);

            if (ms < best) {
                best = ms;
                winner = i;
            }
        }
    }
    free_bench(&b);
    return winner;
}
