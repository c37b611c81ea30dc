// SPDX-License-Identifier: Apache-2.0
// worker/lease/hybrid_ours.c -- a share of a step, micro-batch by micro-batch.
#include "worker/lease/hybrid_ours.h"

#include <string.h>

#include "trainer/base/grad.h"
#include "trainer/lease/hybrid_rows.h"
#include "worker/lease/pass.h"

struct sharing {
    struct hybrid_step *s;
    struct contribution *c;
    struct hybrid_audit *audit;
};

static enum sl_err hybrid_ours_wait_fresh(void *arg, uint32_t range,
                                          struct sl_error *err)
{
    return hybrid_fresh(((struct sharing *)arg)->s, range, err);
}

static void hybrid_ours_audit_range(const struct sharing *t, uint32_t range)
{
    if (t->audit->count > 0)
        hybrid_audit_range(
            t->audit, t->s, range,
            step_finite(t->c->device, range, &t->s->sync->ranges[range]));
}

static enum sl_err whole(void *arg, uint32_t range, struct sl_error *err)
{
    const struct sharing *t = arg;
    const struct elements *r = &t->s->sync->ranges[range];

    hybrid_ours_audit_range(t, range);
    grad_statistics_share(t->s->sync->grads, t->c->job->model, r->first,
                          r->count, t->c->count - t->c->end);
    return hybrid_whole(t->s, range, err);
}

static enum sl_err hybrid_ours_rows(void *arg, struct sl_error *err)
{
    const struct sharing *t = arg;
    struct step_program p = job_step_program(t->c->p);

    return job_rows_meet(t->c->job->rows, t->s, &p, t->c->batch.ids, err);
}

// Of an audited step all rows were brought before.
static enum sl_err hybrid_ours_kept_rows(void *arg, struct sl_error *err)
{
    const struct contribution *c = ((struct sharing *)arg)->c;
    struct step_program p = job_step_program(c->p);

    return job_rows_kept(c->job->rows, c->at - c->from, &p, c->batch.ids, err);
}

static enum sl_err hybrid_ours_row_grads(void *arg, struct sl_error *err)
{
    const struct contribution *c = ((struct sharing *)arg)->c;
    struct step_program p = job_step_program(c->p);
    enum sl_err rc = step_take_rows(c->device, err);

    return rc == SL_OK ? job_rows_take(c->job->rows, &p, c->batch.ids, err)
                       : rc;
}

// ---- audited steps (A1)

// Nothing of a repeat is summed (A3).
static enum sl_err hybrid_ours_repeated(void *arg, uint32_t range,
                                        struct sl_error *err)
{
    (void)err;
    hybrid_ours_audit_range(arg, range);
    return SL_OK;
}

static enum sl_err hybrid_ours_pass(struct sharing *t, struct pass *pass,
                                    struct sl_error *err)
{
    struct job_rows *rows = t->c->job->rows;
    enum sl_err rc = SL_OK;

    t->c->audited = t->audit->count > 0;
    if (rows != NULL) {
        pass->rows = t->c->audited ? hybrid_ours_kept_rows : hybrid_ours_rows;
        pass->row_grads = hybrid_ours_row_grads;
    }
    if (rows != NULL && t->c->audited)
        rc = job_rows_again(rows, err);
    if (rc == SL_OK)
        rc = pass_forward(pass, err);
    if (rc == SL_OK && pass->rows != NULL)
        rc = hybrid_rows_rest(t->s, err);
    if (rc == SL_OK)
        rc = pass_backward(pass, err);
    contribution_put(t->c);
    if (rc == SL_OK && t->c->audited)
        hybrid_audit_note(t->audit, t->s, contribution_kind(t->c));
    return rc;
}

// Begins the share of a member with samples of its own, apart from those that
// the step under way has open.
static enum sl_err hybrid_ours_open(struct contribution *c,
                                    struct input_run *run,
                                    const struct hybrid_step *s,
                                    uint32_t member, struct sl_error *err)
{
    const struct schedule *of = &c->job->record->schedule;
    uint64_t first, n;
    enum sl_err rc;

    schedule_step_range(of, s->head.closure, s->head.step, &first, &n);
    rc = job_run(c->job, run, schedule_epoch(of, s->head.closure), first, n,
                 err);
    if (rc != SL_OK)
        return rc;
    contribution_begin(c, run, s->head.closure, s->head.step);
    (void)contribution_share(c, s->hybrid->members, member);
    run->pulse = s->pulse;
    run->share = (struct input_share){c->count, c->from, c->end};
    input_open(c->input, run);
    return SL_OK;
}

// Brings the rows of all micro-batches of the step, for every share that this
// member computes of it.
static enum sl_err hybrid_ours_bring(struct hybrid_ours *o,
                                     struct hybrid_step *s,
                                     struct sl_error *err)
{
    struct contribution c = {
        .input = o->c->input, .job = o->c->job, .device = o->c->device};
    struct input_run run = {NULL};
    enum sl_err rc = hybrid_ours_open(&c, &run, s, s->hybrid->self, err);

    if (rc != SL_OK)
        return rc;
    hybrid_rows_keep(s->hybrid->rows);
    for (; rc == SL_OK && c.at < c.end; c.at++) {
        rc = contribution_get(&c, err);
        if (rc == SL_OK)
            rc = job_rows_foresee(c.job->rows, s, c.batch.ids, err);
        contribution_put(&c);
    }
    input_close(c.input, &run);
    return rc == SL_OK ? hybrid_rows_rest(s, err) : rc;
}

// Computes shares[i], another member's or this one's a first time. What fails
// is left out: the member's own share is what others wait for.
static void hybrid_ours_repeat(struct hybrid_ours *o, struct hybrid_step *s,
                               uint32_t i)
{
    struct contribution c = {
        .input = o->c->input, .job = o->c->job, .device = o->c->device};
    struct lease_metrics apart = {0};
    struct sharing sharing = {s, &c, &o->audit};
    struct pass pass = {.clock = s->clock,
                        .c = &c,
                        .m = &apart,
                        .fresh = hybrid_ours_wait_fresh,
                        .whole = hybrid_ours_repeated,
                        .arg = &sharing};
    struct sl_error err = SL_ERROR_INIT;
    struct input_run run = {NULL};

    if (!hybrid_audit_share(&o->audit, s, i) ||
        hybrid_ours_open(&c, &run, s, (uint32_t)o->audit.shares[i], &err) !=
            SL_OK)
        return;
    if (hybrid_ours_pass(&sharing, &pass, &err) != SL_OK)
        step_stop(c.device);
    input_close(c.input, &run);
}

static enum sl_err hybrid_ours_audit(struct hybrid_ours *o,
                                     struct hybrid_step *s,
                                     struct sl_error *err)
{
    enum sl_err rc;
    uint64_t scale;

    if (!contribution_repeatable(o->c->job))
        return SL_OK;
    memcpy(&scale, &o->c->job->scale.s, sizeof(scale));
    rc = hybrid_audit_begin(&o->audit, s, scale, err);
    if (rc == SL_OK && o->audit.count > 0 && o->c->job->rows != NULL)
        rc = hybrid_ours_bring(o, s, err);
    for (uint32_t i = 1; rc == SL_OK && i < o->audit.count; i++)
        hybrid_ours_repeat(o, s, i);
    if (o->audit.count > 0)
        (void)hybrid_audit_share(&o->audit, s, 0);
    return rc;
}

// A share that has two results is not summed to its end: the step is lost, and
// the group computes it again without this member (A5).
static enum sl_err hybrid_ours_judge(struct hybrid_ours *o,
                                     const struct hybrid_step *s,
                                     struct sl_error *err)
{
    if (!hybrid_audit_differs(&o->audit))
        return SL_OK;
    hybrid_audit_say(&o->audit, s->hybrid);
    return sl_fail(err, SL_ECANCELED,
                   "it computed a share of a step twice, with two results");
}

// ---- a share

// A share that is not finite is summed all the same: so every member sees it.
enum sl_err hybrid_ours_share(struct contributor *by, struct hybrid_step *s,
                              struct sl_error *err)
{
    struct hybrid_ours *o = (struct hybrid_ours *)by;
    struct contribution *c = o->c;
    struct sharing sharing = {s, c, &o->audit};
    struct pass pass = {.clock = s->clock,
                        .c = c,
                        .m = s->m,
                        .fresh = hybrid_ours_wait_fresh,
                        .whole = whole,
                        .arg = &sharing};
    enum sl_err rc = hybrid_ours_audit(o, s, err);

    if (rc == SL_OK)
        rc = hybrid_ours_pass(&sharing, &pass, err);
    if (rc == SL_OK)
        rc = hybrid_ours_judge(o, s, err);
    s->sums = (struct hybrid_sums){c->digest, c->loss_sum, c->right_sum};
    return rc;
}

enum sl_err hybrid_ours_step(struct contributor *by, struct hybrid_step *s,
                             struct sl_error *err)
{
    struct hybrid_ours *o = (struct hybrid_ours *)by;
    struct contribution *c = o->c;
    enum sl_err rc;

    o->audit.count = 0; // one without a share audits nothing
    (void)contribution_share(c, s->hybrid->members, s->hybrid->self);
    input_share(
        c->input, c->run,
        (struct input_share){c->job->record->accumulate, c->from, c->end});
    rc = hybrid_compute(s, err);
    if (rc == SL_OK)
        hybrid_audit_say(&o->audit, s->hybrid);
    c->digest = s->sums.digest;
    c->loss_sum = s->sums.loss_sum;
    c->right_sum = s->sums.right_sum;
    return rc;
}
