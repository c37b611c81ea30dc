// SPDX-License-Identifier: Apache-2.0
// coordinator/core/evaluations.c -- evaluations, one after the other: each
// against one cut, which may hold several epochs.
#include "coordinator/core/evaluations.h"

#include "common/base/mem.h"
#include "common/run/log.h"
#include "coordinator/core/happened.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/leases.h"

static uint32_t every(const struct job *job)
{
    return job->external || job->spec->evaluate == NULL
               ? 0
               : job->spec->evaluate->every_epochs;
}

// The last epoch that is not to be evaluated any more, or 0. Of the epochs that
// a resumed job found done only the last one is: its parameters are at hand.
static uint32_t evaluated(const struct job *job)
{
    uint32_t found =
        job->resume == NULL ? 0 : job->resume->cut->checkpoints[0]->epoch;

    if (job->evaluations_count > 0)
        return job->evaluations[job->evaluations_count - 1].epoch;
    return found == 0 ? 0 : found - 1;
}

static struct evaluation_cut *list_cuts(const struct job *job)
{
    struct evaluation_cut *cuts =
        sl_malloc_array(job->cuts_count, sizeof(*cuts));

    for (size_t i = 0; cuts != NULL && i < job->cuts_count; i++)
        cuts[i] = (struct evaluation_cut){job->cuts[i].n, job->cuts[i].epochs};
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
                            job->cuts_count);
    sl_free(cuts);
    return found;
}

bool evaluations_pending(const struct job *job)
{
    struct evaluation_plan plan;

    return job->evaluation != NULL || next_plan(job, &plan);
}

void evaluations_need(const struct job *job, bool *needed)
{
    struct evaluation_cut *cuts = list_cuts(job);

    for (size_t i = 0; i < job->cuts_count; i++)
        needed[i] = cuts == NULL; // without memory nothing is dropped
    if (cuts != NULL && every(job) > 0 && !job_ended(job))
        evaluation_needs(needed, every(job), evaluated(job), cuts,
                         job->cuts_count);
    sl_free(cuts);
}

// One row per epoch that shares this cut; without samples if it failed. True:
// it is in the journal, and over.
static bool finish(struct coord *c, struct job *job)
{
    struct evaluation *e = job->evaluation;
    uint32_t step = every(job);
    size_t count = (e->plan.last_epoch - e->plan.first_epoch) / step + 1;
    struct journal_evaluation *rows = sl_malloc_array(count, sizeof(*rows));
    bool kept;

    if (rows == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct journal_evaluation){
            .epoch = e->plan.first_epoch + (uint32_t)i * step,
            .cut = e->plan.cut,
            .samples = e->sums.samples,
            .loss = evaluation_loss(e),
            .accuracy = evaluation_accuracy(e),
        };
    }
    kept = coord_wrote(
        c, journal_evaluations_add(c->journal, job->id, rows, count, &c->err));
    for (size_t i = 0; kept && i < count; i++)
        (void)job_add_evaluation(job, &rows[i]);
    sl_free(rows);
    return kept;
}

static void complete(struct coord *c, struct job *job)
{
    struct evaluation *e = job->evaluation;

    if (!finish(c, job))
        return;
    LOG(INFO, "evaluated", "job=%s epoch=%u cut=%llu loss=%g accuracy=%g",
        job->id_text, e->plan.last_epoch, (ull)e->plan.cut, evaluation_loss(e),
        evaluation_accuracy(e));
    happened_job(c, EVENT_EVALUATION_DONE, job, NULL,
                 "epoch %u evaluated: loss %.6g, accuracy %.6g",
                 e->plan.last_epoch, evaluation_loss(e),
                 evaluation_accuracy(e));
    evaluation_free(e);
    job->evaluation = NULL;
}

void evaluations_fail(struct coord *c, struct job *job, const char *why)
{
    struct evaluation *e = job->evaluation;

    e->sums = (struct meter_sums){0};
    if (!finish(c, job))
        return;
    for (uint32_t i = 0; i < e->count; i++)
        if (e->range[i].closure.state == CLOSURE_LEASED)
            leases_revoke(c, e->range[i].holder, &e->range[i],
                          "the evaluation has failed");
    jobs_warn(job, JOB_WARN_EVALUATION, "the evaluation of epoch %u failed: %s",
              e->plan.last_epoch, why);
    happened_job(c, EVENT_EVALUATION_FAILED, job, NULL,
                 "the evaluation of epoch %u failed: %s", e->plan.last_epoch,
                 why);
    evaluation_free(e);
    job->evaluation = NULL;
}

void evaluations_check(struct coord *c, struct job *job)
{
    const Sluice__V1__EvaluateSpec *spec = job->spec->evaluate;
    struct evaluation_plan plan;

    if (every(job) == 0 || !job->placed)
        return;
    if (job->evaluation != NULL && evaluation_complete(job->evaluation))
        complete(c, job);
    if (c->dead || job->evaluation != NULL || !next_plan(job, &plan))
        return;
    job->evaluation =
        evaluation_new(&plan, job, job->facts.test_samples,
                       (uint64_t)spec->batch * spec->batches_per_closure,
                       job->spec->train->max_attempts);
    if (job->evaluation == NULL)
        return;
    LOG(INFO, "evaluation begun", "job=%s epoch=%u cut=%llu ranges=%u",
        job->id_text, plan.last_epoch, (ull)plan.cut, job->evaluation->count);
    happened_job(c, EVENT_EVALUATION_BEGAN, job, NULL,
                 "the evaluation of epoch %u has begun, against checkpoint "
                 "%llu",
                 plan.last_epoch, (ull)plan.cut);
}
