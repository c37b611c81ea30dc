// SPDX-License-Identifier: Apache-2.0
// worker/lease/task_hybrid.c -- a ring lease of a hybrid job: a member of a
// group, from its joining to the end of its lease.
//
// The leader's training leases and evaluations run within it (task_train.c
// computes with the group then). While it has none, it says so every now and
// then, so that followers look at what else they have to do. A follower
// computes its share of what the leader says, step by step.
#include <inttypes.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "worker/lease/hybrid_step.h"
#include "worker/lease/task.h"

#define LOOK_MS 200 // at the gate, at least so often

struct member {
    const struct task_env *env;
    struct job *job;
    struct lease *lease;
    struct hybrid *hybrid;
    struct sync *sync; // its vectors
    struct lease_metrics m;
    struct step step;
    struct contribution c;
    struct input_run run; // of the leader's closure
    bool run_open;
    struct sl_error err;
};

// ---- following

static void close_run(struct member *t)
{
    if (t->run_open)
        input_close(t->env->input, &t->run);
    t->run_open = false;
}

// The samples of the leader's closure, unless they are open already.
static enum sl_err open_run(struct member *t, uint64_t closure,
                            struct sl_error *err)
{
    const struct schedule *s = &t->lease->record->schedule;
    uint64_t first, count;
    enum sl_err rc;

    if (t->run_open && t->c.closure == closure)
        return SL_OK;
    close_run(t);
    schedule_closure_range(s, closure, &first, &count);
    rc =
        job_run(t->job, &t->run, schedule_epoch(s, closure), first, count, err);
    if (rc != SL_OK)
        return rc;
    input_open(t->env->input, &t->run);
    t->run_open = true;
    return SL_OK;
}

static enum sl_err compute(struct member *t, const struct hybrid_head *head)
{
    struct hybrid_step s = {.hybrid = t->hybrid,
                            .clock = t->env->clock,
                            .c = &t->c,
                            .m = &t->m,
                            .params = t->sync->params,
                            .grads = t->sync->grads};
    enum sl_err rc = open_run(t, head->closure, &t->err);

    if (rc != SL_OK)
        return rc;
    t->job->scale.s = head->loss_scale;
    atomic_store(&t->lease->gate.pulse.step, head->step);
    contribution_begin(&t->c, &t->run, head->closure, head->step);
    rc = hybrid_compute(&s, &t->err);
    contribution_put(&t->c);
    if (rc != SL_OK)
        step_stop(&t->step);
    if (rc == SL_OK)
        HISTORY("group_step",
                "job=%" PRIu64 " generation=%" PRIu64 " member=%" PRIu32
                " closure=%" PRIu64 " step=%" PRIu32,
                t->lease->job, t->hybrid->opened, t->hybrid->self,
                head->closure, head->step);
    return rc;
}

static bool known(const struct member *t, const struct hybrid_head *head)
{
    const struct schedule *s = &t->lease->record->schedule;

    return head->closure < schedule_closures(s) &&
           head->step < schedule_closure_steps(s, head->closure);
}

static void follow(struct member *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;
    struct hybrid_head head = {0};
    enum sl_err rc;

    pulse_wait(pulse, true);
    rc = hybrid_agree(t->hybrid, &head, &t->err);
    pulse_wait(pulse, false);
    pulse_beat(pulse); // the thread does not hang
    if (rc == SL_OK && head.any && !known(t, &head)) {
        sl_fail(&t->err, SL_EINVAL,
                "the leader says step %" PRIu32 " of closure %" PRIu64
                ", which the job does not have",
                head.step, head.closure);
        hybrid_accuse(t->hybrid, 0, &t->err);
        return;
    }
    if (rc == SL_OK && head.any)
        rc = compute(t, &head);
    if (rc != SL_OK && t->hybrid->lost)
        hybrid_broken(t->hybrid, &t->err);
    else if (rc != SL_OK)
        hybrid_fail(t->hybrid, rc, &t->err);
    lease_set_progress(t->lease, &t->m);
}

// ---- leading, with nothing to do

static void idle(struct member *t)
{
    struct hybrid_head none = {.any = false};

    if (hybrid_agree(t->hybrid, &none, &t->err) == SL_OK)
        return;
    if (t->hybrid->lost)
        hybrid_broken(t->hybrid, &t->err);
    else
        hybrid_fail(t->hybrid, t->err.code, &t->err);
}

static void wait(struct member *t)
{
    struct pulse *pulse = &t->lease->gate.pulse;

    pulse_wait(pulse, true);
    seat_wait(t->lease->seat, LOOK_MS);
    if (hybrid_leads(t->hybrid) && !seat_has_news(t->lease->seat))
        idle(t);
    pulse_wait(pulse, false);
    pulse_beat(pulse);
}

// ---- the lease

static bool must_end(struct member *t)
{
    if (atomic_load(&t->lease->gate.draining))
        gate_close(&t->lease->gate, GATE_DRAIN);
    return gate_look(&t->lease->gate, t->env->clock) != GATE_OPEN ||
           t->hybrid->failed;
}

static void run(struct member *t)
{
    while (!must_end(t)) {
        hybrid_look(t->hybrid);
        t->env->between(t->env->arg, t->job);
        if (must_end(t) || seat_has_news(t->lease->seat))
            continue;
        if (hybrid_follows(t->hybrid))
            follow(t);
        else
            wait(t);
    }
}

// What would hold others up if it came later: the data, the programs.
static enum sl_err prepare(struct member *t)
{
    const struct record *record = t->lease->record;
    uint32_t batch = (uint32_t)record->schedule.batch / record->accumulate;
    struct job_program *p;
    struct data *data;
    enum sl_err rc = job_data(t->job, false, &data, &t->err);

    if (rc == SL_OK)
        rc = job_sync(t->job, &t->sync, &t->err);
    if (rc == SL_OK)
        rc = job_program(t->job, JOB_TRAINS, batch, &p, &t->err);
    return rc;
}

static void conclude(struct member *t)
{
    const struct sl_error *why = &t->hybrid->why;

    if (!t->hybrid->failed)
        task_stopped(t->lease);
    else if (why->code == SL_ECANCELED)
        task_hand_back(t->lease, why->text);
    else
        task_fail(t->lease, why->code, why);
}

void task_hybrid(const struct task_env *env, struct job *job, struct lease *l)
{
    struct member t = {.env = env,
                       .job = job,
                       .lease = l,
                       .hybrid = job->hybrid,
                       .m = lease_progress(l),
                       .err = SL_ERROR_INIT};
    enum sl_err rc = prepare(&t);

    if (rc != SL_OK) {
        task_fail(l, rc, &t.err);
        return;
    }
    t.step = (struct step){.device = job->device,
                           .team = job->team,
                           .params = t.sync->params,
                           .grads = t.sync->grads,
                           .pulse = &l->gate.pulse};
    t.c = (struct contribution){
        .input = env->input, .job = job, .device = &t.step};
    hybrid_enter(t.hybrid, l);
    run(&t);
    hybrid_exit(t.hybrid);
    step_stop(&t.step);
    close_run(&t);
    FAULT("group.left");
    conclude(&t);
}
