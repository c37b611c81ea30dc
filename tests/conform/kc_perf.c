// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_perf.c -- the fashion net's step, op by op. Prints only.
//
// On a host backend each op is timed within whole steps, by processor time. On
// a device an op is enqueued many times and waited for once, and whole steps
// are timed as they are and as one recording.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/mem.h"
#include "tests/conform/kc.h"

#define OPS 24
#define WARM 3
#define RUNS 21
#define QUEUED 20 // at once, on a device

struct perf_op {
    const char *name;
    struct kern_desc d;
    double gflop;
    struct trial b;
    void *at[KERN_IO]; // b's tensors, where the backend computes
    struct kern_mem mem[KERN_IO];
    struct kern_plan *plan;
    double ms[RUNS];
};

struct perf {
    struct perf_op op[OPS];
    int n;
    size_t workspace_bytes;
    struct kern_dev *dev;
    struct kern_stream *stream; // NULL on a host backend
    struct kern_mem room;       // workspace of a device
    void *workspace;
};

static double now_ms(const struct perf *p)
{
    struct timespec t;

    clock_gettime(p->stream ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static struct kern_desc *add(struct perf *p, const char *name, double gflop)
{
    struct perf_op *op = &p->op[p->n++];

    op->name = name;
    op->gflop = gflop;
    return &op->d;
}

static void add_conv_layers(struct perf *p, int64_t n)
{
    const int64_t x1[] = {n, 28, 28, 1}, y1[] = {n, 26, 26, 32};
    const int64_t x2[] = {n, 13, 13, 32}, y2[] = {n, 11, 11, 64};
    struct kern_window conv = kern_window(3, 3, 1, 1);
    struct kern_window pool = kern_window(2, 2, 2, 2);
    double g1 = 2e-9 * (double)n * 26 * 26 * 9 * 32;
    double g2 = 2e-9 * (double)n * 11 * 11 * 9 * 32 * 64;
    uint32_t relu = KERN_BIAS | KERN_RELU;

    kern_desc_conv(add(p, "conv1 fwd", g1), KERN_CONV_FWD, x1, 32, &conv, 1,
                   relu);
    kern_desc_pool(add(p, "pool1 fwd", 0), KERN_POOL_FWD, KERN_POOL_MAX, y1,
                   &pool, KERN_AUX | KERN_DRELU);
    kern_desc_conv(add(p, "conv2 fwd", g2), KERN_CONV_FWD, x2, 64, &conv, 1,
                   relu);
    kern_desc_pool(add(p, "pool2 fwd", 0), KERN_POOL_FWD, KERN_POOL_MAX, y2,
                   &pool, KERN_AUX | KERN_DRELU);
    kern_desc_pool(add(p, "pool2 bwd", 0), KERN_POOL_BWD, KERN_POOL_MAX, y2,
                   &pool, KERN_BGRAD);
    kern_desc_conv(add(p, "conv2 wgrad", g2), KERN_CONV_WGRAD, x2, 64, &conv, 1,
                   0);
    kern_desc_conv(add(p, "conv2 dgrad", g2), KERN_CONV_DGRAD, x2, 64, &conv, 1,
                   0);
    kern_desc_pool(add(p, "pool1 bwd", 0), KERN_POOL_BWD, KERN_POOL_MAX, y1,
                   &pool, KERN_BGRAD);
    kern_desc_conv(add(p, "conv1 wgrad", g1), KERN_CONV_WGRAD, x1, 32, &conv, 1,
                   0);
}

static void add_dense_layers(struct perf *p, int64_t n)
{
    double g1 = 2e-9 * (double)n * 1600 * 64, g2 = 2e-9 * (double)n * 64 * 10;
    const int64_t h[] = {n, 64};

    kern_desc_matmul(add(p, "dense1 fwd", g1), n, 64, 1600, false, true,
                     KERN_BIAS | KERN_RELU);
    kern_desc_matmul(add(p, "dense2 fwd", g2), n, 10, 64, false, true,
                     KERN_BIAS);
    kern_desc_xent(add(p, "xent", 0), n, 10, true, 0);
    kern_desc_matmul(add(p, "dense2 wgrad", g2), 10, 64, n, true, false,
                     KERN_BGRAD);
    kern_desc_matmul(add(p, "dense2 dgrad", g2), n, 64, 10, false, false, 0);
    kern_desc_unary(add(p, "relu bwd", 0), KERN_UNARY_BWD, KERN_UNARY_RELU, 0,
                    2, h);
    kern_desc_matmul(add(p, "dense1 wgrad", g1), 64, 1600, n, true, false,
                     KERN_BGRAD);
    kern_desc_matmul(add(p, "dense1 dgrad", g1), n, 1600, 64, false, false, 0);
}

// Who reads what whom has written, as in a model: {reader, its io, writer, its
// io}, ops in the order in which they are added.
static const int chain[][4] = {
    {1, 0, 0, 1},   // conv1 fwd: the image
    {2, 0, 1, 3},   // pool1 fwd: conv1's y
    {3, 0, 2, 1},   // conv2 fwd: pool1's y
    {4, 0, 3, 3},   // pool2 fwd
    {10, 0, 4, 1},  // dense1 fwd
    {11, 0, 10, 3}, // dense2 fwd
    {12, 0, 11, 3}, // xent: logits
    {13, 0, 12, 3}, // dense2 wgrad: dlogits and dense1's y
    {13, 1, 10, 3},
    {14, 0, 12, 3}, // dense2 dgrad
    {15, 0, 10, 3}, // relu bwd
    {15, 1, 14, 2},
    {16, 0, 15, 2}, // dense1 wgrad
    {16, 1, 4, 1},
    {17, 0, 15, 2}, // dense1 dgrad
    {5, 0, 17, 2},  // pool2 bwd: dy and aux
    {5, 1, 4, 2},
    {6, 0, 2, 1}, // conv2 wgrad: pool1's y, pool2's dx
    {6, 1, 5, 2},
    {7, 0, 5, 2}, // conv2 dgrad
    {8, 0, 7, 2}, // pool1 bwd
    {8, 1, 2, 2},
    {9, 0, 0, 1}, // conv1 wgrad
    {9, 1, 8, 2},
    // What is dead gives its place, as in an arena coloured by lifetimes:
    // conv2's y to pool2's dx, pool1's y to conv2's dx, conv1's y to pool1's.
    {5, 2, 3, 3},
    {6, 1, 3, 3},
    {7, 0, 3, 3},
    {7, 2, 2, 1},
    {8, 0, 2, 1},
    {8, 2, 1, 3},
    {9, 1, 1, 3},
};

static const int order[] = {0,  1,  2,  3,  4, 10, 11, 12, 13,
                            14, 15, 16, 17, 5, 6,  7,  8,  9};

// The op's tensors where the backend computes; on a host they are there.
static enum sl_err place(struct perf *p, struct perf_op *op)
{
    const struct kern_backend *backend = p->dev->backend;
    enum sl_err rc = SL_OK;

    for (unsigned i = 0; i < op->d.inputs + op->d.outputs; i++) {
        op->at[i] = op->b.io[i];
        if (backend->host)
            continue;
        rc = backend->alloc(&op->mem[i], p->dev, op->b.bytes[i] + 1,
                            KERN_DEVICE);
        if (rc == SL_OK)
            rc = backend->copy(p->stream, op->mem[i].at, op->b.io[i],
                               op->b.bytes[i], KERN_TO_DEVICE);
        if (rc != SL_OK)
            return rc;
        op->at[i] = op->mem[i].at;
    }
    return backend->host ? SL_OK : backend->stream_sync(p->stream);
}

static bool prepare_op(struct perf *p, struct perf_op *op, enum kern_dtype t,
                       struct rng *rng)
{
    struct sl_error err = SL_ERROR_INIT;
    size_t bytes = 0;

    kern_desc_dtype(&op->d, t);
    trial_new(&op->b, &op->d, 0);
    trial_fill(&op->b, rng);
    if (kern_plan_new(&op->plan, &bytes, p->dev, &op->d, 0, &err) != SL_OK ||
        place(p, op) != SL_OK) {
        printf("%s: %s\n", op->name, err.text);
        return false;
    }
    if (bytes > p->workspace_bytes)
        p->workspace_bytes = bytes;
    return true;
}

static bool make_workspace(struct perf *p)
{
    const struct kern_backend *backend = p->dev->backend;
    if (backend->host) {
        p->workspace = sl_aligned(64, p->workspace_bytes + 64);
        memset(p->workspace, 0, p->workspace_bytes);
        return true;
    }
    if (backend->alloc(&p->room, p->dev, p->workspace_bytes + 64,
                       KERN_DEVICE) != SL_OK)
        return false;
    p->workspace = p->room.at;
    return true;
}

static bool prepare(struct perf *p, int batch, enum kern_dtype t)
{
    const struct kern_backend *backend = p->dev->backend;
    struct rng rng;

    rng_init(&rng, 1, 1);
    if (!backend->host && backend->stream_new(&p->stream, p->dev, 0) != SL_OK)
        return false;
    kern_desc_image_u8(add(p, "image", 0), 4, (int64_t[]){batch, 28, 28, 1},
                       1 / 255.0f, 0);
    add_conv_layers(p, batch);
    add_dense_layers(p, batch);
    for (int i = 0; i < p->n; i++)
        if (!prepare_op(p, &p->op[i], t, &rng))
            return false;
    for (size_t i = 0; i < SL_COUNT(chain); i++)
        p->op[chain[i][0]].at[chain[i][1]] = p->op[chain[i][2]].at[chain[i][3]];
    return make_workspace(p);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *ms)
{
    qsort(ms, RUNS, sizeof(*ms), by_value);
    return ms[RUNS / 2];
}

static void run_one(struct perf *p, int i)
{
    kern_run(p->op[i].plan, p->stream, p->op[i].at, p->workspace);
}

// Whole steps in the order of a training step, so that caches are as warm as
// they are there; each op is timed within.
static void measure(struct perf *p, double total[RUNS])
{
    for (int run = -WARM; run < RUNS; run++) {
        double sum = 0;

        for (size_t k = 0; k < SL_COUNT(order); k++) {
            int i = order[k];
            double from = now_ms(p), ms;

            run_one(p, i);
            ms = now_ms(p) - from;
            sum += ms;
            if (run >= 0)
                p->op[i].ms[run] = ms;
        }
        if (run >= 0)
            total[run] = sum;
    }
}

// ---- On a device ----------------------------------------------------------

static void run_step(struct perf *p)
{
    for (size_t k = 0; k < SL_COUNT(order); k++)
        run_one(p, order[k]);
}

// Milliseconds of one of many that were enqueued together: op i, all ops
// (-1), or the recording.
static double queued_ms(struct perf *p, int i, struct kern_plan *recording)
{
    double from = now_ms(p);

    for (int n = 0; n < QUEUED; n++) {
        if (recording)
            kern_run(recording, p->stream, NULL, NULL);
        else if (i < 0)
            run_step(p);
        else
            run_one(p, i);
    }
    p->dev->backend->stream_sync(p->stream);
    return (now_ms(p) - from) / QUEUED;
}

static enum sl_err measure_recording(struct perf *p, double ms[RUNS])
{
    struct kern_plan *recording = NULL;
    enum sl_err rc = p->dev->backend->record_begin(p->stream);

    if (rc == SL_OK) {
        run_step(p);
        rc = p->dev->backend->record_end(&recording, p->stream);
    }
    for (int run = -WARM; run < RUNS && rc == SL_OK; run++)
        ms[run < 0 ? 0 : run] = queued_ms(p, -1, recording);
    kern_plan_free(recording);
    return rc;
}

static enum sl_err measure_device(struct perf *p, double total[RUNS],
                                  double recorded[RUNS])
{
    for (int run = -WARM; run < RUNS; run++) {
        int at = run < 0 ? 0 : run;

        for (int i = 0; i < p->n; i++)
            p->op[i].ms[at] = queued_ms(p, i, NULL);
        total[at] = queued_ms(p, -1, NULL);
    }
    return measure_recording(p, recorded);
}

// ---- The mode -------------------------------------------------------------

static void release(struct perf *p)
{
    const struct kern_backend *backend = p->dev->backend;

    for (int i = 0; i < p->n; i++) {
        struct perf_op *op = &p->op[i];

        for (unsigned k = 0; k < KERN_IO; k++)
            if (op->mem[k].at)
                backend->release(p->dev, &op->mem[k]);
        kern_plan_free(op->plan);
        trial_free(&op->b);
    }
    if (backend->host)
        sl_free(p->workspace);
    else if (p->workspace)
        backend->release(p->dev, &p->room);
    if (p->stream)
        backend->stream_free(p->stream);
    free(p);
}

static double print_ops(struct perf *p)
{
    double gflop = 0;

    for (int i = 0; i < p->n; i++) {
        struct perf_op *op = &p->op[i];
        double ms = median(op->ms);

        gflop += op->gflop;
        printf("%-14s %8.3f ms", op->name, ms);
        if (op->gflop > 0)
            printf(" %8.1f GFLOP/s", op->gflop / ms * 1e3);
        printf("  %s\n", op->plan->impl);
    }
    return gflop;
}

int kc_perf(struct kern_dev *dev, int batch, enum kern_dtype dtype)
{
    struct perf *p = calloc(1, sizeof(*p));
    double total[RUNS], recorded[RUNS] = {0}, gflop, ms;
    int failed = 1;

    p->dev = dev;
    if (prepare(p, batch, dtype)) {
        failed = 0;
        if (dev->backend->host)
            measure(p, total);
        else
            failed = measure_device(p, total, recorded) != SL_OK;
        gflop = print_ops(p);
        ms = median(total);
        printf("step, batch %d: %.4g ms, %.1f GFLOP/s, workspace %zu bytes\n",
               batch, ms, gflop / ms * 1e3, p->workspace_bytes);
        if (!dev->backend->host)
            printf("recorded step, batch %d: %.4g ms\n", batch,
                   median(recorded));
    }
    release(p);
    return failed;
}
