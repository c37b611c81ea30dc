// SPDX-License-Identifier: Apache-2.0
// lib/group.c -- a member of a group: the worker's hybrid_member.c, for
// micro-batches that the program computes.
#include "lib/group.h"

#include <math.h>

#include "common/base/mem.h"
#include "trainer/lease/hybrid_member.h"
#include "trainer/lease/lease.h"

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

float group_weight(const struct record *r, uint64_t samples)
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
    return sl_fail(err, SL_ECANCELED, "the program has not computed it");
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
