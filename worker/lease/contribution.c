// SPDX-License-Identifier: Apache-2.0
// worker/lease/contribution.c -- the micro-batches of a step: which samples,
// which program, with which numbers set.
#include "worker/lease/contribution.h"

#include "common/base/num.h"
#include "common/plan/round.h"

static const struct schedule *schedule_of(const struct contribution *c)
{
    return &c->job->record->schedule;
}

void contribution_begin(struct contribution *c, struct input_run *run,
                        uint64_t closure, uint32_t step)
{
    uint64_t first;

    c->run = run;
    c->closure = closure;
    c->step = step;
    schedule_step_range(schedule_of(c), closure, step, &first, &c->samples);
    c->first = (uint32_t)((first - run->first) / run->batch);
    c->count = (uint32_t)sl_ceil_div(c->samples, run->batch);
    c->digest = 0;
    c->loss_sum = c->right_sum = 0;
    c->at = c->from = 0;
    c->end = c->count;
    c->held = false;
}

bool contribution_share(struct contribution *c, uint32_t members, uint32_t self)
{
    uint32_t first, n;

    round_slots(c->count, members, self, &first, &n);
    c->at = c->from = first;
    c->end = first + n;
    return n > 0;
}

enum sl_err contribution_get(struct contribution *c, struct sl_error *err)
{
    enum sl_err rc =
        step_get(c->device, c->input, c->run, c->first + c->at, &c->batch, err);

    if (rc != SL_OK)
        return rc;
    c->held = true;
    c->digest += c->batch.digest;
    return SL_OK;
}

// Dropout's masks differ from one micro-batch to the next, and are the same on
// every attempt.
static void set_numbers(const struct contribution *c)
{
    struct program *p = c->p->program;
    uint64_t step = schedule_global_step(schedule_of(c), c->closure, c->step);

    program_set_samples(p, c->samples);
    if (c->job->precision == SPEC_F16)
        program_set_loss_scale(p, c->job->scale.s);
    program_set_step(p, step * c->job->record->accumulate + c->at);
}

enum sl_err contribution_start(struct contribution *c, struct sl_error *err)
{
    enum job_use use = contribution_is_first(c) ? JOB_TRAINS : JOB_ADDS;
    enum sl_err rc = job_program(c->job, use, c->batch.n, &c->p, err);

    if (rc != SL_OK)
        return rc;
    set_numbers(c);
    c->device->held = !contribution_is_last(c);
    return step_begin(c->device, c->p->program, c->p->placed, &c->batch, err);
}

void contribution_loss(struct contribution *c)
{
    c->loss_sum += program_loss_sum(c->p->program);
    if (c->job->loss != SPEC_LOSS_MEAN_SQUARED_ERROR)
        c->right_sum += program_right_sum(c->p->program);
}

void contribution_put(struct contribution *c)
{
    if (c->held)
        step_put(c->input, &c->batch);
    c->held = false;
}
