// SPDX-License-Identifier: Apache-2.0
// worker/lease/task_evaluate.c -- how good the parameters of a cut are.
#include "common/base/mem.h"
#include "worker/device/step.h"
#include "worker/lease/job_rank.h"
#include "worker/lease/task.h"

static enum sync_result pull_cut(struct worker_job *job, struct lease *l,
                                 struct sl_error *err)
{
    struct sync *sync = NULL;

    if (job_sync(job, &sync, err) != SL_OK)
        return SYNC_FAILED;
    return sync_pull_cut(sync, l->tags, &l->gate, job->cut, err);
}

static enum sync_result evaluate_load_cut(struct worker_job *job,
                                          struct lease *l, struct sl_error *err)
{
    enum sync_result result;

    if (job->cut != NULL && job->cut_number == l->cut)
        return SYNC_OK; // an earlier range of the same cut
    job->cut_number = 0;
    if (job_cut(job, err) != SL_OK)
        return SYNC_FAILED;
    if (job->ring != NULL)
        result = job_rank_cut(job, l->tags, l->tags_count, err) == SL_OK
                     ? SYNC_OK
                     : SYNC_FAILED;
    else
        result = pull_cut(job, l, err);
    if (result == SYNC_OK)
        job->cut_number = l->cut;
    return result;
}

// Returns how many predictions a sample's outputs are: of classes, one for each
// row of outputs.
static uint32_t score_rows(const struct worker_job *job,
                           const struct program *p)
{
    return spec_loss_has_classes(job->loss) ? (uint32_t)p->head[0].rows : 1;
}

static struct score_rule rule_of(const struct worker_job *job,
                                 const struct program *p)
{
    const Sluice__V1__JobSpec *spec = job->record->open->spec;

    return (struct score_rule){.loss = job->loss,
                               .metrics = spec_metrics(spec),
                               .top_k = spec->evaluate->top_k,
                               .outputs = p->per_sample / score_rows(job, p),
                               .rows = score_rows(job, p),
                               .logits = p->logits,
                               .weighted = data_weighted(job->test)};
}

// Adds the metrics of the parts that members of a team have computed, one part
// behind the other.
static enum sl_err add_scores(struct worker_job *job, struct lease *l,
                              const struct step *s, const struct batch *batch,
                              struct sl_error *err)
{
    const struct program *p;
    uint64_t done = 0;

    if (s->program->outputs == NULL)
        return SL_OK;
    if (l->outcome.score == NULL)
        l->outcome.score = sl_calloc(1, sizeof(*l->outcome.score));
    if (l->outcome.score == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for the metrics");
    for (unsigned k = 0; (p = step_part(s, k)) != NULL; k++) {
        struct score_rule rule = rule_of(job, p);
        if (score_add(l->outcome.score, &rule, p->outputs,
                      (const uint8_t *)batch->y +
                          done * data_label_bytes(job->test),
                      p->batch) != SL_OK)
            return sl_fail(err, SL_ENOMEM, "no memory for the metrics");
        done += p->batch;
    }
    return SL_OK;
}

// Computes a batch. Meanwhile the next one may be copied to a device, unless
// the labels of this one, which might be gone then, are wanted here as well.
static enum sl_err compute_batch(const struct task_env *env,
                                 struct worker_job *job, struct lease *l,
                                 struct step *s, const struct batch *batch,
                                 struct program **out, struct sl_error *err)
{
    struct job_program *p = NULL;
    enum sl_err rc = job_program(job, JOB_EVALUATES, batch->n, &p, err);
    struct step_program run;

    if (rc != SL_OK)
        return rc;
    run = job_step_program(p);
    rc = step_begin(s, &run, batch, err);
    if (rc == SL_OK)
        rc = step_vector(s, l->cut, err);
    if (rc == SL_OK)
        rc = step_run(s, 0, p->program->count, err);
    if (rc == SL_OK && run.program->outputs == NULL)
        rc = step_look_ahead(s, env->input, l->run, batch->step + 1, err);
    if (rc == SL_OK)
        rc = step_stats(s, err);
    if (rc == SL_OK)
        rc = add_scores(job, l, s, batch, err);
    if (rc == SL_OK)
        *out = p->program;
    return rc;
}

// Pulls the rows of a batch as they are in the cut.
static enum sync_result pull_cut_rows(struct worker_job *job, struct lease *l,
                                      const struct batch *batch,
                                      struct sl_error *err)
{
    const struct rows_from from = {.sync = job->sync,
                                   .tags = l->tags + job->record->first_range,
                                   .gate = &l->gate};
    struct job_program *p = NULL;
    struct step_program run;

    if (job->rows == NULL)
        return SYNC_OK;
    if (job_program(job, JOB_EVALUATES, batch->n, &p, err) != SL_OK)
        return SYNC_FAILED;
    run = job_step_program(p);
    return job_rows_pull(job->rows, &from, &run, batch->ids, err);
}

// *pulled: how the rows came; then nothing was computed unless it is SYNC_OK.
static enum sl_err one_batch(const struct task_env *env, struct worker_job *job,
                             struct lease *l, uint32_t step,
                             struct lease_metrics *m, enum sync_result *pulled,
                             struct sl_error *err)
{
    uint64_t t0 = sl_now_us(env->clock), t1, t2;
    struct step s = {.device = job->device,
                     .team = job->team,
                     .params = job->cut,
                     .pulse = &l->gate.pulse};
    struct program *p = NULL;
    struct batch batch;
    enum sl_err rc;

    atomic_store(&l->gate.pulse.step, step);
    if (step == 0)
        step_stop(&s); // batches staged so far are of other leases
    rc = step_get(&s, env->input, l->run, step, &batch, err);
    if (rc != SL_OK)
        return rc;
    pulse_beat(&l->gate.pulse);
    *pulled = pull_cut_rows(job, l, &batch, err);
    t1 = sl_now_us(env->clock);
    if (*pulled == SYNC_OK)
        rc = compute_batch(env, job, l, &s, &batch, &p, err);
    step_put(&s, env->input, &batch);
    if (rc != SL_OK || *pulled != SYNC_OK)
        return rc;
    t2 = sl_now_us(env->clock);
    m->steps++;
    m->samples += batch.n;
    m->loss_samples += batch.n;
    m->loss_sum += program_loss_sum(p);
    if (spec_loss_counts(job->loss))
        m->right_sum += program_right_sum(p);
    m->input_ms += (double)(t1 - t0) / 1000;
    m->compute_ms += (double)(t2 - t1) / 1000;
    return SL_OK;
}

static void evaluate(const struct task_env *env, struct worker_job *job,
                     struct lease *l)
{
    struct lease_metrics m = {0};
    struct sl_error err = SL_ERROR_INIT;
    enum sync_result result;
    enum sl_err rc;

    sl_free(l->outcome.score); // a second attempt begins from 0
    l->outcome.score = NULL;
    // The rank had a state when the range was leased. A lease that found no
    // memory has dropped it since, with its job.
    if (job->ring != NULL && !rank_has_state(&job->ring->rank)) {
        lease_hand_back(l, "this worker has lost its state of the job");
        return;
    }
    result = evaluate_load_cut(job, l, &err);
    for (uint32_t i = 0; result == SYNC_OK && i < input_run_steps(l->run);
         i++) {
        rc = one_batch(env, job, l, i, &m, &result, &err);
        if (rc != SL_OK) {
            lease_fail(l, rc, &err);
            return;
        }
        if (result != SYNC_OK)
            break;
        lease_set_progress(l, &m);
        if (gate_look(&l->gate, env->clock) != GATE_OPEN)
            result = SYNC_STOPPED;
        else if (atomic_load(&l->gate.draining) &&
                 i + 1 < input_run_steps(l->run)) {
            lease_hand_back(l, "the worker is leaving");
            return;
        }
    }
    if (result == SYNC_FAILED) {
        // A cut whose files are gone is not the job's fault.
        lease_fail(l, err.code, &err);
        l->outcome.job_error = false;
    } else if (result != SYNC_OK) {
        lease_stopped(l);
    }
}

void task_evaluate(const struct task_env *env, struct worker_job *job,
                   struct lease *l)
{
    struct step s;

    evaluate(env, job, l);
    // A job's first lease makes its device and its team while it evaluates.
    s = (struct step){.device = job->device, .team = job->team};
    step_stop(&s); // gives back batches that were staged in vain
}
