// SPDX-License-Identifier: Apache-2.0
// worker/device/device_check.c -- the checks of a gradient on its device: is it
// finite, how long is it; and clipping by a norm.
//
// Behind the last op of a range UNSCALE_CHECK counts the values that are not
// finite; where the job clips, it adds up the squares of each trainable
// variable when all ops are done. Their words lie in the block behind the loss,
// in order of the ranges' leaving, so that they go out with it: two numbers of
// a range.
//
//   block   ... stats | outputs | checks [range] | norms [variable] | factors,
//   one
//
// The scale of all these is one, so they write the gradient over itself. When
// the gradient is clipped, the scale is the factor.
#include <string.h>

#include "common/base/mem.h"
#include "worker/device/device_inner.h"
#include "trainer/base/grad.h"

static bool is_clipped(const struct device_program *p, uint32_t variable)
{
    return p->clips->variables[variable].kind == MODEL_TRAINABLE;
}

static uint32_t variables_of(const struct device_program *p)
{
    return p->clips == NULL ? 0 : p->clips->variables_count;
}

static uint32_t ranges_of(const struct device_program *p)
{
    return p->overlap == NULL ? 0 : p->overlap->shards;
}

size_t device_check_lay(struct device_program *p, size_t at)
{
    struct device_check *c = &p->check;

    c->ranges_at = at;
    at += ranges_of(p) * DEVICE_WORD;
    c->norms_at = at;
    at += variables_of(p) * DEVICE_WORD;
    c->factors_at = at;
    at += variables_of(p) * sizeof(float);
    c->one_at = at;
    return at + sizeof(float);
}

void device_check_put(struct device_program *p)
{
    float one = 1;

    memcpy((uint8_t *)p->block.host.at + p->check.one_at, &one, sizeof(one));
}

// ---- plans

static enum sl_err device_check_make_plan(struct device_program *p,
                                          struct kern_plan **out,
                                          uint64_t elements, size_t *workspace,
                                          struct sl_error *err)
{
    int64_t n = (int64_t)elements;
    struct kern_desc desc;
    size_t bytes = 0;
    enum sl_err rc;

    kern_desc_unscale_check(&desc, 1, &n, 0);
    rc = kern_plan_new(out, &bytes, p->d->dev, &desc, SIZE_MAX, err);
    if (rc == SL_OK && bytes > *workspace)
        *workspace = bytes;
    return rc;
}

static enum sl_err plan_ranges(struct device_program *p, size_t *workspace,
                               struct sl_error *err)
{
    struct device_check *c = &p->check;
    uint32_t n = ranges_of(p);
    enum sl_err rc = SL_OK;

    c->ranges = sl_calloc((size_t)n + 1, sizeof(struct kern_plan *));
    c->place_of = sl_calloc((size_t)n + 1, sizeof(*c->place_of));
    if (c->ranges == NULL || c->place_of == NULL)
        return sl_no_memory(err);
    for (uint32_t at = 0; at < n && rc == SL_OK; at++) {
        uint32_t range = p->overlap->by_send[at];

        c->place_of[range] = at;
        if (device_touches(p, range) && p->ranges[range].count > 0)
            rc = device_check_make_plan(p, &c->ranges[at],
                                        p->ranges[range].count, workspace, err);
    }
    return rc;
}

static enum sl_err plan_norms(struct device_program *p, size_t *workspace,
                              struct sl_error *err)
{
    struct device_check *c = &p->check;
    uint32_t n = variables_of(p);
    enum sl_err rc = SL_OK;

    c->norms = sl_calloc((size_t)n + 1, sizeof(struct kern_plan *));
    c->squares = sl_calloc((size_t)n + 1, sizeof(*c->squares));
    if (c->norms == NULL || c->squares == NULL)
        return sl_no_memory(err);
    for (uint32_t i = 0; i < n && rc == SL_OK; i++) {
        if (is_clipped(p, i))
            rc = device_check_make_plan(p, &c->norms[i],
                                        p->clips->variables[i].elements,
                                        workspace, err);
    }
    return rc;
}

enum sl_err device_check_make(struct device_program *p, struct sl_error *err)
{
    size_t workspace = 0;
    enum sl_err rc = plan_ranges(p, &workspace, err);

    if (rc == SL_OK)
        rc = plan_norms(p, &workspace, err);
    if (rc != SL_OK || workspace == 0)
        return rc;
    rc = p->d->b->alloc(&p->check.workspace, p->d->dev, workspace, KERN_DEVICE);
    return rc == SL_OK
               ? rc
               : device_fail(p->d, rc, "memory to look at gradients", err);
}

void device_check_free(struct device_program *p)
{
    struct device_check *c = &p->check;

    for (uint32_t i = 0; c->ranges != NULL && i < ranges_of(p); i++)
        kern_plan_free(c->ranges[i]);
    for (uint32_t i = 0; c->norms != NULL && i < variables_of(p); i++)
        kern_plan_free(c->norms[i]);
    if (c->workspace.at != NULL)
        p->d->b->release(p->d->dev, &c->workspace);
    sl_free(c->ranges);
    sl_free(c->place_of);
    sl_free(c->norms);
    sl_free(c->squares);
}

// ---- on the device

static enum sl_err device_check_run(struct device_program *p,
                                    struct kern_plan *plan, uint64_t first,
                                    size_t scale_at, size_t word_at)
{
    uint8_t *block = p->block.device.at;
    float *g = (float *)p->d->grads.device.at + first;

    return kern_run(plan, p->d->compute,
                    (void *[]){g, block + scale_at, g, block + word_at},
                    p->check.workspace.at);
}

static enum sl_err run_norms(struct device_program *p)
{
    struct device_check *c = &p->check;
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; i < variables_of(p) && rc == SL_OK; i++) {
        if (is_clipped(p, i))
            rc = device_check_run(p, c->norms[i], p->clips->variables[i].first,
                                  c->one_at, c->norms_at + i * DEVICE_WORD);
    }
    return rc;
}

enum sl_err device_check_enqueue(struct device_program *p,
                                 const struct device_segment *s)
{
    struct device_check *c = &p->check;
    enum sl_err rc = SL_OK;

    for (uint32_t at = s->whole_first; at < s->whole_end && rc == SL_OK; at++) {
        uint32_t range = p->overlap->by_send[at];

        if (c->ranges[at] != NULL)
            rc = device_check_run(p, c->ranges[at], p->ranges[range].first,
                                  c->one_at, c->ranges_at + at * DEVICE_WORD);
    }
    if (rc == SL_OK && s->end == p->p->count)
        rc = run_norms(p);
    return rc;
}

// ---- in the host

static const double *device_check_word(const struct device_program *p,
                                       size_t at)
{
    return (const double *)(const void *)((uint8_t *)p->block.host.at + at);
}

bool device_finite(const struct device *d, uint32_t range)
{
    const struct device_program *p = d->p;

    if (p->check.ranges[p->check.place_of[range]] == NULL)
        return true; // 0: no op writes the range
    return device_check_word(p, p->check.ranges_at + p->check.place_of[range] *
                                                         DEVICE_WORD)[1] == 0;
}

enum sl_err device_check_send_factors(struct device_program *p, bool *any,
                                      double clipnorm, double global)
{
    struct device_check *c = &p->check;
    float *factor =
        (float *)(void *)((uint8_t *)p->block.host.at + c->factors_at);
    struct device *d = p->d;

    for (uint32_t i = 0; i < variables_of(p); i++)
        c->squares[i] =
            is_clipped(p, i)
                ? device_check_word(p, c->norms_at + i * DEVICE_WORD)[0]
                : 0;
    *any = grad_factors(factor, c->squares, variables_of(p), clipnorm, global);
    if (!*any)
        return SL_OK;
    d->gated = true;
    return d->b->copy(d->in, (uint8_t *)p->block.device.at + c->factors_at,
                      factor, variables_of(p) * sizeof(float), KERN_TO_DEVICE);
}

enum sl_err device_check_shrink(struct device_program *p)
{
    struct device_check *c = &p->check;
    const float *factor =
        (const float *)(const void *)((uint8_t *)p->block.host.at +
                                      c->factors_at);
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; i < variables_of(p) && rc == SL_OK; i++) {
        if (is_clipped(p, i) && factor[i] != 1)
            rc = device_check_run(p, c->norms[i], p->clips->variables[i].first,
                                  c->factors_at + i * sizeof(float),
                                  c->norms_at + i * DEVICE_WORD);
    }
    return rc;
}
