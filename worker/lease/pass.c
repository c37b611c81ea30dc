// SPDX-License-Identifier: Apache-2.0
// worker/lease/pass.c -- the walk over a contribution's programs, in host
// memory or ahead of a device.
#include "worker/lease/pass.h"

#include "common/run/spans.h"

static struct span_of pass_span_of(const struct contribution *c)
{
    return span_of_step(c->job->record->open->job, c->closure, c->step);
}

static enum sl_err pass_run_to(struct pass *p, uint32_t end,
                               struct sl_error *err)
{
    struct contribution *c = p->c;
    uint32_t from = p->op;
    uint64_t began = span_begin();
    enum sl_err rc;

    if (end > c->p->program->count)
        end = c->p->program->count; // `end` of a range that no op touches
    if (end <= from)
        return SL_OK;
    p->op = end;
    rc = step_run(c->device, from, end, err);
    span_end(began, from < c->p->program->forward ? "forward" : "backward",
             SPANS_COMPUTE, pass_span_of(c));
    return rc;
}

static enum sl_err pass_look_ahead(struct pass *p, struct sl_error *err)
{
    struct contribution *c = p->c;

    if (!contribution_is_last(c))
        return step_look_ahead(c->device, c->input, c->run,
                               c->first + c->at + 1, err);
    return p->ahead == NULL ? SL_OK : p->ahead(p->arg, err);
}

// Waits for all ranges; called for the first micro-batch only, since its
// parameters are fresh for the others, too.
static enum sl_err refresh(struct pass *p, struct sl_error *err)
{
    enum sl_err rc = SL_OK;

    for (uint32_t i = 0; rc == SL_OK && i < p->c->job->ranges_count; i++) {
        if (p->fresh != NULL)
            rc = p->fresh(p->arg, i, err);
        if (rc == SL_OK)
            rc = step_fresh(p->c->device, i, err);
    }
    return rc;
}

static enum sl_err pass_rows(struct pass *p, struct sl_error *err)
{
    enum sl_err rc;

    if (p->rows == NULL)
        return SL_OK;
    rc = contribution_choose(p->c, err);
    return rc == SL_OK ? p->rows(p->arg, err) : rc;
}

// Runs the ops that are left of a micro-batch.
static enum sl_err pass_run_rest(struct pass *p, struct sl_error *err)
{
    enum sl_err rc = pass_run_to(p, UINT32_MAX, err);

    return rc == SL_OK && p->row_grads != NULL ? p->row_grads(p->arg, err) : rc;
}

static enum sl_err pass_begin_batch(struct pass *p, struct sl_error *err)
{
    struct contribution *c = p->c;
    uint64_t began = sl_now_us(p->clock), asked = span_begin();
    enum sl_err rc = contribution_get(c, err);

    span_end(asked, "input", SPANS_COMPUTE, pass_span_of(c));
    if (rc != SL_OK)
        return rc;
    pulse_beat(c->device->pulse);
    p->m->input_ms += (double)(sl_now_us(p->clock) - began) / 1000;
    rc = pass_rows(p, err);
    if (rc == SL_OK)
        rc = contribution_start(c, err);
    if (rc == SL_OK && contribution_is_first(c))
        rc = refresh(p, err);
    p->op = 0;
    return rc;
}

enum sl_err pass_begin(struct pass *p, uint64_t elements, struct sl_error *err)
{
    enum sl_err rc = pass_begin_batch(p, err);

    if (rc == SL_OK)
        rc = pass_run_to(p, overlap_reach(p->c->p->program, elements), err);
    return rc;
}

// Runs a micro-batch until its loss is known.
static enum sl_err pass_forward_batch(struct pass *p, struct sl_error *err)
{
    struct contribution *c = p->c;
    bool ahead = step_runs_ahead(c->device);
    enum sl_err rc = p->begun ? SL_OK : pass_begin_batch(p, err);

    p->begun = false;
    if (rc == SL_OK)
        rc = pass_run_to(p, ahead ? UINT32_MAX : c->p->program->forward, err);
    if (rc == SL_OK && ahead)
        rc = pass_look_ahead(p, err);
    if (rc == SL_OK && ahead)
        rc = step_stats(c->device, err);
    if (rc == SL_OK)
        contribution_loss(c);
    return rc;
}

enum sl_err pass_forward(struct pass *p, struct sl_error *err)
{
    struct contribution *c = p->c;
    enum sl_err rc;

    for (rc = pass_forward_batch(p, err);
         rc == SL_OK && !contribution_is_last(c);
         rc = pass_forward_batch(p, err)) {
        rc = pass_run_rest(p, err);
        contribution_put(c);
        c->at++;
        if (rc != SL_OK)
            return rc;
    }
    return rc;
}

enum sl_err pass_backward(struct pass *p, struct sl_error *err)
{
    struct contribution *c = p->c;
    const struct overlap *o = &c->p->overlap;
    enum sl_err rc = SL_OK;

    for (uint32_t i = c->job->ranges_count; rc == SL_OK && i-- > 0;) {
        rc = pass_run_to(p, o->send_after[i] + 1, err);
        if (rc == SL_OK && step_runs_ahead(c->device))
            rc = step_take(c->device, i, err);
        if (rc == SL_OK)
            rc = p->whole(p->arg, i, err);
    }
    return rc == SL_OK ? pass_run_rest(p, err) : rc;
}
