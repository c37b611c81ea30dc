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

// ---- by steps

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

struct evaluation *evaluation_new(const struct evaluation_plan *plan,
                                  struct job *job, uint64_t samples,
                                  uint64_t samples_per_range,
                                  uint32_t max_blamed)
{
    struct evaluation *e = sl_calloc(1, sizeof(*e));
    uint64_t count = sl_ceil_div(samples, samples_per_range);

    if (e == NULL)
        return NULL;
    e->range = sl_calloc(count > 0 ? count : 1, sizeof(*e->range));
    e->part = sl_calloc(count > 0 ? count : 1, sizeof(*e->part));
    if (e->range == NULL || e->part == NULL) {
        sl_free(e->range);
        sl_free(e->part);
        sl_free(e);
        return NULL;
    }
    e->plan = *plan;
    e->count = (uint32_t)count;
    for (uint32_t i = 0; i < e->count; i++) {
        struct work *w = &e->range[i];

        closure_init(&w->closure, i, max_blamed);
        w->kind = WORK_EVALUATE;
        w->job = job;
        w->cut = plan->cut;
        w->first = i * samples_per_range;
        w->count = samples - w->first < samples_per_range ? samples - w->first
                                                          : samples_per_range;
    }
    return e;
}

void evaluation_free(struct evaluation *e)
{
    if (e == NULL)
        return;
    for (uint32_t i = 0; i < e->count; i++)
        buf_release(&e->range[i].story);
    sl_free(e->range);
    sl_free(e->part);
    sl_free(e);
}

struct work *evaluation_offer(struct evaluation *e, uint64_t worker,
                              bool desperate)
{
    for (uint32_t i = 0; i < e->count; i++) {
        struct work *w = &e->range[i];

        if (closure_ready(&w->closure, UINT64_MAX) &&
            (desperate || !closure_blames(&w->closure, worker)))
            return w;
    }
    return NULL;
}

enum sl_err evaluation_take(struct evaluation *e, uint64_t range,
                            const struct meter_sums *sums,
                            const Sluice__V1__ScoreSums *scores)
{
    if (range >= e->count)
        return SL_ERANGE;
    if (e->range[range].closure.state == CLOSURE_DONE)
        return SL_EEXIST;
    if (sums->samples != e->range[range].count ||
        sums->correct > sums->samples ||
        !scores_fit(scores, e->metrics, sums->samples))
        return SL_EINVAL;
    e->sums.samples += sums->samples;
    e->sums.correct += sums->correct;
    e->part[range].loss = sums->loss_sum;
    if (e->metrics != 0) {
        e->part[range].distances =
            (struct scores_distances){scores->absolute, scores->squared};
        scores_add(&e->scores, scores);
    }
    e->done++;
    return SL_OK;
}

bool evaluation_complete(const struct evaluation *e)
{
    return e->done == e->count;
}

double evaluation_loss(const struct evaluation *e)
{
    double sum = 0;

    for (uint32_t i = 0; i < e->count; i++)
        sum += e->part[i].loss;
    return e->sums.samples == 0 ? 0 : sum / (double)e->sums.samples;
}

double evaluation_metric(const struct evaluation *e, enum spec_metric metric)
{
    struct scores_distances sums = {0, 0};

    if (e->sums.samples == 0)
        return 0;
    if (metric == SPEC_METRIC_ACCURACY)
        return evaluation_accuracy(e);
    for (uint32_t i = 0; i < e->count; i++) {
        sums.absolute += e->part[i].distances.absolute;
        sums.squared += e->part[i].distances.squared;
    }
    return scores_value(&e->scores, metric, &sums, e->sums.samples);
}

double evaluation_accuracy(const struct evaluation *e)
{
    return e->sums.samples == 0
               ? 0
               : (double)e->sums.correct / (double)e->sums.samples;
}
