// SPDX-License-Identifier: Apache-2.0
// worker/lease/task.c -- the choice by kind of lease, and its samples; see
// task.h.
#include "worker/lease/task.h"

// The order of an evaluation is that of the file.
static enum sl_err set_order(struct input_run *run, const struct record *r,
                             uint64_t epoch, struct sl_error *err)
{
    const Sluice__V1__TrainSpec *train = r->open->spec->train;

    run->shuffle = !train->has_shuffle || train->shuffle;
    run->epoch = epoch;
    if (!run->shuffle)
        return SL_OK;
    if (order_init(&run->order, train->seed, epoch, r->schedule.samples) !=
        SL_OK)
        return sl_fail(err, SL_EINVAL, "the data has no order");
    return SL_OK;
}

enum sl_err task_prepare(struct input *input, struct job *job, struct lease *l,
                         struct sl_error *err)
{
    struct input_run *run = &l->run;
    bool test = l->kind == LEASE_EVALUATE;
    const Sluice__V1__JobSpec *spec = l->record->open->spec;
    uint64_t batch = l->record->schedule.batch / l->record->accumulate;
    enum sl_err rc;

    if (l->run_open || l->kind == LEASE_PROBE || l->kind == LEASE_RING)
        return SL_OK;
    rc = job_data(job, test, &run->data, err);
    if (rc == SL_OK && !test)
        rc = set_order(run, l->record, l->epoch, err);
    if (rc != SL_OK)
        return rc;
    if (test && spec->evaluate != NULL && spec->evaluate->batch > 0)
        batch = spec->evaluate->batch;
    run->first = l->first;
    run->count = l->count;
    run->batch = (uint32_t)batch;
    input_open(input, run);
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

static void probe(struct job *job, struct lease *l)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = job_facts(job, &l->outcome.facts, &err);

    if (rc != SL_OK)
        task_fail(l, rc, &err);
}

void task_run(const struct task_env *env, struct job *job, struct lease *l)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc;

    l->outcome.kind = OUTCOME_COMPLETE;
    job->pulse = &l->gate.pulse;
    rc = task_prepare(env->input, job, l, &err);
    if (rc != SL_OK)
        task_fail(l, rc, &err);
    else if (l->kind == LEASE_TRAIN)
        task_train(env, job, l);
    else if (l->kind == LEASE_EVALUATE)
        task_evaluate(env, job, l);
    else if (l->kind == LEASE_RING)
        task_ring(env, job, l);
    else
        probe(job, l);
    job->pulse = NULL;
}
