// SPDX-License-Identifier: Apache-2.0
// worker/lease/reading.c -- which samples a lease reads; see reading.h.
#include "worker/lease/reading.h"

#include "common/base/mem.h"

// Sets the samples of an evaluation, in the order of the file.
static enum sl_err set_test(struct worker_job *job, const struct lease *l,
                            struct input_run *run, struct sl_error *err)
{
    const Sluice__V1__JobSpec *spec = l->record->open->spec;
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
    struct input_run *run;
    enum sl_err rc;

    if (l->run != NULL || l->kind == LEASE_PROBE || l->kind == LEASE_RING)
        return SL_OK;
    run = sl_calloc(1, sizeof(*run));
    if (run == NULL)
        return sl_no_memory(err);
    if (l->kind == LEASE_EVALUATE)
        rc = set_test(job, l, run, err);
    else
        rc = job_run(job, run, l->epoch, l->first, l->count, err);
    if (rc != SL_OK) {
        sl_free(run);
        return rc;
    }
    run->pulse = &l->gate.pulse;
    run->job = l->job;
    run->closure = l->closure;
    input_open(input, run);
    l->run = run;
    return SL_OK;
}

void task_unprepare(struct input *input, struct lease *l)
{
    if (l->run == NULL)
        return;
    input_close(input, l->run);
    sl_free(l->run);
    l->run = NULL;
}
