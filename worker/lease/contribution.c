// SPDX-License-Identifier: Apache-2.0
// worker/lease/contribution.c -- the micro-batches of a step: which samples,
// which program, with which numbers set.
#include "worker/lease/contribution.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/rng.h"
#include "plan/round.h"
#include "worker/device/kind.h"

static const struct schedule *
contribution_schedule(const struct contribution *c)
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
    schedule_step_range(contribution_schedule(c), closure, step, &first,
                        &c->samples);
    c->first = (uint32_t)((first - run->first) / run->batch);
    c->count = (uint32_t)sl_ceil_div(c->samples, run->batch);
    c->digest = 0;
    c->loss_sum = c->right_sum = 0;
    c->audited = false;
    c->kernels = 0;
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

// Tells of bad samples at once: a ring may count the last step of its job
// before the next heartbeat.
static void tell_bad(const struct worker_job *j)
{
    if (j->env->found != NULL && j->record->bad != NULL &&
        bad_news(j->record->bad))
        j->env->found(j->env->arg);
}

enum sl_err contribution_get(struct contribution *c, struct sl_error *err)
{
    enum sl_err rc =
        step_get(c->device, c->input, c->run, c->first + c->at, &c->batch, err);

    if (rc != SL_OK)
        return rc;
    c->held = true;
    c->digest += c->batch.digest;
    tell_bad(c->job);
    return SL_OK;
}

// Dropout's masks differ from one micro-batch to the next, and are the same on
// every attempt.
static void set_numbers(const struct contribution *c)
{
    struct program *p = c->p->program;
    uint64_t step =
        schedule_global_step(contribution_schedule(c), c->closure, c->step);

    program_set_samples(p, c->apart ? c->batch.n : c->samples);
    if (c->job->precision == SPEC_F16)
        program_set_loss_scale(p, c->job->scale.s);
    program_set_step(p, step * c->job->record->accumulate + c->at);
}

// ---- what decides the bits

// Micro-batches have programs of their own, and so have the parts that a team's
// devices compute: their number and sizes decide which sums are made.
static void note_kernels(struct contribution *c)
{
    const struct step_program p = job_step_program(c->p);
    const struct program *member;

    if (!c->audited)
        return;
    for (unsigned k = 0; (member = step_member(&p, k)) != NULL; k++) {
        c->kernels = sl_mix64(c->kernels ^ member->batch);
        for (uint32_t i = 0; i < member->plans_count; i++)
            c->kernels = kind_with(c->kernels, member->plans[i]->impl);
    }
}

uint64_t contribution_kind(const struct contribution *c)
{
    return kind_of(c->job->env->dev, c->kernels);
}

bool contribution_repeatable(const struct worker_job *job)
{
    return kind_repeats(job->env->dev);
}

// ---- micro-batches

enum sl_err contribution_choose(struct contribution *c, struct sl_error *err)
{
    bool first = c->apart || contribution_is_first(c);
    enum job_use use = first ? JOB_TRAINS : JOB_ADDS;

    return job_program(c->job, use, c->batch.n, &c->p, err);
}

enum sl_err contribution_start(struct contribution *c, struct sl_error *err)
{
    enum sl_err rc = contribution_choose(c, err);
    struct step_program p;

    if (rc != SL_OK)
        return rc;
    note_kernels(c);
    set_numbers(c);
    c->device->held = !c->apart && !contribution_is_last(c);
    p = job_step_program(c->p);
    return step_begin(c->device, &p, &c->batch, err);
}

// ---- samples that are not finite

#define LOOKS_MAX 8 // searches per job: by then the user knows its data

// Returns the index of the first value that is not finite; `n` if all are
// finite.
static size_t first_strange(const void *values, size_t n)
{
    const float *v = values;
    size_t i = 0;

    while (i < n && isfinite(v[i]))
        i++;
    return i;
}

// Reads a sample into `x` and `y` and names it in `out` if a value is not
// finite. Returns true if the search is over: it was found, or could not be
// read.
static bool strange_sample(struct input *in, const struct input_run *run,
                           uint64_t sample, void *x, void *y, char *out,
                           size_t size)
{
    size_t n = data_is_u8(run->data)
                   ? 0
                   : data_sample_bytes(run->data) / sizeof(float);
    size_t m = data_has_values(run->data)
                   ? data_label_bytes(run->data) / sizeof(float)
                   : 0;
    size_t at;

    if (input_look(in, run, sample, x, y, NULL) != SL_OK)
        return true;
    at = first_strange(x, n);
    if (at < n) {
        snprintf(out, size,
                 "sample %" PRIu64 " of data.train: value %zu of its %zu is %g",
                 sample, at, n, (double)((const float *)x)[at]);
        return true;
    }
    at = first_strange(y, m);
    if (at < m)
        snprintf(out, size, "sample %" PRIu64 " of data.train: its label is %g",
                 sample, (double)((const float *)y)[at]);
    return at < m;
}

void contribution_strange(const struct contribution *c, char *out, size_t size)
{
    const struct input_run *run = c->run;
    uint64_t first = run->first + (uint64_t)c->first * run->batch;
    void *x, *y;

    if (out[0] != '\0' || c->job->looked >= LOOKS_MAX)
        return;
    c->job->looked++;
    x = sl_malloc(data_sample_bytes(run->data));
    y = sl_malloc(data_label_bytes(run->data));
    for (uint64_t i = 0; x != NULL && y != NULL && i < c->samples; i++) {
        uint64_t at = first + i;

        pulse_beat(c->job->pulse);
        if (strange_sample(c->input, run,
                           run->shuffle ? order_at(&run->order, at) : at, x, y,
                           out, size))
            break;
    }
    sl_free(x);
    sl_free(y);
}

// ---- the ops

void contribution_loss(struct contribution *c)
{
    c->loss_sum += program_loss_sum(c->p->program);
    if (spec_loss_counts(c->job->loss))
        c->right_sum += program_right_sum(c->p->program);
}

void contribution_put(struct contribution *c)
{
    if (c->held)
        step_put(c->device, c->input, &c->batch);
    c->held = false;
}
