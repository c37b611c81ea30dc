// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_step.c -- a member's share of a step, between the
// parameters that come from the leader and the sums that go to it.
#include "worker/lease/hybrid_step.h"

#include <string.h>

#include "common/base/fault.h"
#include "worker/device/grad.h"
#include "worker/lease/pass.h"

static struct pulse *pulse_of(const struct hybrid_step *s)
{
    return s->c->device->pulse;
}

static enum sl_err spread(struct hybrid_step *s, struct sl_error *err)
{
    const struct job *job = s->c->job;
    enum sl_err rc = SL_OK;

    s->first = s->hybrid->number;
    for (uint32_t i = 0; rc == SL_OK && i < job->ranges_count; i++)
        rc = hybrid_spread(s->hybrid, s->params + job->ranges[i].first,
                           job->ranges[i].count, err);
    return rc;
}

// The leader had them before.
static enum sl_err fresh(void *arg, uint32_t range, struct sl_error *err)
{
    struct hybrid_step *s = arg;
    enum sl_err rc;

    if (s->hybrid->self == 0)
        return SL_OK;
    pulse_wait(pulse_of(s), true);
    rc = hybrid_wait(s->hybrid, s->first + range + 1, err);
    pulse_wait(pulse_of(s), false);
    return rc;
}

static enum sl_err sum(void *arg, uint32_t range, struct sl_error *err)
{
    struct hybrid_step *s = arg;
    const struct overlap_range *r = &s->c->job->ranges[range];

    grad_statistics_share(s->grads, s->c->job->model, r->first, r->count,
                          s->c->count - s->c->end);
    return hybrid_sum(s->hybrid, s->grads + r->first, r->count, err);
}

// A step of fewer micro-batches than members leaves some nothing.
static enum sl_err sum_nothing(struct hybrid_step *s, struct sl_error *err)
{
    const struct job *job = s->c->job;
    enum sl_err rc = SL_OK;

    for (uint32_t i = job->ranges_count; rc == SL_OK && i-- > 0;) {
        const struct overlap_range *r = &job->ranges[i];

        memset(s->grads + r->first, 0, (size_t)r->count * sizeof(float));
        rc = hybrid_sum(s->hybrid, s->grads + r->first, r->count, err);
    }
    return rc;
}

// One that is not finite is summed all the same: everybody sees it then.
static enum sl_err compute(struct hybrid_step *s, struct sl_error *err)
{
    struct pass pass = {.clock = s->clock,
                        .c = s->c,
                        .m = s->m,
                        .fresh = fresh,
                        .whole = sum,
                        .arg = s};
    uint64_t began = sl_now_us(s->clock);
    double input_ms = s->m->input_ms;
    enum sl_err rc;

    FAULT("task.compute");
    rc = pass_forward(&pass, err);
    if (rc == SL_OK)
        rc = pass_backward(&pass, err);
    contribution_put(s->c);
    s->m->compute_ms += (double)(sl_now_us(s->clock) - began) / 1000 -
                        (s->m->input_ms - input_ms);
    return rc;
}

enum sl_err hybrid_compute(struct hybrid_step *s, struct sl_error *err)
{
    struct hybrid *h = s->hybrid;
    struct contribution *c = s->c;
    bool any = contribution_share(c, h->members, h->self);
    enum sl_err rc = spread(s, err);
    uint64_t began;

    input_share(
        c->input, c->run,
        (struct input_share){c->job->record->accumulate, c->from, c->end});
    if (rc == SL_OK)
        rc = any ? compute(s, err) : sum_nothing(s, err);
    if (rc != SL_OK)
        return rc;
    FAULT("group.computed");
    began = sl_now_us(s->clock);
    pulse_wait(pulse_of(s), true);
    rc = hybrid_tail(h, c, err);
    pulse_wait(pulse_of(s), false);
    s->m->wait_ms += (double)(sl_now_us(s->clock) - began) / 1000;
    s->m->sums += rc == SL_OK;
    s->m->sent_bytes += hybrid_sent(h);
    return rc;
}
