// SPDX-License-Identifier: Apache-2.0
// lib/group.c -- a member of a group, for micro-batches that the program
// computes; and the training leases of its leader.
//
// A step's micro-batches are slots of the program's. The gradient of one is
// that of the mean over its own samples, so it is weighed here: by its samples,
// in units of a full micro-batch, which most are. Their sum over the group is
// divided by the weight of the step before it is pushed.
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "lib/ring.h"
#include "trainer/base/grad.h"
#include "trainer/lease/hybrid_lead.h"
#include "trainer/lease/hybrid_member.h"
#include "trainer/lease/lease.h"

// A program that leaves a step out says so in the sum of the right ones, which
// is nothing else's: it stays what it is, whatever is added.
#define GROUP_SKIPPED (-INFINITY)

// All of it the ring's thread's.
struct group_member {
    struct lib_ring base;
    float *sum; // of several micro-batches, but the last; owned; or NULL
    struct order order;
    uint64_t order_of; // an epoch, plus 1; 0: of none
    uint32_t computed; // of the step
    bool skips;        // the program said so of one
};

static struct group_member *member_of(struct contributor *c)
{
    return (struct group_member *)c;
}

static uint64_t full_batch(const struct record *r)
{
    return r->schedule.batch / r->accumulate;
}

// Returns the weight of a gradient over `samples` samples, in full
// micro-batches.
static float group_weight(const struct record *r, uint64_t samples)
{
    return (float)samples / (float)full_batch(r);
}

// The positions of a micro-batch; *count 0: the step has none of that number.
static void positions(const struct record *r, const struct hybrid_head *h,
                      uint32_t batch, uint64_t *first, uint64_t *count)
{
    uint64_t full = full_batch(r), before = batch * full;

    schedule_step_range(&r->schedule, h->closure, h->step, first, count);
    *count = before < *count ? *count - before : 0;
    if (*count > full)
        *count = full;
    *first += before;
}

// Our next one is behind it, or in the same place of the step behind.
static void tell_next(struct slot_told *told, const struct record *r,
                      const struct hybrid_step *s, uint32_t batch)
{
    struct hybrid_head next = s->head;

    if (++batch == s->end) {
        batch = s->from;
        next.step++;
    }
    if (next.step < schedule_closure_steps(&r->schedule, next.closure))
        positions(r, &next, batch, &told->next_first, &told->next_count);
}

static void group_offer_batch(struct group_member *g,
                              const struct hybrid_step *s, uint32_t batch)
{
    const struct record *r = g->base.job->record;
    struct slot_told told = {.key = {s->head.closure, s->head.step},
                             .generation = s->hybrid->opened,
                             .ranks = s->hybrid->members,
                             .self = s->hybrid->self};

    positions(r, &s->head, batch, &told.first, &told.count);
    tell_next(&told, r, s, batch);
    slot_offer(&g->base.slot, &told);
}

// A range of a micro-batch is whole; that of the last one leaves.
static enum sl_err group_add_range(struct group_member *g,
                                   struct hybrid_step *s, uint32_t batch,
                                   uint32_t range, struct sl_error *err)
{
    const struct elements *at = &s->sync->ranges[range];
    bool begins = batch == s->from, ends = batch + 1 == s->end;
    float *grads = s->sync->grads + at->first, w;
    float *sum = g->sum + (g->sum == NULL ? 0 : at->first);
    uint64_t first, count;

    positions(g->base.job->record, &s->head, batch, &first, &count);
    w = group_weight(g->base.job->record, count);
    for (uint64_t i = 0; i < at->count; i++) {
        float v = begins ? w * grads[i] : sum[i] + w * grads[i];

        *(ends ? &grads[i] : &sum[i]) = v;
    }
    return ends ? hybrid_whole(s, range, err) : SL_OK;
}

static enum sl_err group_add_result(struct group_member *g,
                                    struct hybrid_step *s, uint32_t batch,
                                    struct sl_error *err)
{
    const struct record *r = g->base.job->record;
    const Sluice__V1__TrainSpec *train = r->open->spec->train;
    const struct sluice_result *said = &g->base.slot.shared.result;
    uint64_t epoch = schedule_epoch(&r->schedule, s->head.closure);
    bool shuffle = !train->has_shuffle || train->shuffle;
    uint64_t first, count;

    if (g->order_of != epoch + 1 &&
        order_init(&g->order, train->seed, epoch, r->schedule.samples) != SL_OK)
        return sl_fail(err, SL_EINVAL, "the data has no order");
    g->order_of = epoch + 1;
    positions(r, &s->head, batch, &first, &count);
    for (uint64_t p = first; p < first + count; p++)
        s->sums.digest +=
            schedule_digest(epoch, shuffle ? order_at(&g->order, p) : p);
    s->sums.loss_sum += said->loss_sum;
    s->sums.right_sum += isfinite(said->right) ? said->right : 0;
    g->skips = g->skips || said->skip;
    for (uint32_t i = 0; i < s->hybrid->variables; i++)
        s->hybrid->present[i] += g->base.slot.shared.absent[i] ? 0 : 1;
    g->computed++;
    return SL_OK;
}

// The program lets go of it: the generation is over for us.
static enum sl_err cancelled(struct hybrid_step *s, struct sl_error *err)
{
    s->hybrid->lost = true;
    return sl_fail(err, SL_ECANCELED,
                   "the program has not computed its gradient");
}

// Until the program has done with one. Ranges are taken in the order of all
// sums; the program may have them whole in another.
static enum sl_err group_compute_batch(struct group_member *g,
                                       struct hybrid_step *s, uint32_t batch,
                                       struct sl_error *err)
{
    struct lib_slot *slot = &g->base.slot;
    uint32_t left = slot->ranges, range;
    enum slot_state at = SLOT_TAKEN;
    enum sl_err rc = SL_OK;

    group_offer_batch(g, s, batch);
    while (rc == SL_OK && left > 0) {
        at = slot_next(slot, left - 1, &range);
        if (at != SLOT_TAKEN)
            break;
        rc = group_add_range(g, s, batch, --left, err);
    }
    if (at == SLOT_TAKEN) // it failed; the program computes on
        at = slot_next(slot, SLOT_ALL, &range);
    if (at == SLOT_NONE)
        return rc == SL_OK ? cancelled(s, err) : rc;
    if (rc == SL_OK)
        rc = group_add_result(g, s, batch, err);
    while (rc == SL_OK && left > 0)
        rc = group_add_range(g, s, batch, --left, err);
    slot_put(slot);
    return rc;
}

static enum sl_err make_sum(struct group_member *g, struct sl_error *err)
{
    size_t bytes = (size_t)g->base.job->model->elements * sizeof(float);

    if (g->sum == NULL)
        g->sum = sl_aligned(64, bytes);
    return g->sum != NULL
               ? SL_OK
               : sl_fail(err, SL_ENOMEM, "no memory for a step's sum");
}

static enum sl_err group_compute_share(struct contributor *c,
                                       struct hybrid_step *s,
                                       struct sl_error *err)
{
    struct group_member *g = member_of(c);
    enum sl_err rc = hybrid_fresh(s, s->sync->ranges_count - 1, err);

    g->skips = false;
    if (rc == SL_OK && s->end - s->from > 1)
        rc = make_sum(g, err);
    for (uint32_t i = s->from; rc == SL_OK && i < s->end; i++)
        rc = group_compute_batch(g, s, i, err);
    if (g->skips)
        s->sums.right_sum = GROUP_SKIPPED;
    return rc;
}

static enum sl_err group_compute_step(struct contributor *c,
                                      struct hybrid_step *s,
                                      struct sl_error *err)
{
    struct group_member *g = member_of(c);
    enum sl_err rc;

    g->computed = 0;
    rc = hybrid_compute(s, err);
    if (rc != SL_OK)
        slot_lost(&g->base.slot, g->computed);
    return rc;
}

static enum sl_err group_mark_fresh(struct contributor *c, struct sl_error *err)
{
    (void)err;
    slot_stale(&member_of(c)->base.slot, false);
    return SL_OK;
}

static void group_mark_stale(struct contributor *c)
{
    slot_stale(&member_of(c)->base.slot, true);
}

// ---- what was leased to us as the leader

// Makes the sum the mean over the step's samples, clipped; or *skip, if the
// program left it out or it is not finite.
static enum sync_result group_average_sum(struct kept_job *j, struct steps *t,
                                          const struct hybrid_step *s,
                                          uint64_t samples, bool *skip)
{
    size_t n = (size_t)j->model->elements;
    float whole = group_weight(j->record, samples);

    *skip = s->sums.right_sum == GROUP_SKIPPED;
    if (*skip)
        return SYNC_OK;
    if (!grad_finite(j->grads, n)) {
        *skip = true;
        return steps_judge(t);
    }
    for (size_t i = 0; i < n; i++)
        j->grads[i] /= whole;
    grad_clipnorm(j->grads, j->model, j->optimizer.clipnorm);
    grad_global_clipnorm(j->grads, j->model, j->optimizer.global_clipnorm);
    return SYNC_OK;
}

// Returns which variables no micro-batch of the step has a gradient of;
// sl_free. Unless all members have said which they have: then those of zeros
// are as any other. NULL: no memory.
static bool *group_absent(const struct hybrid *h)
{
    bool *absent = sl_calloc(h->variables, sizeof(*absent));

    for (uint32_t i = 0; absent != NULL && h->marks && i < h->variables; i++)
        absent[i] = h->present[i] == 0;
    return absent;
}

static enum sync_result group_push_mean(struct kept_job *j, struct steps *t,
                                        const struct hybrid_step *s)
{
    struct sync_step step = {.step = t->step, .digest = s->sums.digest};
    bool skip, *absent = group_absent(j->hybrid);
    enum sync_result result;
    uint64_t first;

    if (absent == NULL) {
        t->err.code = sl_fail(&t->err, SL_ENOMEM, "no memory for a step");
        return SYNC_FAILED;
    }
    schedule_step_range(&j->record->schedule, s->head.closure, t->step, &first,
                        &step.samples);
    result = group_average_sum(j, t, s, step.samples, &skip);
    steps_note(t, step.samples, s->sums.loss_sum, s->sums.right_sum);
    for (uint32_t i = j->sync->ranges_count; result == SYNC_OK && i-- > 0;) {
        step.wanted = i;
        step.absent_bytes = 0;
        memset(step.absent, 0, sizeof(step.absent));
        if (!skip)
            (void)slot_absent(&step, &j->record->layout, i, absent);
        result =
            skip ? steps_skip(t, i, &step) : steps_whole(t, i, &step, true);
    }
    steps_end(t);
    sl_free(absent);
    return result;
}

static enum sync_result group_lead_step(struct lib_ring *g, struct steps *t,
                                        bool *parted)
{
    struct hybrid_step s;
    enum sync_result result =
        hybrid_lead_begin(&s, g->job->hybrid, &g->base, t, parted);

    if (result == SYNC_OK)
        result = hybrid_lead(&s, &t->err);
    return result == SYNC_OK ? group_push_mean(g->job, t, &s) : result;
}

// Runs training lease `l` as the leader of the group, to its outcome.
static void group_lead(struct lib_ring *g, struct lease *l)
{
    struct sync *sync = g->job->sync;
    enum sync_result result;
    bool parted = false;
    struct steps t;

    steps_init(&t, l, sync, &g->job->nonfinite);
    result = steps_open(&t);
    while (result == SYNC_OK) {
        result = steps_go(&t);
        if (result != SYNC_OK || t.at == STEPS_DONE)
            break;
        if (!steps_between(&t))
            result = group_lead_step(g, &t, &parted);
        if (result == SYNC_AGAIN) {
            steps_again(&t);
            result = SYNC_OK;
        }
    }
    steps_report(&t);
    if (result == SYNC_STOPPED && parted)
        lease_hand_back(l, "the worker's group has ended");
    else
        steps_conclude(&t, result);
    sync->ops->close(sync);
}

// Takes the first training lease of this job off the queue; NULL: there is
// none.
static struct lease *group_take_inner(struct lib_ring *g)
{
    struct sluice *s = g->slot.session;
    struct lease *found = NULL;

    pthread_mutex_lock(&s->shared.lock);
    list_for(n, &s->shared.queue)
    {
        struct lease *l = list_entry(n, struct lease, queued);

        if (l->kind == LEASE_TRAIN && l->record == g->job->record) {
            found = l;
            list_remove(&l->queued);
            break;
        }
    }
    pthread_mutex_unlock(&s->shared.lock);
    return found;
}

// A ring lease lasts as long as its job: what waits behind it runs within it.
static void group_run_inner(struct contributor *c)
{
    struct lib_ring *g = &member_of(c)->base;
    struct lease *outer = g->slot.lease, *l;

    while ((l = group_take_inner(g)) != NULL) {
        atomic_store(&l->running, true);
        l->gate.pulse.outer = &outer->gate.pulse;
        slot_within(&g->slot, &l->gate);
        if (atomic_load(&outer->gate.draining))
            gate_close(&l->gate, GATE_DRAIN);
        if (gate_look(&l->gate, g->base.clock) != GATE_OPEN)
            lease_stopped(l);
        else
            group_lead(g, l);
        slot_within(&g->slot, NULL);
        l->gate.pulse.outer = NULL;
        session_done(g->slot.session, l);
    }
}

// ---- the lease

static const struct contributor_ops ops = {
    .place = group_mark_fresh,
    .between = group_run_inner,
    .hurry = group_mark_stale,
    .share = group_compute_share,
    .step = group_compute_step,
};

static void group_member_run(struct lib_ring *g, struct lease *l)
{
    hybrid_member_run(&g->base, g->job->hybrid, g->job->sync, l);
}

static void group_member_release(struct lib_ring *g)
{
    sl_free(((struct group_member *)g)->sum);
}

struct lib_ring *group_member_new(void)
{
    struct group_member *g = sl_calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->base.base.ops = &ops;
    g->base.run = group_member_run;
    g->base.release = group_member_release;
    return &g->base;
}
