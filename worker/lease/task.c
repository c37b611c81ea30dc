// SPDX-License-Identifier: Apache-2.0
// worker/lease/task.c -- the choice by kind of lease, and its samples; see
// task.h.
#include "worker/lease/task.h"

// Sets the samples of an evaluation, in the order of the file.
static enum sl_err set_test(struct worker_job *job, struct lease *l,
                            struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = l->record->open->spec;
    struct input_run *run = &l->run;
    uint32_t batch =
        (uint32_t)l->record->schedule.batch / l->record->accumulate;

    if (spec->evaluate != NULL && spec->evaluate->batch > 0)
        batch = spec->evaluate->batch;
    run->first = l->first;
    run->count = l->count;
    run->batch = batch;
    return job_data(job, true, &run->data, err);
}

enum sl_err task_prepare(struct input *input, struct worker_job *job,
                         struct lease *l, struct sl_error *err)
{
    enum sl_err rc;

    if (l->run_open || l->kind == LEASE_PROBE || l->kind == LEASE_RING)
        return SL_OK;
    if (l->kind == LEASE_EVALUATE)
        rc = set_test(job, l, err);
    else
        rc = job_run(job, &l->run, l->epoch, l->first, l->count, err);
    if (rc != SL_OK)
        return rc;
    l->run.pulse = &l->gate.pulse;
    l->run.job = l->job;
    l->run.closure = l->closure;
    input_open(input, &l->run);
    l->run_open = true;
    return SL_OK;
}

void task_unprepare(struct input *input, struct lease *l)
{
    if (!l->run_open)
        return;
    input_close(input, &l->run);
    l->run_open = false;
}

static void task_probe(struct worker_job *job, struct lease *l)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = job_facts(job, &l->outcome.facts, &err);

    if (rc != SL_OK)
        task_fail(l, rc, &err);
}

// Marks a failure by this worker's data files: other workers may have good
// ones.
static void say_data(const struct worker_job *job, struct lease *l)
{
    struct outcome *o = &l->outcome;

    o->data = o->kind == OUTCOME_FAILED && o->job_error && job->data_amiss;
    o->differs = o->data && job->data_differs && l->kind != LEASE_PROBE;
    if (o->differs)
        o->facts = job->found;
}

void task_run(const struct task_env *env, struct worker_job *job,
              struct lease *l)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    l->outcome.kind = OUTCOME_COMPLETE;
    job->data_amiss = job->data_differs = false;
    job->pulse = &l->gate.pulse;
    rc = task_prepare(env->input, job, l, &err);
    if (rc != SL_OK)
        task_fail(l, rc, &err);
    else if (l->kind == LEASE_TRAIN)
        task_train(env, job, l);
    else if (l->kind == LEASE_EVALUATE)
        task_evaluate(env, job, l);
    else if (l->kind == LEASE_RING && job->hybrid != NULL)
        task_hybrid(env, job, l);
    else if (l->kind == LEASE_RING)
        task_ring(env, job, l);
    else
        task_probe(job, l);
    say_data(job, l);
    job->pulse = NULL;
}
