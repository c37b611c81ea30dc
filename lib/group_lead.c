// SPDX-License-Identifier: Apache-2.0
// lib/group_lead.c -- a training lease of a group's leader: the worker's
// task_train for steps that programs compute together.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"

#include "lib/group.h"
#include "trainer/base/grad.h"
#include "trainer/lease/hybrid_lead.h"
#include "trainer/lease/tally.h"
#include "trainer/lease/lease.h"

struct lead {
    struct lib_ring *ring;
    struct kept_job *job;
    struct sync *sync;
    struct lease *lease;
    struct lease_metrics m;
    struct tally tally;
    bool parted; // its group is over
    struct sl_error err;
};

// The step before was counted, as shard 0 said: now it may be reported.
static void lead_report_progress(struct lead *t)
{
    tally_add(&t->tally, t->sync, &t->m);
    lease_set_progress(t->lease, &t->m);
}

static enum sync_result lead_judge(struct lead *t, const struct hybrid_step *s)
{
    const struct nonfinite_step at = {
        .closure = s->head.closure, .step = s->head.step, .strange = ""};

    t->err.code = nonfinite_judge(&t->job->nonfinite, &at, &t->err);
    return t->err.code == SL_OK ? SYNC_OK : SYNC_FAILED;
}

// The sum becomes the mean over the step's samples, finite and clipped; or the
// step is to be skipped.
static enum sync_result lead_average_sum(struct lead *t,
                                         const struct hybrid_step *s,
                                         uint64_t samples, bool *skip)
{
    struct kept_job *j = t->job;
    size_t n = (size_t)j->model->elements;
    float whole = group_weight(j->record, samples);

    *skip = s->sums.right_sum == GROUP_SKIPPED;
    if (*skip)
        return SYNC_OK;
    if (!grad_finite(j->grads, n)) {
        *skip = true;
        return lead_judge(t, s);
    }
    for (size_t i = 0; i < n; i++)
        j->grads[i] /= whole;
    grad_clipnorm(j->grads, j->model, j->optimizer.clipnorm);
    grad_global_clipnorm(j->grads, j->model, j->optimizer.global_clipnorm);
    nonfinite_end_row(&j->nonfinite);
    return SYNC_OK;
}

// Variables that no micro-batch of the step has a gradient of; sl_free. Unless
// all members have said which they have: then those of zeros are as any other.
static bool *absent_of(const struct hybrid *h)
{
    bool *absent = sl_calloc(h->variables, sizeof(*absent));

    for (uint32_t i = 0; absent != NULL && h->marks && i < h->variables; i++)
        absent[i] = h->present[i] == 0;
    return absent;
}

static enum sync_result lead_push_mean(struct lead *t,
                                       const struct hybrid_step *s)
{
    struct sync_step step = {.step = s->head.step, .digest = s->sums.digest};
    enum sync_result result;
    uint64_t first;
    bool skip, *absent = absent_of(t->job->hybrid);

    if (absent == NULL) {
        t->err.code = sl_fail(&t->err, SL_ENOMEM, "no memory for a step");
        return SYNC_FAILED;
    }
    schedule_step_range(&t->job->record->schedule, s->head.closure,
                        s->head.step, &first, &step.samples);
    result = lead_average_sum(t, s, step.samples, &skip);
    t->tally.any = true;
    t->tally.step = step.step;
    t->tally.samples = step.samples;
    t->tally.skipped = skip;
    t->tally.loss_sum = skip ? 0 : s->sums.loss_sum;
    t->tally.right_sum = skip ? 0 : s->sums.right_sum;
    for (uint32_t i = t->sync->ranges_count; result == SYNC_OK && i-- > 0;) {
        step.wanted = i;
        step.absent_bytes = 0;
        memset(step.absent, 0, sizeof(step.absent));
        if (!skip)
            (void)closure_absent(&step, &t->job->record->layout, i, absent);
        result = t->sync->ops->send(t->sync, i, &step, skip, &t->err);
    }
    sl_free(absent);
    return result;
}

static enum sync_result lead_compute_step(struct lead *t, uint32_t step)
{
    struct hybrid *h = t->job->hybrid;
    struct hybrid_step s = {
        .hybrid = h,
        .by = &t->ring->base,
        .clock = sl_clock_real(),
        .m = &t->m,
        .pulse = &t->lease->gate.pulse,
        .sync = t->sync,
        .head = {.any = true, .closure = t->lease->closure, .step = step}};
    enum sync_result result = hybrid_meet(h, t->lease, s.clock, &t->parted);

    for (uint32_t i = 0; i < t->sync->ranges_count && result == SYNC_OK; i++)
        result = t->sync->ops->wait(t->sync, i, &t->err);
    if (result != SYNC_OK)
        return result;
    lead_report_progress(t);
    atomic_store(&t->lease->gate.pulse.step, step);
    result = hybrid_lead(&s, &t->err);
    return result == SYNC_OK ? lead_push_mean(t, &s) : result;
}

// From where the shards say to the end, or to the first thing that goes wrong.
static enum sync_result lead_run_steps(struct lead *t, bool *done)
{
    const struct sync_ops *ops = t->sync->ops;
    struct gate *gate = &t->lease->gate;
    uint32_t step = 0;
    enum sync_result result = ops->begin(t->sync, &step, done, &t->err);

    if (result != SYNC_OK || *done)
        return result;
    if (atomic_load(&gate->draining)) {
        gate_close(gate, GATE_DRAIN);
        return SYNC_STOPPED;
    }
    while (result == SYNC_OK && step < t->lease->steps &&
           !atomic_load(&gate->draining)) {
        result = lead_compute_step(t, step);
        step = ops->next(t->sync, step);
    }
    return result == SYNC_OK ? ops->settle(t->sync, &t->err) : result;
}

void group_lead(struct lib_ring *g, struct lease *l)
{
    struct lead t = {.ring = g,
                     .job = g->job,
                     .sync = g->job->sync,
                     .lease = l,
                     .m = lease_progress(l),
                     .err = SL_ERROR_INIT};
    struct sync_closure c = {.closure = l->closure,
                             .attempt = l->attempt,
                             .proof = l->proof,
                             .steps = l->steps,
                             .gate = &l->gate};
    enum sync_result result = t.sync->ops->open(t.sync, &c, &t.err);
    bool done = false;

    while (!done && (result == SYNC_OK || result == SYNC_AGAIN)) {
        result = lead_run_steps(&t, &done);
        lead_report_progress(&t);
    }
    if (result == SYNC_STOPPED && t.parted)
        lease_hand_back(l, "its group is over");
    else
        tally_conclude(l, t.sync, result, &t.err);
    t.sync->ops->close(t.sync);
}
