// SPDX-License-Identifier: Apache-2.0
// coordinator/rules/evaluation.c -- the plan of the next evaluation, its ranges
// and its sums.
#include "coordinator/rules/evaluation.h"

#include "common/base/mem.h"
#include "common/base/num.h"

bool evaluation_next(struct evaluation_plan *out, uint32_t every,
                     uint32_t done_epoch, const struct evaluation_cut *cuts,
                     size_t count)
{
    uint32_t next;

    if (every == 0)
        return false;
    next = (done_epoch / every + 1) * every;
    for (size_t i = 0; i < count; i++) {
        if (cuts[i].epochs < next)
            continue;
        out->cut = cuts[i].n;
        out->first_epoch = next;
        out->last_epoch = cuts[i].epochs / every * every;
        return true;
    }
    return false;
}

void evaluation_needs(bool *needed, uint32_t every, uint32_t done_epoch,
                      const struct evaluation_cut *cuts, size_t count)
{
    struct evaluation_plan plan;

    for (size_t i = 0; i < count; i++)
        needed[i] = false;
    while (evaluation_next(&plan, every, done_epoch, cuts, count)) {
        for (size_t i = 0; i < count; i++)
            needed[i] |= cuts[i].n == plan.cut;
        done_epoch = plan.last_epoch;
    }
}

// ---- marks by steps

uint64_t evaluation_mark(const struct evaluation_steps *s, uint64_t mark)
{
    uint64_t per_epoch = schedule_steps_per_epoch(s->schedule);
    uint64_t closures = schedule_closures_per_epoch(s->schedule);
    uint64_t last, in;

    if (mark > schedule_steps(s->schedule) / s->every)
        return schedule_closures(s->schedule);
    last = mark * s->every - 1;
    in = last % per_epoch / s->schedule->steps_per_closure + 1;
    if (s->round > 0)
        in = sl_ceil_div(in, s->round) * s->round;
    return last / per_epoch * closures + sl_min(in, closures);
}

uint64_t evaluation_steps_below(const struct schedule *s, uint64_t closure)
{
    return closure < schedule_closures(s) ? schedule_global_step(s, closure, 0)
                                          : schedule_steps(s);
}

uint32_t evaluation_marks(const struct evaluation_steps *s, uint64_t steps)
{
    uint64_t mark = steps / s->every;

    while (mark > 0 && evaluation_steps_below(s->schedule,
                                              evaluation_mark(s, mark)) > steps)
        mark--;
    return (uint32_t)sl_min(mark, UINT32_MAX);
}

uint64_t evaluation_epochs_end(const struct schedule *s, uint64_t epochs)
{
    return epochs < s->epochs ? epochs * schedule_closures_per_epoch(s)
                              : schedule_closures(s);
}

// ---- ranges

struct evaluated_range {
    struct work *work;        // owned; NULL: settled, its result is taken
    struct list_node waiting; // in evaluation.waiting, or nowhere
    bool taken;               // `part` is its result
    struct evaluation_part part;
};

struct evaluation *evaluation_new(const struct evaluation_plan *plan,
                                  struct job *job, uint64_t samples,
                                  uint64_t samples_per_range,
                                  uint32_t max_blamed)
{
    struct evaluation *e = sl_calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->plan = *plan;
    e->job = job;
    e->samples = samples;
    e->per_range = samples_per_range;
    e->count = sl_ceil_div(samples, samples_per_range);
    e->max_blamed = max_blamed;
    map_init(&e->made);
    list_init(&e->waiting);
    return e;
}

static void evaluation_work_free(struct work *w)
{
    if (w == NULL)
        return;
    buf_release(&w->story);
    sl_free(w);
}

void evaluation_free(struct evaluation *e)
{
    size_t at = 0;
    void *r;

    if (e == NULL)
        return;
    while (map_next(&e->made, &at, NULL, &r))
        evaluation_work_free(((struct evaluated_range *)r)->work);
    map_release_owned(&e->made);
    sl_free(e);
}

static uint64_t samples_of(const struct evaluation *e, uint64_t range)
{
    return sl_min(e->samples - range * e->per_range, e->per_range);
}

static struct evaluated_range *range_new(const struct evaluation *e, uint64_t n)
{
    struct evaluated_range *r = sl_calloc(1, sizeof(*r));
    struct work *w = sl_calloc(1, sizeof(*w));

    if (r == NULL || w == NULL) {
        sl_free(r);
        sl_free(w);
        return NULL;
    }
    closure_init(&w->closure, n, e->max_blamed);
    w->kind = WORK_EVALUATE;
    w->job = e->job;
    w->cut = e->plan.cut;
    w->first = n * e->per_range;
    w->count = samples_of(e, n);
    r->work = w;
    return r;
}

// Makes the next range, or returns NULL.
static struct work *evaluation_make_range(struct evaluation *e)
{
    struct evaluated_range *r;

    if (e->next == sl_min(e->count, e->low + EVALUATION_WINDOW))
        return NULL;
    r = range_new(e, e->next);
    if (r == NULL)
        return NULL;
    if (map_put(&e->made, e->next, r) != SL_OK) {
        evaluation_work_free(r->work);
        sl_free(r);
        return NULL;
    }
    e->next++;
    list_push_back(&e->waiting, &r->waiting);
    return r->work;
}

struct work *evaluation_offer(struct evaluation *e, uint64_t worker,
                              bool desperate)
{
    list_for_safe(n, &e->waiting)
    {
        struct work *w = list_entry(n, struct evaluated_range, waiting)->work;

        if (w->closure.state != CLOSURE_WAITING) // leased since
            list_remove(n);
        else if (closure_ready(&w->closure, UINT64_MAX) &&
                 (desperate || !closure_blames(&w->closure, worker)))
            return w;
    }
    return evaluation_make_range(e);
}

struct work *evaluation_range(const struct evaluation *e, uint64_t range)
{
    const struct evaluated_range *r = map_get(&e->made, range);

    return r == NULL ? NULL : r->work;
}

// Adds the results of settled ranges to the totals, up to the first range
// without a result.
static void evaluation_sum_settled(struct evaluation *e)
{
    struct evaluated_range *r;

    while ((r = map_get(&e->made, e->low)) != NULL && r->work == NULL) {
        e->total.loss += r->part.loss;
        e->total.distances.absolute += r->part.distances.absolute;
        e->total.distances.squared += r->part.distances.squared;
        sl_free(map_remove(&e->made, e->low++));
    }
}

void evaluation_settle(struct evaluation *e, struct work *w)
{
    struct evaluated_range *r = map_get(&e->made, w->closure.id);

    if (w->closure.state == CLOSURE_WAITING && !list_on(&r->waiting))
        list_push_back(&e->waiting, &r->waiting);
    if (w->closure.state != CLOSURE_DONE)
        return;
    list_remove(&r->waiting);
    evaluation_work_free(w);
    r->work = NULL;
    evaluation_sum_settled(e);
}

void evaluation_each_leased(struct evaluation *e,
                            void (*fn)(void *arg, struct work *w), void *arg)
{
    size_t at = 0;
    void *r;

    while (map_next(&e->made, &at, NULL, &r)) {
        struct work *w = ((struct evaluated_range *)r)->work;

        if (w != NULL && w->closure.state == CLOSURE_LEASED)
            fn(arg, w);
    }
}

enum sl_err evaluation_take(struct evaluation *e, uint64_t range,
                            const struct meter_sums *sums,
                            const Sluice__V1__ScoreSums *scores)
{
    struct evaluated_range *r;

    if (range >= e->next)
        return SL_ERANGE;
    r = map_get(&e->made, range);
    if (r == NULL || r->taken)
        return SL_EEXIST;
    if (sums->samples != samples_of(e, range) ||
        sums->correct > sums->samples ||
        !scores_fit(scores, e->metrics, sums->samples))
        return SL_EINVAL;
    e->sums.samples += sums->samples;
    e->sums.correct += sums->correct;
    r->taken = true;
    r->part.loss = sums->loss_sum;
    if (e->metrics != 0) {
        r->part.distances =
            (struct scores_distances){scores->absolute, scores->squared};
        scores_add(&e->scores, scores);
    }
    return SL_OK;
}

bool evaluation_complete(const struct evaluation *e)
{
    return e->low == e->count;
}

double evaluation_loss(const struct evaluation *e)
{
    return e->sums.samples == 0 ? 0 : e->total.loss / (double)e->sums.samples;
}

double evaluation_metric(const struct evaluation *e, enum spec_metric metric)
{
    if (e->sums.samples == 0)
        return 0;
    if (metric == SPEC_METRIC_ACCURACY)
        return evaluation_accuracy(e);
    return scores_value(&e->scores, metric, &e->total.distances,
                        e->sums.samples);
}

double evaluation_accuracy(const struct evaluation *e)
{
    return e->sums.samples == 0
               ? 0
               : (double)e->sums.correct / (double)e->sums.samples;
}
