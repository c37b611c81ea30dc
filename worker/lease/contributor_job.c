// SPDX-License-Identifier: Apache-2.0
// worker/lease/contributor_job.c -- the contributions of a rank that computes a
// model of layers: its samples are read ahead, its programs run here or on a
// device.
#include <math.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/mem.h"
#include "trainer/base/figures.h"
#include "trainer/base/grad.h"
#include "worker/device/step.h"
#include "worker/lease/contribution.h"
#include "worker/lease/job_rank.h"
#include "worker/lease/pass.h"
#include "trainer/lease/rank_rows.h"
#include "worker/lease/task.h"
#include "trainer/lease/task_ring.h"

struct contributor_slot {
    struct round_key key;
    struct input_run run;
    bool open;
};

// Our slots of one round: slots[0] of this round, slots[1] of the next one, as
// far as its keys are known.
struct slots {
    struct contributor_slot *at; // owned
    uint32_t count, capacity;
};

struct job_contributor {
    struct contributor base;
    const struct task_env *env;
    struct worker_job *job;
    struct lease *lease;
    struct step step;
    struct contribution c;
    struct slots slots[2];
    // The first slot of the next round; if `begun`, its pass is run up to `op`.
    struct contribution next;
    bool begun;
    uint32_t op;
    // The pass under way.
    struct ring_round *round;
    uint32_t slot;
    struct rank_rows rows;
};

static struct job_contributor *job_contributor_of(struct contributor *c)
{
    return (struct job_contributor *)c;
}

// ---- slots

static void close_slots(struct job_contributor *o, unsigned which)
{
    struct slots *s = &o->slots[which];

    for (uint32_t i = 0; i < s->count; i++) {
        if (s->at[i].open)
            input_close(o->env->input, &s->at[i].run);
        s->at[i].open = false;
    }
    s->count = 0;
}

static void contributor_drop_ahead(struct contributor *c)
{
    struct job_contributor *o = job_contributor_of(c);

    contribution_put(&o->next);
    o->begun = false;
}

static void contributor_leave(struct contributor *c)
{
    struct job_contributor *o = job_contributor_of(c);

    contributor_drop_ahead(c);
    step_stop(&o->step);
    close_slots(o, 0);
    close_slots(o, 1);
}

static enum sl_err contributor_place_params(struct contributor *c,
                                            struct sl_error *err)
{
    struct job_contributor *o = job_contributor_of(c);

    rank_rows_place(&o->rows, o->job->ring->rank.tag.incarnation);
    return job_rank_params(o->job, &o->step, err);
}

static enum sl_err open_slot(struct job_contributor *o,
                             struct contributor_slot *slot,
                             struct round_key key, struct sl_error *err)
{
    const struct schedule *s = &o->lease->record->schedule;
    uint64_t first, n;
    enum sl_err rc;

    memset(slot, 0, sizeof(*slot));
    slot->key = key;
    schedule_step_range(s, key.closure, key.step, &first, &n);
    rc = job_run(o->job, &slot->run, schedule_epoch(s, key.closure), first, n,
                 err);
    if (rc != SL_OK)
        return rc;
    input_open(o->env->input, &slot->run);
    slot->open = true;
    return SL_OK;
}

static enum sl_err contributor_grow_slots(struct slots *s, uint32_t count,
                                          struct sl_error *err)
{
    struct contributor_slot *more;

    if (count <= s->capacity)
        return SL_OK;
    more = sl_realloc_array(s->at, count, sizeof(*more));
    if (more == NULL)
        return sl_fail(err, SL_ENOMEM, "no memory for %u slots", count);
    s->at = more;
    s->capacity = count;
    return SL_OK;
}

// Opens slots for `keys` and begins to read their samples. No slot of `which`
// is open.
static enum sl_err open_slots(struct job_contributor *o, unsigned which,
                              const struct round_key *keys, uint32_t count,
                              struct sl_error *err)
{
    struct slots *s = &o->slots[which];
    enum sl_err rc = contributor_grow_slots(s, count, err);

    for (uint32_t i = 0; rc == SL_OK && i < count; i++) {
        rc = open_slot(o, &s->at[i], keys[i], err);
        if (rc == SL_OK)
            s->count++;
    }
    return rc;
}

// Returns true if `keys` are those of the slots that were opened ahead.
static bool foreseen(const struct job_contributor *o,
                     const struct round_key *keys, uint32_t count)
{
    const struct slots *s = &o->slots[1];

    if (s->count != count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct round_key *a = &s->at[i].key, *b = &keys[i];

        if (a->closure != b->closure || a->step != b->step)
            return false;
    }
    return true;
}

static enum sl_err
contributor_choose_slots(struct contributor *c,
                         const struct round_key *const rounds[2],
                         const uint32_t counts[2], struct sl_error *err)
{
    struct job_contributor *o = job_contributor_of(c);
    bool ready = foreseen(o, rounds[0], counts[0]);
    enum sl_err rc = SL_OK;

    if (!ready)
        contributor_drop_ahead(c);
    close_slots(o, 0);
    if (ready) {
        struct slots used = o->slots[0];

        o->slots[0] = o->slots[1];
        o->slots[1] = used;
    } else {
        close_slots(o, 1);
        rc = open_slots(o, 0, rounds[0], counts[0], err);
    }
    return rc == SL_OK ? open_slots(o, 1, rounds[1], counts[1], err) : rc;
}

// ---- contributions

// Lets a device copy ahead what follows the last micro-batch of a slot: the
// first micro-batch of the next slot.
static enum sl_err contributor_look_ahead(void *arg, struct sl_error *err)
{
    struct job_contributor *o = arg;
    struct input *input = o->c.input;

    if (o->slot + 1 < o->slots[0].count)
        return step_look_ahead(&o->step, input,
                               &o->slots[0].at[o->slot + 1].run, 0, err);
    if (o->slots[1].count > 0)
        return step_look_ahead(&o->step, input, &o->slots[1].at[0].run, 0, err);
    return SL_OK;
}

static enum sl_err add_bucket(void *arg, uint32_t b, struct sl_error *err)
{
    struct job_contributor *o = arg;
    bool finite = step_finite(&o->step, b, &o->job->ring->buckets[b]);

    return round_whole(o->round, b, finite, o->c.count, err);
}

// Only for steps in host memory: there a pass reads its parameters where it is
// told to. In f16 the loss scale is not known before the round is over.
static bool may_begin(const struct job_contributor *o)
{
    return !step_runs_ahead(&o->step) && o->job->precision != SPEC_F16 &&
           o->rows.sync == NULL && o->slots[1].count > 0;
}

static void ahead(struct contributor *c, struct ring_round *r)
{
    struct job_contributor *o = job_contributor_of(c);
    struct contributor_slot *s = o->slots[1].at;
    struct pass pass = {.clock = o->env->clock, .c = &o->next, .m = &r->m};
    float *whole = o->step.params, *params;
    struct sl_error err = SL_ERROR_INIT;

    if (!may_begin(o))
        return;
    contribution_begin(&o->next, &s->run, s->key.closure, s->key.step);
    if (!input_ready(o->env->input, &s->run, o->next.first))
        return; // not read yet, and other ranks wait for this round
    params = round_foresee(r);
    if (params == NULL)
        return;
    step_read_from(&o->step, params);
    o->begun = pass_begin(&pass, r->early, &err) == SL_OK;
    step_read_from(&o->step, whole);
    o->op = pass.op;
    if (!o->begun)
        contributor_drop_ahead(c); // contributor_compute_slot() meets the error
                                   // again, and reports it
}

// Takes over the pass of a slot that was begun ahead; returns false if it was
// not.
static bool take_begun(struct job_contributor *o,
                       const struct contributor_slot *s)
{
    if (!o->begun || o->next.run != &s->run)
        return false;
    o->c = o->next;
    o->next.held = o->begun = false;
    figures_ring_ahead();
    return true;
}

// Runs the pass of the contribution o->c, which was begun.
static enum sl_err run_pass(struct job_contributor *o, struct pass *pass,
                            struct sl_error *err)
{
    struct ring_round *r = o->round;
    enum sl_err rc;

    FAULT("task.compute");
    rc = pass_forward(pass, err);
    FAULT("task.computed");
    if (rc == SL_OK && !isfinite(o->c.loss_sum))
        round_spoilt(r, true);
    if (rc == SL_OK && !round_is_spoilt(r))
        rc = pass_backward(pass, err);
    if (rc != SL_OK || round_is_spoilt(r))
        step_stop(&o->step);
    contribution_put(&o->c);
    if (rc == SL_OK && round_audited(r))
        round_result(r, (struct round_key){o->c.closure, o->c.step},
                     contribution_kind(&o->c));
    return rc;
}

// ---- rows beside the ring

static enum sl_err contributor_pull_rows(void *arg, struct sl_error *err)
{
    struct job_contributor *o = arg;
    const struct rows_from from = {.sync = o->rows.sync, .step = o->c.step};
    struct step_program p = job_step_program(o->c.p);

    return rank_rows_pulled(
        &o->rows, job_rows_pull(o->job->rows, &from, &p, o->c.batch.ids, err),
        err);
}

static enum sl_err contributor_take_rows(void *arg, struct sl_error *err)
{
    struct job_contributor *o = arg;
    struct step_program p = job_step_program(o->c.p);
    enum sl_err rc = step_take_rows(&o->step, err);

    return rc == SL_OK ? job_rows_take(o->job->rows, &p, o->c.batch.ids, err)
                       : rc;
}

static void contributor_pass_rows(struct job_contributor *o, struct pass *pass)
{
    if (o->rows.sync == NULL)
        return;
    pass->rows = contributor_pull_rows;
    pass->row_grads = contributor_take_rows;
}

// Gives the rows of the slot to their shards. One that is not finite spoils the
// round.
static enum sl_err contributor_push_rows(struct job_contributor *o,
                                         struct ring_round *r, uint32_t slot,
                                         struct sl_error *err)
{
    bool finite = true;
    enum sl_err rc = SL_OK;

    if (o->rows.sync == NULL)
        return SL_OK;
    if (!round_is_spoilt(r))
        rc = job_rows_pack(o->job->rows, o->rows.sync->ranges, &finite, err);
    if (rc == SL_OK && !finite)
        round_spoilt(r, false);
    return rc == SL_OK ? rank_rows_push(&o->rows, r, slot, err) : rc;
}

static enum sl_err contributor_skip_slot(struct contributor *c,
                                         struct ring_round *r, uint32_t slot,
                                         struct sl_error *err)
{
    return rank_rows_pass(&job_contributor_of(c)->rows, r, slot, err);
}

static void contributor_hurry(struct contributor *c)
{
    rank_rows_hurry(&job_contributor_of(c)->rows);
}

// ---- slots of the round

static enum sl_err contributor_compute_slot(struct contributor *c,
                                            struct ring_round *r, uint32_t slot,
                                            struct sl_error *err)
{
    struct job_contributor *o = job_contributor_of(c);
    struct contributor_slot *s = &o->slots[0].at[slot];
    struct pass pass = {.clock = o->env->clock,
                        .c = &o->c,
                        .m = &r->m,
                        .whole = add_bucket,
                        .ahead = contributor_look_ahead,
                        .arg = o,
                        .op = o->op};
    enum sl_err rc = rank_rows_begin(&o->rows, s->key, err);

    if (rc != SL_OK)
        return rc;
    contributor_pass_rows(o, &pass);
    o->slot = slot;
    o->round = r;
    pass.begun = take_begun(o, s);
    if (!pass.begun) {
        contribution_begin(&o->c, &s->run, s->key.closure, s->key.step);
        o->c.audited = round_audited(r);
    }
    rc = run_pass(o, &pass, err);
    r->loss_sum += o->c.loss_sum;
    r->right_sum += o->c.right_sum;
    if (rc == SL_OK)
        rc = contributor_push_rows(o, r, slot, err);
    return rc;
}

// ---- audited rounds (A1)

static bool contributor_inputs(struct contributor *c, uint64_t *inputs)
{
    struct job_contributor *o = job_contributor_of(c);
    uint64_t scale;

    if (!contribution_repeatable(o->job) || o->rows.sync != NULL)
        return false;
    memcpy(&scale, &o->job->scale.s, sizeof(scale));
    *inputs =
        grad_digest(scale, o->step.params, (size_t)o->job->model->elements);
    return true;
}

static enum sl_err contributor_repeat(struct contributor *c,
                                      struct ring_round *r,
                                      const struct round_key *key,
                                      struct sl_error *err)
{
    struct job_contributor *o = job_contributor_of(c);
    struct lease_metrics apart = {0};
    struct contributor_slot s;
    struct pass pass = {.clock = o->env->clock,
                        .c = &o->c,
                        .m = &apart,
                        .whole = add_bucket,
                        .arg = o};
    enum sl_err rc = open_slot(o, &s, *key, err);

    if (rc != SL_OK)
        return rc;
    o->round = r;
    contribution_begin(&o->c, &s.run, key->closure, key->step);
    o->c.audited = true;
    rc = run_pass(o, &pass, err);
    input_close(o->env->input, &s.run);
    return rc;
}

static bool contributor_adjust_scale(struct contributor *c,
                                     struct ring_round *r, bool finite)
{
    struct worker_job *job = job_contributor_of(c)->job;
    bool less;

    if (job->precision != SPEC_F16)
        return false;
    less = loss_scale_step(&job->scale, finite);
    r->m.loss_scale = job->scale.s;
    if (finite || !less || r->bad_loss)
        return false;
    nonfinite_scaled();
    return true;
}

static void contributor_find_nonfinite(struct contributor *c, char *out,
                                       size_t size)
{
    contribution_strange(&job_contributor_of(c)->c, out, size);
}

static enum sl_err contributor_settle_gradient(struct contributor *c,
                                               struct sl_error *err)
{
    struct resident *there = job_contributor_of(c)->step.resident;

    return there == NULL ? SL_OK : resident_free_gradient(there, err);
}

static enum sl_err averaged(struct contributor *c, uint64_t first,
                            uint64_t count, struct sl_error *err)
{
    return resident_gradient(job_contributor_of(c)->step.resident, first, count,
                             err);
}

// ---- beside rounds

static void contributor_keep_params(struct contributor *c)
{
    struct sl_error err = SL_ERROR_INIT;
    struct worker_job *job = job_contributor_of(c)->job;
    struct rank *r = &job->ring->rank;

    if (wire_tag_cmp(job->ring->cut, r->tag) == 0 ||
        job_cut(job, NULL) != SL_OK)
        return;
    // Ranges of an earlier cut may still come: they read that one anew.
    job->cut_number = 0;
    job->ring->cut = (struct wire_tag){0, 0};
    if (rank_values(r, job->cut, &err) == SL_OK)
        job->ring->cut = r->tag;
}

// Runs ranges of a cut's evaluation that were leased meanwhile. Their programs
// use the memory of the next slot's activations, so what was begun ahead goes.
static void contributor_run_between(struct contributor *c)
{
    const struct job_contributor *o = job_contributor_of(c);

    contributor_drop_ahead(c);
    if (o->env->between != NULL)
        o->env->between(o->env->arg, o->job);
}

// ---- the lease

static const struct contributor_ops job_ops = {
    .place = contributor_place_params,
    .choose = contributor_choose_slots,
    .inputs = contributor_inputs,
    .repeat = contributor_repeat,
    .compute = contributor_compute_slot,
    .pass = contributor_skip_slot,
    .ahead = ahead,
    .forget = contributor_drop_ahead,
    .scaled = contributor_adjust_scale,
    .strange = contributor_find_nonfinite,
    .settle = contributor_settle_gradient,
    .averaged = averaged,
    .keep = contributor_keep_params,
    .between = contributor_run_between,
    .leave = contributor_leave,
    .hurry = contributor_hurry,
};

// Makes what would hold other ranks up if it came later: data and programs.
static enum sl_err contributor_prepare_job(struct worker_job *job,
                                           struct sl_error *err)
{
    const struct record *record = job->record;
    uint32_t batch = (uint32_t)record->schedule.batch / record->accumulate;
    struct job_program *p;
    struct data *data;
    enum sl_err rc = job_data(job, false, &data, err);

    if (rc == SL_OK)
        rc = job_device(job, err);
    if (rc == SL_OK)
        rc = job_rank_vectors(job, err);
    if (rc == SL_OK)
        rc = job_program(job, JOB_TRAINS, batch, &p, err);
    return rc;
}

static void contributor_init(struct job_contributor *o,
                             const struct task_env *env, struct worker_job *job,
                             struct lease *l)
{
    *o = (struct job_contributor){
        .base = {.ops = &job_ops,
                 .clock = env->clock,
                 .ring = job->ring,
                 .model = job->model,
                 .optimizer = &job->optimizer,
                 .nonfinite = &job->nonfinite},
        .env = env,
        .job = job,
        .lease = l,
        .step = {.device = job->device,
                 .team = job->team,
                 .grads = job->ring->grads,
                 .pulse = &l->gate.pulse},
        .c = {.input = env->input, .job = job, .device = &o->step},
        .next = {.input = env->input, .job = job, .device = &o->step},
    };
}

// Finds the way to the shards of rows, if the job has tables.
static enum sl_err contributor_init_rows(struct job_contributor *o,
                                         struct sl_error *err)
{
    struct sync *sync = NULL;
    enum sl_err rc =
        o->job->model->tables > 0 ? job_sync(o->job, &sync, err) : SL_OK;

    rank_rows_init(&o->rows, sync, job_rows_tables(o->job->rows),
                   &o->lease->gate.pulse);
    o->base.beside = sync != NULL;
    return rc;
}

void task_ring(const struct task_env *env, struct worker_job *job,
               struct lease *l)
{
    struct sl_error err = SL_ERROR_INIT;
    enum sl_err rc = SL_OK;
    struct job_contributor o;

    if (job->ring == NULL)
        rc = sl_fail(&err, SL_EINVAL, "the job's workers are no ranks");
    if (rc == SL_OK)
        rc = contributor_prepare_job(job, &err);
    if (rc != SL_OK) {
        lease_fail(l, rc, &err);
        return;
    }
    contributor_init(&o, env, job, l);
    rc = contributor_init_rows(&o, &err);
    if (rc == SL_OK)
        task_ring_run(&o.base, l);
    else
        lease_fail(l, rc, &err);
    rank_rows_end(&o.rows);
    sl_free(o.slots[0].at);
    sl_free(o.slots[1].at);
}
