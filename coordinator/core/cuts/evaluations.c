// SPDX-License-Identifier: Apache-2.0
// coordinator/core/cuts/evaluations.c -- evaluations, one after the other: each
// against one cut, which may hold several epochs.
#include "coordinator/core/cuts/evaluations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/job.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases/leases.h"
#include "coordinator/core/cuts/monitor.h"
#include "coordinator/core/send.h"

static bool by_steps(const struct job *job)
{
    return job->spec->evaluate != NULL && job->spec->evaluate->every_steps > 0;
}

static struct evaluation_steps marks(const struct job *job)
{
    return (struct evaluation_steps){.schedule = &job->shards.schedule,
                                     .every = job->spec->evaluate->every_steps,
                                     .round = job->shards.evidence.round};
}

// Returns the distance of evaluations: in epochs, or in marks, each of which is
// evaluated; 0: none.
static uint32_t every(const struct job *job)
{
    if (job->external || job->spec->evaluate == NULL)
        return 0;
    return by_steps(job) ? 1 : job->spec->evaluate->every_epochs;
}

uint32_t evaluations_marks(const struct job *job, uint64_t steps)
{
    struct evaluation_steps m = marks(job);

    return every(job) > 0 && by_steps(job) ? evaluation_marks(&m, steps) : 0;
}

// Returns the last epoch, or mark, that needs no evaluation any more, or 0. Of
// the epochs that a resumed job found done only the last one is evaluated: its
// parameters are at hand.
static uint32_t evaluated(const struct job *job)
{
    const struct journal_evaluation *last =
        job->evaluations.count > 0
            ? &job->evaluations.list[job->evaluations.count - 1]
            : NULL;
    uint32_t found =
        job->resume == NULL ? 0 : job->resume->cut->checkpoints[0]->epoch;

    if (by_steps(job))
        return evaluations_marks(job, last != NULL ? last->steps
                                                   : job_resumed_steps(job));
    if (last != NULL)
        return last->epoch;
    return found == 0 ? 0 : found - 1;
}

static struct evaluation_cut *list_cuts(const struct job *job)
{
    struct evaluation_cut *cuts =
        sl_malloc_array(job->cuts.count, sizeof(*cuts));

    for (size_t i = 0; cuts != NULL && i < job->cuts.count; i++) {
        const struct job_cut *cut = &job->cuts.list[i];

        cuts[i] = (struct evaluation_cut){
            cut->n, by_steps(job)
                        ? evaluations_marks(job, cut->checkpoint->steps)
                        : cut->epochs};
    }
    return cuts;
}

static bool next_plan(const struct job *job, struct evaluation_plan *plan)
{
    struct evaluation_cut *cuts;
    bool found;

    if (every(job) == 0)
        return false;
    cuts = list_cuts(job);
    if (cuts == NULL)
        return false;
    found = evaluation_next(plan, every(job), evaluated(job), cuts,
                            job->cuts.count);
    sl_free(cuts);
    return found;
}

bool evaluations_pending(const struct job *job)
{
    struct evaluation_plan plan;

    return job->evaluations.running != NULL || next_plan(job, &plan);
}

void evaluations_need(const struct job *job, bool *needed)
{
    struct evaluation_cut *cuts = list_cuts(job);

    for (size_t i = 0; i < job->cuts.count; i++)
        needed[i] = cuts == NULL; // without memory nothing is dropped
    if (cuts != NULL && every(job) > 0 && !job_ended(job))
        evaluation_needs(needed, every(job), evaluated(job), cuts,
                         job->cuts.count);
    for (size_t i = 0; i < job->cuts.count; i++)
        needed[i] |=
            callbacks_keeps(&job->monitor.callbacks, &job->monitor.watched,
                            job->cuts.list[i].n);
    sl_free(cuts);
}

// ---- where training waits for evaluations

static uint64_t closures_of(const struct job *job, uint64_t mark)
{
    struct evaluation_steps m = marks(job);

    return by_steps(job) ? evaluation_mark(&m, mark)
                         : evaluation_epochs_end(&job->shards.schedule, mark);
}

uint64_t evaluations_hold(const struct job *job)
{
    uint32_t step = every(job), done;

    if (!job->shards.placed || step == 0 || !monitor_waits(job))
        return job->shards.evidence.closures;
    done = evaluated(job) / step * step;
    return closures_of(job, job->monitor.callbacks.early.stopped
                                ? done
                                : (uint64_t)done + step);
}

uint64_t evaluations_limit(const struct job *job)
{
    uint64_t hold = evaluations_hold(job), known = monitor_limit(job);

    return hold < known ? hold : known;
}

bool evaluations_hold_it(const struct job *job)
{
    uint64_t hold = evaluations_hold(job);

    return hold < job->shards.evidence.closures &&
           evidence_low(&job->shards.evidence) >= hold;
}

// Tells every rank how far it may go.
static void tell_ranks(struct coord *c, const struct job *job)
{
    if (monitor_wants_ring(job))
        return; // with the next generation
    for (uint32_t i = 0; i < job->ring.count; i++)
        evaluations_tell_rank(c, job, job->ring.rank[i].member);
}

void evaluations_tell_rank(struct coord *c, const struct job *job,
                           uint64_t member)
{
    if (monitor_waits(job))
        send_rates(c, member, job, 0, evaluations_hold(job));
}

// ---- the end of an evaluation

static void set_metrics(struct journal_evaluation *row, const struct job *job)
{
    const struct evaluation *e = job->evaluations.running;

    row->metrics = e->sums.samples == 0 ? 0 : spec_metrics(job->spec);
    for (unsigned m = 0; m < SPEC_METRIC_COUNT; m++)
        if ((row->metrics >> m & 1) != 0)
            row->metric[m] = evaluation_metric(e, (enum spec_metric)m);
}

// Sets the training part of a row. A checkpoint may follow the last evaluation
// so closely that no worker has reported a step between: then the last row's
// values are kept.
static void set_trained(struct journal_evaluation *row, const struct job *job)
{
    const struct journal_trained t = monitor_until(job, row->cut);
    const struct meter_sums trained = {
        .samples = t.samples, .correct = t.correct, .loss_sum = t.loss_sum};
    const struct journal_evaluation *last;

    if (t.steps == 0 && job->evaluations.count > 0) {
        last = &job->evaluations.list[job->evaluations.count - 1];
        row->train_samples = last->train_samples;
        row->train_loss = last->train_loss;
        row->train_accuracy = last->train_accuracy;
        row->train_broken = last->train_broken;
        return;
    }
    row->train_samples = t.samples;
    row->train_loss = meter_mean_loss(&trained);
    row->train_accuracy = meter_mean_accuracy(&trained);
    // The mean of the few applied steps says nothing of the model.
    row->train_broken = t.skipped > t.steps / 2;
}

static void fill_row(const struct job *job, struct journal_evaluation *row,
                     uint32_t epoch)
{
    const struct evaluation *e = job->evaluations.running;
    const struct job_cut *cut = job_find_cut(job, e->plan.cut);

    *row = (struct journal_evaluation){
        .epoch = by_steps(job) ? (cut == NULL ? 0 : cut->epochs) : epoch,
        .cut = e->plan.cut,
        .samples = e->sums.samples,
        .loss = evaluation_loss(e),
        .accuracy = evaluation_accuracy(e),
    };
    if (row->samples == 0)
        row->loss = row->accuracy = (double)NAN;
    set_metrics(row, job);
    row->steps = cut == NULL ? 0 : cut->checkpoint->steps;
    set_trained(row, job);
    row->not_finite = cut != NULL && cut->checkpoint->not_finite;
}

// Journals the rows, and the callbacks' judgement of the last one, in one
// transaction (D2).
static bool evaluations_write_rows(struct coord *c, struct job *job,
                                   const struct journal_evaluation *rows,
                                   size_t count)
{
    const struct journal_evaluation *last = &rows[count - 1];
    struct journal_blob blob = {NULL, 0};
    struct buf packed = BUF_INIT;
    struct callbacks next;
    enum sl_err rc = SL_OK;
    bool any = spec_callbacks_any(&job->monitor.watched);

    if (job_reserve_evaluations(job, count) != SL_OK)
        return false;
    if (any && monitor_judge(job, last, evaluations_hold(job), &next,
                             &packed) != SL_OK) {
        buf_release(&packed);
        return false;
    }
    if (any) {
        blob = (struct journal_blob){packed.data, packed.len};
        rc = monitor_begin_range(c, job, last->cut);
    }
    FAULT("callbacks.evaluated");
    if (rc == SL_OK)
        rc = journal_evaluations_add(c->journal, job->id, rows, count, blob,
                                     &c->err);
    buf_release(&packed);
    if (!coord_wrote(c, rc))
        return false;
    for (size_t i = 0; i < count; i++)
        job_add_evaluation(job, &rows[i]);
    if (any)
        monitor_take(c, job, &next, last);
    tell_ranks(c, job);
    return true;
}

// Ends the running evaluation: one row per epoch that shares its cut, or one
// for all its marks; without samples if it failed. Returns true if it is in the
// journal, and over.
static bool evaluations_journal_end(struct coord *c, struct job *job)
{
    struct evaluation *e = job->evaluations.running;
    uint32_t step = every(job);
    size_t count = by_steps(job)
                       ? 1
                       : (e->plan.last_epoch - e->plan.first_epoch) / step + 1;
    struct journal_evaluation *rows = sl_malloc_array(count, sizeof(*rows));
    bool kept;

    if (rows == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        fill_row(job, &rows[i], e->plan.first_epoch + (uint32_t)i * step);
    kept = evaluations_write_rows(c, job, rows, count);
    sl_free(rows);
    return kept;
}

// Appends "loss 0.25", or "loss -" where the value is not known.
static void evaluations_append_value(char *out, size_t size, const char *what,
                                     double value)
{
    size_t len = strlen(out);

    if (isfinite(value))
        snprintf(out + len, size - len, "%s %.6g", what, value);
    else
        snprintf(out + len, size - len, "%s -", what);
}

static void tell_done(struct coord *c, const struct job *job,
                      const struct journal_evaluation *row)
{
    bool accuracy = spec_loss_counts(spec_loss(job->spec));
    char text[160] = "";

    if (job->spec->data->test != NULL) {
        evaluations_append_value(text, sizeof(text), "loss", row->loss);
        if (accuracy)
            evaluations_append_value(text, sizeof(text), ", accuracy",
                                     row->accuracy);
    }
    if (spec_callbacks_any(&job->monitor.watched)) {
        evaluations_append_value(text, sizeof(text),
                                 text[0] == '\0' ? "trained loss"
                                                 : "; trained loss",
                                 row->train_loss);
        if (accuracy)
            evaluations_append_value(text, sizeof(text), ", accuracy",
                                     row->train_accuracy);
    }
    happened_job(c, EVENT_EVALUATION_DONE, job, NULL,
                 "epoch %u evaluated at %llu steps: %s", row->epoch,
                 (ull)row->steps, text);
}

static void evaluations_complete(struct coord *c, struct job *job)
{
    struct evaluation *e = job->evaluations.running;
    const struct journal_evaluation *last;

    if (!evaluations_journal_end(c, job))
        return;
    last = &job->evaluations.list[job->evaluations.count - 1];
    LOG(INFO, "evaluated",
        "job=%s epoch=%u steps=%llu cut=%llu loss=%g accuracy=%g", job->id_text,
        last->epoch, (ull)last->steps, (ull)e->plan.cut, last->loss,
        last->accuracy);
    tell_done(c, job, last);
    evaluation_free(e);
    job->evaluations.running = NULL;
}

static void revoke_range(void *arg, struct work *w)
{
    leases_revoke(arg, w->holder, w, "the evaluation has failed");
}

void evaluations_fail(struct coord *c, struct job *job, const char *why)
{
    struct evaluation *e = job->evaluations.running;
    const struct meter_sums sums = e->sums;

    e->sums = (struct meter_sums){0};
    if (!evaluations_journal_end(c, job)) {
        e->sums = sums; // it goes on
        return;
    }
    evaluation_each_leased(e, revoke_range, c);
    if (by_steps(job))
        jobs_warn(job, JOB_WARN_EVALUATION,
                  "the evaluation of checkpoint %llu failed: %s",
                  (ull)e->plan.cut, why);
    else
        jobs_warn(job, JOB_WARN_EVALUATION,
                  "the evaluation of epoch %u failed: %s", e->plan.last_epoch,
                  why);
    happened_job(c, EVENT_EVALUATION_FAILED, job, NULL,
                 "the evaluation of checkpoint %llu failed: %s",
                 (ull)e->plan.cut, why);
    evaluation_free(e);
    job->evaluations.running = NULL;
}

void evaluations_check(struct coord *c, struct job *job)
{
    struct evaluation_plan plan;

    if (every(job) == 0 || !job->shards.placed)
        return;
    if (job->evaluations.running != NULL &&
        evaluation_complete(job->evaluations.running))
        evaluations_complete(c, job);
    if (c->dead || job->evaluations.running != NULL || !next_plan(job, &plan))
        return;
    job->evaluations.running = evaluation_new(
        &plan, job,
        job->spec->data->test == NULL ? 0 : job->reports.facts.test_samples,
        spec_range_samples(job->spec), job->spec->train->max_attempts);
    if (job->evaluations.running == NULL)
        return;
    job->evaluations.running->metrics = spec_metrics_scored(job->spec);
    LOG(INFO, "evaluation begun", "job=%s epoch=%u cut=%llu ranges=%llu",
        job->id_text, plan.last_epoch, (ull)plan.cut,
        (ull)job->evaluations.running->count);
    happened_job(c, EVENT_EVALUATION_BEGAN, job, NULL,
                 "an evaluation has begun, against checkpoint %llu",
                 (ull)plan.cut);
    if (evaluation_complete(job->evaluations.running))
        evaluations_complete(c, job);
}
