// SPDX-License-Identifier: Apache-2.0
// worker/lease/task_train.c -- a closure of optimizer steps.
//
// The compute thread walks the program's ops. Before the first op that touches
// a shard it waits for that shard's last answer; when its gradient is whole it
// sends the shard. So answers of one step arrive while the next one's first
// layers, whose shards were sent last, are waited for and the rest is fresh
// already.
// A device is given all ops at once; then its gradients are taken one by one.
// A step may be several micro-batches (contribution.h): the first is what waits
// for shards, the last is what sends them.
// Rows of tables (job_rows.h) are pulled before a step, or in mode async while
// the step before computes, and pushed with all shards when its gradient is
// whole.
// In mode local a step is many of the worker's own (inner.h), and what they
// changed is sent.
// The leader of a group (hybrid.h) has all parameters before it begins a step,
// and sends the step when the group's gradient is whole.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/history.h"
#include "common/base/mem.h"
#include "common/run/log.h"
#include "common/run/spans.h"
#include "trainer/base/grad.h"
#include "trainer/lease/hybrid_lead.h"
#include "trainer/lease/repeats.h"
#include "trainer/lease/closures.h"
#include "trainer/lease/steps.h"
#include "worker/lease/hybrid_ours.h"
#include "worker/lease/reading.h"
#include "worker/lease/task.h"

struct train {
    const struct task_env *env;
    struct worker_job *job;
    struct lease *lease;
    struct sync *sync;
    struct steps steps; // its `err` is ours, too

    // The step under way.
    struct contribution c;
    struct step step;
    uint32_t op, waited;  // next op; how many of overlap.by_wait are done
    uint32_t reads_until; // op behind the last that reads a shard that was sent
    // Clipping, f16, sync, tables: all gradients are computed before any is
    // sent.
    bool whole;
    bool rows_ahead;        // rows may be as old as before the step before
    struct hybrid *hybrid;  // its group; NULL: it has none
    bool parted;            // the group is over for this worker
    struct repeats repeats; // in an audited round; else it has no slots
    bool doubtful;          // a step was computed twice, and the results differ
    bool aside;             // a contribution was too large, and is handed back
    struct closures set;    // mode local: what the push counts
    // A stream (L8): its fragments, the one that is on its way (`count`: none),
    // and for each the first closure that it was not pushed with.
    struct {
        uint32_t count, away, since[FRAGMENTS_MOST];
        uint32_t overlap; // steps until what comes for a fragment is taken
    } stream;
};

static enum sync_result train_fail(struct train *t, enum sl_err rc)
{
    t->steps.err.code = rc;
    return SYNC_FAILED;
}

static struct span_of train_span_of(const struct train *t)
{
    return span_of_step(t->lease->job, t->lease->closure, t->c.step);
}

static enum sync_result train_wait_range(struct train *t, uint32_t range)
{
    uint64_t began = span_begin();
    enum sync_result result = sync_wait(t->sync, range, &t->steps.err);

    span_end(began, "wait", SPANS_COMPUTE,
             span_of_shard(t->lease->job, t->lease->closure, t->c.step, range));
    return result;
}

static enum sl_err run_ops(struct train *t, uint32_t stop)
{
    uint64_t began = span_begin();
    const char *pass =
        t->op < t->c.p->program->forward ? "forward" : "backward";
    enum sl_err rc = step_run(&t->step, t->op, stop, &t->steps.err);

    span_end(began, pass, SPANS_COMPUTE, train_span_of(t));
    return rc;
}

// Runs the ops before `end`, each when its shards are fresh.
static enum sync_result train_run_to(struct train *t, uint32_t end)
{
    const struct overlap *o = &t->c.p->overlap;
    enum sync_result result;
    uint64_t begin;
    enum sl_err rc;

    while (t->op < end) {
        uint32_t stop = end;

        while (t->waited < o->shards &&
               o->wait_before[o->by_wait[t->waited]] <= t->op) {
            result = t->set.streams
                         ? SYNC_OK // steps compute with other parameters
                         : train_wait_range(t, o->by_wait[t->waited]);
            if (result != SYNC_OK)
                return result;
            rc = step_fresh(&t->step, o->by_wait[t->waited], &t->steps.err);
            if (rc != SL_OK)
                return train_fail(t, rc);
            t->waited++;
        }
        if (t->waited < o->shards &&
            o->wait_before[o->by_wait[t->waited]] < stop)
            stop = o->wait_before[o->by_wait[t->waited]];
        if (t->reads_until > t->op && t->reads_until < stop)
            stop = t->reads_until; // what waits for it leaves while ops run
        begin = sl_now_us(t->env->clock);
        rc = run_ops(t, stop);
        t->steps.m.compute_ms +=
            (double)(sl_now_us(t->env->clock) - begin) / 1000;
        if (rc != SL_OK)
            return train_fail(t, rc);
        t->op = stop;
        if (t->reads_until > 0)
            t->sync->ops->past(t->sync, t->op);
        if (t->reads_until <= t->op)
            t->reads_until = 0;
    }
    return SYNC_OK;
}

// Shows the loss scale that is used from now on.
static void train_show_scale(struct train *t)
{
    if (t->job->precision == SPEC_F16)
        t->steps.m.loss_scale = t->job->scale.s;
}

static void train_note(struct train *t)
{
    const struct closures_steps *first = &t->set.one[0].of;

    if (t->set.count > 0)
        steps_note(&t->steps, first->samples, first->loss_sum,
                   first->right_sum);
    else
        steps_note(&t->steps, t->c.samples, t->c.loss_sum, t->c.right_sum);
}

// Names a sample that is to blame, before a step is judged.
static void train_blame(struct train *t)
{
    if (!t->steps.skipped)
        contribution_strange(&t->c, t->steps.m.strange,
                             sizeof(t->steps.m.strange));
}

enum train_send { SEND_WHOLE, SEND_NOT_FINITE, SEND_SKIP };

// Returns true if a push that counts the closures from number `since` on brings
// the moments that they have left (L9).
static bool train_leaves(const struct train *t, uint32_t since)
{
    for (uint32_t i = 0; i < t->set.count; i++)
        if (t->set.one[i].number >= since &&
            inner_leaves(t->job->inner, t->set.one[i].lease->closure))
            return true;
    return false;
}

static enum sync_result train_send_range(struct train *t, uint32_t range,
                                         enum train_send how)
{
    struct sync_step step = {.step = t->c.step,
                             .samples = t->c.samples,
                             .digest = t->c.digest,
                             .wanted = t->c.p->overlap.wait_before[range]};
    enum sync_result result = SYNC_OK;

    job_rows_fill(t->job->rows, range, &step);
    closures_fill(&t->set, t->sync, &step);
    if (t->c.apart && how == SEND_WHOLE && train_leaves(t, 0))
        inner_leave(t->job->inner, range, &step);
    if (t->c.p->overlap.read_until[range] > t->op)
        step.reads_until = t->c.p->overlap.read_until[range];
    if (step.reads_until > t->reads_until)
        t->reads_until = step.reads_until;
    // A shard that no op touches was not waited for.
    if (t->c.p->overlap.wait_before[range] >= t->c.p->program->count)
        result = train_wait_range(t, range);
    if (result != SYNC_OK)
        return result;
    return how == SEND_SKIP
               ? steps_skip(&t->steps, range, &step)
               : steps_whole(&t->steps, range, &step, how == SEND_WHOLE);
}

#define THE_LOSS UINT32_MAX

// Waits until the loss, or the gradient of a range, is in host memory.
// Meanwhile a device computes, and the next batch may be copied to it if it has
// been read.
static enum sync_result train_fetch_range(struct train *t, uint32_t range)
{
    uint64_t begin, began;
    enum sl_err rc;

    if (!step_runs_ahead(&t->step))
        return SYNC_OK;
    began = span_begin();
    begin = sl_now_us(t->env->clock);
    rc = step_look_ahead(&t->step, t->env->input, t->c.run, t->c.batch.step + 1,
                         &t->steps.err);
    if (rc == SL_OK)
        rc = range == THE_LOSS ? step_stats(&t->step, &t->steps.err)
                               : step_take(&t->step, range, &t->steps.err);
    span_end(began, range == THE_LOSS ? "forward" : "backward", SPANS_COMPUTE,
             train_span_of(t));
    t->steps.m.compute_ms += (double)(sl_now_us(t->env->clock) - begin) / 1000;
    return rc == SL_OK ? SYNC_OK : train_fail(t, rc);
}

// Notes the result of the slot that was computed, in an audited round (A1);
// NULL: it is not finite. SYNC_STOPPED: the step was computed twice, and this
// result differs from the first, so none of them is to be sent (A5).
static enum sync_result train_result(struct train *t, const float *gradient)
{
    if (t->repeats.count == 0)
        return SYNC_OK;
    repeats_note(&t->repeats, t->lease, contribution_kind(&t->c), t->c.closure,
                 gradient, (size_t)t->job->model->elements);
    t->doubtful = repeats_differ(&t->repeats, t->lease);
    return t->doubtful ? SYNC_STOPPED : SYNC_OK;
}

// Returns true if the loss scale, now smaller, may be why the step is not
// finite. The loss does not depend on its scale; a gradient does.
static bool scale_is_why(struct train *t, bool loss_finite)
{
    bool smaller =
        t->job->precision == SPEC_F16 && loss_scale_step(&t->job->scale, false);

    train_show_scale(t);
    return smaller && loss_finite;
}

// Counts the step on all shards and applies it on none. A loss scale that was
// too large is not the job's fault, so the step is not judged then.
static enum sync_result skip_all(struct train *t, bool loss_finite)
{
    const struct overlap *o = &t->c.p->overlap;
    enum sync_result result = train_result(t, NULL);

    if (result != SYNC_OK)
        return result;
    if (scale_is_why(t, loss_finite)) {
        nonfinite_scaled();
    } else {
        train_blame(t);
        result = steps_judge(&t->steps);
    }
    train_note(t);
    t->op = t->c.p->program->count; // the other ops are not run
    // Shards that only the backward pass touches were not waited for.
    while (result == SYNC_OK && t->waited < o->shards)
        result = train_wait_range(t, o->by_wait[t->waited++]);
    for (uint32_t i = 0; i < o->shards && result == SYNC_OK; i++) {
        result = train_fetch_range(t, o->by_send[i]);
        if (result == SYNC_OK)
            result = train_send_range(t, o->by_send[i], SEND_SKIP);
    }
    return result;
}

// Sends a step. Its gradient is in the vector, finite and clipped.
static enum sync_result send_whole(struct train *t)
{
    const struct overlap *o = &t->c.p->overlap;
    enum sync_result result = train_result(t, t->sync->grads);

    if (result != SYNC_OK)
        return result;
    grad_statistics(t->sync->grads, t->job->model, 0, t->job->model->elements,
                    t->c.apart ? 1 : t->c.count);
    if (t->job->precision == SPEC_F16)
        loss_scale_step(&t->job->scale, true);
    train_show_scale(t);
    train_note(t);
    for (uint32_t i = 0; i < o->shards && result == SYNC_OK; i++)
        result = train_send_range(t, o->by_send[i], SEND_WHOLE);
    steps_end(&t->steps);
    return result;
}

static enum sync_result train_fetch_all(struct train *t)
{
    const struct overlap *o = &t->c.p->overlap;
    enum sync_result result = SYNC_OK;

    for (uint32_t i = 0; i < o->shards && result == SYNC_OK; i++)
        result = train_fetch_range(t, o->by_send[i]);
    return result;
}

static bool is_finite(const struct train *t)
{
    uint32_t i = 0, n = t->sync->ranges_count;

    while (i < n && step_finite(&t->step, i, &t->sync->ranges[i]))
        i++;
    return i == n;
}

// Takes the gradients of a micro-batch's rows, after its last op.
static enum sync_result train_take_rows(struct train *t)
{
    struct job_rows *rows = t->job->rows;
    struct step_program p;
    enum sl_err rc;

    if (rows == NULL)
        return SYNC_OK;
    p = job_step_program(t->c.p);
    rc = step_take_rows(&t->step, &t->steps.err);
    if (rc == SL_OK)
        rc = job_rows_take(rows, &p, t->c.batch.ids, &t->steps.err);
    return rc == SL_OK ? SYNC_OK : train_fail(t, rc);
}

// Adds up the gradients of the step's rows, and clears *finite if one is not.
static enum sync_result train_pack_rows(struct train *t, bool *finite)
{
    enum sl_err rc =
        job_rows_pack(t->job->rows, t->sync->ranges, finite, &t->steps.err);

    return rc == SL_OK ? SYNC_OK : train_fail(t, rc);
}

// Judges, clips and sends the group's sum. The host does it: devices have only
// this member's share.
static enum sync_result send_sum(struct train *t)
{
    const struct worker_job *job = t->job;
    float *g = t->sync->grads;
    bool finite = grad_finite(g, (size_t)job->model->elements);
    enum sync_result result = train_pack_rows(t, &finite);

    if (result != SYNC_OK)
        return result;
    if (!finite)
        return skip_all(t, true);
    grad_clipnorm(g, job->model, job->optimizer.clipnorm);
    grad_global_clipnorm(g, job->model, job->optimizer.global_clipnorm);
    return send_whole(t);
}

static bool train_has_clipping(const struct train *t)
{
    return t->job->optimizer.clipnorm > 0 ||
           t->job->optimizer.global_clipnorm > 0;
}

static enum sync_result train_clip(struct train *t)
{
    const struct spec_optimizer *o = &t->job->optimizer;
    enum sl_err rc = step_clip(&t->step, t->job->model, o->clipnorm,
                               o->global_clipnorm, &t->steps.err);

    return rc == SL_OK ? SYNC_OK : train_fail(t, rc);
}

// Computes the rest of a step whose loss is known, and clips it. Sets *finite
// to whether its gradient is finite; else it is not clipped, or all in the
// vector.
static enum sync_result train_whole(struct train *t, bool *finite)
{
    bool kept = t->step.kept;
    enum sync_result result = train_run_to(t, t->c.p->program->count);

    if (result == SYNC_OK && !kept)
        result = train_fetch_all(t);
    *finite = result == SYNC_OK && is_finite(t);
    if (*finite)
        result = train_take_rows(t);
    if (*finite && result == SYNC_OK)
        result = train_pack_rows(t, finite);
    if (*finite && result == SYNC_OK && kept)
        result = train_clip(t);
    if (*finite && result == SYNC_OK && kept)
        result = train_fetch_all(t);
    return result;
}

// Asks for the rows of the next step, if its batch has been read. The step's
// number is that of its batch. An audited step keeps to its own rows.
static void train_ask_rows(struct train *t)
{
    struct rows_from from = {.sync = t->sync};
    const struct id_bag *bags;

    if (!t->rows_ahead || t->repeats.count > 0 ||
        atomic_load(&t->lease->gate.draining))
        return;
    from.step = t->sync->ops->next(t->sync, t->c.step);
    if (from.step >= t->lease->steps)
        return;
    bags = input_ids(t->env->input, t->c.run, from.step);
    if (bags != NULL)
        job_rows_ahead(t->job->rows, &from, bags);
}

// Computes the whole gradient before any of it leaves, for clipping by a norm;
// and in f16, where all shards skip the step if any part of it is not finite.
static enum sync_result whole_and_send(struct train *t)
{
    bool finite;
    enum sync_result result = train_whole(t, &finite);

    if (result != SYNC_OK)
        return result;
    train_ask_rows(t); // its batch may have come meanwhile
    return finite ? send_whole(t) : skip_all(t, true);
}

// Notes the result of a step that is sent range by range, in an audited round:
// then all of it is computed before any of it leaves, with the same bits.
static enum sync_result result_of_ranges(struct train *t)
{
    enum sync_result result;

    if (t->repeats.count == 0)
        return SYNC_OK;
    result = train_run_to(t, t->c.p->program->count);
    if (result == SYNC_OK)
        result = train_fetch_all(t); // the sum of a team's parts
    return result == SYNC_OK
               ? train_result(t, is_finite(t) ? t->sync->grads : NULL)
               : result;
}

static enum sync_result train_backward(struct train *t)
{
    const struct overlap *o = &t->c.p->overlap;
    enum sync_result result = result_of_ranges(t);
    bool finite;

    if (result != SYNC_OK)
        return result;
    train_note(t);
    for (uint32_t i = 0; i < o->shards && result == SYNC_OK; i++) {
        uint32_t s = o->by_send[i];
        const struct elements *range = &t->sync->ranges[s];

        result = train_run_to(t, o->send_after[s] + 1);
        if (result == SYNC_OK)
            result = train_fetch_range(t, s);
        if (result != SYNC_OK)
            break;
        finite = step_finite(&t->step, s, range);
        if (!finite)
            train_blame(t);
        grad_statistics(t->sync->grads, t->job->model, range->first,
                        range->count, t->c.count);
        result = train_send_range(t, s, finite ? SEND_WHOLE : SEND_NOT_FINITE);
    }
    if (result == SYNC_OK)
        result = train_run_to(t, t->c.p->program->count);
    steps_end(&t->steps);
    return result;
}

// Returns true if a step is computed for the second time: from the rows that it
// had the first time, whatever they are by now (A5).
static bool train_is_second(const struct train *t)
{
    return t->repeats.count > 0 && t->repeats.twice &&
           t->lease->outcome.repeats_count == 1;
}

// Begins the rows of a contribution.
static void train_begin_rows(struct train *t)
{
    job_rows_begin(t->job->rows);
    if (!train_is_second(t))
        job_rows_unkeep(t->job->rows);
}

// Pulls the rows of the micro-batch that was chosen into its program.
static enum sync_result train_bring_rows(struct train *t)
{
    const struct rows_from from = {.sync = t->sync, .step = t->c.step};
    struct step_program p = job_step_program(t->c.p);
    enum sync_result result = SYNC_OK;
    enum sl_err rc = SL_OK;

    if (train_is_second(t))
        rc = job_rows_kept(t->job->rows, t->c.at, &p, t->c.batch.ids,
                           &t->steps.err);
    else
        result = job_rows_pull(t->job->rows, &from, &p, t->c.batch.ids,
                               &t->steps.err);
    if (result == SYNC_OK && t->repeats.count > 0 && !train_is_second(t))
        rc = job_rows_keep(t->job->rows, &t->steps.err);
    return rc == SL_OK ? result : train_fail(t, rc);
}

// Pulls the rows of the step into its program. It waits for all ranges before:
// the pushes of the step before still read their rows; and rows that are asked
// for behind it lack the update of one step, not of two.
static enum sync_result train_pull_rows(struct train *t)
{
    enum sync_result result;
    enum sl_err rc;

    if (t->job->rows == NULL)
        return SYNC_OK;
    result = steps_fresh_wait(&t->steps);
    if (result != SYNC_OK)
        return result;
    if (contribution_is_first(&t->c))
        train_begin_rows(t);
    rc = contribution_choose(&t->c, &t->steps.err);
    if (rc != SL_OK)
        return train_fail(t, rc);
    result = train_bring_rows(t);
    if (result == SYNC_OK)
        train_ask_rows(t);
    return result;
}

// Reads the next micro-batch and lets it begin.
static enum sync_result train_begin_batch(struct train *t)
{
    uint64_t began = sl_now_us(t->env->clock), asked = span_begin();
    enum sl_err rc = contribution_get(&t->c, &t->steps.err);
    enum sync_result result;

    span_end(asked, "input", SPANS_COMPUTE, train_span_of(t));
    if (rc != SL_OK)
        return train_fail(t, rc);
    pulse_beat(&t->lease->gate.pulse);
    t->steps.m.input_ms += (double)(sl_now_us(t->env->clock) - began) / 1000;
    result = train_pull_rows(t);
    if (result != SYNC_OK)
        return result;
    rc = contribution_start(&t->c, &t->steps.err);
    if (rc != SL_OK)
        return train_fail(t, rc);
    t->op = t->reads_until = 0;
    // Shards that the first micro-batch waited for are fresh for all, unless
    // the worker itself changes the parameters.
    t->waited = t->c.at == 0 || t->c.apart ? 0 : t->c.p->overlap.shards;
    return SYNC_OK;
}

// Runs a micro-batch until its loss is known.
static enum sync_result train_forward(struct train *t)
{
    struct program *p;
    enum sync_result result = train_begin_batch(t);

    if (result != SYNC_OK)
        return result;
    p = t->c.p->program;
    result = train_run_to(t, step_runs_ahead(&t->step) ? p->count : p->forward);
    if (result != SYNC_OK)
        return result;
    if (t->c.at == 0) {
        FAULT("task.computed");
        steps_report(&t->steps);
    }
    result = train_fetch_range(t, THE_LOSS);
    if (result == SYNC_OK)
        contribution_loss(&t->c);
    return result;
}

// Moves on to the next micro-batch. No push, which would look at the gate,
// comes soon.
static enum sync_result train_next_batch(struct train *t)
{
    contribution_put(&t->c);
    t->c.at++;
    return gate_look(&t->lease->gate, t->env->clock) == GATE_OPEN
               ? SYNC_OK
               : SYNC_STOPPED;
}

// Computes all micro-batches of a step, the last one until its loss is known.
// The gradient of the others stays in the vector.
static enum sync_result train_batches(struct train *t)
{
    enum sync_result result = train_forward(t);

    while (result == SYNC_OK && !contribution_is_last(&t->c)) {
        result = train_run_to(t, t->c.p->program->count);
        if (result == SYNC_OK)
            result = train_take_rows(t);
        if (result == SYNC_OK)
            result = train_next_batch(t);
        if (result == SYNC_OK)
            result = train_forward(t);
    }
    return result;
}

// ---- streams (L8): what is on its way

// Waits for the fragment that is on its way, and takes what came: the base of
// its next change. All fragments have now been pushed with the closure before
// the last ones, as many as there are fragments.
static enum sync_result stream_take(struct train *t)
{
    enum sync_result result = SYNC_OK;

    if (t->stream.away == t->stream.count)
        return SYNC_OK;
    for (uint32_t i = 0; i < t->sync->ranges_count; i++) {
        if (inner_fragment(t->job->inner, i) != t->stream.away)
            continue;
        result = train_wait_range(t, i);
        if (result != SYNC_OK)
            return result;
        inner_merge(t->job->inner, i, t->sync->params, t->step.params);
    }
    t->stream.away = t->stream.count;
    if (t->set.count == t->stream.count)
        closures_counted(&t->set, t->sync);
    return result;
}

// Moves what is on its way on, between two steps, and takes it when it is time.
// Of a result that is not good the take tells.
static enum sync_result stream_step(struct train *t)
{
    if (t->stream.away == t->stream.count)
        return SYNC_OK;
    if (t->c.at + 1 >= t->stream.overlap)
        return stream_take(t);
    for (uint32_t i = 0; i < t->sync->ranges_count; i++)
        if (inner_fragment(t->job->inner, i) == t->stream.away)
            (void)t->sync->ops->wait(t->sync, i, NULL);
    pulse_wait(&t->lease->gate.pulse, false); // the steps go on
    return SYNC_OK;
}

// ---- mode local

static struct lease *train_next_lease(void *arg)
{
    struct train *t = arg;

    return t->env->next(t->env->arg, t->job);
}

static enum sl_err train_get_lease(void *arg, struct lease *l,
                                   struct sl_error *err)
{
    struct train *t = arg;

    return task_prepare(t->env->input, t->job, l, err);
}

static void train_put_lease(void *arg, struct lease *l)
{
    struct train *t = arg;

    task_unprepare(t->env->input, l);
}

static void train_give_lease(void *arg, struct lease *l)
{
    struct train *t = arg;

    t->env->give(t->env->arg, l);
}

static void train_begin_set(struct train *t)
{
    const struct closures_env env = {
        .clock = t->env->clock,
        .next = t->env->next != NULL ? train_next_lease : NULL,
        .get = train_get_lease,
        .put = train_put_lease,
        .give = train_give_lease,
        .arg = t};

    closures_init(&t->set, &env, t->lease, &t->job->alone);
}

// Adds the closure under way to those of the contribution.
static void train_add(struct train *t, struct lease *l)
{
    closures_add(&t->set, l,
                 &(struct closures_steps){.count = t->c.count,
                                          .samples = t->c.samples,
                                          .digest = t->c.digest,
                                          .loss_sum = t->c.loss_sum,
                                          .right_sum = t->c.right_sum});
}

// Takes one step of the worker's own. Clears *finite, and changes nothing, if
// its loss or gradient is not finite.
static enum sync_result local_step(struct train *t, bool *finite)
{
    enum sync_result result = train_forward(t);

    *finite = result == SYNC_OK && isfinite(t->c.loss_sum);
    if (*finite)
        result = train_whole(t, finite);
    if (result == SYNC_OK && *finite)
        inner_update(t->job->inner, t->c.closure, t->c.at, t->step.grads,
                     t->step.params);
    return result == SYNC_OK && t->set.streams ? stream_step(t) : result;
}

// Takes all steps of a closure.
static enum sync_result local_closure(struct train *t, bool *finite)
{
    enum sync_result result = local_step(t, finite);

    while (result == SYNC_OK && *finite && !contribution_is_last(&t->c)) {
        result = train_next_batch(t);
        if (result == SYNC_OK)
            result = local_step(t, finite);
    }
    return result;
}

// Takes the steps of further closures, as many as there are leases for. A
// closure of which the lease ends meanwhile is left out, and ends the
// contribution.
static enum sync_result local_more(struct train *t, bool *finite)
{
    enum sync_result result = SYNC_OK;
    struct lease *l;

    while (result == SYNC_OK && *finite &&
           (l = closures_next(&t->set, t->lease)) != NULL) {
        inner_mark(t->job->inner, t->sync->params);
        contribution_put(&t->c);
        contribution_begin(&t->c, l->run, l->closure, 0);
        t->step.pulse = &l->gate.pulse;
        result = local_closure(t, finite);
        t->step.pulse = &t->lease->gate.pulse;
        if (result != SYNC_OK) {
            step_stop(&t->step);
            contribution_put(&t->c);
            if (closures_undo(&t->set, t->lease, l)) {
                inner_undo(t->job->inner, t->sync->params);
                t->steps.err = (struct sl_error)SL_ERROR_INIT;
                *finite = true; // the steps that are pushed are
                return SYNC_OK;
            }
        }
        train_add(t, l);
    }
    return result;
}

// Takes all steps of a contribution, and sets what is to be sent in place of
// the gradient. Sets *finite to whether all were finite; else none is to be
// sent. The parameters are those of the round again, whatever happens.
static enum sync_result local_steps(struct train *t, bool *finite)
{
    struct inner *in = t->job->inner;
    enum sync_result result = steps_fresh_wait(&t->steps);
    uint64_t begin = sl_now_us(t->env->clock);

    closures_begin(&t->set);
    if (result != SYNC_OK)
        return result;
    inner_begin(in, t->sync->params);
    result = local_closure(t, finite);
    train_add(t, t->lease);
    if (result == SYNC_OK)
        result = local_more(t, finite);
    t->lease->outcome.change_steps = t->set.steps;
    t->lease->outcome.change_ms =
        (double)(sl_now_us(t->env->clock) - begin) / 1000;
    if (result == SYNC_OK && *finite)
        inner_finish(in, t->sync->params, t->sync->grads);
    if (result != SYNC_OK)
        step_stop(&t->step); // it may read the parameters still
    inner_cancel(in, t->sync->params);
    t->op = t->c.p != NULL ? t->c.p->program->count : 0;
    return result;
}

// Notes what the contribution changed. Returns true if it is not to be sent. A
// loss scale that was too large is no fault of the host, and skip_all makes it
// smaller.
static bool local_is_aside(struct train *t, bool finite)
{
    if (!finite && t->job->precision == SPEC_F16 && isfinite(t->c.loss_sum))
        return false;
    return closures_change(&t->set, t->job->model, t->sync->grads, finite);
}

static enum sync_result local_and_send(struct train *t)
{
    bool finite = false;
    enum sync_result result = local_steps(t, &finite);

    if (result != SYNC_OK)
        return result;
    t->aside = local_is_aside(t, finite);
    if (t->aside)
        return SYNC_STOPPED;
    return finite ? send_whole(t) : skip_all(t, isfinite(t->c.loss_sum));
}

// ---- streams: the order

// Sends a fragment, with the closures that it has not been pushed with.
static enum sync_result stream_send(struct train *t, uint32_t fragment)
{
    struct sync_step step = {.newer = true};
    const float *base = t->sync->params;
    enum sync_result result = SYNC_OK;
    bool leaves = train_leaves(t, t->stream.since[fragment]);

    if (!closures_cover(&t->set, fragment, t->stream.since[fragment], &step))
        return SYNC_OK;
    t->stream.since[fragment] = t->set.added;
    for (uint32_t i = 0; result == SYNC_OK && i < t->sync->ranges_count; i++) {
        if (inner_fragment(t->job->inner, i) != fragment)
            continue;
        inner_change(t->job->inner, i, base, t->step.params, t->sync->grads);
        step.wanted = t->c.p->overlap.wait_before[i];
        if (leaves)
            inner_leave(t->job->inner, i, &step);
        result = steps_whole(&t->steps, i, &step, true);
    }
    return result;
}

// Takes back a closure of which a step was not finite: it changes nothing, and
// counts.
static enum sync_result stream_skip(struct train *t)
{
    enum sync_result result = SYNC_OK;

    step_stop(&t->step);
    inner_undo(t->job->inner, t->step.params);
    if (scale_is_why(t, isfinite(t->c.loss_sum))) {
        nonfinite_scaled();
    } else {
        train_blame(t);
        result = steps_judge(&t->steps);
    }
    t->steps.skipped = false; // the push brings other closures
    t->set.one[t->set.count - 1].skipped = true;
    return result;
}

// Takes the steps of closure `l`, which is begun.
static enum sync_result stream_closure(struct train *t, struct lease *l)
{
    bool finite = true;
    enum sync_result result;

    inner_mark(t->job->inner, t->step.params);
    t->step.pulse = &l->gate.pulse;
    result = local_closure(t, &finite);
    t->step.pulse = &t->lease->gate.pulse;
    if (result != SYNC_OK)
        step_stop(&t->step);
    contribution_put(&t->c);
    if (result == SYNC_OK)
        result = stream_take(t); // a short closure
    if (result != SYNC_OK)
        return result;
    train_add(t, l);
    // An update may be too large where its gradient is not.
    if (!finite || !grad_finite(t->step.params, t->job->model->elements))
        return stream_skip(t);
    if (t->job->precision == SPEC_F16)
        loss_scale_step(&t->job->scale, true);
    train_show_scale(t);
    nonfinite_end_row(t->steps.nonfinite);
    return SYNC_OK;
}

// Sends the fragment that leaves behind the last closure.
static enum sync_result stream_leave(struct train *t)
{
    uint32_t fragment = (t->set.added - 1) % t->stream.count;
    enum sync_result result = stream_send(t, fragment);

    t->stream.away = fragment;
    return result == SYNC_OK && t->stream.overlap == 0 ? stream_take(t)
                                                       : result;
}

// Takes further closures. One of which the lease ends meanwhile is left out,
// and ends the stream.
static enum sync_result stream_go_on(struct train *t)
{
    enum sync_result result = SYNC_OK;
    struct lease *l;
    uint32_t added;

    while (result == SYNC_OK &&
           (l = closures_next(&t->set, t->lease)) != NULL) {
        contribution_begin(&t->c, l->run, l->closure, 0);
        if (t->env->ahead != NULL)
            t->env->ahead(t->env->arg, t->job);
        added = t->set.added;
        result = stream_closure(t, l);
        if (result == SYNC_OK) {
            result = stream_leave(t);
        } else if (t->set.added > added) {
            return result;
        } else if (closures_undo(&t->set, t->lease, l)) {
            inner_undo(t->job->inner, t->step.params);
            t->steps.err = (struct sl_error)SL_ERROR_INIT;
            return SYNC_OK;
        } else {
            train_add(t, l); // ends with the stream
        }
    }
    return result;
}

// Sends what each fragment has not been pushed with, and ends all closures.
static enum sync_result stream_end(struct train *t)
{
    enum sync_result result = stream_take(t);

    for (uint32_t f = 0; result == SYNC_OK && f < t->stream.count; f++)
        result = stream_send(t, f);
    if (result == SYNC_OK)
        result = sync_settle(t->sync, &t->steps.err);
    while (result == SYNC_OK && t->set.count > 0)
        closures_counted(&t->set, t->sync);
    return result;
}

static void stream_init(struct train *t)
{
    const Sluice__V1__TrainSpec *spec = t->lease->record->open->spec->train;
    float *const *own = inner_own(t->job->inner);

    t->step.params = own[0] != NULL ? own[0] : device_params(t->job->device);
    t->step.grads = own[0] != NULL ? own[1] : device_grads(t->job->device);
    t->stream.count = spec_fragments(spec);
    t->stream.overlap = spec->overlap;
}

// Takes closures one after another, the task's first, as long as there are
// leases.
static enum sync_result stream_run(struct train *t)
{
    size_t bytes = (size_t)t->job->model->elements * sizeof(float);
    enum sync_result result = steps_fresh_wait(&t->steps);
    struct closures_one first;

    closures_begin(&t->set);
    if (result != SYNC_OK)
        return result;
    closures_note(&t->set, t->sync);
    memcpy(t->step.params, t->sync->params, bytes);
    memset(t->stream.since, 0, sizeof(t->stream.since));
    t->stream.away = t->stream.count;
    result = stream_closure(t, t->lease);
    if (result != SYNC_OK)
        return result;
    first = t->set.one[0];
    result = stream_leave(t);
    if (result == SYNC_OK)
        result = stream_go_on(t);
    if (result == SYNC_OK)
        result = stream_end(t);
    if (result != SYNC_OK)
        closures_drop(&t->set, result);
    t->steps.skipped = first.skipped;
    steps_note(&t->steps, first.of.samples, first.of.loss_sum,
               first.of.right_sum);
    return result;
}

// Computes a step and sends it.
static enum sync_result compute_step(struct train *t)
{
    enum sync_result result;

    FAULT("task.compute");
    if (t->set.streams)
        return stream_run(t);
    if (t->c.apart)
        return local_and_send(t);
    result = train_batches(t);
    if (result != SYNC_OK)
        return result;
    if (!isfinite(t->c.loss_sum))
        return skip_all(t, false);
    return t->whole ? whole_and_send(t) : train_backward(t);
}

// ---- audited rounds (A1)

// Computes a slot of another worker's lease, or the step under way once more
// (A5), with the samples of `run`, and notes the result; nothing of it is sent
// (A3).
static enum sync_result train_repeat(struct train *t, struct input_run *run,
                                     uint64_t closure)
{
    bool finite = false;
    enum sync_result result;

    contribution_begin(&t->c, run, closure, t->steps.step);
    t->c.audited = true;
    t->step.kept = train_has_clipping(t);
    result = train_batches(t);
    if (result == SYNC_OK && isfinite(t->c.loss_sum))
        result = train_whole(t, &finite);
    if (result == SYNC_OK)
        result = train_result(t, finite ? t->sync->grads : NULL);
    contribution_put(&t->c);
    step_stop(&t->step); // ops of a step that is not finite were not run
    return result;
}

// Reads and computes a slot. One that cannot be is left out: the worker's own
// slot is what the lease is for.
static enum sync_result train_repeat_slot(struct train *t, uint64_t closure)
{
    const struct schedule *s = &t->job->record->schedule;
    struct input_run run = {NULL};
    struct sl_error err = SL_ERROR_INIT;
    uint64_t first, count;
    enum sync_result result;

    schedule_step_range(s, closure, t->steps.step, &first, &count);
    if (job_run(t->job, &run, schedule_epoch(s, closure), first, count, &err) !=
        SL_OK)
        return SYNC_OK;
    run.pulse = &t->lease->gate.pulse;
    run.job = t->lease->job;
    run.closure = closure;
    input_open(t->env->input, &run);
    result = train_repeat(t, &run, closure);
    input_close(t->env->input, &run);
    if (result == SYNC_FAILED) {
        t->steps.err = (struct sl_error)SL_ERROR_INIT;
        result = SYNC_OK;
    }
    return result;
}

// Computes the slots of an audited round that other workers have, too; or, in
// async, the step under way, for the first time. A group audits its shares
// itself.
static enum sync_result train_audit(struct train *t, bool grouped)
{
    enum sync_result result;
    uint64_t scale;

    memcpy(&scale, &t->job->scale.s, sizeof(scale));
    repeats_begin(&t->repeats, t->lease);
    if (grouped || !contribution_repeatable(t->job))
        t->repeats.count = 0;
    if (t->repeats.count == 0)
        return SYNC_OK;
    result = steps_fresh_wait(&t->steps);
    if (result == SYNC_OK)
        repeats_inputs(&t->repeats, scale, t->sync->params,
                       (size_t)t->job->model->elements);
    for (uint32_t i = 1; result == SYNC_OK && i < t->repeats.count; i++)
        result = train_repeat_slot(t, t->repeats.slots[i]);
    return result;
}

// ---- with a group

static enum sync_result group_step(struct train *t)
{
    static const struct contributor_ops ours = {.share = hybrid_ours_share,
                                                .step = hybrid_ours_step};
    struct hybrid_ours o = {.base = {.ops = &ours, .clock = t->env->clock},
                            .c = &t->c};
    struct hybrid_step s = {.hybrid = t->hybrid,
                            .by = &o.base,
                            .clock = t->env->clock,
                            .m = &t->steps.m,
                            .pulse = &t->lease->gate.pulse,
                            .sync = t->sync,
                            .head = {.any = true,
                                     .closure = t->c.closure,
                                     .step = t->c.step,
                                     .loss_scale = t->job->scale.s}};
    enum sync_result result = steps_fresh_wait(&t->steps);
    enum sl_err rc = SL_OK;

    if (result != SYNC_OK)
        return result;
    // A step of fewer micro-batches than members leaves the leader without a
    // share, and so without a program; the sum is sent in a program's order.
    if (t->c.p == NULL)
        rc = job_program(t->job, JOB_TRAINS, t->c.run->batch, &t->c.p,
                         &t->steps.err);
    if (rc != SL_OK)
        return train_fail(t, rc);
    result = hybrid_lead(&s, &t->steps.err);
    t->doubtful = hybrid_audit_differs(&o.audit);
    hybrid_audit_release(&o.audit);
    if (result != SYNC_OK) {
        step_stop(&t->step);
        return t->doubtful ? SYNC_STOPPED : result;
    }
    t->op = t->c.p->program->count;
    t->waited = t->sync->ranges_count;
    t->reads_until = 0;
    return isfinite(t->c.loss_sum) ? send_sum(t) : skip_all(t, false);
}

static enum sync_result train_run_step(struct train *t)
{
    enum sync_result result =
        t->hybrid != NULL
            ? hybrid_meet(t->hybrid, t->lease, t->env->clock, &t->parted)
            : SYNC_OK;
    bool grouped = t->hybrid != NULL && t->hybrid->group != NULL;
    uint32_t step = t->steps.step;

    if (result != SYNC_OK)
        return result;
    atomic_store(&t->lease->gate.pulse.step, step);
    if (t->env->ahead != NULL)
        t->env->ahead(t->env->arg, t->job);
    result = train_audit(t, grouped);
    if (result != SYNC_OK)
        return result;
    contribution_begin(&t->c, t->lease->run, t->lease->closure, step);
    t->c.audited = t->repeats.count > 0;
    if (!grouped)
        input_share(t->env->input, t->lease->run, (struct input_share){0});
    t->step.kept = !grouped && train_has_clipping(t);
    result = grouped ? group_step(t) : compute_step(t);
    contribution_put(&t->c);
    return result;
}

// Moves on to the next step, or to the end.
static enum sync_result train_next(struct train *t)
{
    enum sync_result result;

    do {
        if (t->steps.at == STEPS_ASK) { // ends a step that was given up
            step_stop(&t->step);
            job_rows_forget(t->job->rows);
        }
        result = steps_go(&t->steps);
    } while (result == SYNC_OK && steps_between(&t->steps));
    return result;
}

static enum sync_result all_steps(struct train *t)
{
    enum sync_result result = train_next(t);

    while (result == SYNC_OK && t->steps.at != STEPS_DONE) {
        result = train_run_step(t);
        FAULT("task.pushed");
        HISTORY("step", "job=%llu closure=%llu step=%u",
                (unsigned long long)t->lease->job,
                (unsigned long long)t->lease->closure, t->steps.step);
        if (result == SYNC_AGAIN) {
            steps_again(&t->steps);
            result = SYNC_OK;
        }
        if (result == SYNC_OK)
            result = train_next(t);
    }
    steps_report(&t->steps);
    return result;
}

static void train_finish(struct train *t, enum sync_result result)
{
    if (result == SYNC_STOPPED && t->aside)
        return; // with its outcome
    if (result == SYNC_STOPPED && t->parted)
        lease_hand_back(t->lease, "the worker's group has ended");
    else if (result == SYNC_STOPPED && t->doubtful)
        lease_hand_back(t->lease, "it computed a step twice, with two results");
    else
        steps_conclude(&t->steps, result);
}

// Returns true if the job takes gradients of any delay as they are.
static bool train_allows_delay(const struct train *t)
{
    const Sluice__V1__TrainSpec *train = t->lease->record->open->spec->train;

    return spec_contributions(train) == 0 && t->job->hybrid == NULL &&
           spec_any_delay(train);
}

// Gives an optimizer that is new the moments that the shards keep (L9).
static enum sync_result train_go_on(struct train *t)
{
    struct lease *l = t->lease;
    struct sync_moments m = {.closure = l->closure, .gate = &l->gate};
    enum sync_result result;
    uint64_t updates = 0;

    if (!inner_asks(t->job->inner, &m))
        return SYNC_OK;
    result = sync_moments(t->sync, &m, &updates, &t->steps.err);
    if (result != SYNC_OK)
        return result;
    inner_go_on(t->job->inner, updates);
    if (updates > 0)
        LOG(INFO, "begins with the moments that the psservers keep",
            "job=%" PRIu64 " closure=%" PRIu64 " updates=%" PRIu64, l->job,
            l->closure, updates);
    return SYNC_OK;
}

void task_train(const struct task_env *env, struct worker_job *job,
                struct lease *l)
{
    struct train t = {.env = env, .job = job, .lease = l};
    struct sl_error err = SL_ERROR_INIT;
    enum sync_result result = SYNC_FAILED;
    enum sl_err rc = job_sync(job, &t.sync, &err);

    if (rc != SL_OK) {
        lease_fail(l, rc, &err);
        return;
    }
    steps_init(&t.steps, l, t.sync, &job->nonfinite);
    train_show_scale(&t);
    t.step = (struct step){.device = job->device,
                           .team = job->team,
                           .params = t.sync->params,
                           .grads = t.sync->grads,
                           .pulse = &l->gate.pulse};
    t.c = (struct contribution){.input = env->input,
                                .job = job,
                                .device = &t.step,
                                .apart = job->inner != NULL};
    // In rounds all shards skip a contribution, or none does.
    t.whole = spec_contributions(l->record->open->spec->train) > 0 ||
              job->inner != NULL || job->precision == SPEC_F16 ||
              train_has_clipping(&t) || job->rows != NULL;
    train_begin_set(&t);
    if (t.set.streams)
        stream_init(&t);
    t.repeats.tables = job_rows_tables(job->rows);
    // A step of micro-batches asks for rows when each of them begins.
    t.rows_ahead = job->rows != NULL && train_allows_delay(&t) &&
                   l->record->accumulate == 1;
    // Without a ring lease steps are computed alone, with the same result.
    if (job->hybrid != NULL && job->hybrid->lease != NULL)
        t.hybrid = job->hybrid;
    result = train_go_on(&t);
    if (result == SYNC_OK)
        result = steps_open(&t.steps);
    if (result == SYNC_OK)
        result = all_steps(&t);
    step_stop(&t.step);
    FAULT("task.report");
    train_finish(&t, result);
    closures_end(&t.set, t.sync, result, t.steps.skipped);
    t.sync->ops->close(t.sync);
    job_rows_forget(job->rows);
}
