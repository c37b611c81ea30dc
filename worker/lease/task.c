// SPDX-License-Identifier: Apache-2.0
// worker/lease/task.c -- the choice by kind of lease; see task.h.
#include "worker/lease/task.h"

#include "worker/lease/reading.h"

static void task_probe(struct worker_job *job, struct lease *l)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = job_facts(job, &l->outcome.facts, &err);

    if (rc != SL_OK)
        lease_fail(l, rc, &err);
}

// Marks a failure by this worker's data files, as other workers may have good
// ones; and by a place that does not answer: nothing else that a closure fails
// by is SL_EUNAVAIL, while a ring fails so by another rank.
static void say_data(const struct worker_job *job, struct lease *l)
{
    struct outcome *o = &l->outcome;

    bool away = l->kind == LEASE_TRAIN && o->err.code == SL_EUNAVAIL;

    o->data =
        o->kind == OUTCOME_FAILED && (o->job_error ? job->data_amiss : away);
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
        lease_fail(l, rc, &err);
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
