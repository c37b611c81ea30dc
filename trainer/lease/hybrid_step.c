// SPDX-License-Identifier: Apache-2.0
// trainer/lease/hybrid_step.c -- a member's share of a step, between the
// parameters that come from the leader and the sums that go to it.
#include "trainer/lease/hybrid_step.h"

#include <string.h>

#include "common/base/fault.h"
#include "common/base/num.h"
#include "plan/round.h"
#include "trainer/lease/hybrid_rows.h"

static enum sl_err spread(struct hybrid_step *s, struct sl_error *err)
{
    const struct sync *sync = s->sync;
    enum sl_err rc = SL_OK;

    s->first = s->hybrid->number;
    for (uint32_t i = 0; rc == SL_OK && i < sync->ranges_count; i++)
        rc = hybrid_spread(s->hybrid, sync->params + sync->ranges[i].first,
                           sync->ranges[i].count, err);
    return rc;
}

// Returns at once on the leader (member 0), which has all parameters already.
enum sl_err hybrid_fresh(struct hybrid_step *s, uint32_t range,
                         struct sl_error *err)
{
    enum sl_err rc;

    if (s->hybrid->self == 0)
        return SL_OK;
    pulse_wait(s->pulse, true);
    rc = hybrid_wait(s->hybrid, s->first + range + 1, err);
    pulse_wait(s->pulse, false);
    return rc;
}

enum sl_err hybrid_whole(struct hybrid_step *s, uint32_t range,
                         struct sl_error *err)
{
    const struct elements *r = &s->sync->ranges[range];

    return hybrid_sum(s->hybrid, s->sync->grads + r->first, r->count, err);
}

// Adds zeros to the sums: a step of fewer micro-batches than members leaves
// some members without a share.
static enum sl_err sum_nothing(struct hybrid_step *s, struct sl_error *err)
{
    const struct sync *sync = s->sync;
    enum sl_err rc = hybrid_rows_rest(s, err);

    for (uint32_t i = sync->ranges_count; rc == SL_OK && i-- > 0;) {
        const struct elements *r = &sync->ranges[i];

        memset(sync->grads + r->first, 0, (size_t)r->count * sizeof(float));
        rc = hybrid_whole(s, i, err);
    }
    return rc;
}

bool hybrid_known(const struct lease *l, const struct hybrid_head *head)
{
    const struct schedule *s = &l->record->schedule;

    return head->closure < schedule_closures(s) &&
           head->step < schedule_closure_steps(s, head->closure);
}

static void deal(struct hybrid_step *s)
{
    const struct record *r = s->hybrid->lease->record;
    uint64_t batch = r->schedule.batch / r->accumulate, first, n;
    uint32_t mine;

    schedule_step_range(&r->schedule, s->head.closure, s->head.step, &first,
                        &n);
    s->count = (uint32_t)sl_ceil_div(n, batch);
    round_slots(s->count, s->hybrid->members, s->hybrid->self, &s->from, &mine);
    s->end = s->from + mine;
    s->sums = (struct hybrid_sums){.digest = 0};
    s->met = 0;
    s->dropped = false;
    hybrid_rows_begin(s->hybrid->rows);
    if (s->hybrid->present != NULL)
        memset(s->hybrid->present, 0,
               s->hybrid->variables * sizeof(*s->hybrid->present));
}

static enum sl_err hybrid_step_compute(struct hybrid_step *s,
                                       struct sl_error *err)
{
    uint64_t began = sl_now_us(s->clock);
    double input_ms = s->m->input_ms;
    enum sl_err rc;

    FAULT("task.compute");
    rc = s->by->ops->share(s->by, s, err);
    s->m->compute_ms += (double)(sl_now_us(s->clock) - began) / 1000 -
                        (s->m->input_ms - input_ms);
    return rc;
}

enum sl_err hybrid_compute(struct hybrid_step *s, struct sl_error *err)
{
    struct hybrid *h = s->hybrid;
    enum sl_err rc;
    uint64_t began;

    deal(s);
    rc = spread(s, err);
    if (rc == SL_OK)
        rc = s->from < s->end ? hybrid_step_compute(s, err)
                              : sum_nothing(s, err);
    if (rc != SL_OK)
        return rc;
    FAULT("group.computed");
    began = sl_now_us(s->clock);
    pulse_wait(s->pulse, true);
    rc = hybrid_rows_sum(h, err);
    if (rc == SL_OK && h->present != NULL && h->marks)
        rc = hybrid_sum(h, h->present, h->variables, err);
    if (rc == SL_OK)
        rc = hybrid_tail(h, &s->sums, err);
    pulse_wait(s->pulse, false);
    s->m->wait_ms += (double)(sl_now_us(s->clock) - began) / 1000;
    s->m->sums += rc == SL_OK;
    s->m->sent_bytes += hybrid_sent(h);
    return rc;
}

enum sl_err hybrid_run(struct hybrid_step *s, struct sl_error *err)
{
    const struct contributor_ops *ops = s->by->ops;

    return ops->step != NULL ? ops->step(s->by, s, err)
                             : hybrid_compute(s, err);
}
