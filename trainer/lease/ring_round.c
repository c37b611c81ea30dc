// SPDX-License-Identifier: Apache-2.0
// trainer/lease/ring_round.c -- the contributions of a rank's slots, and what
// becomes of their sum.
#include "trainer/lease/ring_round.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "plan/order.h"
#include "common/run/spans.h"
#include "trainer/base/grad.h"

void round_init(struct ring_round *r, struct contributor *by,
                struct lease *lease)
{
    *r = (struct ring_round){
        .by = by, .lease = lease, .m = lease_progress(lease)};
}

static struct span_of of_round(const struct ring_round *r)
{
    return span_of_step(r->lease->job, r->keys[0].closure, r->keys[0].step);
}

void round_leave(struct ring_round *r)
{
    r->by->ops->leave(r->by);
}

static void round_free_arrays(struct ring_round *r)
{
    sl_free(r->keys);
    sl_free(r->steps);
    sl_free(r->foreseen);
    sl_free(r->present);
    r->present = NULL;
    r->keys = NULL;
    r->steps = NULL;
    r->foreseen = NULL;
}

void round_release(struct ring_round *r)
{
    round_leave(r);
    round_free_arrays(r);
    ring_repeats_release(&r->audit);
}

// Makes the space for `foreseen`; without memory no round is begun ahead.
static void make_foreseen(struct ring_round *r, uint64_t early)
{
    r->early = early;
    r->ahead = false;
    if (early == 0 || r->by->ops->ahead == NULL)
        return;
    r->foreseen = sl_malloc_array((2 + RANK_FORESEE_SPACE) * (size_t)early,
                                  sizeof(float));
    if (r->foreseen != NULL)
        r->wrote = r->foreseen + (1 + RANK_FORESEE_SPACE) * early;
}

enum sl_err round_join(struct ring_round *r, uint32_t ranks, uint32_t self,
                       uint32_t contributions, uint64_t early, bool marks,
                       struct sl_error *err)
{
    enum sl_err rc;

    round_leave(r);
    round_free_arrays(r);
    rc = r->by->ops->place(r->by, err);
    if (rc != SL_OK)
        return rc;
    r->ranks = ranks;
    r->self = self;
    r->contributions = contributions;
    r->keys = sl_malloc_array(2 * (size_t)contributions, sizeof(*r->keys));
    r->steps = sl_malloc_array(contributions, sizeof(*r->steps));
    make_foreseen(r, early);
    if (marks)
        r->present =
            sl_malloc_array(r->by->model->variables_count, sizeof(*r->present));
    if (r->keys != NULL && r->steps != NULL && (r->present != NULL) == marks)
        return SL_OK;
    round_free_arrays(r);
    return sl_fail(err, SL_ENOMEM,
                   "no memory for a round of %" PRIu32 " contributions",
                   contributions);
}

// ---- which steps

static const struct schedule *round_schedule(const struct ring_round *r)
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
                   round_schedule(r)->samples) != SL_OK)
        return sl_fail(err, SL_EINVAL, "the data has no order");
    return SL_OK;
}

// Fills `steps` with samples and digest of each key of the round, also of those
// that other ranks compute.
static enum sl_err fill_steps(struct ring_round *r, struct sl_error *err)
{
    const struct schedule *s = round_schedule(r);
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

// Chooses this round's slots, and the next round's as far as its keys are
// known.
static enum sl_err round_choose_slots(struct ring_round *r,
                                      struct sl_error *err)
{
    const struct counted *c = &rank_once(&r->by->ring->rank)->counted;
    const struct round_key *rounds[2];
    uint32_t counts[2], next;
    enum sl_err rc;

    r->keys_count = round_next(c, 2 * r->contributions, r->keys);
    r->count = sl_min(r->keys_count, r->contributions);
    if (r->count == 0)
        return SL_OK;
    round_slots(r->count, r->ranks, r->self, &r->first, &counts[0]);
    round_slots(r->keys_count - r->count, r->ranks, r->self, &next, &counts[1]);
    rounds[0] = r->keys + r->first;
    rounds[1] = r->keys + r->count + next;
    r->slots = counts[0];
    rc = r->by->ops->choose(r->by, rounds, counts, err);
    return rc == SL_OK ? fill_steps(r, err) : rc;
}

static struct job_ring *round_ring(const struct ring_round *r)
{
    return r->by->ring;
}

// ---- audited rounds (A1)

// Computes the slots of another rank. One that cannot be is left out: our own
// are what the lease is for.
static void repeat_rank(struct ring_round *r, uint32_t rank)
{
    uint32_t first, count;

    round_slots(r->count, r->ranks, rank, &first, &count);
    count = ring_repeats_most(count);
    for (uint32_t i = 0; i < count; i++) {
        struct sl_error err = SL_ERROR_INIT;

        if (gate_look(&r->lease->gate, r->by->clock) != GATE_OPEN)
            return;
        ring_repeats_slot(&r->audit, true, r->lease->job, r->keys[first + i]);
        (void)r->by->ops->repeat(r->by, r, &r->keys[first + i], &err);
    }
}

// Computes, if the round is audited, what other ranks compute, too. What was
// begun ahead has the memory that this needs.
static void round_repeat(struct ring_round *r)
{
    const Sluice__V1__TrainSpec *train = r->lease->record->open->spec->train;
    uint64_t done = round_ring(r)->rank.tag.sequence, inputs = 0;
    uint64_t ranks[AUDITED_WORKERS];
    uint32_t n = audited_slots(0, r->ranks, r->self, ranks);

    bool on = n > 1 && r->by->ops->inputs != NULL &&
              audited_round(r->lease->job, done, spec_audit(train)) &&
              r->by->ops->inputs(r->by, &inputs);

    ring_repeats_begin(&r->audit, on, inputs);
    if (!on)
        return;
    if (r->by->ops->forget != NULL)
        r->by->ops->forget(r->by);
    for (uint32_t i = 1; i < n; i++)
        repeat_rank(r, (uint32_t)ranks[i]);
}

// ---- contributions

void round_spoilt(struct ring_round *r, bool loss)
{
    r->audit.finite = false;
    if (r->audit.repeats)
        return;
    r->bad = true;
    r->bad_loss = r->bad_loss || loss;
}

bool round_is_spoilt(const struct ring_round *r)
{
    return r->audit.repeats ? !r->audit.finite : r->bad;
}

void round_result(struct ring_round *r, struct round_key key, uint64_t kind)
{
    ring_repeats_note(&r->audit, key, kind);
}

// Adds a bucket of the gradient; that of the last slot is sent.
enum sl_err round_whole(struct ring_round *r, uint32_t bucket, bool finite,
                        uint32_t batches, struct sl_error *err)
{
    struct job_ring *ring = round_ring(r);
    const struct elements *range = &ring->buckets[bucket];
    uint64_t samples;

    ring_repeats_bucket(&r->audit, bucket, range->first,
                        ring->grads + range->first, (size_t)range->count,
                        finite);
    if (r->audit.repeats)
        return SL_OK; // A3
    samples = r->steps[r->first + r->slot].samples;
    if (!finite)
        r->bad = true; // round_apply() looks at the finished sums itself
    grad_statistics(ring->grads, r->by->model, range->first, range->count,
                    batches);
    sum_add(&ring->sum, bucket, ring->grads, (float)samples, r->slot == 0);
    if (bucket == 0 && r->by->beside)
        return SL_OK; // R8: contribute() starts it
    return r->slot + 1 == r->slots ? sum_start(&ring->sum, bucket, err) : SL_OK;
}

void round_absent(struct ring_round *r, const bool *absent)
{
    for (uint32_t i = 0;
         r->present != NULL && i < r->by->model->variables_count; i++)
        r->present[i] += absent[i] ? 0 : 1;
}

// Waits until the device has copied the last average. A rank that has computed
// since has waited for that already.
static enum sl_err round_wait_copied(struct ring_round *r, struct sl_error *err)
{
    return r->by->ops->settle == NULL ? SL_OK : r->by->ops->settle(r->by, err);
}

// Puts back the early elements of the gradient that the pass ahead wrote
// (round_foresee).
static void put_back(struct ring_round *r)
{
    if (r->ahead && r->slots > 0)
        memcpy(round_ring(r)->grads, r->wrote,
               (size_t)r->early * sizeof(float));
    r->ahead = false;
}

// Computes all our slots. A slot that is not finite makes the others' work
// vain: the sum is spoilt, and sent all the same, since the other ranks wait
// for it.
static enum sl_err contribute(struct ring_round *r, struct sl_error *err)
{
    struct sum *sum = &round_ring(r)->sum;
    uint64_t began = sl_now_us(r->by->clock);
    enum sl_err rc = r->slots == 0 ? round_wait_copied(r, err) : SL_OK;

    if (rc == SL_OK)
        rc = sum_begin(sum, r->slots, round_ring(r)->grads, err);
    put_back(r);
    if (r->present != NULL)
        memset(r->present, 0,
               r->by->model->variables_count * sizeof(*r->present));
    for (r->slot = 0; rc == SL_OK && r->slot < r->slots && !r->bad; r->slot++) {
        ring_repeats_slot(&r->audit, false, r->lease->job,
                          r->keys[r->first + r->slot]);
        rc = r->by->ops->compute(r->by, r, r->slot, err);
    }
    for (; rc == SL_OK && r->slot < r->slots && r->by->ops->pass != NULL;
         r->slot++)
        rc = r->by->ops->pass(r->by, r, r->slot, err);
    r->m.compute_ms += (double)(sl_now_us(r->by->clock) - began) / 1000;
    if (rc == SL_OK)
        rc = sum_start_rest(sum, r->bad, err);
    if (rc == SL_OK && r->present != NULL)
        rc = sum_start_marks(sum, r->present, r->by->model->variables_count,
                             err);
    return rc;
}

// ---- the update

// Judges a round that is not finite; only a rank with a bad contribution of its
// own may fail by it.
static enum sl_err round_check_nonfinite(struct ring_round *r,
                                         struct sl_error *err)
{
    struct contributor *by = r->by;
    bool scale =
        r->bad && by->ops->scaled != NULL && by->ops->scaled(by, r, false);
    const struct nonfinite_step at = {.closure = r->keys[0].closure,
                                      .step = r->keys[0].step,
                                      .round = true,
                                      .strange = r->m.strange};

    if (!r->bad || scale)
        return SL_OK;
    if (by->ops->strange != NULL)
        by->ops->strange(by, r->m.strange, sizeof(r->m.strange));
    return nonfinite_judge(by->nonfinite, &at, err);
}

// Returns true if the state, and so the optimizer, is on the device.
static bool away(const struct ring_round *r)
{
    return round_ring(r)->rank.away != NULL;
}

static bool round_has_clipping(const struct ring_round *r)
{
    const struct spec_optimizer *o = r->by->optimizer;

    return o->clipnorm > 0 || o->global_clipnorm > 0;
}

// Makes a bucket's sum its average; a device that applies it gets it while
// other buckets are summed still. If one bucket is not finite, the round is in
// vain.
static enum sl_err round_average_bucket(struct ring_round *r, uint32_t bucket,
                                        struct sl_error *err)
{
    const struct job_ring *ring = round_ring(r);
    const struct elements *at = &ring->buckets[bucket];
    const float *sum = ring->sum.data + at->first;
    float *g = r->average + at->first, n = (float)r->samples;

    r->finite = r->finite && grad_finite(sum, (size_t)at->count);
    if (!r->finite)
        return SL_OK;
    for (uint64_t i = 0; i < at->count; i++)
        g[i] = sum[i] / n;
    return !away(r) || round_has_clipping(r)
               ? SL_OK
               : r->by->ops->averaged(r->by, at->first, at->count, err);
}

// Clips the average as one gradient.
static enum sl_err round_clip_average(struct ring_round *r,
                                      struct sl_error *err)
{
    struct contributor *by = r->by;

    if (!round_has_clipping(r))
        return SL_OK;
    grad_clipnorm(r->average, by->model, by->optimizer->clipnorm);
    grad_global_clipnorm(r->average, by->model, by->optimizer->global_clipnorm);
    return !away(r) ? SL_OK
                    : by->ops->averaged(by, 0, by->model->elements, err);
}

static void swap_floats(float *a, float *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = a[i];

        a[i] = b[i];
        b[i] = x;
    }
}

// The next batch writes its statistics to the vector of the gradient, where the
// average of this round may lie: the early elements of both are kept.
float *round_foresee(struct ring_round *r)
{
    struct sl_error err = SL_ERROR_INIT;

    if (rank_foresee(&round_ring(r)->rank, r->steps, r->count, r->average,
                     r->early, r->foreseen, r->foreseen + r->early,
                     &err) != SL_OK)
        return NULL;
    memcpy(r->wrote, round_ring(r)->grads, (size_t)r->early * sizeof(float));
    r->ahead = true;
    return r->foreseen;
}

// Begins the next round with what the sums of the first layers, which are here,
// make of their parameters. Returns how long that took, in microseconds.
static uint64_t go_ahead(struct ring_round *r)
{
    uint64_t began = sl_now_us(r->by->clock);

    if (r->foreseen == NULL || !r->finite || round_has_clipping(r) || away(r))
        return 0;
    pulse_wait(&r->lease->gate.pulse, false);
    r->by->ops->ahead(r->by, r);
    if (r->ahead)
        swap_floats(r->wrote, round_ring(r)->grads, r->early);
    pulse_wait(&r->lease->gate.pulse, true);
    return sl_now_us(r->by->clock) - began;
}

// Waits for all sums and makes them the average, which lies where the sums do,
// or in the vector that a device copies from. Sets *left if not all of them
// came.
static enum sl_err round_collect_sums(struct ring_round *r, bool *left,
                                      struct sl_error *err)
{
    struct job_ring *ring = round_ring(r);
    uint64_t began = sl_now_us(r->by->clock), asked, ahead = 0;
    uint32_t bucket;
    enum sl_err rc = SL_OK;
    bool early;

    *left = false;
    r->finite = true;
    r->average = away(r) ? ring->grads : ring->sum.data;
    pulse_wait(&r->lease->gate.pulse, true);
    if (r->average != ring->sum.data)
        rc = round_wait_copied(r, err);
    while (rc == SL_OK && sum_outstanding(&ring->sum) > 0) {
        early = sum_early_outstanding(&ring->sum) > 0;
        asked = span_begin();
        rc = sum_wait(&ring->sum, &bucket, err);
        span_end(asked, "sum", SPANS_COMPUTE, of_round(r));
        *left = rc != SL_OK;
        if (rc == SL_OK)
            rc = round_average_bucket(r, bucket, err);
        if (rc == SL_OK && early && sum_early_outstanding(&ring->sum) == 0)
            ahead = go_ahead(r);
    }
    if (rc == SL_OK && r->present != NULL) {
        rc = sum_wait_marks(&ring->sum, err);
        *left = rc != SL_OK;
    }
    pulse_wait(&r->lease->gate.pulse, false);
    r->m.compute_ms += (double)ahead / 1000;
    r->m.wait_ms += (double)(sl_now_us(r->by->clock) - began - ahead) / 1000;
    return rc;
}

static void round_add_metrics(struct ring_round *r, bool finite)
{
    uint64_t samples = 0;

    for (uint32_t i = 0; i < r->slots; i++)
        samples += r->steps[r->first + i].samples;
    r->m.steps += r->slots;
    r->m.samples += samples;
    if (!finite)
        r->m.skipped += r->slots;
    if (finite && isfinite(r->loss_sum)) {
        r->m.loss_samples += samples;
        r->m.loss_sum += r->loss_sum;
        r->m.right_sum += r->right_sum;
    }
    lease_set_progress(r->lease, &r->m);
}

static enum sl_err round_apply(struct ring_round *r, struct sl_error *err)
{
    struct job_ring *ring = round_ring(r);
    float *fresh = away(r) ? NULL : ring->fresh;
    uint64_t began = span_begin();
    enum sl_err rc = SL_OK;

    if (!r->finite) {
        rc = round_check_nonfinite(r, err);
        for (uint32_t i = 0; i < r->count; i++)
            r->steps[i].skip = true;
        if (r->by->ops->forget != NULL)
            r->by->ops->forget(r->by);
    } else {
        nonfinite_end_row(r->by->nonfinite);
        if (r->by->ops->scaled != NULL)
            r->by->ops->scaled(r->by, r, true);
        rc = round_clip_average(r, err);
    }
    if (rc == SL_OK)
        rc = rank_round(&ring->rank, r->steps, r->count, r->average, r->present,
                        fresh, err);
    span_end(began, "apply", SPANS_COMPUTE, of_round(r));
    if (rc == SL_OK)
        round_add_metrics(r, r->finite);
    return rc;
}

enum round_result round_run(struct ring_round *r, struct sl_error *err)
{
    enum sl_err rc = round_choose_slots(r, err);
    bool left;

    if (rc == SL_OK && r->count == 0)
        return ROUND_OVER;
    r->bad = r->bad_loss = false;
    r->loss_sum = r->right_sum = 0;
    atomic_store(&r->lease->gate.pulse.step, r->keys[0].step);
    if (rc == SL_OK) {
        round_repeat(r);
        rc = contribute(r, err);
    }
    if (rc != SL_OK) {
        err->code = rc;
        return rc == SL_ECANCELED ? ROUND_LEFT : ROUND_FAILED;
    }
    rc = round_collect_sums(r, &left, err);
    if (rc != SL_OK) {
        err->code = rc;
        return left ? ROUND_LEFT : ROUND_FAILED;
    }
    FAULT("task.pushed");
    r->m.sums += round_ring(r)->sum.lane[0].group != NULL;
    r->m.sent_bytes += sum_sent(&round_ring(r)->sum);
    rc = round_apply(r, err);
    err->code = rc;
    return rc == SL_OK ? ROUND_DONE : ROUND_FAILED;
}
