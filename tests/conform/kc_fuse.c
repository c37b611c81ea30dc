// SPDX-License-Identifier: Apache-2.0
// tests/conform/kc_fuse.c -- mode fuse: an op with its epilogue is the op
// without it and the parts after it, in double on the host.
//
// The op without its parts is the same op with a bias of zeroes, and without
// RELU, ACCUM and (batch norm's) DRELU. What adds a tensor of its own (BGRAD,
// AUX) is compared with ref by eval.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/kc.h"

static bool is_product(const struct kern_desc *d)
{
    return d->op == KERN_MATMUL || d->op == KERN_CONV_FWD ||
           d->op == KERN_CONV_DGRAD || d->op == KERN_CONV_WGRAD;
}

static uint32_t parts_of(const struct kern_desc *d)
{
    uint32_t parts = KERN_BIAS | KERN_RELU | KERN_ACCUM;

    return d->epilogue & (d->op == KERN_BN_BWD ? parts | KERN_DRELU : parts);
}

// Of most ops ACCUM is for what is summed up beside the first output.
static bool adds_to(const struct kern_desc *d, unsigned out)
{
    return kern_has(d, KERN_ACCUM) &&
           (out > d->inputs || d->op == KERN_MATMUL ||
            d->op == KERN_CONV_WGRAD || d->op == KERN_REDUCE);
}

static void without_parts(struct kern_desc *d)
{
    d->epilogue &= ~(parts_of(d) & ~(uint32_t)KERN_BIAS);
}

// What the parts make of element i of output `out`, which is `y` without them.
static double composed(const struct trial *before, unsigned out, int64_t i,
                       double y)
{
    const struct kern_desc *d = &before->d;
    bool first = out == d->inputs;

    if (first && kern_has(d, KERN_BIAS)) {
        int64_t c = i % kern_cols(&d->io[out]);

        y += trial_get(&d->io[2], before->io[2], c);
    }
    if (first && is_product(d) && kern_has(d, KERN_RELU))
        y = fmax(y, 0);
    if (first && d->op == KERN_BN_BWD && kern_has(d, KERN_DRELU) &&
        trial_get(&d->io[0], before->io[0], i) <= 0)
        y = 0;
    if (adds_to(d, out))
        y += trial_get(&d->io[out], before->io[out], i);
    return y;
}

static enum sl_err run(struct kern_dev *dev, struct trial *b)
{
    struct kern_plan *plan = NULL;
    size_t bytes = 0;
    enum sl_err rc = kern_plan_new(&plan, &bytes, dev, &b->d, 0, NULL);
    void *workspace;

    if (rc != SL_OK)
        return rc;
    if (dev->backend->host) {
        workspace = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
        rc = kern_run(plan, NULL, b->io, workspace);
        free(workspace);
    } else {
        rc = kc_device_run(dev, plan, b, bytes);
    }
    kern_plan_free(plan);
    return rc;
}

// The bound of an output of b->d on these inputs.
static double *bound_of(const struct trial *before, unsigned out)
{
    struct trial ref;
    double *bound;

    trial_new(&ref, &before->d, 0);
    trial_copy(&ref, before);
    trial_run_ref(&before->d, ref.io);
    bound = trial_bound(before, &ref, out);
    trial_free(&ref);
    return bound;
}

static bool same_output(const struct trial *before, const struct trial *fused,
                        const struct trial *plain_before,
                        const struct trial *plain, unsigned out)
{
    const struct kern_shape *s = &fused->d.io[out];
    double *bound = bound_of(before, out);
    double *plain_bound = bound_of(plain_before, out);
    bool same = true;

    for (int64_t i = 0; i < kern_shape_extent(s) && same; i++) {
        double y = trial_get(s, fused->io[out], i);
        double want = composed(before, out, i, trial_get(s, plain->io[out], i));

        same = fabs(y - want) <= bound[i] + plain_bound[i] ||
               (isnan(y) && isnan(want)) || y == want;
    }
    free(bound);
    free(plain_bound);
    return same;
}

// But for a sum of what is masked: without the mask it is another sum.
bool kc_fuses(const struct kern_desc *d)
{
    bool masked = d->op == KERN_BN_BWD && kern_has(d, KERN_DRELU) &&
                  kern_has(d, KERN_BGRAD);

    return parts_of(d) != 0 && !masked && !kern_desc_empty(d);
}

const char *kc_fuse(struct kern_dev *dev, const struct kern_desc *d,
                    struct rng *rng)
{
    struct trial before, fused, plain_before, plain;
    struct kern_desc parts = *d;
    const char *why = NULL;
    enum sl_err rc;

    without_parts(&parts);
    trial_new(&before, d, 0);
    trial_new(&fused, d, 0);
    trial_new(&plain_before, &parts, 0);
    trial_new(&plain, &parts, 0);
    trial_fill(&before, rng);
    trial_copy(&fused, &before);
    trial_copy(&plain_before, &before);
    if (kern_has(d, KERN_BIAS))
        memset(plain_before.io[2], 0, plain_before.bytes[2]);
    trial_copy(&plain, &plain_before);
    rc = run(dev, &fused);
    if (rc == SL_OK && kc_knows(dev, &parts)) {
        rc = run(dev, &plain);
        for (unsigned i = d->inputs; rc == SL_OK && i < d->inputs + d->outputs;
             i++)
            if (!same_output(&before, &fused, &plain_before, &plain, i))
                why = "is not its parts";
    }
    trial_free(&before);
    trial_free(&fused);
    trial_free(&plain_before);
    trial_free(&plain);
    return rc != SL_OK ? sl_err_name(rc) : why;
}
