// SPDX-License-Identifier: Apache-2.0
// worker/lease/ring_round.c -- the gradients of a rank's slots, and what
// becomes of their sum.
#include "worker/lease/ring_round.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "worker/device/grad.h"
#include "worker/lease/pass.h"

void round_init(struct ring_round *r, const struct task_env *env,
                struct job *job, struct lease *lease)
{
    *r = (struct ring_round){
        .env = env, .job = job, .lease = lease, .m = lease_progress(lease)};
    r->step = (struct step){.device = job->device,
                            .team = job->team,
                            .grads = job->ring->grads,
                            .pulse = &lease->gate.pulse};
    r->c = (struct contribution){
        .input = env->input, .job = job, .device = &r->step};
}

static void close_slots(struct ring_round *r, unsigned which)
{
    for (uint32_t i = 0; i < r->slots_count[which]; i++) {
        if (r->slots[which][i].open)
            input_close(r->env->input, &r->slots[which][i].run);
        r->slots[which][i].open = false;
    }
    r->slots_count[which] = 0;
}

void round_leave(struct ring_round *r)
{
    step_stop(&r->step);
    close_slots(r, 0);
    close_slots(r, 1);
}

static void free_all(struct ring_round *r)
{
    sl_free(r->keys);
    sl_free(r->steps);
    sl_free(r->slots[0]);
    sl_free(r->slots[1]);
    r->keys = NULL;
    r->steps = NULL;
    r->slots[0] = r->slots[1] = NULL;
}

void round_release(struct ring_round *r)
{
    round_leave(r);
    free_all(r);
}

enum sl_err round_join(struct ring_round *r, uint32_t ranks, uint32_t self,
                       uint32_t contributions, struct sl_error *err)
{
    enum sl_err rc;

    round_leave(r);
    free_all(r);
    rc = job_ring_params(r->job, &r->step, err);
    if (rc != SL_OK)
        return rc;
    r->ranks = ranks;
    r->self = self;
    r->contributions = contributions;
    r->slots_cap = contributions / ranks + 1;
    r->keys = sl_malloc_array(2 * (size_t)contributions, sizeof(*r->keys));
    r->steps = sl_malloc_array(contributions, sizeof(*r->steps));
    for (unsigned i = 0; i < 2; i++)
        r->slots[i] = sl_calloc(r->slots_cap, sizeof(*r->slots[i]));
    if (r->keys != NULL && r->steps != NULL && r->slots[0] != NULL &&
        r->slots[1] != NULL)
        return SL_OK;
    free_all(r);
    return sl_fail(err, SL_ENOMEM, "no memory for a round of %" PRIu32,
                   contributions);
}

// ---- which steps

static const struct schedule *schedule_of(const struct ring_round *r)
{
    return &r->lease->record->schedule;
}

static bool shuffles(const struct ring_round *r)
{
    const Sluice__V1__TrainSpec *train = r->lease->record->open->spec->train;

    return !train->has_shuffle || train->shuffle;
}

static enum sl_err make_order(const struct ring_round *r, uint64_t epoch,
                              struct order *out, struct sl_error *err)
{
    if (order_init(out, r->lease->record->open->spec->train->seed, epoch,
                   schedule_of(r)->samples) != SL_OK)
        return sl_fail(err, SL_EINVAL, "the data has no order");
    return SL_OK;
}

// What the counted set says of each key, whoever computes it.
static enum sl_err fill_steps(struct ring_round *r, struct sl_error *err)
{
    const struct schedule *s = schedule_of(r);
    uint64_t epoch = schedule_epoch(s, r->keys[0].closure);
    bool shuffle = shuffles(r);
    enum sl_err rc = SL_OK;
    struct order order;

    if (shuffle)
        rc = make_order(r, epoch, &order, err);
    r->samples = 0;
    for (uint32_t i = 0; rc == SL_OK && i < r->count; i++) {
        uint64_t first, n, digest = 0;

        schedule_step_range(s, r->keys[i].closure, r->keys[i].step, &first, &n);
        for (uint64_t p = first; p < first + n; p++)
            digest += schedule_digest(epoch, shuffle ? order_at(&order, p) : p);
        r->steps[i] = (struct once_step){.closure = r->keys[i].closure,
                                         .step = r->keys[i].step,
                                         .samples = n,
                                         .digest = digest};
        r->samples += n;
    }
    return rc;
}

static enum sl_err open_slot(struct ring_round *r, struct round_slot *slot,
                             struct round_key key, struct sl_error *err)
{
    const struct schedule *s = schedule_of(r);
    uint64_t first, n;
    enum sl_err rc;

    memset(slot, 0, sizeof(*slot));
    slot->key = key;
    schedule_step_range(s, key.closure, key.step, &first, &n);
    rc = job_run(r->job, &slot->run, schedule_epoch(s, key.closure), first, n,
                 err);
    if (rc != SL_OK)
        return rc;
    input_open(r->env->input, &slot->run);
    slot->open = true;
    return SL_OK;
}

// Our slots of a round whose keys are given: their reading begins.
static enum sl_err open_slots(struct ring_round *r, unsigned which,
                              const struct round_key *keys, uint32_t count,
                              struct sl_error *err)
{
    enum sl_err rc = SL_OK;
    uint32_t first, n;

    close_slots(r, which);
    round_slots(count, r->ranks, r->self, &first, &n);
    for (uint32_t i = 0; rc == SL_OK && i < n; i++) {
        rc = open_slot(r, &r->slots[which][i], keys[first + i], err);
        if (rc == SL_OK)
            r->slots_count[which]++;
    }
    return rc;
}

// True if what was opened ahead are our slots of this round.
static bool foreseen(const struct ring_round *r)
{
    uint32_t first, n;

    round_slots(r->count, r->ranks, r->self, &first, &n);
    if (r->slots_count[1] != n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct round_key *a = &r->slots[1][i].key,
                               *b = &r->keys[first + i];

        if (a->closure != b->closure || a->step != b->step)
            return false;
    }
    return true;
}

// This round's slots, and the next round's, as far as its keys are known.
static enum sl_err choose(struct ring_round *r, struct sl_error *err)
{
    const struct counted *c = &rank_once(&r->job->ring->rank)->counted;
    bool ready;
    enum sl_err rc;

    r->keys_count = round_next(c, 2 * r->contributions, r->keys);
    r->count = sl_min(r->keys_count, r->contributions);
    if (r->count == 0)
        return SL_OK;
    ready = foreseen(r);
    close_slots(r, 0);
    if (ready) {
        struct round_slot *used = r->slots[0];

        r->slots[0] = r->slots[1];
        r->slots[1] = used;
        r->slots_count[0] = r->slots_count[1];
        r->slots_count[1] = 0;
        rc = SL_OK;
    } else {
        rc = open_slots(r, 0, r->keys, r->count, err);
    }
    if (rc == SL_OK)
        rc =
            open_slots(r, 1, r->keys + r->count, r->keys_count - r->count, err);
    return rc == SL_OK ? fill_steps(r, err) : rc;
}

// ---- contributions

// What a device may copy ahead behind the last micro-batch of a slot: the first
// one of the next slot.
static enum sl_err look_ahead(void *arg, struct sl_error *err)
{
    struct ring_round *r = arg;
    struct input *input = r->c.input;

    if (r->slot + 1 < r->slots_count[0])
        return step_look_ahead(&r->step, input, &r->slots[0][r->slot + 1].run,
                               0, err);
    if (r->slots_count[1] > 0)
        return step_look_ahead(&r->step, input, &r->slots[1][0].run, 0, err);
    return SL_OK;
}

// The gradient of a bucket is added; that of the last contribution is sent.
static enum sl_err add_bucket(void *arg, uint32_t b, struct sl_error *err)
{
    struct ring_round *r = arg;
    struct job_ring *ring = r->job->ring;
    const struct overlap_range *range = &ring->buckets[b];

    if (!step_finite(&r->step, b, range))
        r->bad = true; // what the sums of many become is looked at by update
    grad_statistics(ring->grads, r->job->model, range->first, range->count,
                    r->c.count);
    sum_add(&ring->sum, b, ring->grads, (float)r->c.samples, r->slot == 0);
    return r->slot + 1 == r->slots_count[0] ? sum_start(&ring->sum, b, err)
                                            : SL_OK;
}

// The gradient of one slot, added to the sum.
static enum sl_err compute(struct ring_round *r, uint32_t slot,
                           struct sl_error *err)
{
    struct round_slot *s = &r->slots[0][slot];
    struct pass pass = {.clock = r->env->clock,
                        .c = &r->c,
                        .m = &r->m,
                        .whole = add_bucket,
                        .ahead = look_ahead,
                        .arg = r};
    enum sl_err rc;

    r->slot = slot;
    contribution_begin(&r->c, &s->run, s->key.closure, s->key.step);
    FAULT("task.compute");
    rc = pass_forward(&pass, err);
    FAULT("task.computed");
    if (rc == SL_OK && !isfinite(r->c.loss_sum))
        r->bad = r->bad_loss = true;
    if (rc == SL_OK && !r->bad)
        rc = pass_backward(&pass, err);
    if (rc != SL_OK || r->bad)
        step_stop(&r->step);
    contribution_put(&r->c);
    r->loss_sum += r->c.loss_sum;
    r->right_sum += r->c.right_sum;
    return rc;
}

// A device may copy the last average still: one that has computed since has
// waited for that.
static enum sl_err free_average(struct ring_round *r, struct sl_error *err)
{
    struct resident *there = r->step.resident;

    return there == NULL ? SL_OK : resident_free_gradient(there, err);
}

// All our slots. One that is not finite makes the others' work vain: the sum is
// spoilt, and sent all the same, since the other ranks wait for it.
static enum sl_err contribute(struct ring_round *r, struct sl_error *err)
{
    struct sum *sum = &r->job->ring->sum;
    uint64_t began = sl_now_us(r->env->clock);
    uint32_t n = r->slots_count[0];
    enum sl_err rc = n == 0 ? free_average(r, err) : SL_OK;

    if (rc == SL_OK)
        rc = sum_begin(sum, n, r->job->ring->grads, err);
    for (uint32_t i = 0; rc == SL_OK && i < n && !r->bad; i++)
        rc = compute(r, i, err);
    r->m.compute_ms += (double)(sl_now_us(r->env->clock) - began) / 1000;
    for (uint32_t b = sum->next; rc == SL_OK && b-- > 0;) {
        if (r->bad)
            sum_spoil(sum, b);
        rc = sum_start(sum, b, err);
    }
    return rc;
}

// ---- the update

// Only the rank whose own contribution it was judges it; see task_train.c.
static enum sl_err judge(struct ring_round *r, struct sl_error *err)
{
    struct job *job = r->job;
    bool scale = job->precision == SPEC_F16 && r->bad &&
                 loss_scale_step(&job->scale, false) && !r->bad_loss;

    if (!r->bad || scale)
        return SL_OK;
    contribution_strange(&r->c, r->m.strange, sizeof(r->m.strange));
    if (!job->skip_nonfinite)
        return sl_fail(err, SL_ENUMERIC,
                       "the loss or gradient is not finite in the round of "
                       "step %u of closure %" PRIu64
                       "; lower the learning rate, or set train.nonfinite: "
                       "skip",
                       r->keys[0].step, r->keys[0].closure);
    job->nonfinite++;
    if (job->max_nonfinite > 0 && job->nonfinite > job->max_nonfinite)
        return sl_fail(err, SL_ENUMERIC,
                       "%u rounds in a row had a loss or gradient that is not "
                       "finite; %s%s",
                       job->nonfinite,
                       r->m.strange[0] != '\0' ? "mend the data: "
                                               : "lower the learning rate",
                       r->m.strange);
    return SL_OK;
}

static bool clips(const struct ring_round *r)
{
    const struct spec_optimizer *o = &r->job->optimizer;

    return o->clipnorm > 0 || o->global_clipnorm > 0;
}

// A bucket's sum becomes its average; a device that applies it gets it while
// others are summed still. If one is not finite, all of it is in vain.
static enum sl_err average(struct ring_round *r, uint32_t bucket,
                           struct sl_error *err)
{
    struct job_ring *ring = r->job->ring;
    const struct overlap_range *at = &ring->buckets[bucket];
    const float *sum = ring->sum.data + at->first;
    float *g = r->average + at->first, n = (float)r->samples;

    r->finite = r->finite && grad_finite(sum, (size_t)at->count);
    if (!r->finite)
        return SL_OK;
    for (uint64_t i = 0; i < at->count; i++)
        g[i] = sum[i] / n;
    return r->step.resident == NULL || clips(r)
               ? SL_OK
               : resident_gradient(r->step.resident, at->first, at->count, err);
}

// As one gradient.
static enum sl_err clip(struct ring_round *r, struct sl_error *err)
{
    const struct job *job = r->job;

    if (!clips(r))
        return SL_OK;
    grad_clipnorm(r->average, job->model, job->optimizer.clipnorm);
    grad_global_clipnorm(r->average, job->model,
                         job->optimizer.global_clipnorm);
    return r->step.resident == NULL
               ? SL_OK
               : resident_gradient(r->step.resident, 0, job->model->elements,
                                   err);
}

// Waits for all sums, and makes them the average. It lies where they do; or in
// the vector that a device copies from. `left`: not all of them came.
static enum sl_err collect(struct ring_round *r, bool *left,
                           struct sl_error *err)
{
    struct job_ring *ring = r->job->ring;
    uint64_t began = sl_now_us(r->env->clock);
    uint32_t bucket;
    enum sl_err rc = SL_OK;

    *left = false;
    r->finite = true;
    r->average = r->step.resident == NULL ? ring->sum.data : ring->grads;
    pulse_wait(&r->lease->gate.pulse, true);
    if (r->average != ring->sum.data)
        rc = free_average(r, err);
    while (rc == SL_OK && sum_outstanding(&ring->sum) > 0) {
        rc = sum_wait(&ring->sum, &bucket, err);
        *left = rc != SL_OK;
        if (rc == SL_OK)
            rc = average(r, bucket, err);
    }
    pulse_wait(&r->lease->gate.pulse, false);
    r->m.wait_ms += (double)(sl_now_us(r->env->clock) - began) / 1000;
    return rc;
}

static void account(struct ring_round *r, bool finite)
{
    r->m.steps += r->slots_count[0];
    for (uint32_t i = 0; i < r->slots_count[0]; i++)
        r->m.samples += r->slots[0][i].run.count;
    if (finite) {
        r->m.loss_sum += r->loss_sum;
        r->m.right_sum += r->right_sum;
    } else {
        r->m.skipped += r->slots_count[0];
    }
    if (r->job->precision == SPEC_F16)
        r->m.loss_scale = r->job->scale.s;
    lease_set_progress(r->lease, &r->m);
}

static enum sl_err update(struct ring_round *r, struct sl_error *err)
{
    struct job_ring *ring = r->job->ring;
    float *fresh = r->step.resident == NULL ? ring->fresh : NULL;
    enum sl_err rc = SL_OK;

    if (!r->finite) {
        rc = judge(r, err);
        for (uint32_t i = 0; i < r->count; i++)
            r->steps[i].skip = true;
    } else {
        r->job->nonfinite = 0;
        if (r->job->precision == SPEC_F16)
            loss_scale_step(&r->job->scale, true);
        rc = clip(r, err);
    }
    if (rc == SL_OK)
        rc =
            rank_round(&ring->rank, r->steps, r->count, r->average, fresh, err);
    if (rc == SL_OK)
        account(r, r->finite);
    return rc;
}

enum round_result round_run(struct ring_round *r, struct sl_error *err)
{
    enum sl_err rc = choose(r, err);
    bool left;

    if (rc == SL_OK && r->count == 0)
        return ROUND_OVER;
    r->bad = r->bad_loss = false;
    r->loss_sum = r->right_sum = 0;
    atomic_store(&r->lease->gate.pulse.step, r->keys[0].step);
    if (rc == SL_OK)
        rc = contribute(r, err);
    if (rc != SL_OK) {
        err->code = rc;
        return ROUND_FAILED;
    }
    rc = collect(r, &left, err);
    if (rc != SL_OK) {
        err->code = rc;
        return left ? ROUND_LEFT : ROUND_FAILED;
    }
    FAULT("task.pushed");
    r->m.sums += r->job->ring->sum.group != NULL;
    r->m.sent_bytes += sum_sent(&r->job->ring->sum);
    rc = update(r, err);
    err->code = rc;
    return rc == SL_OK ? ROUND_DONE : ROUND_FAILED;
}
