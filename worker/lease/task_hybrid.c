// SPDX-License-Identifier: Apache-2.0
// worker/lease/task_hybrid.c -- a member of a group that computes its shares
// with a model of layers (hybrid_member.h). The leader's training leases
// compute with the group themselves (task_train.c).
#include "trainer/lease/hybrid_member.h"
#include "worker/lease/hybrid_ours.h"
#include "worker/lease/task.h"

struct hybrid_contributor {
    struct hybrid_ours base;
    const struct task_env *env;
    struct worker_job *job;
    struct lease *lease;
    struct step step;
    struct contribution c;
    struct input_run run; // samples of the leader's closure
    bool run_open;
};

static struct hybrid_contributor *hybrid_contributor_of(struct contributor *c)
{
    return (struct hybrid_contributor *)c;
}

static void close_run(struct hybrid_contributor *o)
{
    if (o->run_open)
        input_close(o->env->input, &o->run);
    o->run_open = false;
}

// Opens the samples of the leader's closure, unless they are open already.
static enum sl_err open_run(struct hybrid_contributor *o, uint64_t closure,
                            struct sl_error *err)
{
    const struct schedule *s = &o->lease->record->schedule;
    uint64_t first, count;
    enum sl_err rc;

    if (o->run_open && o->c.closure == closure)
        return SL_OK;
    close_run(o);
    schedule_closure_range(s, closure, &first, &count);
    rc =
        job_run(o->job, &o->run, schedule_epoch(s, closure), first, count, err);
    if (rc != SL_OK)
        return rc;
    input_open(o->env->input, &o->run);
    o->run_open = true;
    return SL_OK;
}

static enum sl_err task_hybrid_run_step(struct contributor *by,
                                        struct hybrid_step *s,
                                        struct sl_error *err)
{
    struct hybrid_contributor *o = hybrid_contributor_of(by);
    enum sl_err rc = open_run(o, s->head.closure, err);

    if (rc != SL_OK)
        return rc;
    o->job->scale.s = s->head.loss_scale;
    contribution_begin(&o->c, &o->run, s->head.closure, s->head.step);
    rc = hybrid_ours_step(by, s, err);
    contribution_put(&o->c);
    if (rc != SL_OK)
        step_stop(&o->step);
    return rc;
}

static void task_hybrid_run_between(struct contributor *by)
{
    const struct hybrid_contributor *o = hybrid_contributor_of(by);

    o->env->between(o->env->arg, o->job);
}

static void task_hybrid_leave(struct contributor *by)
{
    struct hybrid_contributor *o = hybrid_contributor_of(by);

    step_stop(&o->step);
    close_run(o);
    hybrid_audit_release(&o->base.audit);
}

static const struct contributor_ops hybrid_ops = {
    .share = hybrid_ours_share,
    .step = task_hybrid_run_step,
    .between = task_hybrid_run_between,
    .leave = task_hybrid_leave,
};

// Makes what would hold other members up if it came later: data and programs.
static enum sl_err task_hybrid_prepare_job(struct worker_job *job,
                                           struct sync **sync,
                                           struct sl_error *err)
{
    const struct record *record = job->record;
    uint32_t batch = (uint32_t)record->schedule.batch / record->accumulate;
    struct job_program *p;
    struct data *data;
    enum sl_err rc = job_data(job, false, &data, err);

    if (rc == SL_OK)
        rc = job_sync(job, sync, err);
    if (rc == SL_OK)
        rc = job_program(job, JOB_TRAINS, batch, &p, err);
    return rc;
}

void task_hybrid(const struct task_env *env, struct worker_job *job,
                 struct lease *l)
{
    struct hybrid_contributor o = {
        .base.base = {.ops = &hybrid_ops, .clock = env->clock},
        .env = env,
        .job = job,
        .lease = l};
    struct sl_error err = SL_ERROR_INIT;
    struct sync *sync;
    enum sl_err rc = task_hybrid_prepare_job(job, &sync, &err);

    if (rc != SL_OK) {
        lease_fail(l, rc, &err);
        return;
    }
    o.base.c = &o.c;
    o.step = (struct step){.device = job->device,
                           .team = job->team,
                           .params = sync->params,
                           .grads = sync->grads,
                           .pulse = &l->gate.pulse};
    o.c = (struct contribution){
        .input = env->input, .job = job, .device = &o.step};
    hybrid_member_run(&o.base.base, job->hybrid, sync, l);
}
