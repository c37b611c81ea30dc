// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_perf.c -- the fashion net's step, op by op. Prints only.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "tests/conform/kc.h"

#define OPS 24
#define WARM 3
#define RUNS 21

struct perf_op {
    const char *name;
    struct kern_desc d;
    double gflop;
    struct kc_bufs b;
    struct kern_plan *plan;
    double ms[RUNS];
};

struct perf {
    struct perf_op op[OPS];
    int n;
    size_t workspace_bytes;
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
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

static bool prepare(struct perf *p, struct kern_dev *dev, int batch)
{
    struct sl_error err = SL_ERROR_INIT;
    size_t bytes = 0;
    struct rng rng;

    rng_init(&rng, 1, 1);
    kern_desc_image_u8(add(p, "image", 0), 4, (int64_t[]){batch, 28, 28, 1},
                       1 / 255.0f, 0);
    add_conv_layers(p, batch);
    add_dense_layers(p, batch);
    for (int i = 0; i < p->n; i++) {
        struct perf_op *op = &p->op[i];

        kc_bufs_new(&op->b, &op->d, 0);
        kc_fill(&op->b, &rng);
        if (kern_plan_new(&op->plan, &bytes, dev, &op->d, 0, &err) != SL_OK) {
            printf("%s: %s\n", op->name, err.text);
            return false;
        }
        if (bytes > p->workspace_bytes)
            p->workspace_bytes = bytes;
    }
    for (size_t i = 0; i < SL_COUNT(chain); i++)
        p->op[chain[i][0]].b.io[chain[i][1]] =
            p->op[chain[i][2]].b.io[chain[i][3]];
    return true;
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

// Whole steps in the order of a training step, so that caches are as warm as
// they are there; each op is timed within.
static void measure(struct perf *p, void *workspace, double total[RUNS])
{
    for (int run = -WARM; run < RUNS; run++) {
        double sum = 0;

        for (size_t k = 0; k < SL_COUNT(order); k++) {
            int i = order[k];
            double from = now_ms(), ms;

            kern_run(p->op[i].plan, NULL, p->op[i].b.io, workspace);
            ms = now_ms() - from;
            sum += ms;
            if (run >= 0)
                p->op[i].ms[run] = ms;
        }
        if (run >= 0)
            total[run] = sum;
    }
}

int kc_perf(struct kern_dev *dev, int batch)
{
    struct perf *p = calloc(1, sizeof(*p));
    double total[RUNS], gflop = 0, ms;
    void *workspace;

    if (!prepare(p, dev, batch))
        return 1;
    workspace = sl_aligned(64, p->workspace_bytes + 64);
    memset(workspace, 0, p->workspace_bytes);
    measure(p, workspace, total);
    for (int i = 0; i < p->n; i++) {
        struct perf_op *op = &p->op[i];

        ms = median(op->ms);
        gflop += op->gflop;
        printf("%-14s %8.3f ms", op->name, ms);
        if (op->gflop > 0)
            printf(" %8.1f GFLOP/s", op->gflop / ms * 1e3);
        printf("  %s\n", op->plan->impl);
        kern_plan_free(op->plan);
        kc_bufs_free(&op->b);
    }
    ms = median(total);
    printf("step, batch %d: %.2f ms, %.1f GFLOP/s, workspace %zu bytes\n",
           batch, ms, gflop / ms * 1e3, p->workspace_bytes);
    sl_free(workspace);
    free(p);
    return 0;
}
