// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/tune.c -- which of several plans is fastest, by trying.
#include <float.h>

#include "kernels/beat.h"
#include "kernels/cuda/vendor.h"

#define ROUNDS 3
#define RUNS_MOST 20   // between two events
#define ROUND_MS 10.0f // a round of short ops takes about so long, or less
#define SURE_MS 1.0f   // one run that takes longer says how long the op takes
#define HOPELESS 2.0f  // times the best so far

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

// Runs candidate i so often between two events: milliseconds for one. An op of
// microseconds waits for the host that enqueues it: only many of them show how
// long it takes.
static enum sl_err time_runs(float *ms, struct bench *b, unsigned i,
                             unsigned runs, tune_run run, void *arg)
{
    cudaStream_t s = cuda_stream(b->stream);
    cudaError_t cuda = cudaEventRecord(b->begin, s);
    enum sl_err rc = SL_OK;

    for (unsigned k = 0; k < runs && rc == SL_OK; k++)
        rc = run(arg, i, s, b->io, b->workspace.at);
    if (cuda == cudaSuccess)
        cuda = cudaEventRecord(b->end, s);
    if (cuda == cudaSuccess)
        cuda = cudaEventSynchronize(b->end);
    if (cuda == cudaSuccess)
        cuda = cudaEventElapsedTime(ms, b->begin, b->end);
    *ms /= (float)runs;
    return rc == SL_OK ? cuda_result(b->dev, cuda, "timing a plan") : rc;
}

unsigned tune_runs(float ms)
{
    return ms * RUNS_MOST <= ROUND_MS ? RUNS_MOST
           : ms >= ROUND_MS           ? 1
                                      : (unsigned)(ROUND_MS / ms);
}

bool tune_hopeless(float ms, float best)
{
    return ms > SURE_MS && ms > HOPELESS * best;
}

// The best of the rounds in milliseconds; FLT_MAX if candidate i fails. The
// first run loads code, the second says how many a round takes, and may be the
// last: some engines take a hundred times as long as the best one (`others`).
static float time_one(struct bench *b, unsigned i, float others, tune_run run,
                      void *arg)
{
    float best = FLT_MAX, ms = 0;
    enum sl_err rc = time_runs(&ms, b, i, 1, run, arg);
    unsigned runs = 1;

    if (rc == SL_OK)
        rc = time_runs(&ms, b, i, 1, run, arg);
    if (rc == SL_OK && tune_hopeless(ms, others))
        return ms;
    if (rc == SL_OK)
        runs = tune_runs(ms);
    for (unsigned r = 0; r < ROUNDS && rc == SL_OK; r++) {
        rc = time_runs(&ms, b, i, runs, run, arg);
        if (rc == SL_OK && ms < best)
            best = ms;
        kern_beat();
    }
    return rc == SL_OK ? best : FLT_MAX;
}

unsigned tune_fastest(struct cuda_dev *dev, const struct kern_desc *d,
                      unsigned n, size_t workspace_bytes, tune_run run,
                      void *arg)
{
    struct bench b = {.dev = dev};
    float best = FLT_MAX;
    unsigned winner = 0;

    if (n < 2)
        return 0;
    if (make_bench(&b, d, workspace_bytes) == SL_OK) {
        for (unsigned i = 0; i < n && !dev->lost; i++) {
            float ms = time_one(&b, i, best, run, arg);

            kern_beat();
            if (ms < best) {
                best = ms;
                winner = i;
            }
        }
    }
    free_bench(&b);
    return winner;
}
